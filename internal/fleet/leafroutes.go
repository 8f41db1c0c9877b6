package fleet

import (
	"slices"

	"github.com/spillway-dev/spillway/internal/inc"
	"github.com/spillway-dev/spillway/internal/model"
	"github.com/spillway-dev/spillway/internal/steer"
)

// LeafPlace is a host of a class that members serve, for which a route of the Gateway
// API has rules.
type LeafPlace struct {
	Parent int        // of Parents, by which it attaches
	Named  model.Host // as the route names the host
	At     model.HostKey
}

// LeafedBy is a Gateway, and the members that have a leaf of a route by it.
type LeafedBy struct {
	Gateway model.GatewayID
	Members []model.Member // sorted
}

func (a LeafedBy) equal(b LeafedBy) bool {
	return a.Gateway == b.Gateway && slices.Equal(a.Members, b.Members)
}

// leafedByGateways chooses the members of a route's leaves, by each of its Gateways: the
// Placement of that may limit them. At each of its ports it is the same.
func (d *program) leafedByGateways(r *inc.Reader, k model.Object, a Attachment) Leafed {
	var out Leafed
	lacking := model.Collector{Object: k, Once: true}
	for _, class := range a.Classes.List() {
		id, _ := class.Gateway()
		if _, leafy := d.Leafy.Get(r, class); !leafy || slices.ContainsFunc(out.By, func(b LeafedBy) bool { return b.Gateway == id }) {
			continue
		}
		at := d.leafed(r, k, d.NamedBackends(r, k, a, class))
		lacking.Take(at.Lacking)
		out.By = append(out.By, LeafedBy{id, at.Members})
		out.Members, out.Backends = append(out.Members, at.Members...), append(out.Backends, at.Backends...)
		out.Maybe = steer.Unread{Serving: max(out.Maybe.Serving, at.Maybe.Serving), Drained: max(out.Maybe.Drained, at.Maybe.Drained)}
	}
	slices.Sort(out.Members)
	slices.SortFunc(out.Backends, model.Backend.Compare)
	out.Members, out.Backends, out.Lacking = slices.Compact(out.Members), slices.Compact(out.Backends), lacking.Findings()
	return out
}

// leafy reports whether members serve something that a route attaches to.
func (a Parents) leafy() bool {
	return slices.ContainsFunc(a, func(p Attached) bool { return p.Leaf && len(p.Fronts) > 0 })
}

// declareLeafPlaces finds what routes ask for of Gateways that members serve. Others
// have no row.
func (d *program) declareLeafPlaces(g *inc.Graph) {
	routes := inc.IndexBy(d.Attachments, func(k model.Object, a Attachment) []model.Object {
		if !a.Leaf || !a.Attached {
			return nil
		}
		return []model.Object{k}
	})
	d.LeafPlacesOf = func(r *inc.Reader, k model.Object, hosts []model.Host) (out []LeafPlace) {
		parents, _ := d.Parents.Get(r, k)
		for i, p := range parents {
			if !p.Leaf {
				continue
			}
			for _, h := range hosts {
				for _, at := range *d.gw.placesOf(r, parents[i:i+1], h) {
					out = append(out, LeafPlace{i, h, at})
				}
			}
		}
		return out
	}
	d.LeafPlaces = inc.Derive(g, "leaf places", func(r *inc.Reader, k model.Object) (inc.List[LeafPlace], bool) {
		var hosts []model.Host
		for _, id := range d.RulesOf.Keys(r, k) {
			hosts = append(hosts, id.Host)
		}
		return d.LeafPlacesOf(r, k, hosts), true
	}, routes)
	gateways := inc.IndexBy(d.Gateways, func(id model.GatewayID, row *Gateway) []model.Object {
		if !row.Own().Leaf {
			return nil
		}
		return []model.Object{id.Object()}
	})
	d.LeafSets = inc.IndexBy(d.Parts, func(k model.Object, p *Part) []model.Object {
		if k.Kind != model.ListenerSetKind || !p.Leaf || p.Refused != (model.Refusal{}) {
			return nil
		}
		return []model.Object{k}
	})
	d.LeafGrants = inc.Derive(g, "leaf grants", d.leafGrants, routes, gateways, d.LeafSets)
}

