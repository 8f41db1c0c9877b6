package ingest

import (
	"fmt"
	"regexp"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"

	"github.com/spillway-dev/spillway/api/v1alpha1"
	"github.com/spillway-dev/spillway/internal/model"
)

// HTTPRoute reads an HTTPRoute with its name, and its rules for each host that it
// names; the empty host is that of a route without names. It gives a row even if
// nothing of it is valid: whether it is ours to complain about depends on its
// parents.
func HTTPRoute(o *gatewayv1.HTTPRoute) (model.Object, model.Root, []HostRules, model.Findings) {
	in := &httpRoute{report: reportOf(object("HTTPRoute", o))}
	in.spec.Generation = o.Generation
	in.parents(o.Spec.ParentRefs)
	hosts := in.hosts(o.Spec.Hostnames)
	var rules model.Rules
	for i := range o.Spec.Rules {
		if rule, ok := in.rule(model.Field("spec.rules").Index(i), &o.Spec.Rules[i]); ok {
			rules = append(rules, rule)
		}
	}
	if len(o.Spec.Rules) > 0 && len(rules) == 0 {
		in.spec.Refused = in.first
	}
	rules = eachOnce(rules)
	out := make([]HostRules, len(hosts))
	for i, h := range hosts {
		out[i] = HostRules{h, rules}
	}
	said := ourParents(o.Status.Parents)
	root := model.Root{Created: created(o), Route: &in.spec, Published: model.ParentTexts(said), Ours: len(said) > 0}
	return in.Object, root, out, in.Findings()
}

type httpRoute struct {
	report
	spec  model.RouteSpec
	first model.Refusal // of a rule
}

