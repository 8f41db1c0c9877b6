package routetest

import (
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"slices"
	"strings"

	xdscorev3 "github.com/cncf/xds/go/xds/core/v3"
	matcherv3 "github.com/cncf/xds/go/xds/type/matcher/v3"
	clusterv3 "github.com/envoyproxy/go-control-plane/envoy/config/cluster/v3"
	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	listenerv3 "github.com/envoyproxy/go-control-plane/envoy/config/listener/v3"
	tcpv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/network/tcp_proxy/v3"
	udpv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/udp/udp_proxy/v3"
	sniv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/transport_sockets/tls/cert_mappers/sni/v3"
	staticv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/transport_sockets/tls/cert_mappers/static_name/v3"
	ondemandv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/transport_sockets/tls/cert_selectors/on_demand_secret/v3"
	tlsv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/transport_sockets/tls/v3"
)

// Hello is how the proxy begins a connection to an endpoint.
type Hello struct {
	TLS     bool
	SNI     string
	Names   []string          // one of which the endpoint's certificate must have; none: whatever it has
	Trusted *x509.CertPool    // who must have signed that
	Shows   *x509.Certificate // nil: nothing
}

// server is what a chain does as a server of TLS.
func (s *Proxy) server(c *listenerv3.FilterChain) *tlsv3.DownstreamTlsContext {
	var ctx tlsv3.DownstreamTlsContext
	s.unpack(c.TransportSocket.GetTypedConfig().Value, &ctx)
	return &ctx
}

// demanded is the secret that a chain asks for, if TLS ends there.
func (s *Proxy) demanded(c *listenerv3.FilterChain, sni string) (name string, decrypts bool) {
	if c.TransportSocket == nil {
		return "", false
	}
	var of ondemandv3.Config
	s.unpack(s.server(c).CommonTlsContext.CustomTlsCertificateSelector.TypedConfig.Value, &of)
	var byName sniv3.SNI
	var static staticv3.StaticName
	switch mapper := of.CertificateMapper; mapper.Name {
	case "envoy.tls.certificate_mappers.sni":
		s.unpack(mapper.TypedConfig.Value, &byName)
		if sni == "" {
			return byName.DefaultValue, true
		}
		return sni, true
	case "envoy.tls.certificate_mappers.static_name":
		s.unpack(mapper.TypedConfig.Value, &static)
		return static.Name, true
	default:
		s.Fail("the model does not know %v", mapper)
		return "", true
	}
}

// asksFor reports whether a rule of a listener is for a name, which is in lower case.
func (s *Proxy) asksFor(m *matcherv3.StringMatcher, name string) bool {
	switch x := m.MatchPattern.(type) {
	case *matcherv3.StringMatcher_Exact:
		return strings.EqualFold(x.Exact, name)
	case *matcherv3.StringMatcher_Suffix:
		return strings.HasSuffix(name, x.Suffix)
	case *matcherv3.StringMatcher_SafeRegex:
		return whole(x.SafeRegex.Regex).MatchString(name)
	default:
		s.Fail("the model does not know %T", x)
		return false
	}
}

// admits reports whether a chain lets a client in by its certificate.
func (s *Proxy) admits(c *listenerv3.FilterChain, q Request) bool {
	if !q.TLS || c.TransportSocket == nil {
		return true
	}
	ctx := s.server(c)
	must, trust := ctx.RequireClientCertificate.GetValue(), ctx.CommonTlsContext.GetValidationContext()
	switch {
	case q.Client == nil || trust == nil:
		return !must || q.Client != nil
	case trust.TrustChainVerification == tlsv3.CertificateValidationContext_ACCEPT_UNTRUSTED:
		return true
	}
	_, err := q.Client.Verify(x509.VerifyOptions{Roots: poolOf(trust.TrustedCa), KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}})
	return err == nil
}

func poolOf(pem *corev3.DataSource) *x509.CertPool {
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM([]byte(pem.GetInlineString()))
	return pool
}

