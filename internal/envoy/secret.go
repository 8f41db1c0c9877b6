package envoy

import (
	"strings"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	tlsv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/transport_sockets/tls/v3"

	"github.com/spillway-dev/spillway/internal/model"
)

// secret is the certificate and key that a proxy presents.
func secret(name string, c model.Certificate) *tlsv3.Secret {
	return &tlsv3.Secret{Name: name, Type: &tlsv3.Secret_TlsCertificate{TlsCertificate: &tlsv3.TlsCertificate{
		CertificateChain: inline(c.Chain), PrivateKey: inline(c.Key),
	}}}
}

func inline(b []byte) *corev3.DataSource {
	return &corev3.DataSource{Specifier: &corev3.DataSource_InlineBytes{InlineBytes: b}}
}

// secretOf is the inverse of SecretID.String. Neither a namespace nor a name
// has a ":" or a "/".
func secretOf(name string) model.SecretID {
	var id model.SecretID
	if i := strings.LastIndexByte(name, ':'); i >= 0 {
		id.Workspace, name = name[:i], name[i+1:]
	}
	id.Namespace, id.Name, _ = strings.Cut(name, "/")
	return id
}
