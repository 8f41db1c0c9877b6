package leaf

import (
	"fmt"
	"regexp"
	"slices"
	"strings"

	routev1 "github.com/openshift/api/route/v1"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"

	"github.com/spillway-dev/spillway/api/v1alpha1"
	"github.com/spillway-dev/spillway/internal/fleet"
	"github.com/spillway-dev/spillway/internal/inc"
	"github.com/spillway-dev/spillway/internal/model"
)

// What the controllers of members say of the leaves of a root becomes one condition each:
// an issue goes before what is not known, and that before what is fine. It depends on
// what members said last and on nothing else: neither on their order, nor on when.

// voice is what a member says of a leaf, or of a part of it.
type voice struct {
	member model.Member
	told   bool // it is known what became of the leaf
	state  model.LeafState
	says   []model.LeafCondition
}

// voices are those of the members that have leaves of a root, given the part of a report
// that counts.
func (d *derivation) voices(r *inc.Reader, k model.Object, members []model.Member, of func(model.LeafReport) []model.LeafCondition) []voice {
	out := make([]voice, len(members))
	for i, m := range members {
		state, told := d.p.In.LeafStates.Get(r, model.LeafID{Member: m, Root: k})
		out[i] = voice{m, told, state, nil}
		if state.There {
			out[i].says = of(homely(state.Said.Report(), d.p.SpacesIn(r, m)))
		}
	}
	return out
}

// homely is a report in which parents have the namespaces that most members call so.
func homely(report model.LeafReport, spaces model.Spaces) model.LeafReport {
	if len(spaces) == 0 {
		return report
	}
	for i, part := range report.Parents {
		if part.Parent == nil || part.Parent.Namespace == "" {
			continue
		}
		if of, is := spaces.Back(part.Parent.Namespace); is {
			parent := *part.Parent
			parent.Namespace = of
			report.Parents[i].Parent = &parent
		}
	}
	return report
}

// refusals are the states of leaves that are not there, and will not be for now, as
// owners are told of them.
var refusals = map[string]model.Reason{
	model.LeafRefused: model.ReasonLeafRefused, model.LeafNotServed: model.ReasonLeafRefused,
	model.LeafForeign: model.ReasonLeafForeign, model.LeafOfAnotherHub: model.ReasonLeafForeign,
}

// usualReasons are those of conditions that are True.
var usualReasons = map[string]string{
	v1alpha1.ConditionAccepted: v1alpha1.ReasonAccepted, v1alpha1.ConditionProgrammed: v1alpha1.ReasonProgrammed, v1alpha1.ConditionResolvedRefs: v1alpha1.ReasonResolvedRefs,
	string(routev1.RouteAdmitted): "",
}

// issue is why a member does not have something as it should.
type issue struct {
	member          model.Member
	reason, message string
}

// merged is the condition of a type that the voices come to; false: of some leaf nothing
// was told yet, and the others are fine, so that what is said stays.
func merged(kind string, all []voice) (Condition, bool) {
	var issues []issue
	var waits []string
	known := true
	for _, v := range all {
		at := slices.IndexFunc(v.says, func(c model.LeafCondition) bool { return c.Type == kind })
		switch why, refused := refusals[v.state.Reason]; {
		case !v.state.There && refused:
			issues = append(issues, issue{v.member, string(why), v.state.Message})
		case at >= 0 && v.says[at].Status == model.Down.String():
			issues = append(issues, issue{v.member, v.says[at].Reason, v.says[at].Message})
		case at < 0 || v.says[at].Status != model.Up.String():
			known = known && v.told
			waits = append(waits, string(v.member))
		}
	}
	out := Condition{Type: kind, Status: model.Up, Reason: usualReasons[kind], Message: countOf(len(all), len(all))}
	switch {
	case len(issues) > 0:
		out.Status, out.Reason, out.Message = model.Down, reasonOf(issues[0].reason), countOf(len(issues), len(all))+": "+described(issues)
	case len(waits) > 0:
		out.Status, out.Reason, out.Message = model.Unknown, v1alpha1.ReasonPending, countOf(len(waits), len(all))+" did not say yet: "+model.Few(waits)
	case len(all) == 0:
		out.Status, out.Reason, out.Message = model.Unknown, v1alpha1.ReasonPending, "no member has a leaf"
	}
	return out, known || len(issues) > 0
}

// countOf is "2 of 3 members".
func countOf(n, of int) string {
	if of == 1 {
		return fmt.Sprintf("%d of 1 member", n)
	}
	return fmt.Sprintf("%d of %d members", n, of)
}

