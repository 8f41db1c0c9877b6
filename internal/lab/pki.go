package lab

import (
	"crypto/x509"
	"fmt"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"time"

	"github.com/spillway-dev/spillway/internal/files"
	"github.com/spillway-dev/spillway/internal/pki"
)

// TrustDomain is the SPIFFE trust domain of the lab's certificates.
const TrustDomain = "spillway.lab"

const certLife = 365 * 24 * time.Hour

// PKI tells where the lab's certificates are. All of them are signed by CA.
type PKI struct {
	Dir string
}

// CA is the certificate of the lab's own authority.
func (p PKI) CA() string { return filepath.Join(p.Dir, "ca.crt") }

// ServeCert and ServeKey are for the control plane's listeners: names
// localhost and 127.0.0.1.
func (p PKI) ServeCert() string { return filepath.Join(p.Dir, "serve.crt") }

// ServeKey is the key of ServeCert.
func (p PKI) ServeKey() string { return filepath.Join(p.Dir, "serve.key") }

// EdgeCert is the client certificate of an edge's proxies, with the identity
// spiffe://spillway.lab/edge/NAME.
func (p PKI) EdgeCert(edge string) string { return filepath.Join(p.Dir, "edge-"+edge+".crt") }

// EdgeKey is the key of EdgeCert.
func (p PKI) EdgeKey(edge string) string { return filepath.Join(p.Dir, "edge-"+edge+".key") }

// writePKI makes a fresh authority and all certificates.
func writePKI(p PKI, edges []EdgeSpec) error {
	if err := os.MkdirAll(p.Dir, 0o700); err != nil {
		return err
	}
	ca, err := pki.Self(pki.Authority("spillway lab", certLife)) // its key is never written
	if err != nil {
		return fmt.Errorf("lab CA: %w", err)
	}
	if err := files.Replace(p.CA(), ca.CertPEM(), 0o644); err != nil {
		return err
	}
	serve := pki.Leaf("spillway serve", certLife, x509.ExtKeyUsageServerAuth)
	serve.DNSNames, serve.IPAddresses = []string{"localhost"}, []net.IP{net.IPv4(127, 0, 0, 1)}
	if err := issue(ca, serve, p.ServeCert(), p.ServeKey()); err != nil {
		return err
	}
	for _, e := range edges {
		client := pki.Leaf("edge "+e.Name, certLife, x509.ExtKeyUsageClientAuth)
		client.URIs = []*url.URL{{Scheme: "spiffe", Host: TrustDomain, Path: "/edge/" + e.Name}}
		if err := issue(ca, client, p.EdgeCert(e.Name), p.EdgeKey(e.Name)); err != nil {
			return err
		}
	}
	return nil
}

// issue signs a leaf and writes it with its key.
func issue(ca *pki.Pair, template *x509.Certificate, certFile, keyFile string) error {
	pair, err := ca.Sign(template)
	if err != nil {
		return fmt.Errorf("sign %s: %w", filepath.Base(certFile), err)
	}
	key, err := pair.KeyPEM()
	if err != nil {
		return err
	}
	if err := files.Replace(keyFile, key, 0o600); err != nil {
		return err
	}
	return files.Replace(certFile, pair.CertPEM(), 0o644)
}
