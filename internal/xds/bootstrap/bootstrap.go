// Package bootstrap renders the configuration file an Envoy of an edge starts
// with: who it is, where its control plane is and how the two prove who they
// are. Everything else comes over xDS. Rendering is pure and deterministic.
package bootstrap

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"path/filepath"
	"strconv"
	"strings"
	"time"
	"unicode"

	bootstrapv3 "github.com/envoyproxy/go-control-plane/envoy/config/bootstrap/v3"
	cluster "github.com/envoyproxy/go-control-plane/envoy/config/cluster/v3"
	core "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	endpoint "github.com/envoyproxy/go-control-plane/envoy/config/endpoint/v3"
	tls "github.com/envoyproxy/go-control-plane/envoy/extensions/transport_sockets/tls/v3"
	upstream "github.com/envoyproxy/go-control-plane/envoy/extensions/upstreams/http/v3"
	matcher "github.com/envoyproxy/go-control-plane/envoy/type/matcher/v3"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/anypb"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/wrapperspb"
	"k8s.io/apimachinery/pkg/util/validation"
)

// Options say what differs between proxies. Edge, NodeID and one of XDSAddress
// and XDSSocket are required; CA, Cert and Key go with an address.
type Options struct {
	Edge   string // node.cluster: the name of an Edge
	NodeID string // node.id: unique among the edge's proxies

	XDSAddress string // host:port of the control plane
	XDSSocket  string // path of its unix socket, in place of an address
	CA         string // PEM file: who may be the control plane
	Cert, Key  string // PEM files: who this proxy is
	ServerName string // name in the control plane's certificate; default the host of XDSAddress

	AdminPath      string // unix socket of the admin interface, mode 0600; default DefaultAdminPath
	AdminAddress   string // host:port, loopback, in place of a socket
	Health         bool   // report the health of canaries (health discovery service)
	MaxConnections uint32 // of clients, at a time; 0: DefaultMaxConnections. See FilesFor
	MaxHeapBytes   uint64 // shed load as the heap nears this; 0: no limit
}

// ClusterName is the static cluster that stands for the control plane.
const ClusterName = "spillway-xds"

// DefaultAdminPath is where Envoy's admin interface listens by default. On a
// port every local user could stop the proxy, and so could a client, should
// anything ever lead a request there.
const DefaultAdminPath = "/run/spillway/envoy-admin.sock"

// maxSocketPath is the longest path of a unix socket on Linux (unix(7)), without
// the zero at its end.
const maxSocketPath = 107

// A lost stream is opened again after reconnectFirst at first, with jitter, and
// after reconnectLast at most. Envoy's own limit of 30 s would leave a proxy
// without news for as long after the control plane is back.
const (
	reconnectFirst = 500 * time.Millisecond
	reconnectLast  = 5 * time.Second
)

// The connection to the control plane is given up after missing pings for
// keepaliveInterval + keepaliveTimeout, so that a proxy finds another replica.
const (
	connectTimeout    = 5 * time.Second
	keepaliveInterval = 10 * time.Second
	keepaliveTimeout  = 10 * time.Second
)

// Validate tells what is missing or contradicts itself.
func (o Options) Validate() error {
	switch {
	case o.Edge == "":
		return errors.New("the edge's name is missing: give --edge")
	case len(validation.IsDNS1123Subdomain(o.Edge)) > 0:
		return fmt.Errorf("--edge %q can't be the name of an Edge: %s", o.Edge, validation.IsDNS1123Subdomain(o.Edge)[0])
	case strings.ContainsFunc(o.NodeID, func(r rune) bool { return !unicode.IsPrint(r) }):
		return fmt.Errorf("--node-id %q has characters that can't be printed", o.NodeID)
	case o.NodeID == "":
		return errors.New("the node id is missing: give --node-id")
	case (o.XDSAddress == "") == (o.XDSSocket == ""):
		return errors.New("give either --xds-address or --xds-socket")
	case o.XDSSocket != "" && o.CA+o.Cert+o.Key != "":
		return errors.New("a unix socket takes no certificates: leave out --ca, --cert and --key")
	case o.XDSSocket != "" && !filepath.IsAbs(o.XDSSocket):
		return fmt.Errorf("--xds-socket %s is not an absolute path: the data plane may start in another folder", o.XDSSocket)
	case len(o.XDSSocket) > maxSocketPath:
		return tooLong("--xds-socket", o.XDSSocket)
	}
	if err := o.validateTLS(); err != nil {
		return err
	}
	return o.validateAdmin()
}

