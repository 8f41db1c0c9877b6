package leaf

import (
	"fmt"

	"github.com/spillway-dev/spillway/api/v1alpha1"
	"github.com/spillway-dev/spillway/internal/fleet"
	"github.com/spillway-dev/spillway/internal/inc"
	"github.com/spillway-dev/spillway/internal/model"
)

// TombstoneStatus is what the status of a MemberTombstone should say.
type TombstoneStatus struct {
	Generation int64
	Conditions Conditions // Pruned
}

// Equal reports whether both say the same.
func (a TombstoneStatus) Equal(b TombstoneStatus) bool {
	return a.Generation == b.Generation && len(a.Conditions) == len(b.Conditions) && (len(a.Conditions) == 0 || a.Conditions[0] == b.Conditions[0])
}

// byHand are the reasons why leaves stay behind that do not end by themselves.
var byHand = map[string]model.Reason{
	v1alpha1.ReasonSecretNotFound:    model.ReasonSecretNotFound,
	v1alpha1.ReasonInvalidKubeconfig: model.ReasonInvalidKubeconfig,
	v1alpha1.ReasonUnsafeKubeconfig:  model.ReasonUnsafeKubeconfig,
	v1alpha1.ReasonUnauthorized:      model.ReasonUnauthorized,
	v1alpha1.ReasonAnotherCluster:    model.ReasonAnotherCluster,
	v1alpha1.ReasonAnotherHub:        model.ReasonAnotherHub,
	v1alpha1.ReasonKeysLeft:          model.ReasonKeysLeft,
}

// declareTombstones declares what is said of leaves that stayed behind. Each tombstone has
// a finding, so that none is forgotten.
func (d *derivation) declareTombstones(g *inc.Graph) *inc.Table[model.Object, model.Findings] {
	in := &d.p.In
	d.t.Tombstones = inc.Derive(g, "leaf.Tombstones", func(r *inc.Reader, k model.TombstoneID) (TombstoneStatus, bool) {
		spec, ok := in.Tombstones.Get(r, k)
		out := TombstoneStatus{Generation: spec.Generation}
		if now, looked := in.Diggings.Get(r, k); looked {
			out.Conditions = Conditions{{Type: v1alpha1.ConditionPruned, Status: model.Down, Reason: now.Reason, Message: now.Message}}
		}
		return out, ok
	}, in.Tombstones)
	objects := inc.IndexBy(in.Tombstones, func(k model.TombstoneID, _ model.Tombstone) []model.Object { return []model.Object{k.Object()} })
	return inc.Derive(g, "findings of tombstones", func(r *inc.Reader, o model.Object) (model.Findings, bool) {
		k := model.TombstoneID(o.Name)
		spec, _ := in.Tombstones.Get(r, k)
		now, _ := in.Diggings.Get(r, k)
		n := model.Collector{Object: o}
		if reason, is := byHand[now.Reason]; is {
			n.Error("spec", reason, "%s of member %s stay there: %s. They are deleted when that is mended; delete this object, or use `spillway member remove %s --forget`, to give up on them", leftText(spec), spec.Member, now.Message, spec.Member)
			return n.Row()
		}
		n.Warning("spec", model.ReasonLeavesLeft, "%s of member %s, which left while it was away, are deleted when it is reached again%s", leftText(spec), spec.Member, because(now.Message))
		return n.Row()
	}, objects)
}

// leftText is what a tombstone is about.
func leftText(t model.Tombstone) string {
	if t.Keys == 0 {
		return leavesText(t.Leaves)
	}
	return leavesText(t.Leaves) + " and " + manyKeys(t.Keys)
}

func leavesText(leaves int) string {
	switch {
	case leaves < 0:
		return "leaves"
	case leaves == 1:
		return "1 leaf"
	}
	return fmt.Sprintf("%d leaves", leaves)
}

func because(message string) string {
	if message == "" {
		return ""
	}
	return ": " + message
}

// deletion is the field by which an object says that it is being deleted.
const deletion = "metadata.deletionTimestamp"

// declareLastSites tells of members that stay for their traffic.
func declareLastSites(g *inc.Graph, p *fleet.Program) *inc.Table[model.Object, model.Findings] {
	of := inc.IndexBy(p.In.LastSites, func(m model.Member, _ inc.Val[model.Texts]) []model.Object { return []model.Object{memberObject.of(m)} })
	return inc.Derive(g, "findings of last sites", func(r *inc.Reader, o model.Object) (model.Findings, bool) {
		n := model.Collector{Object: o}
		for _, last := range of.Get(r, o) {
			n.Error(deletion, model.ReasonLastSite, "it is the last that serves %s, so it stays: serve them elsewhere, or let it go with the annotation %s=true", model.Few(last.V.List()), v1alpha1.AnnotationForceDelete)
		}
		return n.Row()
	}, of)
}

// declareHoldings tells of members that stay for their leaves, and of those that have more
// with our mark than is kept of one.
func declareHoldings(g *inc.Graph, p *fleet.Program) *inc.Table[model.Object, model.Findings] {
	of := inc.IndexBy(p.In.Holdings, func(m model.Member, h model.Holding) []model.Object {
		if !h.Stays && !h.Over && !h.Unread && h.Last.Len() == 0 {
			return nil
		}
		return []model.Object{memberObject.of(m)}
	})
	return inc.Derive(g, "findings of leaf holdings", func(r *inc.Reader, o model.Object) (model.Findings, bool) {
		n := model.Collector{Object: o}
		for _, h := range of.Get(r, o) {
			switch {
			case h.Last.Len() > 0:
				n.Error(deletion, model.ReasonLastSite, "it has the last leaves of %s, so it stays: serve them elsewhere, or let it go with the annotation %s=true", model.Few(h.Last.List()), v1alpha1.AnnotationForceDelete)
			case h.Stays:
				n.Warning(deletion, model.ReasonLeavesLeft, "%s are there yet, and it goes when they are gone: if that takes long, look at the findings of their roots, and at their finalizers in the member", leavesText(h.Leaves))
			}
			if h.Over {
				n.Warning("", model.ReasonTooManyObjects, "it has %d objects with our label %s, more of them than are looked at in one go and were ever wanted: what is wanted is kept up, the rest is deleted by and by. Find out who makes them", h.Leaves, v1alpha1.LabelHub)
			}
			if h.Unread {
				n.Warning("", model.ReasonTooManyObjects, "it has more objects that are not ours and ask for hosts than are looked at: whether one of the rest asks for a host of a leaf is not known")
			}
		}
		return n.Row()
	}, of)
}
