package leaf

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/spillway-dev/spillway/api/v1alpha1"
	"github.com/spillway-dev/spillway/internal/fleet"
	"github.com/spillway-dev/spillway/internal/inc"
	"github.com/spillway-dev/spillway/internal/ingest"
	"github.com/spillway-dev/spillway/internal/model"
)

// PlacementStatus is what the status of a Placement should say. What it says of each
// target is apart, in Tables.Targets.
type PlacementStatus struct {
	Conditions Conditions // Accepted, Placed, RolledOut where the Placement has a rollout
	Generation int64
	Chosen     int // members, of Total
	Total      int
	Members    inc.List[PlacedMember] // the chosen ones first, then by name; no more than a status may list
	Edits      inc.List[PlacedEdit]   // that not all members have, the stopped ones first; no more than a status may list
}

// PlacedMember is why a member is chosen or not.
type PlacedMember struct {
	Name            model.Member
	Chosen          bool
	Reason, Message string
}

// Equal reports whether both say the same.
func (a PlacementStatus) Equal(b PlacementStatus) bool {
	return slices.Equal(a.Conditions, b.Conditions) && a.Generation == b.Generation && a.Chosen == b.Chosen && a.Total == b.Total && a.Members.Equal(b.Members) && a.Edits.Equal(b.Edits)
}

// placedTarget is a target and the backends that the Placement limits for it.
type placedTarget struct {
	model.Object
	refused  model.Refusal // why it is not accepted there
	backends []model.Backend
	rows     []fleet.Backend
}

func (d *derivation) declarePlacements(g *inc.Graph) {
	d.t.Placements = inc.Derive(g, "leaf.Placements", d.placement, d.p.In.Placements)
	d.t.Targets = inc.Derive(g, "leaf.Targets", d.targets, d.p.In.Placements)
}

// targetsOf are the targets of a Placement.
func (d *derivation) targetsOf(r *inc.Reader, k model.Object, spec model.PlacementSpec) []placedTarget {
	out := make([]placedTarget, len(spec.Targets))
	for i, t := range spec.Targets {
		out[i].Object = t
		switch has, _ := d.p.PlacementOf(r, t); {
		case has != k:
			out[i].refused = model.Refusal{Reason: v1alpha1.ReasonConflicted, Message: fmt.Sprintf("the older %s is for it, too", has)}
		case !d.there(r, t):
			out[i].refused = model.Refusal{Reason: v1alpha1.ReasonTargetNotFound, Message: fmt.Sprintf("there is no %s", t)}
		default:
			out[i].backends, out[i].rows = d.p.PlacedBackends.Keys(r, t), d.p.PlacedBackends.Get(r, t)
		}
	}
	return out
}

// there reports whether a target is there. The namespace of a Placement is.
func (d *derivation) there(r *inc.Reader, t model.Object) bool {
	switch {
	case t.Namespace == "":
		return true
	case t.Kind == model.GatewayKind:
		_, ok := d.p.In.Gateways.Get(r, model.GatewayID{Workspace: t.Workspace, Namespace: t.Namespace, Name: t.Name})
		return ok
	}
	_, ok := d.p.In.Roots.Get(r, t)
	return ok
}

// targets says what became of each target (GEP-713).
func (d *derivation) targets(r *inc.Reader, k model.Object) (RouteStatus, bool) {
	spec, ok := d.p.In.Placements.Get(r, k)
	var out RouteStatus
	for _, t := range d.targetsOf(r, k, spec) {
		at := model.Parent{Group: ingest.PlacedGroup(t.Kind), Kind: t.Kind, Namespace: t.Namespace, Name: t.Name}
		said := Conditions{verdict(v1alpha1.ConditionAccepted, v1alpha1.ReasonAccepted, t.refused), placedCondition([]placedTarget{t})}
		out.Parents = append(out.Parents, said.about(at, spec.Generation))
	}
	out.Settled = model.ParentTexts(out.Parents) == spec.Published
	return out, ok
}

// placedCondition tells whether every Service of some targets has a member.
func placedCondition(targets []placedTarget) Condition {
	out := Condition{Type: v1alpha1.ConditionPlaced, Status: model.Down, Reason: v1alpha1.ReasonNotUsed, Message: "nothing that we serve has it"}
	var members []string
	var without, unsure []string
	used := false
	for _, t := range targets {
		for i, b := range t.rows {
			used = true
			switch {
			case len(b.Members) > 0:
				members = append(members, names(b.Members)...)
			case len(b.Placing.Unknown) > 0:
				unsure = append(unsure, t.backends[i].Described())
			default:
				without = append(without, t.backends[i].Described())
			}
		}
	}
	switch {
	case !used:
	case len(without) > 0:
		out.Reason, out.Message = v1alpha1.ReasonNoMembers, "no member that fits has "+few(without)
	case len(unsure) > 0:
		out.Status, out.Reason, out.Message = model.Unknown, v1alpha1.ReasonPending, "members were not read yet that may have "+few(unsure)
	default:
		out.Status, out.Reason, out.Message = model.Up, v1alpha1.ReasonPlaced, few(members)
	}
	return out
}