func (o Options) validateAdmin() error {
	switch {
	case o.AdminPath != "" && o.AdminAddress != "":
		return errors.New("give either --admin-path or --admin-port")
	case o.AdminPath != "" && !filepath.IsAbs(o.AdminPath):
		return fmt.Errorf("--admin-path %s is not an absolute path: the data plane may start in another folder", o.AdminPath)
	case len(o.AdminPath) > maxSocketPath:
		return tooLong("--admin-path", o.AdminPath)
	case o.AdminPath != "":
		return nil
	}
	host, _, err := splitPort(o.AdminAddress)
	if err != nil {
		return fmt.Errorf("address of the admin interface: %w", err)
	}
	if !isLoopback(host) {
		return fmt.Errorf("address of the admin interface: %s is not loopback: whoever reaches Envoy's admin interface can stop it and read its configuration", o.AdminAddress)
	}
	return nil
}

func tooLong(flag, path string) error {
	return fmt.Errorf("%s is %d bytes long: the path of a unix socket has at most %d", flag, len(path), maxSocketPath)
}

func (o Options) validateTLS() error {
	if o.XDSSocket != "" {
		return nil
	}
	host, _, err := splitPort(o.XDSAddress)
	if err != nil {
		return fmt.Errorf("--xds-address: %w", err)
	}
	given := 0
	for _, f := range []string{o.CA, o.Cert, o.Key} {
		if f == "" {
			continue
		}
		given++
		if !filepath.IsAbs(f) {
			return fmt.Errorf("%s is not an absolute path: the data plane may start in another folder", f)
		}
	}
	if given == 0 && isLoopback(host) {
		return nil
	}
	if given != 3 {
		return errors.New("the control plane is reached over mTLS: give --ca, --cert and --key (plaintext is for loopback only)")
	}
	return nil
}

// Render returns the bootstrap as indented JSON. Equal options give equal
// bytes.
func Render(o Options) ([]byte, error) {
	if o.AdminAddress == "" && o.AdminPath == "" {
		o.AdminPath = DefaultAdminPath
	}
	if err := o.Validate(); err != nil {
		return nil, err
	}
	b, err := o.build()
	if err != nil {
		return nil, err
	}
	raw, err := protojson.MarshalOptions{UseProtoNames: true}.Marshal(b)
	if err != nil {
		return nil, fmt.Errorf("bootstrap: %w", err)
	}
	var out bytes.Buffer // protojson varies its white space on purpose
	if err := json.Compact(&out, raw); err != nil {
		return nil, fmt.Errorf("bootstrap: %w", err)
	}
	compact := bytes.Clone(out.Bytes())
	out.Reset()
	if err := json.Indent(&out, compact, "", "  "); err != nil {
		return nil, fmt.Errorf("bootstrap: %w", err)
	}
	out.WriteByte('\n')
	return out.Bytes(), nil
}