const tcpProxy = "envoy.filters.network.tcp_proxy"

// handsOn reports whether a chain is for connections in which nobody looks for requests.
func handsOn(c *listenerv3.FilterChain) bool { return c.Filters[len(c.Filters)-1].Name == tcpProxy }

// nobody is the cluster that is not there, and never will be.
const nobody = "nobody"

// handOn is who may get a connection.
func (s *Proxy) handOn(c *listenerv3.FilterChain) Outcome {
	var p tcpv3.TcpProxy
	s.unpack(c.Filters[len(c.Filters)-1].GetTypedConfig().Value, &p)
	names := []string{p.GetCluster()}
	if all := p.GetWeightedClusters().GetClusters(); len(all) > 0 {
		names = nil
		for _, of := range all {
			if of.Weight > 0 {
				names = append(names, of.Name)
			}
		}
	}
	return s.given(names...)
}

// given is who gets what goes to one of some clusters.
func (s *Proxy) given(clusters ...string) (out Outcome) {
	for _, name := range clusters {
		var to []string
		if name != nobody {
			to = s.balance(name)
		}
		out.Endpoints, out.Closed = append(out.Endpoints, to...), out.Closed || len(to) == 0
	}
	out.Refused = len(out.Endpoints) == 0
	return out
}

// datagram is who gets a datagram.
func (s *Proxy) datagram(q Request) Outcome {
	l := s.listener(q)
	if l == nil {
		return Outcome{Refused: true}
	}
	var p udpv3.UdpProxyConfig
	s.unpack(l.ListenerFilters[0].GetTypedConfig().Value, &p)
	to := p.GetMatcher().OnNoMatch
	for _, rule := range p.GetMatcher().GetMatcherList().GetMatchers() {
		if s.asksFor(rule.Predicate.GetSinglePredicate().GetValueMatch(), fmt.Sprint(q.From)) {
			to = rule.OnMatch
			break
		}
	}
	return s.given(s.clusterOf(to.GetAction()))
}

func (s *Proxy) clusterOf(action *xdscorev3.TypedExtensionConfig) string {
	var route udpv3.Route
	s.unpack(action.TypedConfig.Value, &route)
	return route.Cluster
}

// greeted reports whether an endpoint takes a connection of a cluster.
func (s *Proxy) greeted(c *clusterv3.Cluster, endpoint string) bool {
	if s.Greet == nil {
		return true
	}
	if c.TransportSocket == nil {
		return s.Greet(endpoint, Hello{})
	}
	var ctx tlsv3.UpstreamTlsContext
	s.unpack(c.TransportSocket.GetTypedConfig().Value, &ctx)
	common := ctx.CommonTlsContext
	h := Hello{TLS: true, SNI: ctx.Sni, Trusted: poolOf(common.GetValidationContext().TrustedCa)}
	for _, name := range common.GetValidationContext().MatchTypedSubjectAltNames {
		h.Names = append(h.Names, name.Matcher.GetExact())
	}
	for _, of := range common.TlsCertificateSdsSecretConfigs {
		secret := s.secrets[of.Name]
		if secret == nil {
			s.Missing("cluster %s waits for ever for secret %s", c.Name, of.Name)
			return false
		}
		block, _ := pem.Decode(secret.GetTlsCertificate().CertificateChain.GetInlineBytes())
		cert, err := x509.ParseCertificate(block.Bytes)
		if err != nil {
			s.Fail("secret %s: %v", of.Name, err)
			return false
		}
		h.Shows = cert
	}
	return s.Greet(endpoint, h)
}

// fits reports whether a certificate is one that the proxy looks for.
func (h Hello) fits(c *x509.Certificate) bool {
	_, err := c.Verify(x509.VerifyOptions{Roots: h.Trusted})
	return err == nil && (len(h.Names) == 0 || slices.ContainsFunc(h.Names, func(n string) bool { return c.VerifyHostname(n) == nil }))
}
