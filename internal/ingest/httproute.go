package ingest

import (
	"fmt"
	"regexp"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"

	"github.com/spillway-dev/spillway/internal/model"
)

// HTTPRoute reads an HTTPRoute with its name, and its rules for each host that it
// names; the empty host is that of a route without names. It gives a row even if
// nothing of it is valid: whether it is ours to complain about depends on its
// parents.
func HTTPRoute(o *gatewayv1.HTTPRoute) (model.Object, model.Root, []HostRules, model.Findings) {
	return readHTTPRoute(o, false)
}

func readHTTPRoute(o *gatewayv1.HTTPRoute, leaf bool) (model.Object, model.Root, []HostRules, model.Findings) {
	in := &httpRoute{routeOf("HTTPRoute", o, o.Spec.ParentRefs), leaf}
	hosts := in.hosts(o.Spec.Hostnames)
	var rules model.Rules
	for i := range o.Spec.Rules {
		r := &o.Spec.Rules[i]
		if rule, ok := rule(in, i, r, r.Matches, httpMatch); ok {
			rules = append(rules, rule)
		}
	}
	return in.read(o, o.Status.Parents, len(o.Spec.Rules), hosts, rules)
}

type httpRoute struct {
	route
	leaf bool // edges do not serve it
}

// rule reads a rule with its matches; false: none of these is valid, and it asks for
// nothing.
func rule[M any](in *httpRoute, i int, r *gatewayv1.HTTPRouteRule, matches []M, read func(*M) (model.Match, error)) (model.Rule, bool) {
	field := model.Field("spec.rules").Index(i)
	out := model.Rule{Name: otherwise(r.Name, ""), Field: field}
	if len(matches) == 0 {
		out.Matches = []model.Match{model.Everything}
	}
	for j := range matches {
		at := (field + ".matches").Index(j)
		m, err := read(&matches[j])
		if err != nil && in.leaf {
			m, err = opaque(matches[j]), nil
		}
		if err != nil {
			in.refuse(at, "%v", err)
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
	in.session(field, i, r.SessionPersistence, &out) //nolint:staticcheck // deprecated for a kind that no release has yet
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
	var err error
	if when.Headers, err = headers(m.Headers, func(h gatewayv1.HTTPHeaderMatch) (string, string, string) {
		return string(h.Name), h.Value, otherwise(h.Type, string(gatewayv1.HeaderMatchExact))
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

// headers reads conditions on headers, whose names have no case.
func headers[T any](list []T, read func(T) (name, value, kind string)) (model.Values, error) {
	for _, h := range list {
		if name, _, _ := read(h); !token.MatchString(name) {
			return "", fmt.Errorf("%q is no name of a header", name)
		}
	}
	return values(list, func(h T) (string, string, string) {
		name, value, kind := read(h)
		return strings.ToLower(name), value, kind
	})
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
		b := model.WeightedBackend{Backend: in.backend(at, refs[i].BackendObjectReference), Weight: weightOf(refs[i].BackendRef)}
		if b.Backend != (model.Backend{}) {
			in.ofBackend(at, refs[i].Filters, &b)
		}
		out = append(out, b)
	}
	return out
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
