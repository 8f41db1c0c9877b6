package leaf

import (
	"slices"

	"github.com/spillway-dev/spillway/internal/inc"
	"github.com/spillway-dev/spillway/internal/model"
)

// RootStatus is what a root's status should say. Only roots that one of our
// classes serves have a row: the status of others is not ours to write.
type RootStatus struct {
	Addresses []string // of status.loadBalancer: IP addresses and host names, sorted
	Settled   bool     // it says so already: nothing is to be written. Somebody who changes it unsettles it
}

// Equal reports whether both say the same.
func (a RootStatus) Equal(b RootStatus) bool {
	return slices.Equal(a.Addresses, b.Addresses) && a.Settled == b.Settled
}

func (d *derivation) declareRoots(g *inc.Graph) {
	in := &d.p.In
	d.edgesOfClass = inc.Derive(g, "leaf.edgesOfClass", func(r *inc.Reader, c model.Class) (edgeList, bool) {
		info, ok := d.p.ClassInfo.Get(r, c)
		return info.Edges, ok
	}, d.p.ClassInfo)
	d.addresses = inc.Derive(g, "leaf.addresses", func(r *inc.Reader, e model.Edge) (textList, bool) {
		spec, ok := in.Edges.Get(r, e)
		return spec.PublicAddresses(), ok
	}, in.Edges)
	d.heard = inc.Derive(g, "leaf.heard", func(r *inc.Reader, e model.Edge) (yes, bool) {
		s, ok := in.Streams.Get(r, e)
		return yes{}, ok && s.Connected > 0 && s.Synced > 0
	}, in.Streams)
	d.t.Roots = inc.Derive(g, "leaf.Roots", d.root, d.p.Attachments)
	inc.MayWait(d.t.Roots, nil, d.edgesOfClass, d.addresses, d.heard, in.Acks)
}

// root lists the addresses of the edges of its class that serve it.
func (d *derivation) root(r *inc.Reader, k model.Object) (RootStatus, bool) {
	a, ok := d.p.Attachments.Get(r, k)
	if !ok {
		return RootStatus{}, false
	}
	row, _ := d.p.In.Roots.Get(r, k)
	var out []string
	if hosts := d.p.HostsOfRoot.Keys(r, k); len(hosts) > 0 { // else it lost all it asked for
		edges, _ := d.edgesOfClass.Get(r, a.Class)
		for _, e := range edges {
			out = append(out, d.listed(r, e, hosts, row.Published)...)
		}
	}
	slices.Sort(out)
	out = slices.Compact(out)
	return RootStatus{Addresses: out, Settled: slices.Equal(out, row.Published)}, true
}

// listed are the addresses of an edge that a root's status lists. They come
// when the edge has acknowledged all hosts of the root. They stay while it
// knows some of them, so that a host more is no step back, and while no proxy
// of it says what it knows: who lost its stream still serves.
func (d *derivation) listed(r *inc.Reader, e model.Edge, hosts []model.HostKey, published []string) []string {
	addresses, _ := d.addresses.Get(r, e)
	if len(addresses) == 0 {
		return nil
	}
	known := 0
	for _, h := range hosts {
		if _, ok := d.p.In.Acks.Get(r, model.AckID{Edge: e, Host: h}); ok {
			known++
		}
	}
	if known == len(hosts) {
		return addresses
	}
	if _, heard := d.heard.Get(r, e); heard && known == 0 {
		return nil
	}
	return both(addresses, published)
}

// both are the texts that are in a and in b, in the order of a.
func both(a, b []string) []string {
	var out []string
	for _, s := range a {
		if slices.Contains(b, s) {
			out = append(out, s)
		}
	}
	return out
}
