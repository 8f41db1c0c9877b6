package envoy

import (
	"strconv"

	routev3 "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"
	cdnloopv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/cdn_loop/v3"
	hcmv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/network/http_connection_manager/v3"
	matcherv3 "github.com/envoyproxy/go-control-plane/envoy/type/matcher/v3"
	"google.golang.org/protobuf/types/known/wrapperspb"
)

// A request that comes back to an edge again and again ends by the count of
// edges it has passed, which it carries itself (RFC 8586): each appends its name
// to CDN-Loop. Pods see the header; whoever sends it fills up the count of that
// request alone.
const (
	loopHeader = "cdn-loop"
	loopName   = "spillway"
	// maxPassed is how many edges a request may have passed when it comes to
	// one. More than one is no loop yet: a member's own gateway, or an
	// application that hands on the headers it got, may lead to an edge again. It
	// is small, since each may try an endpoint as often as retries allow.
	maxPassed = 3
)

// loopDetected is 508 (RFC 5842, 7.2).
const loopDetected = 508

// loopFilter counts. It comes before what looks for the host: that is for requests
// that go on.
func loopFilter() *hcmv3.HttpFilter {
	return &hcmv3.HttpFilter{Name: "loop", ConfigType: &hcmv3.HttpFilter_TypedConfig{
		TypedConfig: pack(&cdnloopv3.CdnLoopConfig{CdnId: loopName, MaxAllowedOccurrences: maxPassed}),
	}}
}

// loopAnswer makes 508 of the 502 that the filter answers, which an edge would
// take for a failed endpoint: it would try again, at each turn of the loop. A
// 502 of the proxy's own for a request that has passed as many edges is taken
// for one too.
func loopAnswer() *hcmv3.ResponseMapper {
	passed := &routev3.HeaderMatcher{
		Name: loopHeader, HeaderMatchSpecifier: &routev3.HeaderMatcher_StringMatch{StringMatch: &matcherv3.StringMatcher{
			MatchPattern: &matcherv3.StringMatcher_SafeRegex{SafeRegex: &matcherv3.RegexMatcher{Regex: ".*(" + loopName + ".*){" + strconv.Itoa(maxPassed+1) + "}"}},
		}},
	}
	return &hcmv3.ResponseMapper{Filter: both(ofStatus(502), requested(passed)), StatusCode: wrapperspb.UInt32(loopDetected)}
}
