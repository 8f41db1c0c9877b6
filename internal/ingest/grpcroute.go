package ingest

import (
	"fmt"
	"regexp"
	"strings"

	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"

	"github.com/spillway-dev/spillway/internal/model"
)

// GRPCRoute reads a GRPCRoute as HTTPRoute does an HTTPRoute. A call is a request of
// HTTP whose path is of two elements, its service and its method, so the rest of it is
// what an HTTPRoute says.
func GRPCRoute(o *gatewayv1.GRPCRoute) (model.Object, model.Root, []HostRules, model.Findings) {
	return readGRPCRoute(o, false)
}

func readGRPCRoute(o *gatewayv1.GRPCRoute, leaf bool) (model.Object, model.Root, []HostRules, model.Findings) {
	in := &httpRoute{routeOf("GRPCRoute", o, o.Spec.ParentRefs), leaf}
	hosts := in.hosts(o.Spec.Hostnames)
	var rules model.Rules
	for i := range o.Spec.Rules {
		r := &o.Spec.Rules[i]
		if rule, ok := rule(in, i, ofCalls(r), r.Matches, grpcMatch); ok {
			rules = append(rules, rule)
		}
	}
	return in.read(o, o.Status.Parents, len(o.Spec.Rules), hosts, rules)
}

// ofCalls is all of a rule but its matches, as an HTTPRoute has it.
func ofCalls(r *gatewayv1.GRPCRouteRule) *gatewayv1.HTTPRouteRule {
	out := &gatewayv1.HTTPRouteRule{Name: r.Name, Filters: callFilters(r.Filters), SessionPersistence: r.SessionPersistence} //nolint:staticcheck // as in filters
	for i := range r.BackendRefs {
		b := &r.BackendRefs[i]
		out.BackendRefs = append(out.BackendRefs, gatewayv1.HTTPBackendRef{BackendRef: b.BackendRef, Filters: callFilters(b.Filters)})
	}
	return out
}

func callFilters(all []gatewayv1.GRPCRouteFilter) []gatewayv1.HTTPRouteFilter {
	var out []gatewayv1.HTTPRouteFilter
	for _, f := range all {
		out = append(out, gatewayv1.HTTPRouteFilter{
			Type: gatewayv1.HTTPRouteFilterType(f.Type), RequestHeaderModifier: f.RequestHeaderModifier,
			ResponseHeaderModifier: f.ResponseHeaderModifier, RequestMirror: f.RequestMirror, ExtensionRef: f.ExtensionRef,
		})
	}
	return out
}

// grpcMatch reads a match. The error says what to do.
func grpcMatch(m *gatewayv1.GRPCRouteMatch) (model.Match, error) {
	out, err := methodMatch(m.Method)
	if err != nil {
		return out, err
	}
	var when model.ConditionsKey
	when.Headers, err = headers(m.Headers, func(h gatewayv1.GRPCHeaderMatch) (string, string, string) {
		return string(h.Name), h.Value, otherwise(h.Type, string(gatewayv1.GRPCHeaderMatchExact))
	})
	out.When = when.Conditions()
	return out, err
}

// methodMatch reads a service, a method, or both; nil: all there are.
func methodMatch(m *gatewayv1.GRPCMethodMatch) (model.Match, error) {
	if m == nil {
		return model.Everything, nil
	}
	kind, service, method := otherwise(m.Type, string(gatewayv1.GRPCMethodMatchExact)), otherwise(m.Service, ""), otherwise(m.Method, "")
	switch {
	case service == "" && method == "":
		return model.Match{}, fmt.Errorf("neither a service nor a method is named: name one, or leave out method")
	case kind == string(gatewayv1.GRPCMethodMatchRegularExpression):
		return patternMatch(service, method)
	case kind != string(gatewayv1.GRPCMethodMatchExact):
		return model.Match{}, fmt.Errorf("type %q of a method is not known: set Exact or RegularExpression", kind)
	case service != "" && !serviceName.MatchString(service):
		return model.Match{}, fmt.Errorf("%q is no name of a service: write such as package.Service", service)
	case method != "" && !methodName.MatchString(method):
		return model.Match{}, fmt.Errorf("%q is no name of a method: use letters, digits and _", method)
	case method == "":
		return model.Match{Kind: model.PathPrefix, Path: "/" + service}, nil
	case service == "":
		return model.Match{Kind: model.PathLate, Path: "/" + anyElement + "/" + method}, nil
	}
	return model.Match{Kind: model.PathExact, Path: "/" + service + "/" + method}, nil
}

// Names of services and methods, as the protocol's own language has them.
var (
	serviceName = regexp.MustCompile(`^\.?[A-Za-z_][A-Za-z_0-9]*(\.[A-Za-z_][A-Za-z_0-9]*)*$`)
	methodName  = regexp.MustCompile(`^[A-Za-z_][A-Za-z_0-9]*$`)
)

// anyElement is every element of a path.
const anyElement = "[^/]+"

// patternMatch reads regular expressions, each of a whole name; empty: all names.
func patternMatch(service, method string) (model.Match, error) {
	elements := []string{service, method}
	for i, e := range elements {
		if e == "" {
			elements[i] = anyElement
			continue
		}
		if err := expression(e); err != nil {
			return model.Match{}, err
		}
		elements[i] = "(?:" + e + ")"
	}
	kind := model.PathRegex
	if service == "" {
		kind = model.PathLate
	}
	path := "/" + strings.Join(elements, "/")
	return model.Match{Kind: kind, Path: path}, expression(path)
}
