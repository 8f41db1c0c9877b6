package envoy

import (
	"cmp"
	"math"
	"strconv"
	"strings"
	"time"

	clusterv3 "github.com/envoyproxy/go-control-plane/envoy/config/cluster/v3"
	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	endpointv3 "github.com/envoyproxy/go-control-plane/envoy/config/endpoint/v3"
	aggregatev3 "github.com/envoyproxy/go-control-plane/envoy/extensions/clusters/aggregate/v3"
	lookupv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/clusters/common/dns/v3"
	dnsv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/clusters/dns/v3"
	hcmv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/network/http_connection_manager/v3"
	httpv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/upstreams/http/v3"
	typev3 "github.com/envoyproxy/go-control-plane/envoy/type/v3"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/anypb"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/spillway-dev/spillway/internal/fleet"
	"github.com/spillway-dev/spillway/internal/model"
)

// protocol is how a backend is spoken to.
type protocol uint8

const (
	http1 protocol = iota // and WebSocket, by upgrade
	http2                 // without TLS, by prior knowledge (RFC 9113, 3.3)
)

// protocols are the values of appProtocol that mean something to us. The first
// are those of KEP-3726; the others are in wide use.
var protocols = map[string]protocol{
	"kubernetes.io/h2c": http2,
	"kubernetes.io/ws":  http1,
	"h2c":               http2,
	"http2":             http2,
	"grpc":              http2,
}

// suffixes make a cluster that works differently another cluster, so that the
// old one serves until the new one is there.
var suffixes = [...]string{http1: "", http2: "/h2c"}

const externalSuffix = "/dns"

// The marks are before how clusters connect that do so otherwise than usual: after
// how many milliseconds they give up, as whom, and what they speak where the Service
// says nothing of it: "shop/web/http/connect-200ms",
// "shop/web/https/tls-0123456789abcdef/as-infra.client", "shop/web/grpc/over-h2". They
// have the assignments of the others.
const (
	connectMark = "/connect-"
	clientMark  = "/as-"
	overMark    = "/over-"
)

var marks = [...]string{connectMark, clientMark, overMark}

// dial has clusters connect so. Who speaks no TLS shows no certificate, and who speaks
// HTTP/2 anyhow does not do so by how it is dialled.
func (n *clusterName) dial(d model.Dial) {
	k := d.Key()
	if n.tls == (model.UpstreamTLS{}) {
		k.Client = model.SecretID{}
	}
	k.HTTP2 = k.HTTP2 && n.protocol != http2
	if n.conn = d; k != d.Key() {
		n.conn = k.Dial()
	}
	if k.HTTP2 {
		n.protocol = http2
	}
}

// spoken is what the backend's clusters are called by how it is spoken to.
func (n clusterName) spoken() string {
	k, out := n.conn.Key(), n.name
	if k.Connect != 0 {
		out += connectMark + strconv.FormatInt(k.Connect, 10) + "ms"
	}
	if k.Client != (model.SecretID{}) {
		out += clientMark + strings.ReplaceAll(k.Client.String(), "/", ".")
	}
	if k.HTTP2 {
		out += overMark + "h2"
	}
	return out
}

// assignmentOf is the assignment of a cluster. What a backend is called is no mark.
func assignmentOf(name string) string {
	family := FamilyOf(name)
	rest := name[len(family):]
	for _, mark := range marks {
		before, after, ok := strings.Cut(rest, mark)
		if !ok {
			continue
		}
		if _, part, ok := strings.Cut(after, "/"); ok {
			before += "/" + part
		}
		rest = before
	}
	if len(family)+len(rest) == len(name) {
		return name
	}
	return family + rest
}

// clusterName is what a backend is called in a proxy.
type clusterName struct {
	name     string
	protocol protocol
	traffic  model.Traffic
	external bool
	parts    Parts      // 0 or 1: it is one cluster
	conn     model.Dial // as in fleet.NeedID, see dial
	tls      model.UpstreamTLS
}

func (a clusterName) Equal(b clusterName) bool { return a == b }

