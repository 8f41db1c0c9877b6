package envoy

import (
	"slices"
	"time"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	routerv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/router/v3"
	hcmv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/network/http_connection_manager/v3"
	earlyv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/http/early_header_mutation/header_mutation/v3"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/wrapperspb"
)

// Times of a client's connection. None of them ends a request that moves.
const (
	handshakeTimeout = 10 * time.Second // of TLS
	firstBytes       = 30 * time.Second // of a connection
	headersTimeout   = 10 * time.Second // from the first byte of a request to the end of its headers
	streamIdle       = 5 * time.Minute  // without a byte in either direction
	connectionIdle   = time.Hour        // without a request

	// goodbye is between "no new streams" (GOAWAY) and the end of an HTTP/2
	// connection, when its listener changes. It must be well below the proxy's
	// --drain-time-s, at the end of which connections are cut.
	goodbye = 2 * time.Second
)

// connectionManager speaks HTTP with clients, in every version they offer on a
// TCP connection.
func connectionManager(p port) *hcmv3.HttpConnectionManager {
	yes := wrapperspb.Bool(true)
	m := &hcmv3.HttpConnectionManager{
		StatPrefix: p.service(),
		HttpFilters: []*hcmv3.HttpFilter{{
			Name: "envoy.filters.http.router",
			ConfigType: &hcmv3.HttpFilter_TypedConfig{TypedConfig: pack(&routerv3.Router{
				SuppressEnvoyHeaders: true, // how we route is nobody's business
			})},
		}},
		UpgradeConfigs: []*hcmv3.HttpConnectionManager_UpgradeConfig{{UpgradeType: "websocket"}},

		// The edge faces clients: their address is that of the connection, not
		// what a header says. See believe.
		UseRemoteAddress: yes,
		// Names with "_" become the same name as with "-" in many applications,
		// so they could forge a header that a proxy is trusted to set.
		CommonHttpProtocolOptions: &corev3.HttpProtocolOptions{
			IdleTimeout:                  durationpb.New(connectionIdle),
			HeadersWithUnderscoresAction: corev3.HttpProtocolOptions_DROP_HEADER,
		},
		// "/a/../b" is "/b" (RFC 3986, 6.2.2.3): what is matched is what is sent.
		NormalizePath: yes,
		// No rule can name a path with "//" or "%2F", so such a one would go around the
		// rule for what an application may take it for. Whoever writes a slash as an
		// escape is told what it is taken for; nothing is passed on that says both.
		MergeSlashes:                 true,
		PathWithEscapedSlashesAction: hcmv3.HttpConnectionManager_UNESCAPE_AND_REDIRECT,
		// "shop.example." is the same host as "shop.example" (RFC 3986, 3.2.2).
		StripTrailingHostDot: true,
		// The Server header is the application's.
		ServerHeaderTransformation: hcmv3.HttpConnectionManager_PASS_THROUGH,
		GenerateRequestId:          yes,
		LocalReplyConfig:           &hcmv3.LocalReplyConfig{Mappers: append(deniedAnswers(), loopAnswer())},

		RequestHeadersTimeout: durationpb.New(headersTimeout), // slow headers are how a server is held for nothing
		StreamIdleTimeout:     durationpb.New(streamIdle),
		DrainTimeout:          durationpb.New(goodbye),
		// Small windows: a slow client of HTTP/2 can hold at most this much memory.
		Http2ProtocolOptions: &corev3.Http2ProtocolOptions{
			MaxConcurrentStreams:        wrapperspb.UInt32(128),
			InitialStreamWindowSize:     wrapperspb.UInt32(1 << 18),
			InitialConnectionWindowSize: wrapperspb.UInt32(1 << 20),
		},
	}
	m.HttpFilters = slices.Insert(m.HttpFilters, 0, routeFilter(), askFilter(), sessionFilter())
	introduce(m, p.Clients)
	early := append(believe(m, p.hops), subscribe(m, p))
	m.EarlyHeaderMutationExtensions = []*corev3.TypedExtensionConfig{{
		Name:        "envoy.http.early_header_mutation.header_mutation",
		TypedConfig: pack(&earlyv3.HeaderMutation{Mutations: early}),
	}}
	m.HttpFilters = slices.Insert(m.HttpFilters, 0, deniedFilter(), loopFilter())
	return m
}
