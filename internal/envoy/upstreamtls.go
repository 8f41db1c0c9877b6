package envoy

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"strings"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	tlsv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/transport_sockets/tls/v3"
	matcherv3 "github.com/envoyproxy/go-control-plane/envoy/type/matcher/v3"

	"github.com/spillway-dev/spillway/internal/model"
)

// tlsMark is before the digest in the names of clusters that speak TLS:
// "shop/web/http/tls-0123456789abcdef". Who trusts somebody else is another cluster,
// so that the old one serves until the new one is there.
const tlsMark = "/tls-"

// tlsSuffix is what TLS adds to the name of a cluster.
func tlsSuffix(t model.UpstreamTLS) string {
	if t == (model.UpstreamTLS{}) {
		return ""
	}
	k := t.Key()
	said := fmt.Appendf(nil, "%q %q %q %q", k.Host, k.Names.List(), k.URIs.List(), k.CA)
	if k.AnyName {
		said = append(said, " any name"...)
	}
	sum := sha256.Sum256(said)
	return tlsMark + hex.EncodeToString(sum[:8])
}

// overTLS reports whether a cluster speaks TLS.
func overTLS(cluster string) bool { return strings.Contains(cluster[len(FamilyOf(cluster)):], tlsMark) }

// systemAuthorities is where the machines of proxies have the certificates of those
// that they trust: the image of Envoy, and Debian.
const systemAuthorities = "/etc/ssl/certs/ca-certificates.crt"

// alpn are the protocols that a handshake offers (RFC 7301).
var alpn = [...][]string{http1: {"http/1.1"}, http2: {"h2"}}

// secured is how the connections of a cluster are made over TLS, as whom, and which
// protocols they offer. The names are exact: one with "*" is that of a certificate which
// says just that.
func secured(t model.UpstreamTLS, as model.SecretID, offers []string) *corev3.TransportSocket {
	k := t.Key()
	trust := &tlsv3.CertificateValidationContext{TrustedCa: authorities(k.CA)}
	names := k.Names.List()
	if len(names) == 0 && k.URIs.Len() == 0 && !k.AnyName {
		names = []string{k.Host}
	}
	trust.MatchTypedSubjectAltNames = append(sans(tlsv3.SubjectAltNameMatcher_DNS, names), sans(tlsv3.SubjectAltNameMatcher_URI, k.URIs.List())...)
	common := &tlsv3.CommonTlsContext{
		TlsParams:             &tlsv3.TlsParameters{TlsMaximumProtocolVersion: tlsv3.TlsParameters_TLSv1_3}, // by default Envoy stops at 1.2 where it is the client
		AlpnProtocols:         offers,
		ValidationContextType: &tlsv3.CommonTlsContext_ValidationContext{ValidationContext: trust},
	}
	if as != (model.SecretID{}) {
		common.TlsCertificateSdsSecretConfigs = []*tlsv3.SdsSecretConfig{{Name: as.String(), SdsConfig: fromADS()}}
	}
	return &corev3.TransportSocket{Name: "tls", ConfigType: &corev3.TransportSocket_TypedConfig{
		TypedConfig: pack(&tlsv3.UpstreamTlsContext{Sni: k.Host, CommonTlsContext: common}),
	}}
}

func authorities(pem string) *corev3.DataSource {
	if pem == "" {
		return &corev3.DataSource{Specifier: &corev3.DataSource_Filename{Filename: systemAuthorities}}
	}
	return &corev3.DataSource{Specifier: &corev3.DataSource_InlineString{InlineString: pem}}
}

func sans(kind tlsv3.SubjectAltNameMatcher_SanType, list []string) []*tlsv3.SubjectAltNameMatcher {
	var out []*tlsv3.SubjectAltNameMatcher
	for _, name := range list {
		exact := &matcherv3.StringMatcher{MatchPattern: &matcherv3.StringMatcher_Exact{Exact: name}}
		out = append(out, &tlsv3.SubjectAltNameMatcher{SanType: kind, Matcher: exact})
	}
	return out
}
