package leaf

import (
	"slices"

	"github.com/spillway-dev/spillway/internal/fleet"
	"github.com/spillway-dev/spillway/internal/inc"
	"github.com/spillway-dev/spillway/internal/model"
)

// RootStatus is what a root's status should say. Only roots that one of our
// classes serves have a row, and those that left us with what we wrote: the
// status of others is not ours to write.
type RootStatus struct {
	Addresses model.Texts // of status.loadBalancer: IP addresses and host names, sorted
	Settled   bool        // it says so already: nothing is to be written. Somebody who changes it unsettles it
	Left      bool        // none of our classes serves it: what we wrote ends, unless somebody else wrote since
}

// Equal reports whether both say the same.
func (a RootStatus) Equal(b RootStatus) bool {
	return a.Addresses == b.Addresses && a.Settled == b.Settled && a.Left == b.Left
}

// seat is a place where a class is served.
type seat struct {
	edge      model.Edge
	addresses []string // that are public
	scopes    []string // of each (model.PoolEntry); nil: none has one
}

// seats are those of a class that have addresses, sorted by edge. They are one
// row, so that an edge more is nothing more to read for each root.
type seats []seat

func (a seats) Equal(b seats) bool {
	return slices.EqualFunc(a, b, func(a, b seat) bool {
		return a.edge == b.edge && slices.Equal(a.addresses, b.addresses) && slices.Equal(a.scopes, b.scopes)
	})
}

// declareHeard finds the edges of which some proxy says what it knows.
func (d *derivation) declareHeard(g *inc.Graph) {
	in := &d.p.In
	d.heard = inc.Derive(g, "leaf.heard", func(r *inc.Reader, e model.Edge) (model.There, bool) {
		s, ok := in.Streams.Get(r, e)
		return model.There{}, ok && s.Connected > 0 && s.Synced > 0
	}, in.Streams)
}

func (d *derivation) declareRoots(g *inc.Graph) {
	in := &d.p.In
	d.addresses = inc.Derive(g, "leaf.addresses", func(r *inc.Reader, e model.Edge) (inc.List[string], bool) {
		spec, ok := in.Edges.Get(r, e)
		return spec.PublicAddresses(), ok
	}, in.Edges)
	d.seatsOfClass = inc.Derive(g, "leaf.seatsOfClass", func(r *inc.Reader, c model.Class) (seats, bool) {
		info, ok := d.p.ClassInfo.Get(r, c)
		var out seats
		for _, e := range info.Edges {
			at, bound := d.p.Binding(r, c, e)
			if !bound {
				continue
			}
			has := leased(e, at.Lease)
			if len(has.addresses) == 0 {
				has.addresses, _ = d.addresses.Get(r, e)
			}
			if len(has.addresses) > 0 {
				out = append(out, has)
			}
		}
		return out, ok
	}, d.p.ClassInfo)
	d.t.Roots = inc.Derive(g, "leaf.Roots", d.root, in.Roots)
	inc.MayWait(d.t.Roots, d.seatsOfClass, d.heard, in.Acks)
	inc.Shared(d.t.Roots, d.seatsOfClass, d.heard)
}

// leased is a place where a class has addresses of its own.
func leased(e model.Edge, l model.Lease) seat {
	out := seat{edge: e}
	for _, has := range l.Has {
		out.addresses = append(out.addresses, has.Address.String())
		out.scopes = append(out.scopes, has.Scope)
	}
	if !slices.ContainsFunc(out.scopes, func(s string) bool { return s != "" }) {
		out.scopes = nil
	}
	return out
}

// list is each address with its scope.
func (a seat) list() []GatewayAddress {
	out := make([]GatewayAddress, len(a.addresses))
	for i, value := range a.addresses {
		out[i].Value = value
		if a.scopes != nil {
			out[i].Scope = a.scopes[i]
		}
	}
	return out
}

// root lists the addresses of the edges of its classes that serve it.
func (d *derivation) root(r *inc.Reader, k model.Object) (RootStatus, bool) {
	row, _ := d.p.In.Roots.Get(r, k)
	if row.Route != nil || row.Admit != nil {
		return RootStatus{}, false // see route and admission
	}
	a, ours := d.p.Attachments.Get(r, k)
	if !ours {
		return RootStatus{Left: true}, row.Ours
	}
	var list []string
	if a.Leaf {
		list = d.ofLeaves(r, k, row.Published)
	} else {
		list = d.served(r, k, a, row.Published)
	}
	addresses := model.TextsOf(list)
	return RootStatus{Addresses: addresses, Settled: addresses == row.Published}, true
}

// served are the addresses of the edges that serve a root, sorted.
func (d *derivation) served(r *inc.Reader, k model.Object, a fleet.Attachment, published model.Texts) []string {
	var out []string
	hosts := d.hostsOfRoot(r, k)
	for _, class := range a.Classes.List() {
		of := slices.DeleteFunc(slices.Clone(hosts), func(s served) bool { return s.host.Class != class })
		if len(of) == 0 {
			continue // it lost all it asked for
		}
		all, _ := d.seatsOfClass.Get(r, class)
		for _, at := range all {
			out = append(out, d.listed(r, at, of, published)...)
		}
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// served is a host, and the edges that acknowledged it.
type served struct {
	host  model.HostKey
	edges model.EdgeSet
}

// hostsOfRoot are the hosts of which a root has a part.
func (d *derivation) hostsOfRoot(r *inc.Reader, k model.Object) []served {
	keys := d.p.HostsOfRoot.Keys(r, k)
	out := make([]served, len(keys))
	for i, host := range keys {
		edges, _ := d.p.In.Acks.Get(r, host)
		out[i] = served{host, edges}
	}
	return out
}

// listed are the addresses of an edge that a root's status lists. They come
// when the edge has acknowledged all hosts that the root has there. They stay
// while it knows some of them, so that a host more is no step back, and while
// no proxy of it says what it knows: who lost its stream still serves.
func (d *derivation) listed(r *inc.Reader, at seat, hosts []served, published model.Texts) []string {
	has, known := 0, 0
	for _, h := range hosts {
		if !d.p.Owns(r, at.edge, h.host) {
			continue // an older class has it
		}
		has++
		if h.edges.Has(at.edge) {
			known++
		}
	}
	if has == 0 {
		return nil
	}
	if known == has {
		return at.addresses
	}
	if _, heard := d.heard.Get(r, at.edge); heard && known == 0 {
		return nil
	}
	listed := published.List()
	return slices.DeleteFunc(slices.Clone(at.addresses), func(a string) bool { return !slices.Contains(listed, a) })
}
