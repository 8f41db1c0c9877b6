package envoy

import (
	"fmt"
	"strings"

	xdscorev3 "github.com/cncf/xds/go/xds/core/v3"
	matcherv3 "github.com/cncf/xds/go/xds/type/matcher/v3"
	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	listenerv3 "github.com/envoyproxy/go-control-plane/envoy/config/listener/v3"
	udpv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/udp/udp_proxy/v3"
	inputsv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/matching/common_inputs/network/v3"
)

// Envoy gives the datagrams of a client's address and port, a session, to one endpoint,
// and knows no weights of clusters for them. What it can tell sessions apart by is the
// client's port: the last two of its digits are a hundred slots, which are dealt out by
// weight. A client that has one port for ever has one backend for ever.

// slots are how many parts all sessions are in.
const slots = 100

// datagrams makes a listener hand datagrams to clusters.
func datagrams(l *listenerv3.Listener, p port, of relay) {
	l.Address.GetSocketAddress().Protocol = corev3.SocketAddress_UDP
	l.UdpListenerConfig = &listenerv3.UdpListenerConfig{}
	l.PerConnectionBufferLimitBytes = nil
	proxy := &udpv3.UdpProxyConfig{StatPrefix: p.service(), RouteSpecifier: &udpv3.UdpProxyConfig_Matcher{Matcher: bySlot(of.shares(false))}}
	l.ListenerFilters = []*listenerv3.ListenerFilter{{
		Name:       "envoy.filters.udp_listener.udp_proxy",
		ConfigType: &listenerv3.ListenerFilter_TypedConfig{TypedConfig: pack(proxy)},
	}}
}

// bySlot deals the slots out. The last cluster has what is left.
func bySlot(to []weighted) *matcherv3.Matcher {
	var list []*matcherv3.Matcher_MatcherList_FieldMatcher
	last, from, bounds := len(to)-1, 0, dealt(to)
	for i, t := range to[:last] {
		if bounds[i] > from {
			list = append(list, &matcherv3.Matcher_MatcherList_FieldMatcher{Predicate: inSlots(from, bounds[i]), OnMatch: useCluster(t.cluster)})
		}
		from = bounds[i]
	}
	out := &matcherv3.Matcher{OnNoMatch: useCluster(to[last].cluster)}
	if len(list) > 0 {
		out.MatcherType = &matcherv3.Matcher_MatcherList_{MatcherList: &matcherv3.Matcher_MatcherList{Matchers: list}}
	}
	return out
}

// dealt are the slots at which the parts of some weights end.
func dealt(to []weighted) []int {
	var all, sum uint64
	for _, t := range to {
		all += uint64(t.weight)
	}
	out := make([]int, len(to))
	for i, t := range to {
		sum += uint64(t.weight)
		out[i] = int((sum*slots + all/2) / all)
	}
	return out
}

// inSlots fits clients whose port is in one of some slots.
func inSlots(from, to int) *matcherv3.Matcher_MatcherList_Predicate {
	var ends []string
	for i := from; i < to; i++ {
		ends = append(ends, fmt.Sprintf("%02d", i))
	}
	return &matcherv3.Matcher_MatcherList_Predicate{MatchType: &matcherv3.Matcher_MatcherList_Predicate_SinglePredicate_{
		SinglePredicate: &matcherv3.Matcher_MatcherList_Predicate_SinglePredicate{
			Input: &xdscorev3.TypedExtensionConfig{Name: "envoy.matching.inputs.source_port", TypedConfig: pack(&inputsv3.SourcePortInput{})},
			Matcher: &matcherv3.Matcher_MatcherList_Predicate_SinglePredicate_ValueMatch{ValueMatch: &matcherv3.StringMatcher{
				MatchPattern: &matcherv3.StringMatcher_SafeRegex{SafeRegex: &matcherv3.RegexMatcher{
					EngineType: &matcherv3.RegexMatcher_GoogleRe2{GoogleRe2: &matcherv3.RegexMatcher_GoogleRE2{}},
					Regex:      "[0-9]*(" + strings.Join(ends, "|") + ")",
				}},
			}},
		},
	}}
}

func useCluster(name string) *matcherv3.Matcher_OnMatch {
	return &matcherv3.Matcher_OnMatch{OnMatch: &matcherv3.Matcher_OnMatch_Action{
		Action: &xdscorev3.TypedExtensionConfig{Name: "route", TypedConfig: pack(&udpv3.Route{Cluster: name})},
	}}
}