func (o Options) build() (*bootstrapv3.Bootstrap, error) {
	admin, err := o.admin()
	if err != nil {
		return nil, err
	}
	control, err := o.controlPlane()
	if err != nil {
		return nil, err
	}
	over, err := overload(cmp.Or(o.MaxConnections, DefaultMaxConnections), o.MaxHeapBytes)
	if err != nil {
		return nil, err
	}
	b := &bootstrapv3.Bootstrap{
		Node:  &core.Node{Id: o.NodeID, Cluster: o.Edge},
		Admin: &bootstrapv3.Admin{Address: admin},
		DynamicResources: &bootstrapv3.Bootstrap_DynamicResources{
			AdsConfig: apiSource(core.ApiConfigSource_DELTA_GRPC),
			CdsConfig: overADS(),
			LdsConfig: overADS(),
		},
		ClusterManager:      &bootstrapv3.ClusterManager{LoadStatsConfig: apiSource(core.ApiConfigSource_GRPC)},
		StaticResources:     &bootstrapv3.Bootstrap_StaticResources{Clusters: []*cluster.Cluster{control}},
		StatsConfig:         stats(),
		StatsFlush:          &bootstrapv3.Bootstrap_StatsFlushOnAdmin{StatsFlushOnAdmin: true}, // every 5 s all of them, otherwise, and there is no sink
		DeferredStatOptions: &bootstrapv3.Bootstrap_DeferredStatOptions{EnableDeferredCreationStats: true},
		OverloadManager:     over,
	}
	if o.Health {
		b.HdsConfig = apiSource(core.ApiConfigSource_GRPC)
	}
	return b, nil
}

// admin is where the admin interface listens.
func (o Options) admin() (*core.Address, error) {
	if o.AdminPath == "" {
		return socketAddress(o.AdminAddress)
	}
	return &core.Address{Address: &core.Address_Pipe{Pipe: &core.Pipe{Path: o.AdminPath, Mode: 0o600}}}, nil
}

// overADS subscribes over ADS. Envoy waits for its first clusters and
// listeners for as long as it takes (initial_fetch_timeout 0): without them it
// would call itself ready and serve nothing.
func overADS() *core.ConfigSource {
	return &core.ConfigSource{
		ResourceApiVersion:    core.ApiVersion_V3,
		InitialFetchTimeout:   durationpb.New(0),
		ConfigSourceSpecifier: &core.ConfigSource_Ads{Ads: &core.AggregatedConfigSource{}},
	}
}

func apiSource(api core.ApiConfigSource_ApiType) *core.ApiConfigSource {
	return &core.ApiConfigSource{
		ApiType: api, TransportApiVersion: core.ApiVersion_V3, SetNodeOnFirstMessageOnly: true,
		GrpcServices: []*core.GrpcService{{TargetSpecifier: &core.GrpcService_EnvoyGrpc_{
			EnvoyGrpc: &core.GrpcService_EnvoyGrpc{
				ClusterName: ClusterName,
				RetryPolicy: &core.RetryPolicy{RetryBackOff: &core.BackoffStrategy{
					BaseInterval: durationpb.New(reconnectFirst), MaxInterval: durationpb.New(reconnectLast),
				}},
			},
		}}},
	}
}

// controlPlane is the static cluster to the control plane.
func (o Options) controlPlane() (*cluster.Cluster, error) {
	protocol, err := anypb.New(&upstream.HttpProtocolOptions{
		UpstreamProtocolOptions: &upstream.HttpProtocolOptions_ExplicitHttpConfig_{
			ExplicitHttpConfig: &upstream.HttpProtocolOptions_ExplicitHttpConfig{
				ProtocolConfig: &upstream.HttpProtocolOptions_ExplicitHttpConfig_Http2ProtocolOptions{
					Http2ProtocolOptions: &core.Http2ProtocolOptions{ConnectionKeepalive: &core.KeepaliveSettings{
						Interval: durationpb.New(keepaliveInterval), Timeout: durationpb.New(keepaliveTimeout),
					}},
				},
			},
		},
	})
	if err != nil {
		return nil, fmt.Errorf("bootstrap: %w", err)
	}
	c := &cluster.Cluster{
		Name:                          ClusterName,
		ConnectTimeout:                durationpb.New(connectTimeout),
		ClusterDiscoveryType:          &cluster.Cluster_Type{Type: cluster.Cluster_STATIC},
		TypedExtensionProtocolOptions: map[string]*anypb.Any{"envoy.extensions.upstreams.http.v3.HttpProtocolOptions": protocol},
	}
	address := &core.Address{Address: &core.Address_Pipe{Pipe: &core.Pipe{Path: o.XDSSocket}}}
	if o.XDSAddress != "" {
		if address, err = socketAddress(o.XDSAddress); err != nil {
			return nil, err
		}
		host, _, _ := splitPort(o.XDSAddress)
		if _, err := netip.ParseAddr(host); err != nil { // a name: resolved again and again
			c.ClusterDiscoveryType = &cluster.Cluster_Type{Type: cluster.Cluster_STRICT_DNS}
		}
		c.UpstreamConnectionOptions = &cluster.UpstreamConnectionOptions{TcpKeepalive: &core.TcpKeepalive{
			KeepaliveTime: wrapperspb.UInt32(30), KeepaliveInterval: wrapperspb.UInt32(5), KeepaliveProbes: wrapperspb.UInt32(3),
		}}
	}
	c.LoadAssignment = &endpoint.ClusterLoadAssignment{ClusterName: ClusterName, Endpoints: []*endpoint.LocalityLbEndpoints{{
		LbEndpoints: []*endpoint.LbEndpoint{{HostIdentifier: &endpoint.LbEndpoint_Endpoint{Endpoint: &endpoint.Endpoint{Address: address}}}},
	}}}
	if o.CA != "" {
		c.TransportSocket, err = o.mutualTLS()
	}
	return c, err
}

