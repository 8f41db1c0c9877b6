package envoy

import (
	"hash/crc32"
	"slices"
	"time"

	xdscorev3 "github.com/cncf/xds/go/xds/core/v3"
	xdsmatcherv3 "github.com/cncf/xds/go/xds/type/matcher/v3"
	mutationv3 "github.com/envoyproxy/go-control-plane/envoy/config/common/mutation_rules/v3"
	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	listenerv3 "github.com/envoyproxy/go-control-plane/envoy/config/listener/v3"
	routev3 "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"
	statev3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/common/set_filter_state/v3"
	compositev3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/composite/v3"
	authzv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/ext_authz/v3"
	mutatev3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/header_mutation/v3"
	hcmv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/network/http_connection_manager/v3"
	setstatev3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/network/set_filter_state/v3"
	matcherv3 "github.com/envoyproxy/go-control-plane/envoy/type/matcher/v3"
	"google.golang.org/protobuf/types/known/anypb"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/spillway-dev/spillway/internal/fleet"
	"github.com/spillway-dev/spillway/internal/inc"
	"github.com/spillway-dev/spillway/internal/model"
)

// Routes may have somebody asked whether a request may go on. The filter for that is in
// every listener and does nothing by itself: it runs what the route has for it, a whole
// filter, so that nothing of one route is another's. A filter that were disabled unless a
// route says otherwise would not do: Envoy decides that for a request before the steps
// find its host.
//
// It comes behind CORS, since preflights carry no credentials, and before the router,
// which sends copies and attempts.

const (
	authFilter = "auth"

	// authTimeout is how long the answer may take. Without one, or with an error, a
	// request is answered 403.
	authTimeout = 10 * time.Second
)

func askFilter() *hcmv3.HttpFilter {
	return &hcmv3.HttpFilter{Name: authFilter, ConfigType: &hcmv3.HttpFilter_TypedConfig{TypedConfig: pack(&compositev3.Composite{})}}
}

// asking marks the connections of listeners that have the filter. A listener of a
// version before has not, and serves beside the new one until its connections are
// drained: with the same routes, which only marked connections may take.
const asking = "spillway.asks"

func markFilter() *listenerv3.Filter {
	mark := &statev3.FilterStateValue{
		Key: &statev3.FilterStateValue_ObjectKey{ObjectKey: asking}, FactoryKey: "envoy.string",
		Value: &statev3.FilterStateValue_FormatString{FormatString: &corev3.SubstitutionFormatString{
			Format: &corev3.SubstitutionFormatString_TextFormatSource{TextFormatSource: &corev3.DataSource{Specifier: &corev3.DataSource_InlineString{InlineString: "1"}}},
		}},
	}
	return &listenerv3.Filter{Name: "asks", ConfigType: &listenerv3.Filter_TypedConfig{
		TypedConfig: pack(&setstatev3.Config{OnNewConnection: []*statev3.FilterStateValue{mark}}),
	}}
}

var isMarked = []*matcherv3.FilterStateMatcher{{
	Key:     asking,
	Matcher: &matcherv3.FilterStateMatcher_StringMatch{StringMatch: text(model.ValueMatch{Value: "1"})},
}}

// guarded lets nothing through the routes of a match that the filter does not let
// through. What comes from a listener without the filter falls to the last.
func guarded(m model.Match, routes []*routev3.Route, by *anypb.Any) []*routev3.Route {
	for _, route := range routes {
		if route.GetRoute() == nil {
			continue
		}
		if route.TypedPerFilterConfig == nil {
			route.TypedPerFilterConfig = map[string]*anypb.Any{}
		}
		route.TypedPerFilterConfig[authFilter] = by
		route.Match.FilterState = isMarked
	}
	return append(routes, &routev3.Route{Match: match(m), Action: &routev3.Route_DirectResponse{DirectResponse: &routev3.DirectResponseAction{Status: fleet.Unguarded}}})
}

// guardOf is what the filter runs for a target, nil for nothing. It reports false where
// who is to be asked has no cluster that may be used: then no request may go on.
func (d *derivation) guardOf(r *inc.Reader, t fleet.Target, host model.Host, dial model.Dial, f *fragment) (*anypb.Any, bool) {
	a := t.Auth()
	if a == (model.Auth{}) {
		return nil, true
	}
	n, ok := d.clusterNames.Get(r, a.Backend)
	if !ok || n.tls.Broken() {
		return nil, false
	}
	if a.Calls {
		dial = dial.OverHTTP2()
	}
	n.dial(dial)
	entries := n.entries()
	to := entries[crc32.ChecksumIEEE([]byte(host))%uint32(len(entries))]
	f.clusters = append(f.clusters, to)
	return runs(append(hides(a), &corev3.TypedExtensionConfig{Name: "asks", TypedConfig: brief(asks(a, to))})...), true
}

