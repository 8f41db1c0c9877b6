package ingest

import (
	"fmt"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"

	"github.com/spillway-dev/spillway/api/v1alpha1"
	"github.com/spillway-dev/spillway/internal/model"
)

// route is what all kinds of routes of the Gateway API have in common.
type route struct {
	report
	spec  model.RouteSpec
	first model.Refusal // of a rule
}

// routeOf begins to read a route.
func routeOf(kind string, o metav1.Object, parents []gatewayv1.ParentReference) route {
	in := route{report: reportOf(object(kind, o))}
	in.spec.Generation = o.GetGeneration()
	in.parents(parents)
	return in
}

// read is the route with its rules for each of its hosts. A route of which no rule is
// valid is not accepted.
func (in *route) read(o metav1.Object, status []gatewayv1.RouteParentStatus, written int, hosts []model.Host, rules model.Rules) (model.Object, model.Root, []HostRules, model.Findings) {
	if written > 0 && len(rules) == 0 {
		in.spec.Refused = in.first
	}
	rules = eachOnce(rules)
	out := make([]HostRules, len(hosts))
	for i, h := range hosts {
		out[i] = HostRules{h, rules}
	}
	said := ourParents(status)
	root := model.Root{Created: created(o), Route: &in.spec, Published: model.ParentTexts(said), Ours: len(said) > 0}
	return in.Object, root, out, in.Findings()
}

// parents reads what the route attaches to.
func (in *route) parents(refs []gatewayv1.ParentReference) {
	for _, ref := range refs {
		if p := Parent(ref); !slices.Contains(in.spec.Parents, p) {
			in.spec.Parents = append(in.spec.Parents, p)
		}
	}
}

// Parent reads a reference to a parent.
func Parent(ref gatewayv1.ParentReference) model.Parent {
	out := model.Parent{
		Group: otherwise(ref.Group, gatewayv1.GroupName), Kind: otherwise(ref.Kind, "Gateway"),
		Namespace: otherwise(ref.Namespace, ""), Name: string(ref.Name), Section: otherwise(ref.SectionName, ""),
	}
	if ref.Port != nil {
		out.Port = uint16(*ref.Port)
	}
	return out
}

// ourParents reads what we said of a route's parents: entries of other controllers
// are theirs.
func ourParents(list []gatewayv1.RouteParentStatus) []model.ParentStatus {
	var out []model.ParentStatus
	for _, of := range list {
		if of.ControllerName != v1alpha1.ControllerGateway {
			continue
		}
		said := model.ParentStatus{Parent: Parent(of.ParentRef)}
		for _, c := range of.Conditions {
			said.Conditions = append(said.Conditions, model.StatedCondition{
				Type: c.Type, Status: string(c.Status), Reason: c.Reason, Message: c.Message, Generation: c.ObservedGeneration,
			})
		}
		slices.SortFunc(said.Conditions, func(a, b model.StatedCondition) int { return strings.Compare(a.Type, b.Type) })
		out = append(out, said)
	}
	return out
}

// hosts reads the names, sorted. Without any the route is for all; if none is
// valid, for none.
func (in *route) hosts(names []gatewayv1.Hostname) []model.Host {
	if len(names) == 0 {
		return []model.Host{""}
	}
	var out []model.Host
	for i, name := range names {
		h, err := deepHost(string(name))
		if err == nil && h == "" {
			err = fmt.Errorf("the name is empty: leave it out")
		}
		if err != nil {
			in.refuse(model.Field("spec.hostnames").Index(i), "%v", err)
			continue
		}
		out = append(out, h)
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// refuse tells the owner of a part that is not accepted, since its value is not supported, and
// notes the first.
func (in *route) refuse(field model.Field, format string, args ...any) {
	in.invalid(field, format, args...)
	if in.first == (model.Refusal{}) {
		in.first = model.Refusal{Reason: string(gatewayv1.RouteReasonUnsupportedValue), Message: fmt.Sprintf(string(field)+": "+format, args...)}
	}
}

// broken tells the owner of a reference that is not resolved, whatever there is.
func (in *route) broken(field model.Field, reason gatewayv1.RouteConditionReason, format string, args ...any) {
	in.invalid(field, format, args...)
	if in.spec.Broken == (model.Refusal{}) {
		in.spec.Broken = model.Refusal{Reason: string(reason), Message: fmt.Sprintf(string(field)+": "+format, args...)}
	}
}

// backend reads a reference to a port of a Service or ServiceImport; the zero value:
// it is not valid.
func (in *route) backend(field model.Field, ref gatewayv1.BackendObjectReference) model.Backend {
	none := model.Backend{}
	service, known := serviceKinds[groupKind{otherwise(ref.Group, ""), otherwise(ref.Kind, "Service")}]
	switch {
	case !known:
		in.broken(field, gatewayv1.RouteReasonInvalidKind, "a %s of group %q is no backend: use a Service, or a ServiceImport of group %s", otherwise(ref.Kind, "Service"), otherwise(ref.Group, ""), model.ImportGroup)
		return none
	case len(validation.IsDNS1123Label(string(ref.Name))) > 0:
		in.broken(field+".name", gatewayv1.RouteReasonBackendNotFound, "%q is no name of a Service", ref.Name)
		return none
	case ref.Port == nil || len(validation.IsValidPortNum(int(*ref.Port))) > 0:
		in.broken(field+".port", gatewayv1.RouteReasonUnsupportedValue, "the port is missing: set the number of the Service's port")
		return none
	}
	namespace := otherwise(ref.Namespace, in.Object.Namespace)
	return model.BackendKey{Workspace: in.Object.Workspace, Service: service(namespace, string(ref.Name)), Port: model.PortRef{Number: *ref.Port}}.Backend()
}

type groupKind struct{ group, kind string }

// serviceKinds are the kinds of backends.
var serviceKinds = map[groupKind]func(namespace, name string) model.Service{
	{"", "Service"}:                       model.ServiceOf,
	{model.ImportGroup, model.ImportKind}: model.ImportOf,
}