// mutualTLS proves who the proxy is and accepts only a control plane with the
// expected name: other edges' certificates are of the same CA.
func (o Options) mutualTLS() (*core.TransportSocket, error) {
	name := o.ServerName
	if name == "" {
		name, _, _ = splitPort(o.XDSAddress)
	}
	san := &tls.SubjectAltNameMatcher{
		SanType: tls.SubjectAltNameMatcher_DNS,
		Matcher: &matcher.StringMatcher{MatchPattern: &matcher.StringMatcher_Exact{Exact: name}},
	}
	ctx := &tls.UpstreamTlsContext{
		Sni: name,
		CommonTlsContext: &tls.CommonTlsContext{
			TlsParams:       &tls.TlsParameters{TlsMinimumProtocolVersion: tls.TlsParameters_TLSv1_2, TlsMaximumProtocolVersion: tls.TlsParameters_TLSv1_3},
			TlsCertificates: []*tls.TlsCertificate{{CertificateChain: file(o.Cert), PrivateKey: file(o.Key)}},
			ValidationContextType: &tls.CommonTlsContext_ValidationContext{ValidationContext: &tls.CertificateValidationContext{
				TrustedCa: file(o.CA), MatchTypedSubjectAltNames: []*tls.SubjectAltNameMatcher{san},
			}},
		},
	}
	if _, err := netip.ParseAddr(name); err == nil {
		san.SanType, ctx.Sni = tls.SubjectAltNameMatcher_IP_ADDRESS, "" // RFC 6066: no literal addresses
	}
	return typed("envoy.transport_sockets.tls", ctx)
}

func typed(name string, m proto.Message) (*core.TransportSocket, error) {
	a, err := anypb.New(m)
	if err != nil {
		return nil, fmt.Errorf("bootstrap: %w", err)
	}
	return &core.TransportSocket{Name: name, ConfigType: &core.TransportSocket_TypedConfig{TypedConfig: a}}, nil
}

func file(path string) *core.DataSource {
	return &core.DataSource{Specifier: &core.DataSource_Filename{Filename: path}}
}

func socketAddress(hostport string) (*core.Address, error) {
	host, port, err := splitPort(hostport)
	if err != nil {
		return nil, err
	}
	return &core.Address{Address: &core.Address_SocketAddress{SocketAddress: &core.SocketAddress{
		Address: host, PortSpecifier: &core.SocketAddress_PortValue{PortValue: uint32(port)},
	}}}, nil
}

func splitPort(hostport string) (string, uint16, error) {
	host, port, err := net.SplitHostPort(hostport)
	if err != nil {
		return "", 0, fmt.Errorf("%q is not HOST:PORT: %w", hostport, err)
	}
	n, err := strconv.ParseUint(port, 10, 16)
	if err != nil || host == "" {
		return "", 0, fmt.Errorf("%q is not HOST:PORT", hostport)
	}
	return host, uint16(n), nil
}

func isLoopback(host string) bool {
	ip, err := netip.ParseAddr(host)
	return host == "localhost" || err == nil && ip.IsLoopback()
}
