package envoytest

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"testing"
	"time"
)

// CA signs certificates for one test.
type CA struct {
	File string // its certificate, PEM
	dir  string
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
	next int64
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
	a := &CA{dir: t.TempDir(), next: 2}
	a.File = filepath.Join(a.dir, "ca.pem")
	key := newKey(t)
	tmpl := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "test CA"}, IsCA: true, BasicConstraintsValid: true,
		KeyUsage: x509.KeyUsageCertSign, NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
	}
	der, err := x509.CreateCertificate(rand.Reader, tmpl, tmpl, &key.PublicKey, key)
	if err != nil {
		t.Fatal(err)
	}
	a.key = key
	if a.cert, err = x509.ParseCertificate(der); err != nil {
		t.Fatal(err)
	}
	writePEM(t, a.File, "CERTIFICATE", der)
	return a
}

// Leaf signs a certificate for clients and servers and returns its files.
func (a *CA) Leaf(t testing.TB, file string, names ...Name) (cert, key string) {
	t.Helper()
	k := newKey(t)
	a.next++
	tmpl := &x509.Certificate{
		SerialNumber: big.NewInt(a.next), Subject: pkix.Name{CommonName: file}, KeyUsage: x509.KeyUsageDigitalSignature,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth, x509.ExtKeyUsageServerAuth},
		NotBefore:   time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
	}
	for _, n := range names {
		n(tmpl)
	}
	der, err := x509.CreateCertificate(rand.Reader, tmpl, a.cert, &k.PublicKey, a.key)
	if err != nil {
		t.Fatal(err)
	}
	raw, err := x509.MarshalPKCS8PrivateKey(k)
	if err != nil {
		t.Fatal(err)
	}
	cert, key = filepath.Join(a.dir, file+".pem"), filepath.Join(a.dir, file+".key")
	writePEM(t, cert, "CERTIFICATE", der)
	writePEM(t, key, "PRIVATE KEY", raw)
	return cert, key
}

func newKey(t testing.TB) *ecdsa.PrivateKey {
	t.Helper()
	k, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	return k
}

func writePEM(t testing.TB, path, kind string, der []byte) {
	t.Helper()
	if err := os.WriteFile(path, pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}), 0o600); err != nil {
		t.Fatal(err)
	}
}
