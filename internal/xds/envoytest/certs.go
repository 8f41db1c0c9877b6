package envoytest

import (
	"crypto/x509"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/spillway-dev/spillway/internal/pki"
)

// CA signs certificates for one test.
type CA struct {
	File string // its certificate, PEM
	dir  string
	pair *pki.Pair
}

// Name adds a subject alternative name to a certificate.
type Name func(*x509.Certificate)

// URI is a URI name.
func URI(u string) Name {
	return func(c *x509.Certificate) {
		if p, err := url.Parse(u); err == nil {
			c.URIs = append(c.URIs, p)
		}
	}
}

// IP is an address.
func IP(a string) Name {
	return func(c *x509.Certificate) { c.IPAddresses = append(c.IPAddresses, net.ParseIP(a)) }
}

// NewCA makes a certificate authority in a folder of the test.
func NewCA(t testing.TB) *CA {
	t.Helper()
	pair, err := pki.Self(pki.Authority("test CA", time.Hour))
	if err != nil {
		t.Fatal(err)
	}
	a := &CA{dir: t.TempDir(), pair: pair}
	a.File = filepath.Join(a.dir, "ca.pem")
	write(t, a.File, pair.CertPEM())
	return a
}

// Leaf signs a certificate for clients and servers and returns its files.
func (a *CA) Leaf(t testing.TB, file string, names ...Name) (cert, key string) {
	t.Helper()
	template := pki.Leaf(file, time.Hour, x509.ExtKeyUsageClientAuth, x509.ExtKeyUsageServerAuth)
	for _, n := range names {
		n(template)
	}
	pair, err := a.pair.Sign(template)
	if err != nil {
		t.Fatal(err)
	}
	secret, err := pair.KeyPEM()
	if err != nil {
		t.Fatal(err)
	}
	cert, key = filepath.Join(a.dir, file+".pem"), filepath.Join(a.dir, file+".key")
	write(t, cert, pair.CertPEM())
	write(t, key, secret)
	return cert, key
}

func write(t testing.TB, path string, text []byte) {
	t.Helper()
	if err := os.WriteFile(path, text, 0o600); err != nil {
		t.Fatal(err)
	}
}