// abroad is a reference to another namespace.
type abroad struct {
	namespace string
	to        model.GrantTo
}

// leafGrants finds the ReferenceGrants that let an object refer to other namespaces.
func (d *program) leafGrants(r *inc.Reader, k model.Object) (inc.List[model.Object], bool) {
	var refs []abroad
	switch k.Kind {
	case model.GatewayKind:
		refs = d.refsOfGateway(r, k)
	case model.ListenerSetKind:
		set, _ := d.In.ListenerSets.Get(r, k)
		refs = refsOfListeners(set.Listeners)
	default:
		refs = d.refsOfRoute(r, k)
	}
	from := model.GrantFrom{Group: model.GatewayGroup, Kind: k.Kind, Namespace: k.Namespace}
	var out inc.List[model.Object]
	for _, ref := range refs {
		if ref.namespace == k.Namespace {
			continue
		}
		in := model.NamespaceID{Workspace: k.Workspace, Name: ref.namespace}
		grants := d.gw.grantsOf.Get(r, in)
		for i, o := range d.gw.grantsOf.Keys(r, in) {
			if grants[i].Allows(from, ref.to) {
				out = append(out, o)
			}
		}
	}
	slices.SortFunc(out, model.Object.Compare)
	out = slices.Compact(out)
	return out, len(out) > 0
}

func (d *program) refsOfRoute(r *inc.Reader, k model.Object) (out []abroad) {
	all := d.RulesOf.Get(r, k)
	if len(all) == 0 {
		return nil
	}
	for _, b := range NamedBy(k, all[0]) { // the same for each host
		if b == (model.Backend{}) {
			continue
		}
		s, to := b.Key().Service, model.GrantTo{Kind: "Service"}
		if b.Imported() {
			to.Group, to.Kind = model.ImportGroup, model.ImportKind
		}
		to.Name = s.Name()
		out = append(out, abroad{s.Namespace(), to})
	}
	return out
}

func (d *program) refsOfGateway(r *inc.Reader, k model.Object) (out []abroad) {
	row, _ := d.In.Gateways.Get(r, model.GatewayID{Workspace: k.Workspace, Namespace: k.Namespace, Name: k.Name})
	if s := row.Client; s != (model.SecretID{}) {
		out = append(out, abroad{s.Namespace, model.GrantTo{Kind: "Secret", Name: s.Name}})
	}
	return append(out, refsOfListeners(row.Listeners)...)
}

func refsOfListeners(all []model.Listener) (out []abroad) {
	for _, l := range all {
		for _, s := range l.Secrets {
			out = append(out, abroad{s.Namespace, model.GrantTo{Kind: "Secret", Name: s.Name}})
		}
	}
	return out
}

// Contend reports whether roots of two classes that members serve are for the same
// requests, if they name a host. Those of IngressClasses are, since controllers look at
// no address. A Gateway has addresses of its own, which a name leads to or not: so names
// count, and the ports that it has.
func (p *Program) Contend(r *inc.Reader, h model.Host, a, b model.Class) bool {
	if a == b {
		return false
	}
	x, ofA := a.Gateway()
	y, ofB := b.Gateway()
	of, one := p.Leafy.Get(r, a)
	with, two := p.Leafy.Get(r, b)
	switch {
	case !one || !two:
		return false
	case !ofA && !ofB:
		return true
	case h == "" || ofA && ofB && x == y:
		return false
	}
	return slices.ContainsFunc(of.ports[:], func(n uint16) bool { return n != 0 && slices.Contains(with.ports[:], n) })
}
