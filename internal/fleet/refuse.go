package fleet

import (
	"cmp"
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"github.com/spillway-dev/spillway/internal/inc"
	"github.com/spillway-dev/spillway/internal/model"
)

// What a member names and no edge dials: the edges themselves, for a request
// would come back, what is guarded, such as the hub's API server, and what is
// outside the ranges of the member's pods. What no pod can have at all, ingest
// has refused before. An edge that is known by another address, or that a name
// leads to, is found out by the proxies, which count the edges that a request
// has passed.

// Refusal is why endpoints are left out of a group, for whoever named them.
type Refusal struct {
	Object  model.Object // an EndpointSlice, or a Service of type ExternalName
	Field   model.Field
	Message string
}

// Compare orders by object, field and message.
func (a Refusal) Compare(b Refusal) int {
	return cmp.Or(a.Object.Compare(b.Object), cmp.Compare(a.Field, b.Field), strings.Compare(a.Message, b.Message))
}

// public is what an edge is called by clients.
type public struct {
	addresses []netip.Addr
	hostnames []string
	networks  []string
}

func (a public) Equal(b public) bool {
	return slices.Equal(a.addresses, b.addresses) && slices.Equal(a.hostnames, b.hostnames) && slices.Equal(a.networks, b.networks)
}

// block is a part of the address space. Endpoints of a Service are in few of
// them and so are edges: a group reads the edges in the blocks of its own
// endpoints, and an address that comes reaches the groups of its block alone.
type block struct{ netip.Prefix }

// Bits of a block: what is usually given to a cluster or a site.
const (
	blockBits4 = 16
	blockBits6 = 48
)

func blockOf(ip netip.Addr) block {
	bits := blockBits6
	if ip.Is4() {
		bits = blockBits4
	}
	p, _ := ip.Prefix(bits)
	return block{p}
}

// Compare orders by address and length.
func (a block) Compare(b block) int { return a.Prefix.Compare(b.Prefix) }

type publicName string

// Compare orders by name.
func (a publicName) Compare(b publicName) int { return cmp.Compare(a, b) }

// declarePublics adds who has which address, before the groups.
func (d *program) declarePublics(g *inc.Graph) {
	publics := inc.Derive(g, "publics", func(r *inc.Reader, e model.Edge) (public, bool) {
		spec, _ := d.In.Edges.Get(r, e)
		all := slices.Clone(spec.Addresses)
		for _, a := range spec.Pool {
			all = append(all, a.Address, a.Bind)
		}
		slices.SortFunc(all, netip.Addr.Compare)
		return public{slices.Compact(all), spec.Hostnames, spec.Networks}, len(all)+len(spec.Hostnames) > 0
	}, d.In.Edges)
	d.edgesNear = inc.IndexBy(publics, func(_ model.Edge, p public) []block {
		out := make([]block, len(p.addresses))
		for i, ip := range p.addresses {
			out[i] = blockOf(ip)
		}
		return out
	})
	d.edgesNamed = inc.IndexBy(publics, func(_ model.Edge, p public) []publicName {
		out := make([]publicName, len(p.hostnames))
		for i, name := range p.hostnames {
			out[i] = publicName(name)
		}
		return out
	})
}

// nearby is what endpoints of one block may be and must not.
type nearby struct {
	block   block
	edges   []model.Edge
	publics []public
	guarded []Guarded
	guards  []Guard
}

func (d *program) nearby(r *inc.Reader, b block) nearby {
	return nearby{b, d.edgesNear.Keys(r, b), d.edgesNear.Get(r, b), d.guardsNear.Keys(r, b), d.guardsNear.Get(r, b)}
}

// refuse takes out of sorted endpoints what is not dialled.
func (d *program) refuse(r *inc.Reader, id model.MemberService, port string, udp bool, at home, all model.Endpoints) (model.Endpoints, []Refusal) {
	why := map[netip.AddrPort]string{}
	var near nearby
	for e := range all.All() {
		if b := blockOf(e.Addr); b != near.block {
			near = d.nearby(r, b)
		}
		if cause := d.cause(r, id.Member, at, near, e); cause != "" {
			why[addrPort(e)] = cause
		}
	}
	if len(why) == 0 {
		return all, nil
	}
	kept := all.Without(func(e model.Endpoint) bool { return why[addrPort(e)] != "" })
	return kept, d.refusals(r, id, port, udp, why)
}

func addrPort(e model.Endpoint) netip.AddrPort { return netip.AddrPortFrom(e.Addr, e.Port) }

// cause says why an endpoint is not dialled; empty: it is.
func (d *program) cause(r *inc.Reader, m model.Member, at home, near nearby, e model.Endpoint) string {
	if i := slices.IndexFunc(near.publics, func(p public) bool { return d.isEdge(r, m, p, e.Addr) }); i >= 0 {
		return fmt.Sprintf("an address of Edge %s, so that requests would come back to it; give addresses of pods", near.edges[i])
	}
	for i, g := range near.guards {
		if near.guarded[i].Port == e.Port && slices.Contains(g.Addresses, e.Addr) {
			return fmt.Sprintf("%s at port %d, which edges never call; give addresses of pods", g.What, e.Port)
		}
	}
	if !at.allows(e.Addr) {
		return fmt.Sprintf("outside spec.podRanges of MemberCluster %s; give addresses of pods, or add their range there", m)
	}
	return ""
}

