package fleet

import (
	"slices"

	"github.com/spillway-dev/spillway/internal/inc"
	"github.com/spillway-dev/spillway/internal/model"
)

// A class may be served by controllers that members have themselves (dataPlane Leaf).
// It has hosts as any other, so that it is decided here who has what of a host, and no
// edges: nothing that follows from edges knows it. What is written in members is
// decided in package leaf.

// Leafy is a class that controllers of members serve.
type Leafy struct {
	Default bool // it says that it is the default of its workspace
	Spec    *model.LeafSpec

	ports [2]uint16 // for requests, and for those over TLS; 0: it has none
}

// Equal reports whether both are the same.
func (a Leafy) Equal(b Leafy) bool {
	return a.Default == b.Default && a.Spec.Equal(b.Spec) && a.ports == b.ports
}

// declareLeafy finds the classes that controllers of members serve. Where there are
// none there are no rows, and roots share that they read none.
func (d *program) declareLeafy(g *inc.Graph) {
	of := inc.IndexBy(d.ClassInfo, func(c model.Class, info ClassInfo) []model.Class {
		if info.Config.Leaf == nil {
			return nil
		}
		return []model.Class{c}
	})
	d.Leafy = inc.Derive(g, "leafy classes", func(r *inc.Reader, c model.Class) (Leafy, bool) {
		info, ok := d.ClassInfo.Get(r, c)
		return Leafy{info.Spec.Default, info.Config.Leaf, [2]uint16{info.Config.HTTPPort, info.Config.HTTPSPort}}, ok && info.Config.Leaf != nil
	}, of)
}

// NamedBackends are the backends that a root names in a class, each once.
func (p *Program) NamedBackends(r *inc.Reader, root model.Object, a Attachment, c model.Class) []model.Backend {
	var out []model.Backend
	if a.Default != nil {
		out = append(out, *a.Default)
	}
	for _, id := range p.RulesOf.Keys(r, root) {
		claim, _ := p.Claims.Get(r, id)
		out = append(out, NamedBy(root, claim.rulesIn(c))...)
	}
	slices.SortFunc(out, model.Backend.Compare)
	return slices.Compact(out)
}

// leafBackendFindings tells a root that no member gets a leaf for a backend.
func (d *program) leafBackendFindings(r *inc.Reader, n *model.Collector, at refFields, b model.Backend, row Backend) {
	switch {
	case len(row.Members)+len(row.Problems) > 0:
	case row.withheld():
		if len(row.Placing.Unknown) == 0 {
			k := b.Key()
			n.Error(at.name, model.ReasonNoMembers, "the Placement of %s leaves no member that has %s: none gets a leaf for it. The Placement's status says why",
				k.Placed.Object(k.Workspace), b.Described())
		}
	default:
		if _, missing := d.anyMissing.Get(r, model.All{}); !missing {
			n.Error(at.name, model.ReasonServiceNotFound, "%s: none gets a leaf for it", d.nobodyHas(r, b))
		}
	}
}
