package leaf

import (
	"cmp"
	"slices"

	"github.com/spillway-dev/spillway/api/v1alpha1"
	"github.com/spillway-dev/spillway/internal/inc"
	"github.com/spillway-dev/spillway/internal/model"
)

// A leaf of a route may lead to what is spoken to over TLS. How that is done is said by a
// BackendTLSPolicy beside the Service, so the members that have a leaf of such a route
// have one of the policy, too. The certificates that it trusts are the member's own of
// that name.

// policyKind is the kind of such policies.
const policyKind = "BackendTLSPolicy"

// policyInMember says that a leaf of a route, by a Gateway, needs a policy there.
type policyInMember struct {
	policy  model.Object
	gateway model.GatewayID
	member  model.Member
}

func (a policyInMember) compare(b policyInMember) int {
	return cmp.Or(a.policy.Compare(b.policy), a.gateway.Compare(b.gateway), a.member.Compare(b.member))
}

// declareLeafPolicies decides which members have leaves of policies, and returns those
// that some leaf needs.
func (d *derivation) declareLeafPolicies(g *inc.Graph) inc.Keys[model.Object] {
	l := &d.leaves
	seats := inc.Derive(g, "leaf.seats of policies", func(r *inc.Reader, k model.Object) (out inc.List[policyInMember], ok bool) {
		policies, _ := d.p.LeafPolicies.Get(r, k)
		c, ok := l.casts.Get(r, k)
		if !ok {
			return nil, false
		}
		for _, of := range policies {
			for _, v := range c.via {
				for _, m := range v.members {
					out = append(out, policyInMember{of, v.gateway, m})
				}
			}
		}
		return out, len(out) > 0
	}, d.p.LeafPolicies)
	l.policied = inc.IndexBy(seats, func(_ model.Object, all inc.List[policyInMember]) []model.Object {
		return seated(all, func(s policyInMember) model.Object { return s.policy })
	})
	l.policies = inc.Derive(g, "leaf.policy casts", d.policyCast, l.policied)
	return l.policied
}

// policySeats are where leaves need a policy, sorted.
func (d *derivation) policySeats(r *inc.Reader, k model.Object) (out []policyInMember) {
	for _, seats := range d.leaves.policied.Get(r, k) {
		for _, s := range seats {
			if s.policy == k {
				out = append(out, s)
			}
		}
	}
	slices.SortFunc(out, policyInMember.compare)
	return slices.Compact(out)
}

// policyCast is that of a BackendTLSPolicy.
func (d *derivation) policyCast(r *inc.Reader, k model.Object) (*cast, bool) {
	manifest, read := d.p.In.Manifests.Get(r, k)
	if !read {
		return nil, false
	}
	out := castOf(manifest, &model.LeafSpec{})
	out.body = manifest.Body
	if _, lost := d.lostPolicy(r, k); lost {
		return out, true
	}
	for _, s := range d.policySeats(r, k) {
		out.members = append(out.members, s.member)
	}
	slices.Sort(out.members)
	out.members = slices.Compact(out.members)
	return out, true
}

// lostPolicy reports whether older policies have all that a policy is for, and what its
// owner is told. Such a one is in no member: there it may be the older one.
func (d *derivation) lostPolicy(r *inc.Reader, k model.Object) (model.Refusal, bool) {
	spec, _ := d.p.In.TLSPolicies.Get(r, k)
	row, _ := d.p.TLSPolicies.Get(r, k)
	return row.Refused, len(row.Lost) > 0 && len(row.Lost) == len(spec.Targets)
}

// policyAncestors are what members say of a policy, by the Gateways of the routes that
// need it; false: something is not known, and what was said stays.
func (d *derivation) policyAncestors(r *inc.Reader, k model.Object, generation int64) (out []model.ParentStatus, sure bool) {
	sure = true
	refused, lost := d.lostPolicy(r, k)
	seats := d.policySeats(r, k)
	for len(seats) > 0 {
		gateway := seats[0].gateway
		var members []model.Member
		for len(seats) > 0 && seats[0].gateway == gateway {
			members, seats = append(members, seats[0].member), seats[1:]
		}
		all := d.voices(r, k, members, func(s model.LeafReport) []model.LeafCondition { return s.Conditions })
		accepted, known := merged(v1alpha1.ConditionAccepted, all)
		resolved, too := merged(v1alpha1.ConditionResolvedRefs, all)
		if lost {
			accepted, resolved = verdict(v1alpha1.ConditionAccepted, "", refused), verdict(v1alpha1.ConditionResolvedRefs, v1alpha1.ReasonResolvedRefs, model.Refusal{})
			known, too = true, true
		}
		sure = sure && known && too
		at := model.Parent{Group: model.GatewayGroup, Kind: model.GatewayKind, Namespace: gateway.Namespace, Name: gateway.Name}
		out = append(out, Conditions{accepted, resolved}.about(at, generation))
	}
	return out, sure
}