// parents reads what the route attaches to.
func (in *httpRoute) parents(refs []gatewayv1.ParentReference) {
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
func (in *httpRoute) hosts(names []gatewayv1.Hostname) []model.Host {
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
			in.refuse(model.Field("spec.hostnames").Index(i), gatewayv1.RouteReasonUnsupportedValue, "%v", err)
			continue
		}
		out = append(out, h)
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// refuse tells the owner of a part that is not accepted, and notes the first.
func (in *httpRoute) refuse(field model.Field, reason gatewayv1.RouteConditionReason, format string, args ...any) {
	in.invalid(field, format, args...)
	if in.first == (model.Refusal{}) {
		in.first = model.Refusal{Reason: string(reason), Message: fmt.Sprintf(string(field)+": "+format, args...)}
	}
}

// broken tells the owner of a reference that is not resolved, whatever there is.
func (in *httpRoute) broken(field model.Field, reason gatewayv1.RouteConditionReason, format string, args ...any) {
	in.invalid(field, format, args...)
	if in.spec.Broken == (model.Refusal{}) {
		in.spec.Broken = model.Refusal{Reason: string(reason), Message: fmt.Sprintf(string(field)+": "+format, args...)}
	}
}

// rule reads a rule; false: it has no match that is valid, and asks for nothing.
func (in *httpRoute) rule(field model.Field, r *gatewayv1.HTTPRouteRule) (model.Rule, bool) {
	out := model.Rule{Name: otherwise(r.Name, ""), Field: field}
	if len(r.Matches) == 0 {
		out.Matches = []model.Match{model.Everything}
	}
	for i := range r.Matches {
		at := (field + ".matches").Index(i)
		m, err := httpMatch(&r.Matches[i])
		if err != nil {
			in.refuse(at, gatewayv1.RouteReasonUnsupportedValue, "%v", err)
			continue
		}
		if !slices.Contains(out.Matches, m) {
			out.Matches = append(out.Matches, m)
		}
	}
	in.filters(field, r, &out)
	if out.Reply == nil {
		out.Backends = in.backends(field, r.BackendRefs)
	}
	return out, len(out.Matches) > 0
}

// eachOnce leaves out matches that a rule before has: it gets all their requests.
func eachOnce(rules model.Rules) model.Rules {
	has := map[model.Match]bool{}
	for i := range rules {
		rules[i].Matches = slices.DeleteFunc(rules[i].Matches, func(m model.Match) bool {
			twice := has[m]
			has[m] = true
			return twice
		})
	}
	return slices.DeleteFunc(rules, func(r model.Rule) bool { return len(r.Matches) == 0 })
}

// httpMatch reads a match. The error says what to do.
func httpMatch(m *gatewayv1.HTTPRouteMatch) (model.Match, error) {
	out := model.Everything
	if m.Path != nil {
		var err error
		if out, err = pathMatch(otherwise(m.Path.Type, string(gatewayv1.PathMatchPathPrefix)), otherwise(m.Path.Value, "/")); err != nil {
			return out, err
		}
	}
	var when model.ConditionsKey
	if m.Method != nil {
		when.Method = string(*m.Method)
	}
	for _, h := range m.Headers {
		if !token.MatchString(string(h.Name)) {
			return out, fmt.Errorf("%q is no name of a header", h.Name)
		}
	}
	var err error
	if when.Headers, err = values(m.Headers, func(h gatewayv1.HTTPHeaderMatch) (string, string, string) {
		return strings.ToLower(string(h.Name)), h.Value, otherwise(h.Type, string(gatewayv1.HeaderMatchExact))
	}); err != nil {
		return out, err
	}
	when.Query, err = values(m.QueryParams, func(q gatewayv1.HTTPQueryParamMatch) (string, string, string) {
		return string(q.Name), q.Value, otherwise(q.Type, string(gatewayv1.QueryParamMatchExact))
	})
	out.When = when.Conditions()
	return out, err
}

// pathMatch reads a path. Of a regular expression it is the whole path.
func pathMatch(kind, path string) (model.Match, error) {
	switch gatewayv1.PathMatchType(kind) {
	case gatewayv1.PathMatchRegularExpression:
		return model.Match{Kind: model.PathRegex, Path: path}, expression(path)
	case gatewayv1.PathMatchExact:
		return model.Match{Kind: model.PathExact, Path: path}, absolute(path)
	case gatewayv1.PathMatchPathPrefix:
		return model.Match{Kind: model.PathPrefix, Path: prefix(path)}, absolute(path)
	}
	return model.Match{}, fmt.Errorf("type %q of a path is not known: set Exact, PathPrefix or RegularExpression", kind)
}

// expression checks a regular expression, of which proxies take the syntax of RE2.
func expression(s string) error {
	if s == "" {
		return fmt.Errorf("the regular expression is empty")
	}
	if _, err := regexp.Compile(s); err != nil {
		return fmt.Errorf("%q is no regular expression (RE2): %w", s, err)
	}
	return nil
}

// values reads conditions on headers or on the query. Of two of one name the first
// counts, as the standard says.
func values[T any](list []T, read func(T) (name, value, kind string)) (model.Values, error) {
	var out []model.ValueMatch
	for _, one := range list {
		name, value, kind := read(one)
		v := model.ValueMatch{Name: name, Value: value, Regex: kind == string(gatewayv1.HeaderMatchRegularExpression)}
		switch {
		case name == "":
			return "", fmt.Errorf("the name of a header or parameter is empty")
		case v.Regex:
			if err := expression(value); err != nil {
				return "", err
			}
		case kind != string(gatewayv1.HeaderMatchExact):
			return "", fmt.Errorf("type %q is not known: set Exact or RegularExpression", kind)
		}
		if !slices.ContainsFunc(out, func(o model.ValueMatch) bool { return o.Name == name }) {
			out = append(out, v)
		}
	}
	return model.ValuesOf(out...), nil
}

// backends reads where requests go. A reference that is not valid has its part of
// them all the same, which is answered 500.
func (in *httpRoute) backends(field model.Field, refs []gatewayv1.HTTPBackendRef) []model.WeightedBackend {
	var out []model.WeightedBackend
	for i := range refs {
		at := (field + ".backendRefs").Index(i)
		weight := uint32(1)
		if w := refs[i].Weight; w != nil {
			weight = uint32(max(*w, 0))
		}
		b := model.WeightedBackend{Backend: in.backend(at, refs[i].BackendObjectReference), Weight: weight}
		if b.Backend != (model.Backend{}) {
			in.ofBackend(at, refs[i].Filters, &b)
		}
		out = append(out, b)
	}
	return out
}

// backend reads a reference to a port of a Service; the zero value: it is not
// valid.
func (in *httpRoute) backend(field model.Field, ref gatewayv1.BackendObjectReference) model.Backend {
	none := model.Backend{}
	switch {
	case otherwise(ref.Group, "") != "" || otherwise(ref.Kind, "Service") != "Service":
		in.broken(field, gatewayv1.RouteReasonInvalidKind, "a %s is no backend: use a Service", otherwise(ref.Kind, "Service"))
		return none
	case len(validation.IsDNS1123Label(string(ref.Name))) > 0:
		in.broken(field+".name", gatewayv1.RouteReasonBackendNotFound, "%q is no name of a Service", ref.Name)
		return none
	case ref.Port == nil || len(validation.IsValidPortNum(int(*ref.Port))) > 0:
		in.broken(field+".port", gatewayv1.RouteReasonUnsupportedValue, "the port is missing: set the number of the Service's port")
		return none
	}
	namespace := otherwise(ref.Namespace, in.Object.Namespace)
	return model.BackendKey{Workspace: in.Object.Workspace, Service: model.ServiceOf(namespace, string(ref.Name)), Port: model.PortRef{Number: *ref.Port}}.Backend()
}

// redirects are the statuses of a redirect.
var redirects = []int{301, 302, 303, 307, 308}

// redirect reads where a client is sent.
func (in *httpRoute) redirect(field model.Field, f *gatewayv1.HTTPRequestRedirectFilter) *model.Reply {
	to := &model.Redirect{Scheme: strings.ToLower(otherwise(f.Scheme, "")), Host: in.newHost(field+".hostname", f.Hostname)}
	if to.Scheme != "" && to.Scheme != "http" && to.Scheme != "https" {
		in.invalid(field+".scheme", "%q is not used: set http or https; the scheme stays as it is", to.Scheme)
		to.Scheme = ""
	}
	if f.Port != nil && len(validation.IsValidPortNum(int(*f.Port))) == 0 {
		to.Port = uint16(*f.Port)
	}
	to.Path, to.Prefix = in.newPath(field+".path", f.Path)
	status := 302
	if f.StatusCode != nil {
		status = *f.StatusCode
	}
	if !slices.Contains(redirects, status) {
		in.invalid(field+".statusCode", "%d is no status of a redirect: set one of %v; it is 302 until then", status, redirects)
		status = 302
	}
	return &model.Reply{Status: uint16(status), Redirect: to}
}
