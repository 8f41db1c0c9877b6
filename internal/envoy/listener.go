package envoy

import (
	"time"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	listenerv3 "github.com/envoyproxy/go-control-plane/envoy/config/listener/v3"
	inspectorv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/listener/tls_inspector/v3"
	tlsv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/transport_sockets/tls/v3"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/spillway-dev/spillway/internal/fleet"
	"github.com/spillway-dev/spillway/internal/model"
)

// connectionBuffer is how much of a connection the proxy holds when the other
// side is slow: 256 KiB, so that many slow clients do not fill its memory.
const connectionBuffer = 1 << 18

func secretNames(ids []model.SecretID) []string {
	out := make([]string, len(ids))
	for i, id := range ids {
		out[i] = id.String()
	}
	return out
}

func serverNames(hosts []model.Host) []string {
	out := make([]string, len(hosts))
	for i, h := range hosts {
		out[i] = string(h)
	}
	return out
}

// bareListener is a listener that does nothing yet.
func bareListener(p port) *listenerv3.Listener {
	return &listenerv3.Listener{
		Name:                          p.name(),
		StatPrefix:                    p.service(), // stats keep their names whatever the address
		Address:                       socket(p.address(), p.Number),
		PerConnectionBufferLimitBytes: wrapperspb.UInt32(connectionBuffer),
	}
}

// listener returns the listener of a port; nil if there is nothing to present
// on it: Envoy refuses an HTTPS listener without a chain.
func listener(p port, tls fleet.ServerNames, relays []relay, silence time.Duration) *listenerv3.Listener {
	if p.Traffic != model.Requests {
		return relayListener(p, relays)
	}
	l := bareListener(p)
	http := &listenerv3.Filter{
		Name:       "envoy.filters.network.http_connection_manager",
		ConfigType: &listenerv3.Filter_TypedConfig{TypedConfig: pack(connectionManager(p))},
	}
	// It waits for the first bytes. A connection without TLS needs that, too: times
	// of HTTP begin with them. The inspector of HTTP would wait for a line, and
	// cut the connection where that has 64 KiB.
	l.ListenerFiltersTimeout = durationpb.New(silence)
	l.ListenerFilters = []*listenerv3.ListenerFilter{{
		Name:       "envoy.filters.listener.tls_inspector",
		ConfigType: &listenerv3.ListenerFilter_TypedConfig{TypedConfig: pack(&inspectorv3.TlsInspector{})},
	}}
	if !p.TLS {
		l.FilterChains = []*listenerv3.FilterChain{{Name: "http", Filters: []*listenerv3.Filter{markFilter(), http}}}
		return l
	}
	if p.OnDemand {
		onDemandChains(l, http, p, relays)
		return l
	}
	if len(tls.Sets)+len(relays) == 0 {
		return nil
	}
	for _, set := range tls.Sets {
		chain := tlsChain(set.Name, http, admit(presents(secretNames(set.Secrets)), p.Clients))
		chain.FilterChainMatch = &listenerv3.FilterChainMatch{ServerNames: serverNames(set.Hosts), TransportProtocol: "tls"}
		l.FilterChains = append(l.FilterChains, chain)
	}
	for i, chain := range relayChains(p, relays, func(of relay) *tlsv3.DownstreamTlsContext { return presents(secretNames(of.Secrets)) }) {
		chain.FilterChainMatch = &listenerv3.FilterChainMatch{TransportProtocol: "tls"}
		if name := relays[i].Name; name != "" {
			chain.FilterChainMatch.ServerNames = serverNames([]model.Host{name})
		}
		l.FilterChains = append(l.FilterChains, chain)
	}
	return l
}

func tlsChain(name string, http *listenerv3.Filter, tls *tlsv3.DownstreamTlsContext) *listenerv3.FilterChain {
	return &listenerv3.FilterChain{
		Name:    name,
		Filters: []*listenerv3.Filter{markFilter(), http},
		// A client that opens a connection and says nothing.
		TransportSocketConnectTimeout: durationpb.New(handshakeTimeout),
		TransportSocket: &corev3.TransportSocket{
			Name:       "envoy.transport_sockets.tls",
			ConfigType: &corev3.TransportSocket_TypedConfig{TypedConfig: pack(tls)},
		},
	}
}

// presents is a TLS server with these certificates; with several, the client's
// algorithms and the name it asks for choose one.
func presents(secrets []string) *tlsv3.DownstreamTlsContext {
	c := &tlsv3.CommonTlsContext{
		AlpnProtocols: []string{"h2", "http/1.1"},
		TlsParams:     &tlsv3.TlsParameters{TlsMinimumProtocolVersion: tlsv3.TlsParameters_TLSv1_2},
	}
	for _, name := range secrets {
		c.TlsCertificateSdsSecretConfigs = append(c.TlsCertificateSdsSecretConfigs, &tlsv3.SdsSecretConfig{Name: name, SdsConfig: fromADS()})
	}
	return &tlsv3.DownstreamTlsContext{CommonTlsContext: c}
}

func socket(ip string, number uint16) *corev3.Address {
	return &corev3.Address{Address: &corev3.Address_SocketAddress{SocketAddress: &corev3.SocketAddress{
		Address: ip, PortSpecifier: &corev3.SocketAddress_PortValue{PortValue: uint32(number)},
	}}}
}

// listenerRefs are the names that the listener of a port uses: Envoy itself
// waits for the routes of a new listener.
func listenerRefs(p port, tls fleet.ServerNames, relays []relay) []Ref {
	var secrets []string
	for _, set := range tls.Sets {
		secrets = append(secrets, secretNames(set.Secrets)...)
	}
	for _, of := range relays {
		if p.TLS && !p.OnDemand {
			secrets = append(secrets, secretNames(of.Secrets)...)
		}
	}
	return append(refs(SecretType, sortedOnce(secrets)), refs(ClusterType, clustersOf(p, relays))...)
}
