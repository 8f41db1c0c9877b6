package envoy

import (
	"cmp"
	"slices"
	"strings"
	"time"

	listenerv3 "github.com/envoyproxy/go-control-plane/envoy/config/listener/v3"
	tcpv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/network/tcp_proxy/v3"
	tlsv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/transport_sockets/tls/v3"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/spillway-dev/spillway/internal/fleet"
	"github.com/spillway-dev/spillway/internal/inc"
	"github.com/spillway-dev/spillway/internal/model"
)

// relay is connections or datagrams of a listener, and the clusters that get them.
type relay struct {
	fleet.Relay
	to []weighted // none: nobody gets any
}

const (
	// relayIdle ends a connection of which no byte was seen for so long.
	relayIdle = time.Hour
	// relayAttempts is how many endpoints are tried for a connection.
	relayAttempts = 3
)

// relaysOf finds the relays of a listener, and their clusters.
func (d *derivation) relaysOf(r *inc.Reader, p port) (out []relay) {
	if !p.TLS && p.Traffic == model.Requests {
		return nil
	}
	rows, _ := d.p.Relays.Get(r, p.Static)
	for _, row := range rows {
		host, _ := d.p.Hosts.Get(r, row.Of)
		of := relay{Relay: row}
		of.to = d.relayedTo(r, host)
		out = append(out, of)
	}
	return out
}

// relayedTo are the clusters that get the connections or datagrams of a host.
func (d *derivation) relayedTo(r *inc.Reader, host fleet.Host) []weighted {
	var f fragment
	switch {
	case host.Passed != nil:
		return d.targetOf(r, *host.Passed, host.Dial, &f)
	case len(host.Routes) > 0:
		return d.targetOf(r, host.Routes[0].Target, host.Dial, &f)
	}
	return nil
}

// clustersOf are those that a listener names, for some relays: it waits for no others.
func clustersOf(p port, relays []relay) []string {
	var out []string
	for _, of := range relays {
		for _, to := range of.shares(p.TLS) {
			if to.cluster != nobody {
				out = append(out, to.cluster)
			}
		}
	}
	return sortedOnce(out)
}

// withNames are the relays for some names. Where certificates come on demand, what is for all
// others can't be told from names with certificates. Fleet refuses it to who asks for
// this; one that shares the port and does not is told that it can't.
func withNames(relays []relay) []relay {
	return slices.DeleteFunc(relays, func(of relay) bool { return of.Name == "" })
}

// hostsRelayed are the hosts of relays.
func hostsRelayed(relays []relay) []model.HostKey {
	var out []model.HostKey
	for _, of := range relays {
		out = append(out, of.Of)
	}
	slices.SortFunc(out, model.HostKey.Compare)
	return out
}

// relaying is the body of a listener with relays: who has it serves their hosts.
type relaying struct {
	model.Body
	hosts []model.HostKey
}

// Hosts are those of the relays.
func (a relaying) Hosts() []model.HostKey { return a.hosts }

// Held says that Envoy would refuse it, which it does not.
func (a relaying) Held() bool { return false }

// relayListener is the listener of a port of TCP or UDP; nil if nothing is said of it.
func relayListener(p port, relays []relay) *listenerv3.Listener {
	if len(relays) == 0 {
		return nil
	}
	l := bareListener(p)
	if p.Traffic == model.Datagrams {
		datagrams(l, p, relays[0])
		return l
	}
	l.FilterChains = []*listenerv3.FilterChain{{Name: "tcp", Filters: []*listenerv3.Filter{tcpProxy(p, relays[0])}}}
	return l
}

// relayChain is the chain of the connections for a TLS name.
func relayChain(p port, of relay, tls *tlsv3.DownstreamTlsContext) *listenerv3.FilterChain {
	filter := tcpProxy(p, of)
	if tls == nil {
		return &listenerv3.FilterChain{Name: relayChainName(of), Filters: []*listenerv3.Filter{filter}}
	}
	tls.CommonTlsContext.AlpnProtocols = nil // what is inside is nobody's business but the backend's
	return tlsChain(relayChainName(of), filter, tls)
}

// relayChainName is one that no set of certificates has.
func relayChainName(of relay) string { return "relay " + domain(of.Name) }

// serves reports whether somebody gets the connections of a TLS listener.
func (a relay) serves() bool { return a.Pass || len(a.Secrets) > 0 }

// tcpProxy hands connections to clusters. Where a part of them is for nobody, or all
// are, they are closed: nobody is a cluster that is not there.
func tcpProxy(p port, of relay) *listenerv3.Filter {
	proxy := &tcpv3.TcpProxy{
		StatPrefix:         p.service(),
		IdleTimeout:        durationpb.New(relayIdle),
		MaxConnectAttempts: wrapperspb.UInt32(relayAttempts),
	}
	if to := of.shares(p.TLS); len(to) == 1 {
		proxy.ClusterSpecifier = &tcpv3.TcpProxy_Cluster{Cluster: to[0].cluster}
	} else {
		all := &tcpv3.TcpProxy_WeightedCluster{}
		for _, t := range to {
			all.Clusters = append(all.Clusters, &tcpv3.TcpProxy_WeightedCluster_ClusterWeight{Name: t.cluster, Weight: t.weight})
		}
		proxy.ClusterSpecifier = &tcpv3.TcpProxy_WeightedClusters{WeightedClusters: all}
	}
	return &listenerv3.Filter{Name: "envoy.filters.network.tcp_proxy", ConfigType: &listenerv3.Filter_TypedConfig{TypedConfig: pack(proxy)}}
}

// shares are the clusters of a relay, at least one.
func (a relay) shares(tls bool) []weighted {
	if len(a.to) == 0 || tls && !a.serves() {
		return []weighted{{cluster: nobody, weight: 1, of: 1}}
	}
	return a.to
}

// relayChains are the chains of a TLS port's relays, by the names that clients ask for.
func relayChains(p port, relays []relay, presents func(relay) *tlsv3.DownstreamTlsContext) []*listenerv3.FilterChain {
	var out []*listenerv3.FilterChain
	for _, of := range relays {
		var tls *tlsv3.DownstreamTlsContext
		if !of.Pass && of.serves() {
			tls = presents(of)
		}
		out = append(out, relayChain(p, of, tls))
	}
	return out
}

// closestNames orders relays by whose name a client's is looked for first: exact names,
// then longer wildcards.
func closestNames(relays []relay) []relay {
	out := slices.Clone(relays)
	slices.SortStableFunc(out, func(a, b relay) int {
		exact := func(of relay) int { return map[bool]int{true: 0, false: 1}[of.Name.Exact()] }
		return cmp.Or(cmp.Compare(exact(a), exact(b)), cmp.Compare(len(b.Name), len(a.Name)))
	})
	return out
}

// suffixOf is what the names end with that a wildcard is for.
func suffixOf(name model.Host) string { return strings.TrimPrefix(string(name), "*") }
