package lab

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"math/big"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"time"
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

// authority signs; its own key is never written.
type authority struct {
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
}

// writePKI makes a fresh authority and all certificates.
func writePKI(p PKI, edges []EdgeSpec) error {
	if err := os.MkdirAll(p.Dir, 0o700); err != nil {
		return err
	}
	ca, err := newAuthority()
	if err != nil {
		return fmt.Errorf("lab CA: %w", err)
	}
	if err := writePEM(p.CA(), "CERTIFICATE", ca.cert.Raw, 0o644); err != nil {
		return err
	}
	serve := &x509.Certificate{
		Subject: pkix.Name{CommonName: "spillway serve"}, DNSNames: []string{"localhost"}, IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	}
	if err := ca.issue(serve, p.ServeCert(), p.ServeKey()); err != nil {
		return err
	}
	for _, e := range edges {
		id := &url.URL{Scheme: "spiffe", Host: TrustDomain, Path: "/edge/" + e.Name}
		client := &x509.Certificate{
			Subject: pkix.Name{CommonName: "edge " + e.Name}, URIs: []*url.URL{id},
			ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
		}
		if err := ca.issue(client, p.EdgeCert(e.Name), p.EdgeKey(e.Name)); err != nil {
			return err
		}
	}
	return nil
}

func newAuthority() (*authority, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, err
	}
	tmpl := &x509.Certificate{
		Subject: pkix.Name{CommonName: "spillway lab"}, IsCA: true, BasicConstraintsValid: true,
		KeyUsage: x509.KeyUsageCertSign | x509.KeyUsageCRLSign,
	}
	if err := stamp(tmpl); err != nil {
		return nil, err
	}
	der, err := x509.CreateCertificate(rand.Reader, tmpl, tmpl, &key.PublicKey, key)
	if err != nil {
		return nil, err
	}
	cert, err := x509.ParseCertificate(der)
	return &authority{cert: cert, key: key}, err
}

// issue completes and signs a leaf and writes it with its key.
func (a *authority) issue(tmpl *x509.Certificate, certFile, keyFile string) error {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return err
	}
	tmpl.KeyUsage = x509.KeyUsageDigitalSignature
	if err := stamp(tmpl); err != nil {
		return err
	}
	der, err := x509.CreateCertificate(rand.Reader, tmpl, a.cert, &key.PublicKey, a.key)
	if err != nil {
		return fmt.Errorf("sign %s: %w", filepath.Base(certFile), err)
	}
	pkcs8, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return err
	}
	if err := writePEM(keyFile, "PRIVATE KEY", pkcs8, 0o600); err != nil {
		return err
	}
	return writePEM(certFile, "CERTIFICATE", der, 0o644)
}

func stamp(c *x509.Certificate) (err error) {
	c.NotBefore = time.Now().Add(-time.Hour)
	c.NotAfter = c.NotBefore.Add(certLife)
	c.SerialNumber, err = rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 127))
	return err
}

func writePEM(path, kind string, der []byte, mode os.FileMode) error {
	return writeFile(path, pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}), mode)
}

// writeFile replaces a file at once and with exactly this mode.
func writeFile(path string, data []byte, mode os.FileMode) error {
	f, err := os.CreateTemp(filepath.Dir(path), "."+filepath.Base(path)+"-*")
	if err != nil {
		return err
	}
	defer os.Remove(f.Name())
	_, err = f.Write(data)
	if err == nil {
		err = f.Chmod(mode)
	}
	if cerr := f.Close(); err == nil {
		err = cerr
	}
	if err != nil {
		return fmt.Errorf("write %s: %w", path, err)
	}
	return os.Rename(f.Name(), path)
}
