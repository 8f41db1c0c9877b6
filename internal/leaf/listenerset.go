package leaf

import (
	"fmt"
	"slices"

	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"

	"github.com/spillway-dev/spillway/api/v1alpha1"
	"github.com/spillway-dev/spillway/internal/fleet"
	"github.com/spillway-dev/spillway/internal/inc"
	"github.com/spillway-dev/spillway/internal/model"
)

// ListenerSetStatus is what the status of a ListenerSet should say.
type ListenerSetStatus struct {
	Generation int64
	Conditions Conditions // Accepted, Programmed
	Listeners  []ListenerStatus
}

// Equal reports whether both say the same.
func (a ListenerSetStatus) Equal(b ListenerSetStatus) bool {
	return a.Generation == b.Generation && slices.Equal(a.Conditions, b.Conditions) && slices.EqualFunc(a.Listeners, b.Listeners, ListenerStatus.equal)
}

// declareListenerSets says what became of ListenerSets that refer to Gateways of ours,
// and of those that did.
func (d *derivation) declareListenerSets(g *inc.Graph) {
	sets := inc.IndexBy(d.p.Parts, func(o model.Object, _ *fleet.Part) []model.Object {
		if o.Kind != model.ListenerSetKind {
			return nil
		}
		return []model.Object{o}
	})
	ours := inc.IndexBy(d.p.In.ListenerSets, func(o model.Object, s model.ListenerSetSpec) []model.Object {
		if !s.Ours {
			return nil
		}
		return []model.Object{o}
	})
	d.t.ListenerSets = inc.Derive(g, "leaf.ListenerSets", d.listenerSet, sets, ours)
}

func (d *derivation) listenerSet(r *inc.Reader, o model.Object) (ListenerSetStatus, bool) {
	p, ok := d.p.Parts.Get(r, o)
	if !ok {
		return d.leftSet(r, o)
	}
	if p.Leaf {
		return d.leafSet(r, o, p)
	}
	out := ListenerSetStatus{Generation: p.Generation, Listeners: d.listeners(r, p)}
	out.Conditions = Conditions{acceptedSet(p), programmedSet(p, out.Listeners)}
	return out, true
}

// leftSet: a ListenerSet that was served is not when its Gateway is gone, and nobody
// else says so. Of a Gateway that is another controller's now, that one does.
func (d *derivation) leftSet(r *inc.Reader, o model.Object) (ListenerSetStatus, bool) {
	spec, _ := d.p.In.ListenerSets.Get(r, o)
	if _, there := d.p.In.Gateways.Get(r, spec.Gateway); there || spec.Gateway == (model.GatewayID{}) {
		return ListenerSetStatus{}, false
	}
	gone := model.Refusal{Reason: string(gatewayv1.ListenerSetReasonParentNotAccepted), Message: fmt.Sprintf("there is no %s", spec.Gateway.Object())}
	out := ListenerSetStatus{Generation: spec.Generation}
	for _, kind := range []string{v1alpha1.ConditionAccepted, v1alpha1.ConditionProgrammed} {
		out.Conditions = append(out.Conditions, verdict(kind, "", gone))
	}
	return out, true
}

// acceptedSet: a ListenerSet is accepted if the Gateway lets it, and some listener
// serves.
func acceptedSet(p *fleet.Part) Condition {
	out := verdict(v1alpha1.ConditionAccepted, v1alpha1.ReasonAccepted, p.Refused)
	if out.Status != model.Up {
		return out
	}
	if lost := lacking(p, func(l fleet.Listener) bool { return l.Serves() || p.Leaf && l.Front != "" }); len(lost) > 0 {
		out.Reason, out.Message = string(gatewayv1.ListenerSetReasonListenersNotValid), "not valid: listener "+model.Few(lost)
	}
	if !p.Serves() {
		out.Status = model.Down
	}
	return out
}

// programmedSet: a ListenerSet is programmed if some listener is.
func programmedSet(p *fleet.Part, all []ListenerStatus) Condition {
	if accepted := acceptedSet(p); accepted.Status != model.Up {
		accepted.Type = v1alpha1.ConditionProgrammed
		return accepted
	}
	return bestProgrammed(all)
}