// few are some texts, sorted, each once, and no more than a message should name.
func few(list []string) string {
	slices.Sort(list)
	return model.Few(slices.Compact(list))
}

func names(list []model.Member) []string {
	out := make([]string, len(list))
	for i, m := range list {
		out[i] = string(m)
	}
	return out
}

func (d *derivation) placement(r *inc.Reader, k model.Object) (PlacementStatus, bool) {
	spec, ok := d.p.In.Placements.Get(r, k)
	targets := d.targetsOf(r, k, spec)
	all, traits := d.p.AllTraits.Keys(r, model.All{}), d.p.AllTraits.Get(r, model.All{})
	out := PlacementStatus{Conditions: Conditions{d.accepted(r, k), placedCondition(targets)}, Generation: spec.Generation, Total: len(all)}
	if spec.Rollout != nil {
		rolledOut, edits := d.rolledOut(r, k)
		out.Conditions, out.Edits = append(out.Conditions, rolledOut), edits
	}
	misfit := fleet.Misfit(spec)
	for i, m := range all {
		row := PlacedMember{Name: m, Reason: misfit(m, traits[i])}
		if row.Reason == "" {
			row.choose(spec, targets)
		} else {
			row.Message = misfitMessage(row.Reason, traits[i], spec)
		}
		out.Members = append(out.Members, row)
		if row.Chosen {
			out.Chosen++
		}
	}
	slices.SortStableFunc(out.Members, func(a, b PlacedMember) int {
		switch {
		case a.Chosen == b.Chosen:
			return cmp.Compare(a.Name, b.Name)
		case a.Chosen:
			return -1
		}
		return 1
	})
	out.Members = out.Members[:min(len(out.Members), v1alpha1.MaxPlacementMembers)]
	return out, ok
}

// heldOf are the members that keep their places of a backend that they lack: while
// others have it, or as the last ones.
func heldOf(b fleet.Backend, last bool) []model.Member {
	if last != (len(b.Members) == 0) {
		return nil
	}
	return b.Placing.Held
}

// said tells for which Services others are chosen than a member that is chosen for some,
// and for which it has a place though it lacks them.
func said(beyond, held, last []string) string {
	var out []string
	if len(beyond) > 0 {
		out = append(out, "others are chosen for "+few(beyond))
	}
	if len(held) > 0 {
		out = append(out, "it lacks "+few(held)+", and keeps its place for the time that hold says")
	}
	if len(last) > 0 {
		out = append(out, "it keeps its place, since no member that fits has "+few(last))
	}
	return strings.Join(out, "; ")
}

// choose tells why a member that fits is chosen, for any of the targets, or not.
func (out *PlacedMember) choose(spec model.PlacementSpec, targets []placedTarget) {
	has := func(of func(fleet.Backend) []model.Member) (services []string) {
		for _, t := range targets {
			for i, b := range t.rows {
				if slices.Contains(of(b), out.Name) {
					services = append(services, t.backends[i].Described())
				}
			}
		}
		return services
	}
	chosen := has(func(b fleet.Backend) []model.Member { return b.Members })
	held := has(func(b fleet.Backend) []model.Member { return heldOf(b, false) })
	last := has(func(b fleet.Backend) []model.Member { return heldOf(b, true) })
	unknown := has(func(b fleet.Backend) []model.Member { return b.Placing.Unknown })
	beyond := has(func(b fleet.Backend) []model.Member { return b.Placing.Beyond })
	switch {
	case len(chosen) > 0:
		out.Chosen, out.Reason, out.Message = true, v1alpha1.MemberChosen, said(beyond, held, last)
	case len(held)+len(last) > 0:
		out.Chosen, out.Reason, out.Message = true, v1alpha1.MemberHeld, said(nil, held, last)
	case len(unknown) > 0:
		out.Chosen, out.Reason, out.Message = true, v1alpha1.MemberUnknown, "it was not read yet: it may have "+few(unknown)
	case len(beyond) > 0:
		out.Reason, out.Message = v1alpha1.MemberBeyondCount, fmt.Sprintf("others go before it, and count is %d", spec.Count)
	default:
		out.Reason, out.Message = v1alpha1.MemberNoService, "it has nothing that the targets use"
	}
}

func misfitMessage(reason string, t fleet.Traits, spec model.PlacementSpec) string {
	switch {
	case spec.Broken:
		return "spec.members can't be read: see the condition Accepted"
	case reason == v1alpha1.MemberTainted:
		return "its taints are not tolerated: " + few(slices.Clone(t.Taints))
	case reason == v1alpha1.MemberSameCluster:
		return "an older member is the same cluster"
	}
	return "neither names nor the selector have it"
}
