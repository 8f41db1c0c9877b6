package leaf

import (
	"slices"

	"github.com/spillway-dev/spillway/internal/inc"
	"github.com/spillway-dev/spillway/internal/model"
)

// grantKind is the kind of objects that let others refer to a namespace. Where a leaf
// refers to another one, the member gets a leaf of those that allow it.
const grantKind = "ReferenceGrant"

// grantInMember says that a leaf in a member needs a grant.
type grantInMember struct {
	grant  model.Object
	member model.Member
}

// declareLeafGrants decides which members have leaves of ReferenceGrants, and returns
// those that some leaf needs.
func (d *derivation) declareLeafGrants(g *inc.Graph) inc.Keys[model.Object] {
	l := &d.leaves
	seats := inc.Derive(g, "leaf.seats of grants", func(r *inc.Reader, k model.Object) (out inc.List[grantInMember], ok bool) {
		grants, _ := d.p.LeafGrants.Get(r, k)
		c, ok := d.castAt(r, k)
		if !ok {
			return nil, false
		}
		for _, of := range grants {
			for _, m := range c.members {
				out = append(out, grantInMember{of, m})
			}
		}
		return out, len(out) > 0
	}, d.p.LeafGrants)
	l.granted = inc.IndexBy(seats, func(_ model.Object, all inc.List[grantInMember]) []model.Object {
		return seated(all, func(s grantInMember) model.Object { return s.grant })
	})
	l.grants = inc.Derive(g, "leaf.grant casts", d.grantCast, l.granted)
	return l.granted
}

// seated are the objects that leaves need in members, each once.
func seated[T comparable](all inc.List[T], of func(T) model.Object) []model.Object {
	out := make([]model.Object, len(all))
	for i, s := range all {
		out[i] = of(s)
	}
	slices.SortFunc(out, model.Object.Compare)
	return slices.Compact(out)
}

// grantCast is that of a ReferenceGrant.
func (d *derivation) grantCast(r *inc.Reader, k model.Object) (*cast, bool) {
	manifest, read := d.p.In.Manifests.Get(r, k)
	if !read {
		return nil, false
	}
	out := castOf(manifest, &model.LeafSpec{})
	out.body = manifest.Body
	for _, seats := range d.leaves.granted.Get(r, k) {
		for _, s := range seats {
			if s.grant == k {
				out.members = append(out.members, s.member)
			}
		}
	}
	slices.Sort(out.members)
	out.members = slices.Compact(out.members)
	return out, true
}

// permitted tells apart which Secrets an object may use: those of its own namespace, and
// those of others that a ReferenceGrant lets it.
func (d *derivation) permitted(r *inc.Reader, k model.Object, all []model.SecretID) (may, not []model.SecretID) {
	grants, _ := d.p.LeafGrants.Get(r, k)
	from := model.GrantFrom{Group: model.GatewayGroup, Kind: k.Kind, Namespace: k.Namespace}
	for _, s := range all {
		granted := slices.ContainsFunc(grants, func(g model.Object) bool {
			row, _ := d.p.In.Grants.Get(r, g)
			return g.Namespace == s.Namespace && row.Allows(from, model.GrantTo{Kind: "Secret", Name: s.Name})
		})
		if s.Namespace == k.Namespace || granted {
			may = append(may, s)
		} else {
			not = append(not, s)
		}
	}
	return may, not
}

// letsOf are the copies that a ReferenceGrant in a member must name, since it names their
// Secrets: those that are wanted, and those that are there yet. So none is lost while it
// is renewed.
func (d *derivation) letsOf(r *inc.Reader, k model.LeafID) []model.HeldKey {
	row, _ := d.p.In.Grants.Get(r, k.Root)
	var out []model.HeldKey
	for _, to := range row.To {
		if to.Group != "" || to.Kind != "Secret" || to.Name == "" {
			continue
		}
		id := secretIn(k.Root, to.Name)
		for _, h := range d.leaves.copies.Keys(r, id) {
			if h.Member == k.Member {
				out = append(out, h)
			}
		}
		for _, root := range d.leaves.granted.Keys(r, k.Root) {
			of, ok := d.castAt(r, root)
			if !ok || !slices.Contains(of.members, k.Member) || !slices.Contains(of.secrets, id) {
				continue
			}
			for _, h := range d.keysOf(r, model.LeafID{Member: k.Member, Root: root}, of, of.spec.Member(k.Member)) {
				if h.Secret == id {
					out = append(out, h)
				}
			}
		}
	}
	slices.SortFunc(out, model.HeldKey.Compare)
	return slices.Compact(out)
}

// needFindings tell an owner that a member does not take a grant or a policy which a leaf
// needs.
func (d *derivation) needFindings(r *inc.Reader, n *model.Collector, m model.Member) {
	grants, _ := d.p.LeafGrants.Get(r, n.Object)
	policies, _ := d.p.LeafPolicies.Get(r, n.Object)
	tell := func(k model.Object, what string) {
		state, _ := d.p.In.LeafStates.Get(r, model.LeafID{Member: m, Root: k})
		if why, refused := refusals[state.Reason]; refused {
			n.Error("", why, "member %s has no leaf of %s, %s: %s %s", m, k, what, state.Reason, state.Message)
		}
	}
	for _, k := range grants {
		tell(k, "which the leaf needs")
	}
	for _, k := range policies {
		tell(k, "by which what the leaf leads to is spoken to")
	}
}
