package leaf

import (
	"fmt"
	"slices"
	"strings"

	"github.com/spillway-dev/spillway/api/v1alpha1"
	"github.com/spillway-dev/spillway/internal/fleet"
	"github.com/spillway-dev/spillway/internal/inc"
	"github.com/spillway-dev/spillway/internal/model"
)

// ofLeaves are the addresses that a root's status lists: those that its leaves name in
// theirs, where the member may have them. What a member that was not heard yet is listed
// with stays, and so does all of a root that was not read yet.
func (d *derivation) ofLeaves(r *inc.Reader, k model.Object, published model.Texts) []string {
	c, read := d.castAt(r, k)
	if !read {
		return published.List()
	}
	var out []string
	for _, m := range c.members {
		state, told := d.p.In.LeafStates.Get(r, model.LeafID{Member: m, Root: k})
		if !told {
			state = model.LeafState{There: true, Addresses: published}
		}
		out = append(out, d.counted(r, m, state)...)
	}
	for _, m := range d.leaves.missing.Keys(r, model.All{}) {
		if _, is := slices.BinarySearch(c.members, m); !is {
			out = append(out, d.counted(r, m, model.LeafState{There: true, Addresses: published})...)
		}
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// counted are the addresses of a leaf that its member may have.
func (d *derivation) counted(r *inc.Reader, m model.Member, state model.LeafState) []string {
	if !state.There {
		return nil
	}
	g, _ := d.p.LeafGrounds.Get(r, m)
	return slices.DeleteFunc(state.Addresses.List(), func(a string) bool { return !g.Addresses.Has(a) })
}

// leafFindings tell an owner what became of the leaves of a root.
func (d *derivation) leafFindings(r *inc.Reader, k model.Object) (model.Findings, bool) {
	c, read := d.castAt(r, k)
	if !read {
		return nil, false
	}
	n := &model.Collector{Object: k}
	n.Take(c.lost)
	n.Take(c.lacking)
	for _, m := range c.members {
		if d.takenFindings(r, n, m) {
			continue
		}
		state, told := d.p.In.LeafStates.Get(r, model.LeafID{Member: m, Root: k})
		if told {
			d.stateFindings(r, n, m, state)
		}
		if k.Kind != ingressKind {
			d.needFindings(r, n, m)
		}
	}
	d.keyFindings(r, n, k, c)
	return n.Row()
}

// takenFindings tells an owner that a member has no namespace of the name for the root, and
// reports whether it is so.
func (d *derivation) takenFindings(r *inc.Reader, n *model.Collector, m model.Member) bool {
	o := n.Object
	if _, has := d.p.SpaceIn(r, m, o.Workspace, o.Namespace); has {
		return false
	}
	usual := model.MemberNamespace(o.Workspace, o.Namespace)
	if of, taken := d.p.SpacesIn(r, m).Has(usual); taken {
		n.Error("metadata.namespace", model.ReasonConflict, "namespace %s of member %s is that of %s (spec.namespaces of the MemberCluster), so that nothing of namespace %[1]s of the hub is there: give that another name in the member, too", usual, m, of)
	} else {
		n.Error("metadata.namespace", model.ReasonConflict, "what the MemberCluster %s says of namespace %s (spec.namespaces) can't be used, so that nothing of that is there: see its findings", m, usual)
	}
	return true
}

// aKind is a kind with its article.
func aKind(kind string) string {
	if kind == ingressKind || kind == "HTTPRoute" {
		return "an " + kind
	}
	return "a " + kind
}

func (d *derivation) stateFindings(r *inc.Reader, n *model.Collector, m model.Member, s model.LeafState) {
	switch s.Reason {
	case model.LeafRefused, model.LeafNotServed:
		n.Error("", model.ReasonLeafRefused, "member %s refuses the leaf: %s", m, s.Message)
	case model.LeafForeign:
		what := ""
		if s.Diff.Len() > 0 {
			what = "; it differs from the leaf in " + model.Few(s.Diff.List())
		}
		if _, fails, would := strings.Cut(s.Message, "; "); would {
			what += "; " + fails
		}
		n.Error("", model.ReasonLeafForeign, "member %s has %s of this name that is not ours: it is left alone%s. Take it over with the annotation %s: \"true\", delete it there, or name this one otherwise", m, aKind(n.Object.Kind), what, v1alpha1.AnnotationAdopt)
	case model.LeafOfAnotherHub:
		n.Error("", model.ReasonLeafForeign, "member %s has %s of this name that another hub wrote: it is left alone", m, aKind(n.Object.Kind))
	case model.LeafContested:
		n.Warning("", model.ReasonLeafContested, "somebody keeps changing the leaf in member %s: it is put right less and less often. metadata.managedFields there says who", m)
	}
	if s.Dropped.Len() > 0 {
		n.Warning("", model.ReasonLeafAltered, "member %s does not have these fields of the leaf: %s", m, model.Few(s.Dropped.List()))
	}
	if s.Altered.Len() > 0 {
		n.Warning("", model.ReasonLeafAltered, "member %s sets these fields of the leaf otherwise: %s", m, model.Few(s.Altered.List()))
	}
	if !s.There {
		return
	}
	claimFindings(n, m, s.Claimed)
	g, _ := d.p.LeafGrounds.Get(r, m)
	refused := slices.DeleteFunc(s.Addresses.List(), g.Addresses.Has)
	if len(refused) > 0 {
		n.Error("", model.ReasonLeafAddressRefused, "member %s names addresses that its spec.leafAddresses does not have, and they do not count: %s", m, strings.Join(refused[:min(len(refused), model.MostNamed)], ", "))
	}
}

// claimFindings tell an owner who else in a member asks for hosts of a leaf.
func claimFindings(n *model.Collector, m model.Member, claims model.Texts) {
	if claims.Len() == 0 {
		return
	}
	var all []string
	for _, text := range claims.List() {
		c := model.LeafClaimOf(text)
		all = append(all, fmt.Sprintf("%s by %s %s/%s", c.Host, c.Kind, c.Namespace, c.Name))
	}
	n.Warning("", model.ReasonLeafHostClaimed, "in member %s objects that are not ours ask for hosts of the leaf, and its controller decides who gets them: %s. DNS leads there only where nobody else serves them. Delete those objects, or have them ask for other hosts", m, model.Few(all))
}

// declareWaiting tells of members of which many leaves should go.
func declareWaiting(g *inc.Graph, p *fleet.Program) *inc.Table[model.Object, model.Findings] {
	of := inc.IndexBy(p.In.LeavesWaiting, func(m model.Member, _ model.There) []model.Object { return []model.Object{memberObject.of(m)} })
	return inc.Derive(g, "findings of waiting leaves", func(_ *inc.Reader, o model.Object) (model.Findings, bool) {
		n := model.Collector{Object: o}
		n.Warning("", model.ReasonLeavesWait, "more of its leaves should be deleted than are without consent: look whether that is meant, and annotate it %s: \"true\" until it is done", v1alpha1.AnnotationDeleteLeaves)
		return n.Row()
	}, of)
}
