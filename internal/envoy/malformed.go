package envoy

import (
	accesslogv3 "github.com/envoyproxy/go-control-plane/envoy/config/accesslog/v3"
	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	rbacv3 "github.com/envoyproxy/go-control-plane/envoy/config/rbac/v3"
	routev3 "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"
	rbacfilterv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/rbac/v3"
	hcmv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/network/http_connection_manager/v3"
	matcherv3 "github.com/envoyproxy/go-control-plane/envoy/type/matcher/v3"
	"google.golang.org/protobuf/types/known/wrapperspb"
)

// hostAndPort is one host, and a port if any (RFC 9110, 7.2). Envoy makes "a,b" of
// two Host headers, which RFC 9112, 3.2, has us refuse, and takes any text for a
// port. A pod that reads it otherwise than Envoy would take the request for one of
// another host.
const hostAndPort = `(\[[^\[\],@]*\]|[^\[\],@:]*)(:[0-9]*)?`

// denied are the requests that nobody may make, with what they are answered.
var denied = []struct {
	name   string
	header *routev3.HeaderMatcher
	status uint32
	body   string
	with   []*corev3.HeaderValueOption
}{
	{"host", &routev3.HeaderMatcher{
		Name: ":authority", InvertMatch: true,
		HeaderMatchSpecifier: &routev3.HeaderMatcher_StringMatch{StringMatch: &matcherv3.StringMatcher{
			MatchPattern: &matcherv3.StringMatcher_SafeRegex{SafeRegex: &matcherv3.RegexMatcher{Regex: hostAndPort}},
		}},
	}, 400, "not a host, or more than one", nil},
	// TRACE answers with the request, credentials included, and has no use
	// behind a proxy (RFC 9110, 9.3.8). 405 comes with Allow (15.5.6).
	{"trace", &routev3.HeaderMatcher{
		Name: ":method",
		HeaderMatchSpecifier: &routev3.HeaderMatcher_StringMatch{StringMatch: &matcherv3.StringMatcher{
			MatchPattern: &matcherv3.StringMatcher_Exact{Exact: "TRACE"},
		}},
	}, 405, "TRACE is not allowed", []*corev3.HeaderValueOption{{
		Header: &corev3.HeaderValue{Key: "allow", Value: "GET, HEAD, POST, PUT, PATCH, DELETE, OPTIONS"},
	}}},
}

// deniedFilter ends such requests. It comes first.
func deniedFilter() *hcmv3.HttpFilter {
	policies := map[string]*rbacv3.Policy{}
	for _, d := range denied {
		policies[d.name] = &rbacv3.Policy{
			Permissions: []*rbacv3.Permission{{Rule: &rbacv3.Permission_Header{Header: d.header}}},
			Principals:  []*rbacv3.Principal{{Identifier: &rbacv3.Principal_Any{Any: true}}},
		}
	}
	return &hcmv3.HttpFilter{Name: "denied", ConfigType: &hcmv3.HttpFilter_TypedConfig{
		TypedConfig: pack(&rbacfilterv3.RBAC{Rules: &rbacv3.RBAC{Action: rbacv3.RBAC_DENY, Policies: policies}}),
	}}
}

// deniedAnswers are what they are answered in place of the 403 of the filter, the
// first that fits. No other filter here answers 403 to such a request.
func deniedAnswers() []*hcmv3.ResponseMapper {
	var out []*hcmv3.ResponseMapper
	for _, d := range denied {
		out = append(out, &hcmv3.ResponseMapper{
			Filter:       both(ofStatus(403), requested(d.header)),
			StatusCode:   wrapperspb.UInt32(d.status),
			Body:         &corev3.DataSource{Specifier: &corev3.DataSource_InlineString{InlineString: d.body + "\n"}},
			HeadersToAdd: d.with,
		})
	}
	return out
}

// ofStatus is for answers of the proxy with a status.
func ofStatus(status uint32) *accesslogv3.AccessLogFilter {
	return &accesslogv3.AccessLogFilter{FilterSpecifier: &accesslogv3.AccessLogFilter_StatusCodeFilter{
		StatusCodeFilter: &accesslogv3.StatusCodeFilter{Comparison: &accesslogv3.ComparisonFilter{
			Op: accesslogv3.ComparisonFilter_EQ, Value: &corev3.RuntimeUInt32{DefaultValue: status, RuntimeKey: "spillway.none"},
		}},
	}}
}

// requested is for answers to requests with a header.
func requested(h *routev3.HeaderMatcher) *accesslogv3.AccessLogFilter {
	return &accesslogv3.AccessLogFilter{FilterSpecifier: &accesslogv3.AccessLogFilter_HeaderFilter{HeaderFilter: &accesslogv3.HeaderFilter{Header: h}}}
}

func both(a, b *accesslogv3.AccessLogFilter) *accesslogv3.AccessLogFilter {
	return &accesslogv3.AccessLogFilter{FilterSpecifier: &accesslogv3.AccessLogFilter_AndFilter{
		AndFilter: &accesslogv3.AndFilter{Filters: []*accesslogv3.AccessLogFilter{a, b}},
	}}
}
