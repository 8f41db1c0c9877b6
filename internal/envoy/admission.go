package envoy

import (
	hcmv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/network/http_connection_manager/v3"
	tlsv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/transport_sockets/tls/v3"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/spillway-dev/spillway/internal/model"
)

// admit has a TLS server let clients in by their certificates. Where others are let in,
// too, a certificate is asked for and none is turned away.
func admit(c *tlsv3.DownstreamTlsContext, clients model.ClientTrust) *tlsv3.DownstreamTlsContext {
	if clients == (model.ClientTrust{}) {
		return c
	}
	k := clients.Key()
	trust := &tlsv3.CertificateValidationContext{TrustedCa: authorities(k.CA)}
	if k.Fallback {
		trust.TrustChainVerification = tlsv3.CertificateValidationContext_ACCEPT_UNTRUSTED
	}
	c.RequireClientCertificate = wrapperspb.Bool(!k.Fallback)
	c.CommonTlsContext.ValidationContextType = &tlsv3.CommonTlsContext_ValidationContext{ValidationContext: trust}
	return c
}

// introduce tells backends who the client is: x-forwarded-client-cert has what its
// certificate says, and where nobody has checked that, the certificate itself. What
// clients send of that name never comes through.
func introduce(m *hcmv3.HttpConnectionManager, clients model.ClientTrust) {
	if clients == (model.ClientTrust{}) {
		return
	}
	m.ForwardClientCertDetails = hcmv3.HttpConnectionManager_SANITIZE_SET
	m.SetCurrentClientCertDetails = &hcmv3.HttpConnectionManager_SetCurrentClientCertDetails{
		Subject: wrapperspb.Bool(true), Uri: true, Dns: true, Cert: clients.Key().Fallback,
	}
}