func nameCluster(b model.Backend, row fleet.Backend) clusterName {
	p := protocols[strings.ToLower(row.AppProtocol)]
	traffic := b.Port().For
	if traffic != model.Requests {
		p = http1 // in which nothing is spoken
	}
	name := b.String() + suffixes[p] + tlsSuffix(row.TLS)
	if row.External {
		name += externalSuffix
	}
	return clusterName{name: name, protocol: p, traffic: traffic, external: row.External, tls: row.TLS}
}

// family is what the names of all clusters begin with that a backend may have:
// whatever it speaks, and in however many parts. FamilyOf finds it in a name.
func family(b model.Backend) string { return b.String() }

// FamilyOf returns the family of a cluster's or an assignment's name: what is
// before the third slash.
func FamilyOf(name string) string {
	slashes := 0
	for i := range len(name) {
		if name[i] == '/' {
			if slashes++; slashes == 3 {
				return name[:i]
			}
		}
	}
	return name
}

// Limits of one backend in one proxy. A proxy answers 503 above them, and such
// an answer is never retried, so they are no way to shed load: they only stop a
// leak. Envoy's own are 1,024, and 3 for retries.
const limit = 1 << 16

// Two numbers bound the damage of ejection. The last endpoint is never ejected,
// since a request to it may succeed and one to nobody can't; all others may be,
// so that a whole member can be lost. Envoy's own cap is 10 %.
const maxEjected = 99

// Keep-alive of TCP to endpoints: a silent peer is noticed on a connection that
// waits for an answer, or for a request.
const (
	keepaliveIdle     = 1 // seconds
	keepaliveInterval = 1 // seconds
	keepaliveProbes   = 3
	// userTimeout is TCP_USER_TIMEOUT in milliseconds (RFC 5482): how long what
	// was sent may stay unacknowledged. It also counts while a peer that is
	// alive takes nothing in, so an upload that its application does not read
	// for this long is cut: it must not be short.
	userTimeout = 15_000
)

// clusterUnder is a cluster that does not depend on a place.
func (d *derivation) clusterUnder(n clusterName, name string) Resource {
	if i, entry := n.find(name); entry {
		return seal(name, entryCluster(name, n.from(i)), refs(ClusterType, n.from(i))...)
	}
	if n.conn == (model.Dial{}) && n.tls == (model.UpstreamTLS{}) && n.traffic == model.Requests {
		return d.made(name, usualClusters[n.protocol])
	}
	to := []Ref{{Type: AssignmentType, Name: assignmentOf(name)}}
	if id := n.conn.Key().Client; id != (model.SecretID{}) {
		to = append(to, Ref{Type: SecretType, Name: id.String()})
	}
	return seal(name, cluster(n, name), to...)
}

// usualClusters are those that connect as usual, by protocol.
var usualClusters = [...]*template{
	http1: templateOf(cluster(clusterName{protocol: http1}, "any")),
	http2: templateOf(cluster(clusterName{protocol: http2}, "any")),
}

// entryCluster leads to the first of some clusters that has an endpoint which
// can take a request. Their priorities follow one another, so that a retry goes
// on to the next cluster too. The limits are those of the clusters, but for
// that of retries.
func entryCluster(name string, to []string) *clusterv3.Cluster {
	return &clusterv3.Cluster{
		Name:           name,
		LbPolicy:       clusterv3.Cluster_CLUSTER_PROVIDED,
		CommonLbConfig: &clusterv3.Cluster_CommonLbConfig{HealthyPanicThreshold: &typev3.Percent{Value: 0}},
		ClusterDiscoveryType: &clusterv3.Cluster_ClusterType{ClusterType: &clusterv3.Cluster_CustomClusterType{
			Name: "envoy.clusters.aggregate", TypedConfig: pack(&aggregatev3.ClusterConfig{Clusters: to}),
		}},
		CircuitBreakers:               breakers(),
		TypedExtensionProtocolOptions: spoken[http1], // for its retries; what is spoken is up to the clusters
	}
}

