package fleet

import (
	"slices"

	"github.com/spillway-dev/spillway/internal/inc"
	"github.com/spillway-dev/spillway/internal/model"
)

// declareLeafPolicies finds the BackendTLSPolicies for what routes lead to that members
// serve. What is right of a policy, and whether the certificates are there that it trusts,
// is for the controllers there to say: members have their own.
func (d *program) declareLeafPolicies(g *inc.Graph) {
	ofService := inc.IndexBy(d.In.TLSPolicies, func(_ model.Object, spec model.BackendTLSSpec) []model.Backend {
		var out []model.Backend
		for _, t := range spec.Targets {
			out = append(out, serviceOf(t))
		}
		slices.SortFunc(out, model.Backend.Compare)
		return slices.Compact(out)
	})
	d.LeafPolicies = inc.Derive(g, "leaf policies", func(r *inc.Reader, k model.Object) (out inc.List[model.Object], ok bool) {
		all := d.RulesOf.Get(r, k)
		if len(all) == 0 {
			return nil, false
		}
		for _, b := range NamedBy(k, all[0]) { // the same for each host
			if b == (model.Backend{}) {
				continue
			}
			out = append(out, ofService.Keys(r, serviceOf(b))...)
		}
		slices.SortFunc(out, model.Object.Compare)
		out = slices.Compact(out)
		return out, len(out) > 0
	}, inc.IndexBy(d.Attachments, func(k model.Object, a Attachment) []model.Object {
		if !a.Leaf || !a.Attached {
			return nil
		}
		return []model.Object{k}
	}))
}
