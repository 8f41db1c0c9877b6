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
		c, ok := d.castOf(r, k)
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
	l.granted = inc.IndexBy(seats, func(_ model.Object, all inc.List[grantInMember]) (out []model.Object) {
		for _, s := range all {
			out = append(out, s.grant)
		}
		slices.SortFunc(out, model.Object.Compare)
		return slices.Compact(out)
	})
	l.grants = inc.Derive(g, "leaf.grant casts", d.grantCast, l.granted)
	return l.granted
}

// grantCast is that of a ReferenceGrant.
func (d *derivation) grantCast(r *inc.Reader, k model.Object) (*cast, bool) {
	manifest, read := d.p.In.Manifests.Get(r, k)
	if !read {
		return nil, false
	}
	out := &cast{uid: manifest.UID, body: manifest.Body, spec: &model.LeafSpec{}}
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

// grantFindings tell an owner that a member does not take a grant which a leaf needs.
func (d *derivation) grantFindings(r *inc.Reader, n *model.Collector, m model.Member) {
	grants, _ := d.p.LeafGrants.Get(r, n.Object)
	for _, g := range grants {
		state, _ := d.p.In.LeafStates.Get(r, model.LeafID{Member: m, Root: g})
		if why, refused := refusals[state.Reason]; refused {
			n.Error("", why, "member %s has no leaf of %s, which the leaf needs: %s %s", m, g, state.Reason, state.Message)
		}
	}
}