// described is what some members say, each its own.
func described(all []issue) string {
	out := make([]string, len(all))
	for i, x := range all {
		out[i] = strings.TrimSuffix(fmt.Sprintf("%s: %s", x.member, x.message), ": ")
	}
	return strings.Join(out[:min(len(out), mostVoices)], "; ") + map[bool]string{true: "; …"}[len(out) > mostVoices]
}

// mostVoices is how many members are quoted.
const mostVoices = 3

// reasons are what a condition may have as its reason (metav1.Condition).
var reasons = regexp.MustCompile(`^[A-Za-z]([A-Za-z0-9_,:]*[A-Za-z0-9_])?$`)

// reasonOf is a member's reason, if the hub takes it.
func reasonOf(text string) string {
	if len(text) <= 256 && reasons.MatchString(text) {
		return text
	}
	return string(model.ReasonLeafRefused)
}

// told adds the conditions that are known.
func (a Conditions) told(c Condition, known bool) Conditions {
	if !known {
		return a
	}
	return a.with(c)
}

// leafGateway is the status of a Gateway that members serve. Nothing is said of one that
// was not read in full: what its status lists is not known.
func (d *derivation) leafGateway(r *inc.Reader, id model.GatewayID, row *fleet.Gateway) (GatewayStatus, bool) {
	o := id.Object()
	manifest, read := d.p.In.Manifests.Get(r, o)
	accepted, c := acceptedGateway(row), &cast{}
	if cast, has := d.leaves.gateways.Get(r, o); has {
		c = cast
	} else if accepted.Status == model.Up && !read {
		return GatewayStatus{}, false
	}
	out := GatewayStatus{Generation: row.Spec.Generation, Allows: row.Spec.Sets != nil, Sets: row.Sets()}
	if accepted.Status == model.Up {
		for _, a := range d.ofLeaves(r, o, manifest.Published) {
			out.Addresses = append(out.Addresses, GatewayAddress{Value: a})
		}
	}
	release, _ := d.p.In.Releases.Get(r, model.GatewayDefinition(id.Workspace))
	out.Scoped = release.Scopes()
	out.Listeners = d.leafListeners(r, o, row.Own(), c.members)
	assigned := assignedGateway(out, nil, 0)
	if len(out.Addresses) == 0 {
		assigned.Message = "no leaf of the Gateway has an address that counts"
	}
	whole := d.voices(r, o, c.members, func(s model.LeafReport) []model.LeafCondition { return s.Conditions })
	resolved := resolvedGateway(row)
	if lost := unresolved(out.Listeners); resolved.Status == model.Up && len(lost) > 0 {
		resolved.Status, resolved.Reason, resolved.Message = model.Down, string(gatewayv1.GatewayReasonListenersNotResolved), "not resolved: listener "+model.Few(lost)
	}
	out.Conditions = Conditions{assigned, resolved}
	if accepted.Status != model.Up {
		programmed := Condition{v1alpha1.ConditionProgrammed, model.Down, string(gatewayv1.GatewayReasonInvalid), accepted.Message}
		out.Conditions = out.Conditions.with(accepted).with(programmed)
		return out, true
	}
	out.Conditions = out.Conditions.told(merged(v1alpha1.ConditionAccepted, whole)).told(merged(v1alpha1.ConditionProgrammed, whole))
	return out, true
}

// unresolved names the listeners whose references some member does not resolve.
func unresolved(all []ListenerStatus) []string {
	var out []string
	for _, l := range all {
		if l.Conditions.of(v1alpha1.ConditionResolvedRefs).Status == model.Down {
			out = append(out, l.Name)
		}
	}
	return out
}

// leafListeners are the statuses of listeners that members serve. What the hub refuses is
// for nobody.
func (d *derivation) leafListeners(r *inc.Reader, o model.Object, p *fleet.Part, members []model.Member) []ListenerStatus {
	out := make([]ListenerStatus, len(p.Listeners))
	for i, l := range p.Listeners {
		attached := d.p.AttachedTo.Keys(r, fleet.ListenerID{Of: p.Object, Place: i})
		out[i] = ListenerStatus{Name: l.Spec.Name, Kinds: l.Spec.Routes.Kinds, Attached: len(attached)}
		if l.Front == "" || l.Broken != (model.Refusal{}) {
			out[i].Conditions = d.listener(r, l)
			continue
		}
		all := d.voices(r, o, members, func(s model.LeafReport) []model.LeafCondition {
			if at := slices.IndexFunc(s.Listeners, func(x model.LeafPart) bool { return x.Name == l.Spec.Name }); at >= 0 {
				return s.Listeners[at].Conditions
			}
			return nil
		})
		out[i].Conditions = Conditions{{Type: string(gatewayv1.ListenerConditionConflicted), Status: model.Down, Reason: string(gatewayv1.ListenerReasonNoConflicts)}}
		for _, kind := range []string{v1alpha1.ConditionAccepted, v1alpha1.ConditionProgrammed, v1alpha1.ConditionResolvedRefs} {
			out[i].Conditions = out[i].Conditions.told(merged(kind, all))
		}
	}
	return out
}

