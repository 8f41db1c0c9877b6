package envoy

import (
	"slices"
	"strings"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	listenerv3 "github.com/envoyproxy/go-control-plane/envoy/config/listener/v3"
	inspectorv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/listener/tls_inspector/v3"
	tlsv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/transport_sockets/tls/v3"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/spillway-dev/spillway/internal/fleet"
	"github.com/spillway-dev/spillway/internal/inc"
	"github.com/spillway-dev/spillway/internal/model"
)

// connectionBuffer is how much of a connection the proxy holds when the other
// side is slow: 256 KiB, so that many slow clients do not fill its memory.
const connectionBuffer = 1 << 18

// chains are the filter chains of an HTTPS listener, before it has a front.
type chains struct {
	list  []chain // sorted by name
	hosts []model.HostKey
}

// chain is the TLS names that are served with the same certificates.
type chain struct {
	name    string   // of its secrets: stable while hosts come and go
	secrets []string // oldest root first
	hosts   []string // sorted; empty: every name that no other chain has
}

func (a chains) Equal(b chains) bool {
	return slices.EqualFunc(a.list, b.list, func(a, b chain) bool {
		return a.name == b.name && slices.Equal(a.hosts, b.hosts)
	}) && slices.Equal(a.hosts, b.hosts)
}

// chainsOf groups the TLS names of the classes by their certificates.
func (d *derivation) chainsOf(r *inc.Reader, classes fleet.ClassList) (chains, bool) {
	var out chains
	byName := map[string]*chain{}
	for _, of := range d.presentedBy(r, classes) {
		if len(of.secrets) == 0 {
			continue
		}
		out.hosts = append(out.hosts, of.key)
		secrets := secretNames(of.secrets)
		name := strings.Join(secrets, ",")
		if of.key.Host == "" {
			name = "* " + name // has no names, so it can't be shared
		}
		c := byName[name]
		if c == nil {
			c = &chain{name: name, secrets: secrets}
			byName[name] = c
		}
		if of.key.Host != "" {
			c.hosts = append(c.hosts, string(of.key.Host))
		}
	}
	for _, c := range byName {
		slices.Sort(c.hosts)
		out.list = append(out.list, *c)
	}
	slices.SortFunc(out.list, func(a, b chain) int { return strings.Compare(a.name, b.name) })
	slices.SortFunc(out.hosts, model.HostKey.Compare)
	return out, true
}

// presentedBy is the certificates of all TLS names of the classes. Of classes that
// share a port there are none until each name has a row: nobody has the port
// before, and every few names would make the listener anew.
func (d *derivation) presentedBy(r *inc.Reader, classes fleet.ClassList) []presented {
	if classes.Shared() {
		names := map[model.Host]bool{}
		for _, class := range classes.Classes() {
			for _, key := range d.chainsOfClass.Keys(r, class) {
				names[key.Host] = true
			}
		}
		rows := d.presentedOfList.Get(r, classes)
		if len(rows) < len(names) {
			return nil
		}
		return rows
	}
	class := model.Class(classes)
	keys, rows := d.chainsOfClass.Keys(r, class), d.chainsOfClass.Get(r, class)
	out := make([]presented, len(keys))
	for i, key := range keys {
		out[i] = presented{key: key, secrets: rows[i].Secrets}
	}
	return out
}

func secretNames(ids []model.SecretID) []string {
	out := make([]string, len(ids))
	for i, id := range ids {
		out[i] = id.String()
	}
	return out
}

// listener returns the listener of a port; nil if there is nothing to present
// on it: Envoy refuses an HTTPS listener without a chain.
func listener(p port, tls chains) *listenerv3.Listener {
	l := &listenerv3.Listener{
		Name:                          p.name(),
		StatPrefix:                    p.service(), // stats keep their names whatever the address
		Address:                       socket(p.address(), p.Number),
		PerConnectionBufferLimitBytes: wrapperspb.UInt32(connectionBuffer),
	}
	http := &listenerv3.Filter{
		Name:       "envoy.filters.network.http_connection_manager",
		ConfigType: &listenerv3.Filter_TypedConfig{TypedConfig: pack(connectionManager(p))},
	}
	if !p.TLS {
		l.FilterChains = []*listenerv3.FilterChain{{Name: "http", Filters: []*listenerv3.Filter{http}}}
		return l
	}
	l.ListenerFilters = []*listenerv3.ListenerFilter{{
		Name:       "envoy.filters.listener.tls_inspector",
		ConfigType: &listenerv3.ListenerFilter_TypedConfig{TypedConfig: pack(&inspectorv3.TlsInspector{})},
	}}
	if p.OnDemand {
		onDemandChains(l, http)
		return l
	}
	if len(tls.list) == 0 {
		return nil
	}
	for _, c := range tls.list {
		chain := tlsChain(c.name, http, presents(c.secrets))
		chain.FilterChainMatch = &listenerv3.FilterChainMatch{ServerNames: c.hosts, TransportProtocol: "tls"}
		l.FilterChains = append(l.FilterChains, chain)
	}
	return l
}

func tlsChain(name string, http *listenerv3.Filter, tls *tlsv3.DownstreamTlsContext) *listenerv3.FilterChain {
	return &listenerv3.FilterChain{
		Name:    name,
		Filters: []*listenerv3.Filter{http},
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
func listenerRefs(p port, tls chains) []Ref {
	if !p.TLS {
		return nil
	}
	var secrets []string
	for _, c := range tls.list {
		secrets = append(secrets, c.secrets...)
	}
	slices.Sort(secrets)
	return refs(SecretType, slices.Compact(secrets))
}
