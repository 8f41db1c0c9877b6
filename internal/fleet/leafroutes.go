package fleet

import (
	"slices"

	"github.com/spillway-dev/spillway/internal/inc"
	"github.com/spillway-dev/spillway/internal/model"
)

// LeafPlace is a host of a class that members serve, for which a route of the Gateway
// API has rules.
type LeafPlace struct {
	Parent int        // of Parents, by which it attaches
	Named  model.Host // as the route names the host
	At     model.HostKey
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
	d.LeafPlaces = inc.Derive(g, "leaf places", func(r *inc.Reader, k model.Object) (out inc.List[LeafPlace], ok bool) {
		parents, _ := d.Parents.Get(r, k)
		for i, p := range parents {
			if !p.Leaf {
				continue
			}
			for _, id := range d.RulesOf.Keys(r, k) {
				for _, at := range *d.gw.placesOf(r, parents[i:i+1], id.Host) {
					out = append(out, LeafPlace{i, id.Host, at})
				}
			}
		}
		return out, true
	}, routes)
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
