package envoy

import (
	xdscorev3 "github.com/cncf/xds/go/xds/core/v3"
	matcherv3 "github.com/cncf/xds/go/xds/type/matcher/v3"
	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	listenerv3 "github.com/envoyproxy/go-control-plane/envoy/config/listener/v3"
	inputsv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/matching/common_inputs/network/v3"
	sniv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/transport_sockets/tls/cert_mappers/sni/v3"
	staticv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/transport_sockets/tls/cert_mappers/static_name/v3"
	ondemandv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/transport_sockets/tls/cert_selectors/on_demand_secret/v3"
	tlsv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/transport_sockets/tls/v3"
	"google.golang.org/protobuf/types/known/anypb"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/spillway-dev/spillway/internal/model"
)

// A listener whose certificates come on demand has two chains that never change, and
// one for each name whose connections are relayed. A client that asks for a name gets the secret of that name: Envoy
// pauses the handshake, subscribes, and goes on with what it gets, or fails it
// when told that there is none. All other clients get the secret nameless.
const (
	chainByName   = "by-name"
	chainNameless = "nameless"

	// hostName is what may become the name of a secret. Envoy copies what the
	// client sent: "*" would subscribe to everything, and bytes that are not
	// UTF-8 would break the stream to the control plane.
	hostName = `[0-9A-Za-z._-]+`
)

// onDemandChains are the chains of such a listener, and what chooses between them.
func onDemandChains(l *listenerv3.Listener, http *listenerv3.Filter, p port, relays []relay) {
	l.FilterChains = []*listenerv3.FilterChain{
		tlsChain(chainByName, http, admit(presentsByName(), p.Clients)),
		tlsChain(chainNameless, http, admit(presentsOnDemand("envoy.tls.certificate_mappers.static_name", &staticv3.StaticName{Name: nameless}), p.Clients)),
	}
	l.FilterChains = append(l.FilterChains, relayChains(p, relays, func(relay) *tlsv3.DownstreamTlsContext { return presentsByName() })...)
	list := &matcherv3.Matcher_MatcherList{}
	for _, of := range closestNames(relays) {
		list.Matchers = append(list.Matchers, &matcherv3.Matcher_MatcherList_FieldMatcher{Predicate: asksFor(of.Name), OnMatch: useChain(relayChainName(of))})
	}
	list.Matchers = append(list.Matchers, &matcherv3.Matcher_MatcherList_FieldMatcher{Predicate: asksForName(), OnMatch: useChain(chainByName)})
	l.FilterChainMatcher = &matcherv3.Matcher{
		MatcherType: &matcherv3.Matcher_MatcherList_{MatcherList: list},
		OnNoMatch:   useChain(chainNameless),
	}
}

func presentsByName() *tlsv3.DownstreamTlsContext {
	return presentsOnDemand("envoy.tls.certificate_mappers.sni", &sniv3.SNI{DefaultValue: nameless})
}

// asksFor fits clients that ask for a name, or for one below a wildcard.
func asksFor(name model.Host) *matcherv3.Matcher_MatcherList_Predicate {
	match := &matcherv3.StringMatcher{MatchPattern: &matcherv3.StringMatcher_Exact{Exact: string(name)}, IgnoreCase: true}
	if !name.Exact() {
		match.MatchPattern = &matcherv3.StringMatcher_Suffix{Suffix: suffixOf(name)}
	}
	return nameIs(match)
}

func asksForName() *matcherv3.Matcher_MatcherList_Predicate {
	return nameIs(&matcherv3.StringMatcher{MatchPattern: &matcherv3.StringMatcher_SafeRegex{SafeRegex: &matcherv3.RegexMatcher{
		EngineType: &matcherv3.RegexMatcher_GoogleRe2{GoogleRe2: &matcherv3.RegexMatcher_GoogleRE2{}}, Regex: hostName,
	}}})
}

func nameIs(match *matcherv3.StringMatcher) *matcherv3.Matcher_MatcherList_Predicate {
	return &matcherv3.Matcher_MatcherList_Predicate{MatchType: &matcherv3.Matcher_MatcherList_Predicate_SinglePredicate_{
		SinglePredicate: &matcherv3.Matcher_MatcherList_Predicate_SinglePredicate{
			Input:   &xdscorev3.TypedExtensionConfig{Name: "envoy.matching.inputs.server_name", TypedConfig: pack(&inputsv3.ServerNameInput{})},
			Matcher: &matcherv3.Matcher_MatcherList_Predicate_SinglePredicate_ValueMatch{ValueMatch: match},
		},
	}}
}

func useChain(name string) *matcherv3.Matcher_OnMatch {
	value := wrapperspb.String(name) // has no rules that pack could check
	return &matcherv3.Matcher_OnMatch{OnMatch: &matcherv3.Matcher_OnMatch_Action{
		Action: &xdscorev3.TypedExtensionConfig{Name: name, TypedConfig: &anypb.Any{TypeUrl: typeURL(value), Value: encode(value)}},
	}}
}

// presentsOnDemand is a TLS server that asks for the secret that the mapper
// names. Envoy has no session resumption with it, and refuses it unless both
// kinds are off.
func presentsOnDemand(name string, mapper message) *tlsv3.DownstreamTlsContext {
	c := presents(nil)
	c.CommonTlsContext.CustomTlsCertificateSelector = &corev3.TypedExtensionConfig{
		Name: "envoy.tls.certificate_selectors.on_demand_secret",
		TypedConfig: pack(&ondemandv3.Config{
			ConfigSource:      fromADS(),
			CertificateMapper: &corev3.TypedExtensionConfig{Name: name, TypedConfig: pack(mapper)},
		}),
	}
	c.SessionTicketKeysType = &tlsv3.DownstreamTlsContext_DisableStatelessSessionResumption{DisableStatelessSessionResumption: true}
	c.DisableStatefulSessionResumption = true
	return c
}
