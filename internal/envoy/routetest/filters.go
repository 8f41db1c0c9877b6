package routetest

import (
	"net/http"
	"regexp"
	"slices"
	"strings"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	routev3 "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"
	corsv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/cors/v3"
	inputv3 "github.com/envoyproxy/go-control-plane/envoy/type/matcher/v3"
)

// Sent is a request as an endpoint gets it.
type Sent struct {
	Endpoint   string // host:port
	Host, Path string
	Header     http.Header         // the client's, as changed
	Respond    func(h http.Header) // changes the headers of the answer to what a client sees
}

// forRouter are headers that say how to send a request, and end there.
var forRouter = []string{"x-envoy-retry-on", "x-envoy-max-retries", "x-envoy-retriable-status-codes"}

// sent is what a route makes of a request before it leaves.
func (s *Proxy) sent(level levels, q Request, host, uri string) Sent {
	out := Sent{Host: host, Path: uri, Header: q.Header.Clone()}
	if out.Header == nil {
		out.Header = http.Header{}
	}
	s.change(out.Header, level.route.RequestHeadersToAdd, level.route.RequestHeadersToRemove)
	s.change(out.Header, level.host.RequestHeadersToAdd, level.host.RequestHeadersToRemove)
	s.change(out.Header, level.config.RequestHeadersToAdd, level.config.RequestHeadersToRemove)
	for _, name := range forRouter {
		out.Header.Del(name)
	}
	action := level.route.GetRoute()
	switch x := action.HostRewriteSpecifier.(type) {
	case nil:
	case *routev3.RouteAction_HostRewriteLiteral:
		out.Host = x.HostRewriteLiteral
	default:
		s.Fail("the model does not know %T", x)
	}
	p, query, has := strings.Cut(uri, "?")
	if to := action.PrefixRewrite; to != "" {
		p = to + p[len(prefixOf(level.route.Match)):]
	} else if to := action.RegexRewrite; to != nil {
		p = regexp.MustCompile(to.Pattern.Regex).ReplaceAllString(p, substitution(to))
	}
	if out.Path = p; has {
		out.Path += "?" + query
	}
	return out
}

func prefixOf(m *routev3.RouteMatch) string {
	return m.GetPathSeparatedPrefix() + m.GetPrefix() + m.GetPath()
}

// substitution is one without groups, as Go has it.
func substitution(r *inputv3.RegexMatchAndSubstitute) string {
	return strings.ReplaceAll(strings.ReplaceAll(r.Substitution, `\\`, `\`), "$", "$$")
}

// levels are a route and what is around it, the more specific first.
type levels struct {
	route  *routev3.Route
	host   *routev3.VirtualHost
	config *routev3.RouteConfiguration
}

// respond changes the headers of an answer.
func (s *Proxy) respond(level levels, h http.Header) {
	s.change(h, level.route.ResponseHeadersToAdd, level.route.ResponseHeadersToRemove)
	if n := len(level.host.ResponseHeadersToAdd) + len(level.config.ResponseHeadersToAdd); n > 0 {
		s.Fail("the model does not know response headers of %s", level.config.Name)
	}
}

func (s *Proxy) change(h http.Header, add []*corev3.HeaderValueOption, remove []string) {
	for _, name := range remove {
		h.Del(name)
	}
	for _, a := range add {
		s.changeOne(h, a, s.literal(a.Header.Value))
	}
}

func (s *Proxy) changeOne(h http.Header, a *corev3.HeaderValueOption, value string) {
	name := a.Header.Key
	there := len(h.Values(name)) > 0
	switch a.AppendAction {
	case corev3.HeaderValueOption_APPEND_IF_EXISTS_OR_ADD:
		h.Add(name, value)
	case corev3.HeaderValueOption_OVERWRITE_IF_EXISTS_OR_ADD:
		h.Set(name, value)
	case corev3.HeaderValueOption_ADD_IF_ABSENT:
		if !there {
			h.Set(name, value)
		}
	case corev3.HeaderValueOption_OVERWRITE_IF_EXISTS:
		if there {
			h.Set(name, value)
		}
	default:
		s.Fail("the model does not know %v", a.AppendAction)
	}
}

// literal is a value without commands.
func (s *Proxy) literal(value string) string {
	parts := strings.Split(value, "%%")
	if slices.ContainsFunc(parts, func(p string) bool { return strings.Contains(p, "%") }) {
		s.Fail("the model does not know the value %q", value)
	}
	return strings.Join(parts, "%")
}

// cors is what the filter does of that name: an
// answer to a preflight, nil for what is sent on, and what is added to the answer
// to that.
func (s *Proxy) cors(route *routev3.Route, q Request) (answer http.Header, add func(http.Header)) {
	add = func(http.Header) {}
	origin, policy := q.Header.Get("Origin"), corsv3.CorsPolicy{}
	packed := route.TypedPerFilterConfig["cors"]
	if packed == nil || origin == "" {
		return nil, add
	}
	s.unpack(packed.Value, &policy)
	preflight := q.Method == http.MethodOptions && q.Header.Get("Access-Control-Request-Method") != ""
	if !slices.ContainsFunc(policy.AllowOriginStringMatch, func(m *inputv3.StringMatcher) bool { return s.matchesText(m, origin) }) {
		if !preflight || policy.ForwardNotMatchingPreflights == nil || policy.ForwardNotMatchingPreflights.Value {
			return nil, add
		}
		return http.Header{}, add
	}
	set := func(h http.Header, name, value string) {
		if value != "" {
			h.Set("Access-Control-"+name, value)
		}
	}
	add = func(h http.Header) {
		set(h, "Allow-Origin", origin)
		if policy.AllowCredentials.GetValue() {
			set(h, "Allow-Credentials", "true")
		}
		if !preflight {
			set(h, "Expose-Headers", policy.ExposeHeaders)
		}
	}
	if !preflight {
		return nil, add
	}
	answer = http.Header{}
	add(answer)
	asked := func(allowed, of string) string {
		if allowed == "*" {
			return q.Header.Get("Access-Control-Request-" + of)
		}
		return allowed
	}
	set(answer, "Allow-Methods", asked(policy.AllowMethods, "Method"))
	set(answer, "Allow-Headers", asked(policy.AllowHeaders, "Headers"))
	set(answer, "Max-Age", policy.MaxAge)
	return answer, add
}
