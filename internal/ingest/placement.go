package ingest

import (
	"slices"
	"time"

	routev1 "github.com/openshift/api/route/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"

	"github.com/spillway-dev/spillway/api/v1alpha1"
	"github.com/spillway-dev/spillway/internal/model"
)

// placeable are the kinds of objects that a Placement may be for.
var placeable = map[groupKind]bool{
	{"", namespaceKind}:                       true,
	{"networking.k8s.io", "Ingress"}:          true,
	{routev1.GroupName, model.OpenShiftRoute}: true,
	{gatewayv1.GroupName, "Gateway"}:          true,
	{gatewayv1.GroupName, "HTTPRoute"}:        true,
	{gatewayv1.GroupName, "GRPCRoute"}:        true,
	{gatewayv1.GroupName, "TLSRoute"}:         true,
	{gatewayv1.GroupName, "TCPRoute"}:         true,
	{gatewayv1.GroupName, "UDPRoute"}:         true,
}

const namespaceKind = "Namespace"

// PlacedGroup is the group of a kind that a Placement may be for.
func PlacedGroup(kind string) string {
	for of := range placeable {
		if of.kind == kind {
			return of.group
		}
	}
	return ""
}

// Placement reads which members serve objects. It gives a row even if nothing of it
// is valid: what it is for must not be served by members that somebody meant to leave
// out.
func Placement(o *v1alpha1.Placement) (model.Object, model.PlacementSpec, model.Findings) {
	in := &placement{report: reportOf(object(model.PlacementKind, o))}
	in.spec.Created, in.spec.Generation = created(o), o.Generation
	for i, ref := range o.Spec.TargetRefs {
		in.target(model.Field("spec.targetRefs").Index(i), ref)
	}
	slices.SortFunc(in.spec.Targets, model.Object.Compare)
	in.spec.Targets = slices.Compact(in.spec.Targets)
	in.members("spec.members", &o.Spec.Members)
	in.rollout("spec.rollout", o.Spec.Rollout)
	said := placementAncestors(o.Status.Ancestors)
	in.spec.Published, in.spec.Ours = model.ParentTexts(said), len(said) > 0
	return in.Object, in.spec, in.Findings()
}

type placement struct {
	report
	spec model.PlacementSpec
}

// target reads what the Placement is for.
func (in *placement) target(field model.Field, ref v1alpha1.PlacementTarget) {
	if !placeable[groupKind{ref.Group, ref.Kind}] {
		in.invalid(field, "members are not chosen for a %s of group %q: name a Namespace, Ingress, Route, Gateway or route of the Gateway API, with its group", ref.Kind, ref.Group)
		return
	}
	target := model.Object{Workspace: in.Object.Workspace, Kind: ref.Kind, Namespace: in.Object.Namespace, Name: ref.Name}
	if ref.Kind == namespaceKind {
		target.Namespace = ""
	}
	switch {
	case len(validation.IsDNS1123Subdomain(ref.Name)) > 0:
		in.invalid(field+".name", "%q is no name of an object", ref.Name)
	case ref.Kind == namespaceKind && ref.Name != in.Object.Namespace:
		in.invalid(field+".name", "%q is another namespace: a Placement is for its own, %s", ref.Name, in.Object.Namespace)
	default:
		in.spec.Targets = append(in.spec.Targets, target)
	}
}

// broken notes what of the choice can't be read. To leave it out would let members in
// that it might keep away.
func (in *placement) broken(field model.Field, format string, args ...any) {
	in.invalid(field, format+". Until then no member fits", args...)
	in.spec.Broken = true
}

// members reads which members fit.
func (in *placement) members(field model.Field, s *v1alpha1.MemberSelection) {
	in.spec.Limited = s.Selector != nil || len(s.Names) > 0
	if s.Selector != nil {
		selector, err := metav1.LabelSelectorAsSelector(s.Selector)
		if err != nil {
			// The error itself depends on the order of a map.
			in.broken(field+".selector", "the selector can't be read: check its keys, operators and values")
		} else {
			in.spec.Selector, in.spec.Everyone = canonical(selector), selector.Empty()
		}
	}
	in.spec.Names = sortedSet(s.Names)
	if s.Count != nil {
		in.spec.Count = int(*s.Count)
		if *s.Count < 1 {
			in.spec.Count = 0
			in.broken(field+".count", "%d is not used: set 1 or more, or leave it out for all members", *s.Count)
		}
	}
	in.spec.Hold = in.hold(field+".hold", s.Hold)
	for i := range s.Tolerations {
		in.toleration((field + ".tolerations").Index(i), &s.Tolerations[i])
	}
}

// How long places are held: where the Placement does not say, and at most.
const (
	normalHold = 5 * time.Minute
	mostHold   = 24 * time.Hour
)

// hold reads for how long a place is held.
func (in *placement) hold(field model.Field, d *metav1.Duration) time.Duration {
	return time.Duration(in.millis(field, d, normalHold, 0, mostHold)) * time.Millisecond
}

// toleration reads one. One that can't be read tolerates nothing.
func (in *placement) toleration(field model.Field, t *v1alpha1.Toleration) {
	anyValue := t.Operator == v1alpha1.TolerationExists
	switch {
	case t.Operator != "" && !anyValue && t.Operator != v1alpha1.TolerationEqual:
		in.invalid(field+".operator", "%q is not used: set %s or %s", t.Operator, v1alpha1.TolerationExists, v1alpha1.TolerationEqual)
	case t.Effect != "" && t.Effect != v1alpha1.TaintNoTraffic:
		in.unsupported(field+".effect", "%q is not supported: use %s, or leave it out", t.Effect, v1alpha1.TaintNoTraffic)
	case t.Key == "" && !anyValue:
		in.invalid(field+".key", "without a key, operator must be %s, which tolerates every taint", v1alpha1.TolerationExists)
	case anyValue && t.Value != "":
		in.invalid(field+".value", "with operator %s leave value out", v1alpha1.TolerationExists)
	default:
		in.spec.Tolerates = append(in.spec.Tolerates, model.Toleration{Key: t.Key, Value: t.Value, Any: anyValue})
	}
}

// placementAncestors reads what we said of targets.
func placementAncestors(list []v1alpha1.PlacementAncestor) []model.ParentStatus {
	same := make([]gatewayv1.RouteParentStatus, len(list))
	for i, of := range list {
		ref := of.AncestorRef
		same[i] = gatewayv1.RouteParentStatus{ControllerName: gatewayv1.GatewayController(of.ControllerName), Conditions: of.Conditions}
		same[i].ParentRef = gatewayv1.ParentReference{Group: new(gatewayv1.Group(ref.Group)), Kind: new(gatewayv1.Kind(ref.Kind)), Name: gatewayv1.ObjectName(ref.Name)}
		if ref.Namespace != "" {
			same[i].ParentRef.Namespace = new(gatewayv1.Namespace(ref.Namespace))
		}
	}
	return ourParents(same)
}