// isEdge reports whether an address that a member names is the edge's. Private
// addresses are unique within a network only.
func (d *program) isEdge(r *inc.Reader, m model.Member, p public, ip netip.Addr) bool {
	if !slices.Contains(p.addresses, ip) {
		return false
	}
	if !ip.IsPrivate() {
		return true
	}
	at, _ := d.stands.Get(r, m)
	return slices.ContainsFunc(p.networks, func(n string) bool { return slices.Contains(at.networks, n) })
}

// refusals tells each slice that names a refused endpoint at this port why, by
// the first one of each cause, however many there are.
func (d *program) refusals(r *inc.Reader, id model.MemberService, port string, udp bool, why map[netip.AddrPort]string) []Refusal {
	var out []Refusal
	names, rows := d.slicesOf.Keys(r, id), d.slicesOf.Get(r, id)
	for i := range rows {
		object := model.Object{Member: id.Member, Kind: "EndpointSlice", Namespace: id.Service.Namespace(), Name: names[i].Name}
		said := map[string]bool{}
		for e := range endpoints(rows[i:i+1], port, udp, model.Zone{}).All() {
			if cause := why[addrPort(e)]; cause != "" && !said[cause] {
				said[cause] = true
				out = append(out, Refusal{object, "endpoints", fmt.Sprintf("%s is %s", e.Addr, cause)})
			}
		}
	}
	slices.SortFunc(out, Refusal.Compare)
	return slices.Compact(out)
}

// refuseName refuses an ExternalName that is the name of an edge, or of what is guarded.
func (d *program) refuseName(r *inc.Reader, id model.MemberService, to Guarded) []Refusal {
	object := model.Object{Member: id.Member, Kind: "Service", Namespace: id.Service.Namespace(), Name: id.Service.Name()}
	if edges := d.edgesNamed.Keys(r, publicName(to.Host)); len(edges) > 0 {
		return []Refusal{{object, "spec.externalName", fmt.Sprintf("%s is a name of Edge %s, so that requests would come back to it; use the Service itself as backend", to.Host, edges[0])}}
	}
	if g, ok := d.In.Guarded.Get(r, to); ok {
		return []Refusal{{object, "spec.externalName", fmt.Sprintf("%s is %s at port %d, which edges never call; name another host or port", to.Host, g.What, to.Port)}}
	}
	return nil
}

// refusals are those of a group.
type refusals struct {
	list []Refusal
	left bool // there are other endpoints
}

func (a refusals) Equal(b refusals) bool { return a.left == b.left && slices.Equal(a.list, b.list) }

// declareRefusals adds what becomes of refusals, after the groups: findings of
// the objects that name the endpoints. Groups without any take no part in it.
func (d *program) declareRefusals(g *inc.Graph) {
	some := inc.IndexBy(d.Groups, func(k GroupID, v Group) []GroupID {
		if len(v.Refused()) == 0 {
			return nil
		}
		return []GroupID{k}
	})
	refused := inc.Derive(g, "refused", func(r *inc.Reader, k GroupID) (refusals, bool) {
		group, _ := d.Groups.Get(r, k)
		return refusals{group.Refused(), group.Endpoints.Len() > 0}, len(group.Refused()) > 0
	}, some)
	d.refusedOf = inc.IndexBy(refused, func(k GroupID, _ refusals) []model.Backend { return []model.Backend{k.Backend} })
	byObject := inc.IndexBy(refused, func(_ GroupID, v refusals) []model.Object {
		out := make([]model.Object, len(v.list))
		for i, x := range v.list {
			out[i] = x.Object
		}
		return slices.Compact(out)
	})
	d.ofRefused = inc.Derive(g, "findings of endpoints", func(r *inc.Reader, k model.Object) (model.Findings, bool) {
		c := model.Collector{Object: k}
		for _, group := range byObject.Get(r, k) {
			for _, x := range group.list {
				if x.Object == k {
					c.Error(x.Field, model.ReasonEndpointRefused, "%s", x.Message)
				}
			}
		}
		return c.Row()
	}, byObject)
}

// refusedFindings tells a root which endpoints of a backend are not dialled.
func (d *program) refusedFindings(r *inc.Reader, n *model.Collector, field model.Field, b model.Backend, members int) {
	groups, rows := d.refusedOf.Keys(r, b), d.refusedOf.Get(r, b)
	others := len(groups) < members || slices.ContainsFunc(rows, func(x refusals) bool { return x.left })
	for i, x := range rows {
		n.Add(unless(others), field, model.ReasonEndpointRefused, "endpoints of Service %s of member %s are refused: %s", b.Service(), groups[i].Member, x.list[0].Message)
	}
}
