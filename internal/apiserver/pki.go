package apiserver

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/netip"
	"os"
	"time"

	"github.com/spillway-dev/spillway/internal/files"
	"github.com/spillway-dev/spillway/internal/pki"
)

const (
	caLife    = 10 * 365 * 24 * time.Hour
	leafLife  = 365 * 24 * time.Hour
	leafRenew = leafLife / 2 // renewed when less than this is left
	clockSkew = 5 * time.Minute
)

// pkiFiles are the paths of all keys and certificates, in PEM.
type pkiFiles struct {
	caCert, caKey           string
	servingCert, servingKey string
	adminCert, adminKey     string
	serveCert, serveKey     string // of `spillway serve`
	serviceAccountKey       string
}

// ensurePKI makes what is missing or near its end. The CA and the service
// account key, once made, stay: whoever trusts them is not asked again.
func (d *dataDir) ensurePKI(addr netip.Addr, serviceIP net.IP, now time.Time) (pkiFiles, error) {
	f := pkiFiles{
		caCert: d.pki("ca.crt"), caKey: d.pki("ca.key"),
		servingCert: d.pki("serving.crt"), servingKey: d.pki("serving.key"),
		adminCert: d.pki("admin.crt"), adminKey: d.pki("admin.key"),
		serveCert: d.pki("serve.crt"), serveKey: d.pki("serve.key"),
		serviceAccountKey: d.pki("service-account.key"),
	}
	ca, err := ensureCA(f.caCert, f.caKey, now)
	if err != nil {
		return f, fmt.Errorf("certificate authority: %w", err)
	}
	serving := pki.Leaf("spillway-api", leafLife, x509.ExtKeyUsageServerAuth)
	serving.DNSNames = []string{"localhost", "kubernetes", "kubernetes.default", "kubernetes.default.svc", "kubernetes.default.svc.cluster.local"}
	serving.IPAddresses = []net.IP{addr.AsSlice(), serviceIP, net.IPv4(127, 0, 0, 1), net.IPv6loopback}
	if err := ensureLeaf(ca, f.servingCert, f.servingKey, serving, now); err != nil {
		return f, fmt.Errorf("serving certificate: %w", err)
	}
	for _, client := range []struct {
		name, cert, key string
		groups          []string
	}{
		{"spillway-admin", f.adminCert, f.adminKey, []string{"system:masters"}},
		{serveUser, f.serveCert, f.serveKey, nil},
	} {
		want := pki.Leaf(client.name, leafLife, x509.ExtKeyUsageClientAuth)
		want.Subject.Organization = client.groups
		if err := ensureLeaf(ca, client.cert, client.key, want, now); err != nil {
			return f, fmt.Errorf("certificate of %s: %w", client.name, err)
		}
	}
	if _, err := ensureKey(f.serviceAccountKey); err != nil {
		return f, fmt.Errorf("service account key: %w", err)
	}
	return f, nil
}

// ensureCA loads the CA, or makes one. A CA that is half there or can't be read
// is an error: a new one would lock everybody out who trusts the old one.
func ensureCA(certPath, keyPath string, now time.Time) (*pki.Pair, error) {
	cert, certErr := readCert(certPath)
	if certErr == nil {
		key, err := readKey(keyPath)
		if err != nil {
			return nil, err
		}
		return &pki.Pair{Cert: cert, Key: key}, nil
	}
	if !errors.Is(certErr, fs.ErrNotExist) {
		return nil, certErr
	}
	key, err := ensureKey(keyPath)
	if err != nil {
		return nil, err
	}
	template := pki.Authority("spillway-api-ca", caLife)
	return issue(&pki.Pair{Cert: template, Key: key}, certPath, template, key, now, caLife)
}

// ensureLeaf keeps a certificate that will do and makes a new one otherwise.
func ensureLeaf(ca *pki.Pair, certPath, keyPath string, want *x509.Certificate, now time.Time) error {
	key, err := ensureKey(keyPath)
	if err != nil {
		return err
	}
	have, err := readCert(certPath)
	if err == nil && fits(ca, have, want, key, now) {
		return nil
	}
	_, err = issue(ca, certPath, want, key, now, leafLife)
	return err
}

func fits(ca *pki.Pair, have, want *x509.Certificate, key *ecdsa.PrivateKey, now time.Time) bool {
	for _, ip := range want.IPAddresses {
		if have.VerifyHostname(ip.String()) != nil {
			return false
		}
	}
	return have.CheckSignatureFrom(ca.Cert) == nil &&
		key.PublicKey.Equal(have.PublicKey) &&
		now.After(have.NotBefore) && have.NotAfter.Sub(now) > leafRenew
}

// issue writes a certificate for a key that is kept, of a life that begins now.
func issue(ca *pki.Pair, path string, t *x509.Certificate, key *ecdsa.PrivateKey, now time.Time, life time.Duration) (*pki.Pair, error) {
	t.SerialNumber, t.NotBefore, t.NotAfter = nil, now.Add(-clockSkew), now.Add(life)
	p, err := ca.Certify(t, key)
	if err != nil {
		return nil, err
	}
	return p, files.Replace(path, p.CertPEM(), 0o644)
}

// ensureKey loads an ECDSA P-256 key, or makes one with mode 0600.
func ensureKey(path string) (*ecdsa.PrivateKey, error) {
	key, err := readKey(path)
	if err == nil || !errors.Is(err, fs.ErrNotExist) {
		return key, err
	}
	fresh, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, err
	}
	der, err := x509.MarshalECPrivateKey(fresh)
	if err != nil {
		return nil, err
	}
	block := &pem.Block{Type: "EC PRIVATE KEY", Bytes: der}
	return fresh, files.Replace(path, pem.EncodeToMemory(block), 0o600)
}

func readKey(path string) (*ecdsa.PrivateKey, error) {
	der, err := readPEM(path, "EC PRIVATE KEY")
	if err != nil {
		return nil, err
	}
	key, err := x509.ParseECPrivateKey(der)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return key, nil
}

func readCert(path string) (*x509.Certificate, error) {
	der, err := readPEM(path, "CERTIFICATE")
	if err != nil {
		return nil, err
	}
	cert, err := x509.ParseCertificate(der)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return cert, nil
}

func readPEM(path, kind string) ([]byte, error) {
	b, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	block, _ := pem.Decode(b)
	if block == nil || block.Type != kind {
		return nil, fmt.Errorf("%s holds no %s: restore it from a backup, or start with an empty --data-dir", path, kind)
	}
	return block.Bytes, nil
}
