package leaf

import (
	"github.com/spillway-dev/spillway/api/v1alpha1"
	"github.com/spillway-dev/spillway/internal/inc"
	"github.com/spillway-dev/spillway/internal/model"
)

// declareTLSPolicies says what became of BackendTLSPolicies, to each Gateway of ours
// that sends requests to what they are for (GEP-713: the Gateway is the ancestor), by edges
// or by members.
func (d *derivation) declareTLSPolicies(g *inc.Graph) {
	ours := inc.IndexBy(d.p.In.TLSPolicies, func(k model.Object, spec model.BackendTLSSpec) []model.Object {
		if !spec.Ours {
			return nil
		}
		return []model.Object{k}
	})
	d.t.TLSPolicies = inc.Derive(g, "leaf.TLSPolicies", d.tlsPolicy, d.p.TLSUsers, d.leaves.policied, ours)
}

func (d *derivation) tlsPolicy(r *inc.Reader, k model.Object) (RouteStatus, bool) {
	spec, _ := d.p.In.TLSPolicies.Get(r, k)
	users, _ := d.p.TLSUsers.Get(r, k)
	inMembers, sure := d.policyAncestors(r, k, spec.Generation)
	if len(users)+len(inMembers) == 0 {
		return RouteStatus{}, spec.Ours
	}
	row, _ := d.p.TLSPolicies.Get(r, k)
	said := Conditions{
		verdict(v1alpha1.ConditionAccepted, v1alpha1.ReasonAccepted, row.Refused),
		verdict(v1alpha1.ConditionResolvedRefs, v1alpha1.ReasonResolvedRefs, row.Broken),
	}
	var out RouteStatus
	for _, gw := range users {
		at := model.Parent{Group: model.GatewayGroup, Kind: "Gateway", Namespace: gw.Namespace, Name: gw.Name}
		out.Parents = append(out.Parents, said.about(at, spec.Generation))
	}
	out.Parents = append(out.Parents, inMembers...)
	out.Settled = !sure && spec.Ours || model.ParentTexts(out.Parents) == spec.Published
	return out, true
}
