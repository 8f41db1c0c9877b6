package envoy

import (
	routev3 "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"
	matcherv3 "github.com/envoyproxy/go-control-plane/envoy/type/matcher/v3"

	"github.com/spillway-dev/spillway/internal/model"
)

// match compares the path without the query, and what else the match asks for.
func match(m model.Match) *routev3.RouteMatch {
	out := matchPath(m)
	when := m.When.Key()
	if when.Method != "" {
		out.Headers = append(out.Headers, header(model.ValueMatch{Name: ":method", Value: when.Method}))
	}
	for _, v := range when.Headers.List() {
		out.Headers = append(out.Headers, header(v))
	}
	for _, v := range when.Query.List() {
		out.QueryParameters = append(out.QueryParameters, &routev3.QueryParameterMatcher{
			Name: v.Name, QueryParameterMatchSpecifier: &routev3.QueryParameterMatcher_StringMatch{StringMatch: text(v)},
		})
	}
	return out
}

// matchPath compares the path. A prefix matches whole elements; "/" matches
// every path.
func matchPath(m model.Match) *routev3.RouteMatch {
	switch {
	case m.Kind == model.PathExact:
		return &routev3.RouteMatch{PathSpecifier: &routev3.RouteMatch_Path{Path: m.Path}}
	case m.Kind.Regex():
		return &routev3.RouteMatch{PathSpecifier: &routev3.RouteMatch_SafeRegex{SafeRegex: &matcherv3.RegexMatcher{Regex: m.Path}}}
	case m.AllPaths():
		return &routev3.RouteMatch{PathSpecifier: &routev3.RouteMatch_Prefix{Prefix: "/"}}
	}
	return &routev3.RouteMatch{PathSpecifier: &routev3.RouteMatch_PathSeparatedPrefix{PathSeparatedPrefix: m.Path}}
}

func header(v model.ValueMatch) *routev3.HeaderMatcher {
	return &routev3.HeaderMatcher{Name: v.Name, HeaderMatchSpecifier: &routev3.HeaderMatcher_StringMatch{StringMatch: text(v)}}
}

func text(v model.ValueMatch) *matcherv3.StringMatcher {
	if v.Regex {
		return &matcherv3.StringMatcher{MatchPattern: &matcherv3.StringMatcher_SafeRegex{SafeRegex: &matcherv3.RegexMatcher{Regex: v.Value}}}
	}
	return &matcherv3.StringMatcher{MatchPattern: &matcherv3.StringMatcher_Exact{Exact: v.Value}}
}
