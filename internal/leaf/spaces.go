package leaf

import (
	"slices"

	"github.com/spillway-dev/spillway/internal/inc"
	"github.com/spillway-dev/spillway/internal/model"
)

// declareSpaces tells an administrator which namespaces of the hub have no place in a member
// because it calls others so.
func (d *derivation) declareSpaces(g *inc.Graph) *inc.Table[model.Object, model.Findings] {
	of := inc.IndexBy(d.p.Spaces, func(m model.Member, _ model.Spaces) []model.Object { return []model.Object{memberObject.of(m)} })
	return inc.Derive(g, "findings of namespaces of members", func(r *inc.Reader, o model.Object) (model.Findings, bool) {
		n := model.Collector{Object: o}
		for _, all := range of.Get(r, o) {
			for _, s := range all {
				if _, there := d.p.In.Namespaces.Get(r, model.NamespaceID{Name: s.As}); there && !listed(all, s.As) {
					n.Warning("spec.namespaces", model.ReasonConflict, "the member calls %s %s, and the hub has a namespace %[2]s, too: nothing of that is in the member. Give it another name there, or none of its own to %[1]s", s.Of, s.As)
				}
			}
		}
		return n.Row()
	}, of)
}

// listed reports whether the map of a member says what it calls a namespace.
func listed(all model.Spaces, of string) bool {
	return slices.ContainsFunc(all, func(s model.Space) bool { return s.Of == of })
}