func cluster(n clusterName, name string) *clusterv3.Cluster {
	c := &clusterv3.Cluster{
		Name:                 name,
		ClusterDiscoveryType: &clusterv3.Cluster_Type{Type: clusterv3.Cluster_EDS},
		EdsClusterConfig:     &clusterv3.Cluster_EdsClusterConfig{EdsConfig: fromADS()},
		ConnectTimeout:       millis(cmp.Or(n.conn.Key().Connect, model.UsualConnect)),
		LbPolicy:             clusterv3.Cluster_LEAST_REQUEST,
		CommonLbConfig: &clusterv3.Cluster_CommonLbConfig{
			// No panic: an endpoint that is known to be lost gets nothing, however many are.
			HealthyPanicThreshold: &typev3.Percent{Value: 0},
			LocalityConfigSpecifier: &clusterv3.Cluster_CommonLbConfig_LocalityWeightedLbConfig_{
				LocalityWeightedLbConfig: &clusterv3.Cluster_CommonLbConfig_LocalityWeightedLbConfig{},
			},
		},
		// An endpoint that left must not be kept for looking healthy.
		IgnoreHealthOnHostRemoval:           true,
		CloseConnectionsOnHostHealthFailure: true,
		OutlierDetection:                    ejection(),
		CircuitBreakers:                     breakers(),
		UpstreamConnectionOptions: &clusterv3.UpstreamConnectionOptions{TcpKeepalive: &corev3.TcpKeepalive{
			KeepaliveTime: wrapperspb.UInt32(keepaliveIdle), KeepaliveInterval: wrapperspb.UInt32(keepaliveInterval), KeepaliveProbes: wrapperspb.UInt32(keepaliveProbes),
		}},
		UpstreamBindConfig:            &corev3.BindConfig{SocketOptions: []*corev3.SocketOption{tcpUserTimeout}},
		TypedExtensionProtocolOptions: spoken[n.protocol],
		PerConnectionBufferLimitBytes: wrapperspb.UInt32(1 << 18),
	}
	if n.traffic != model.Requests {
		c.TypedExtensionProtocolOptions = nil
	}
	if n.traffic == model.Datagrams {
		c.UpstreamConnectionOptions, c.UpstreamBindConfig = nil, nil // which are of TCP
	}
	if n.tls != (model.UpstreamTLS{}) {
		var offers []string
		if n.traffic == model.Requests {
			offers = alpn[n.protocol]
		}
		c.TransportSocket = secured(n.tls, n.conn.Key().Client, offers)
	}
	if to := assignmentOf(name); to != name {
		c.EdsClusterConfig.ServiceName = to
	}
	if n.external {
		c.ClusterDiscoveryType = &clusterv3.Cluster_ClusterType{ClusterType: lookup}
		c.EdsClusterConfig = nil
		c.TypedExtensionProtocolOptions = spokenOutside[n.protocol]
	}
	return c
}

// lookup has Envoy resolve the names of endpoints: every address is an endpoint.
// IPv6 is for names that have nothing else: an edge without a way to IPv6 would
// lose what Envoy's default prefers.
var lookup = &clusterv3.Cluster_CustomClusterType{
	Name:        "envoy.clusters.dns",
	TypedConfig: pack(&dnsv3.DnsCluster{RespectDnsTtl: true, DnsLookupFamily: lookupv3.DnsLookupFamily_V4_PREFERRED}),
}

// lookedUp is the assignment of a cluster that looks its endpoints up by itself.
func lookedUp(name string, all []locality) *endpointv3.ClusterLoadAssignment {
	out := &endpointv3.ClusterLoadAssignment{ClusterName: name}
	for i := range all {
		var l endpointv3.LocalityLbEndpoints
		if err := proto.Unmarshal(all[i].append(nil), &l); err != nil {
			panic("envoy: " + err.Error()) // we made these bytes
		}
		out.Endpoints = append(out.Endpoints, &l)
	}
	return out
}

var tcpUserTimeout = &corev3.SocketOption{
	Level: 6,  // IPPROTO_TCP
	Name:  18, // TCP_USER_TIMEOUT on Linux
	Value: &corev3.SocketOption_IntValue{IntValue: userTimeout},
	State: corev3.SocketOption_STATE_PREBIND,
}