// runs has the filter be these, one after the other.
func runs(filters ...*corev3.TypedExtensionConfig) *anypb.Any {
	action := &compositev3.ExecuteFilterAction{FilterChain: &compositev3.FilterChainConfiguration{TypedConfig: filters}}
	return brief(&compositev3.CompositePerRoute{Matcher: &xdsmatcherv3.Matcher{OnNoMatch: &xdsmatcherv3.Matcher_OnMatch{
		OnMatch: &xdsmatcherv3.Matcher_OnMatch_Action{Action: &xdscorev3.TypedExtensionConfig{Name: "r", TypedConfig: brief(action)}},
	}}})
}

// alwaysSent are the headers of a request that are sent over HTTP whatever is listed.
var alwaysSent = []string{"authorization"}

// hides takes those headers out of a request that are for the answer to set, and that who
// is asked does not see: else they would be the client's where the answer has none.
func hides(a model.Auth) []*corev3.TypedExtensionConfig {
	seen := append(a.Send.List(), alwaysSent...)
	m := &mutatev3.Mutations{}
	for _, name := range a.Take.List() {
		if !slices.Contains(seen, name) {
			m.RequestMutations = append(m.RequestMutations, &mutationv3.HeaderMutation{Action: &mutationv3.HeaderMutation_Remove{Remove: name}})
		}
	}
	if len(m.RequestMutations) == 0 {
		return nil
	}
	return []*corev3.TypedExtensionConfig{{Name: "hides", TypedConfig: brief(&mutatev3.HeaderMutation{Mutations: m})}}
}

// untouched are the headers of a request that no answer changes, beside those that
// Envoy keeps: of the edges, and of how the request is sent. Envoy takes no expression
// that is much longer.
const untouched = loopHeader + "|x-spillway-.*|" + model.OfOneMessage

// asks is who is asked what.
func asks(a model.Auth, cluster string) *authzv3.ExtAuthz {
	out := &authzv3.ExtAuthz{
		TransportApiVersion:        corev3.ApiVersion_V3,
		ValidateMutations:          true,
		AllowedHeaders:             headersNamed(a.Send),
		DisallowedHeaders:          &matcherv3.ListStringMatcher{Patterns: []*matcherv3.StringMatcher{{MatchPattern: &matcherv3.StringMatcher_Prefix{Prefix: "x-spillway-"}}}},
		DecoderHeaderMutationRules: &mutationv3.HeaderMutationRules{DisallowExpression: &matcherv3.RegexMatcher{Regex: untouched}},
	}
	if a.Body > 0 {
		out.WithRequestBody = &authzv3.BufferSettings{MaxRequestBytes: a.Body, PackAsBytes: a.Calls}
	}
	called := a.Backend.Service().Name() + "." + a.Backend.Service().Namespace()
	if a.Calls {
		out.Services = &authzv3.ExtAuthz_GrpcService{GrpcService: &corev3.GrpcService{
			TargetSpecifier: &corev3.GrpcService_EnvoyGrpc_{EnvoyGrpc: &corev3.GrpcService_EnvoyGrpc{ClusterName: cluster, Authority: called}},
			Timeout:         durationpb.New(authTimeout),
		}}
		return out
	}
	takes := headersNamed(a.Take)
	if takes == nil {
		takes = &matcherv3.ListStringMatcher{Patterns: []*matcherv3.StringMatcher{text(model.ValueMatch{Value: ".*", Regex: true})}}
	}
	out.Services = &authzv3.ExtAuthz_HttpService{HttpService: &authzv3.HttpService{
		ServerUri:             &corev3.HttpUri{Uri: "http://" + called, HttpUpstreamType: &corev3.HttpUri_Cluster{Cluster: cluster}, Timeout: durationpb.New(authTimeout)},
		PathPrefix:            a.Path,
		AuthorizationResponse: &authzv3.AuthorizationResponse{AllowedUpstreamHeaders: takes},
	}}
	return out
}

// headersNamed fits the headers of a list; nil: there is none.
func headersNamed(list model.Packed[string]) *matcherv3.ListStringMatcher {
	if list == "" {
		return nil
	}
	out := &matcherv3.ListStringMatcher{}
	for _, name := range list.List() {
		out.Patterns = append(out.Patterns, text(model.ValueMatch{Value: name}))
	}
	return out
}