// leafParent is what is said of a reference of a route to what members serve; false:
// something of it is not known, and what was said of it stays.
func (d *derivation) leafParent(r *inc.Reader, k model.Object, p fleet.Attached, resolved fleet.Resolved) (Conditions, bool) {
	members, lost := d.membersBy(r, k, p)
	if lost != "" {
		refused := model.Refusal{Reason: v1alpha1.ReasonConflict, Message: lost}
		return Conditions{verdict(v1alpha1.ConditionAccepted, "", refused), verdict(v1alpha1.ConditionResolvedRefs, v1alpha1.ReasonResolvedRefs, resolved.Refused)}, true
	}
	all := d.voices(r, k, members, func(s model.LeafReport) []model.LeafCondition { return saidOf(s, k, p.Parent) })
	accepted, sure := merged(v1alpha1.ConditionAccepted, all)
	refs, known := merged(v1alpha1.ConditionResolvedRefs, all)
	switch {
	case resolved.Refused != (model.Refusal{}):
		refs, known = verdict(v1alpha1.ConditionResolvedRefs, "", resolved.Refused), true
	case resolved.Unsure:
		return Conditions{accepted}, false
	}
	return Conditions{accepted, refs}, sure && known
}

// membersBy are the members that have a leaf of a route by a parent, or why none has.
func (d *derivation) membersBy(r *inc.Reader, k model.Object, p fleet.Attached) ([]model.Member, string) {
	c, read := d.leaves.casts.Get(r, k)
	if !read {
		return nil, ""
	}
	for _, v := range c.via {
		if slices.Contains(v.parents, p.Parent) {
			return v.members, ""
		}
	}
	return nil, "older objects have what the route asks for there: see its events"
}

// saidOf is what controllers of a member say of a reference to a parent. Of several, one
// that has an issue is heard.
func saidOf(s model.LeafReport, k model.Object, p model.Parent) []model.LeafCondition {
	namespace := model.MemberNamespace(k.Workspace, k.Namespace)
	want := p
	if want.Namespace = namespace; p.Namespace != "" {
		want.Namespace = model.MemberNamespace(k.Workspace, p.Namespace)
	}
	var out []model.LeafCondition
	for _, part := range s.Parents {
		if part.Parent == nil {
			continue
		}
		have := *part.Parent
		if have.Namespace == "" {
			have.Namespace = namespace
		}
		if have != want {
			continue
		}
		for _, c := range part.Conditions {
			at := slices.IndexFunc(out, func(o model.LeafCondition) bool { return o.Type == c.Type })
			switch {
			case at < 0:
				out = append(out, c)
			case out[at].Status != model.Down.String() && c.Status == model.Down.String():
				out[at] = c
			}
		}
	}
	return out
}

// unadmittedLeaf is why members do not admit a Route; false: some did not say yet, and
// none refuses it.
func (d *derivation) unadmittedLeaf(r *inc.Reader, k model.Object) (model.Refusal, bool) {
	c, read := d.leaves.casts.Get(r, k)
	if !read {
		return model.Refusal{}, false
	}
	all := d.voices(r, k, c.members, func(s model.LeafReport) []model.LeafCondition { return s.Conditions })
	switch admitted, _ := merged(string(routev1.RouteAdmitted), all); {
	case len(c.lost) > 0:
		return model.Refusal{Reason: reasonHostTaken, Message: c.lost[0].Text()}, true
	case len(all) == 0:
		return model.Refusal{Reason: string(model.ReasonServiceNotFound), Message: "no member has a leaf of the Route: see its events"}, true
	case admitted.Status == model.Down:
		return model.Refusal{Reason: admitted.Reason, Message: admitted.Message}, true
	default:
		return model.Refusal{}, admitted.Status == model.Up
	}
}