// ejection takes an endpoint out after failures in a row, for a second at first
// and longer each time. Failures of the connection and answers of a gateway are
// counted apart; what the application itself answers, 500 included, is no sign
// of a lost endpoint.
func ejection() *clusterv3.OutlierDetection {
	never := wrapperspb.UInt32(0)
	return &clusterv3.OutlierDetection{
		// Only the way back waits for it. It is a timer for each cluster, on the
		// main thread: at 3 s, an Envoy with 10,000 clusters takes 27 ms a second at
		// rest, at 6 s 15, at 60 s 4.
		Interval:                           durationpb.New(6 * time.Second),
		BaseEjectionTime:                   durationpb.New(time.Second),
		MaxEjectionTime:                    durationpb.New(30 * time.Second),
		MaxEjectionPercent:                 wrapperspb.UInt32(maxEjected),
		SplitExternalLocalOriginErrors:     true, // and five of those in a row eject, which is Envoy's default
		ConsecutiveGatewayFailure:          wrapperspb.UInt32(10),
		EnforcingConsecutiveGatewayFailure: wrapperspb.UInt32(100), // by default it never does; nor do percentages of failures
		EnforcingConsecutive_5Xx:           never,
		EnforcingSuccessRate:               never,
		EnforcingLocalOriginSuccessRate:    never,
	}
}

func breakers() *clusterv3.CircuitBreakers {
	n := wrapperspb.UInt32(limit)
	return &clusterv3.CircuitBreakers{Thresholds: []*clusterv3.CircuitBreakers_Thresholds{{
		MaxConnections: n, MaxPendingRequests: n, MaxRequests: n, MaxRetries: n,
	}}}
}

// spoken are the options of each protocol, spokenOutside those of clusters that
// look their endpoints up.
var spoken, spokenOutside = eachProtocol(nil), eachProtocol(outside())

func eachProtocol(filters []*hcmv3.HttpFilter) [2]map[string]*anypb.Any {
	return [...]map[string]*anypb.Any{
		http1: options(&httpv3.HttpProtocolOptions{CommonHttpProtocolOptions: idle(), UpstreamProtocolOptions: speaksHTTP1, RetryPolicy: retryPolicy(), HttpFilters: filters}),
		http2: options(&httpv3.HttpProtocolOptions{CommonHttpProtocolOptions: idle(), UpstreamProtocolOptions: speaksHTTP2, RetryPolicy: retryPolicy(), HttpFilters: filters}),
	}
}

func options(o *httpv3.HttpProtocolOptions) map[string]*anypb.Any {
	return map[string]*anypb.Any{"envoy.extensions.upstreams.http.v3.HttpProtocolOptions": brief(o)}
}

var speaksHTTP1 = explicit(&httpv3.HttpProtocolOptions_ExplicitHttpConfig{
	ProtocolConfig: &httpv3.HttpProtocolOptions_ExplicitHttpConfig_HttpProtocolOptions{HttpProtocolOptions: &corev3.Http1ProtocolOptions{}},
})

var speaksHTTP2 = explicit(&httpv3.HttpProtocolOptions_ExplicitHttpConfig{
	ProtocolConfig: &httpv3.HttpProtocolOptions_ExplicitHttpConfig_Http2ProtocolOptions{Http2ProtocolOptions: &corev3.Http2ProtocolOptions{
		// One connection carries many requests: a ping finds out that it is
		// dead before TCP does.
		ConnectionKeepalive: &corev3.KeepaliveSettings{
			Interval: durationpb.New(time.Second), Timeout: durationpb.New(3 * time.Second),
		},
		MaxConcurrentStreams: wrapperspb.UInt32(math.MaxInt32), // as many as the endpoint allows
	}},
})

func explicit(c *httpv3.HttpProtocolOptions_ExplicitHttpConfig) *httpv3.HttpProtocolOptions_ExplicitHttpConfig_ {
	return &httpv3.HttpProtocolOptions_ExplicitHttpConfig_{ExplicitHttpConfig: c}
}

// idle closes a connection to an endpoint that nobody used for a while: each
// costs a keep-alive probe a second.
func idle() *corev3.HttpProtocolOptions {
	return &corev3.HttpProtocolOptions{IdleTimeout: durationpb.New(2 * time.Minute)}
}
