// Package pki makes keys and certificates: authorities, and what they sign. All
// keys are ECDSA on P-256.
package pki

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"time"
)

// Pair is a certificate and its key.
type Pair struct {
	Cert *x509.Certificate
	Key  *ecdsa.PrivateKey
}

// skew is how much later than ours a clock may be that judges a certificate.
const skew = time.Hour

// Authority is a template: of what signs others, and is valid for so long from now.
func Authority(name string, life time.Duration) *x509.Certificate {
	return &x509.Certificate{
		Subject: pkix.Name{CommonName: name}, IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign | x509.KeyUsageDigitalSignature,
		NotBefore: time.Now().Add(-skew), NotAfter: time.Now().Add(life),
	}
}

// Leaf is a template: of what shows itself to others, for uses such as
// x509.ExtKeyUsageServerAuth.
func Leaf(name string, life time.Duration, uses ...x509.ExtKeyUsage) *x509.Certificate {
	return &x509.Certificate{
		Subject: pkix.Name{CommonName: name}, KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: uses,
		NotBefore: time.Now().Add(-skew), NotAfter: time.Now().Add(life),
	}
}

// Self makes a key, and a certificate that it signs itself. A template without a
// serial number gets a random one.
func Self(template *x509.Certificate) (*Pair, error) { return sign(template, nil) }

// Sign makes a key, and a certificate that an authority signs, as Self does.
func (p *Pair) Sign(template *x509.Certificate) (*Pair, error) { return sign(template, p) }

func sign(template *x509.Certificate, by *Pair) (*Pair, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, err
	}
	if by == nil {
		by = &Pair{template, key}
	}
	return by.Certify(template, key)
}

// Certify is Sign for a key that is there. Who signs itself has its template as
// certificate.
func (p *Pair) Certify(template *x509.Certificate, key *ecdsa.PrivateKey) (*Pair, error) {
	der, err := x509.CreateCertificate(rand.Reader, template, p.Cert, &key.PublicKey, p.Key)
	if err != nil {
		return nil, err
	}
	cert, err := x509.ParseCertificate(der)
	return &Pair{cert, key}, err
}

// CertPEM is the certificate.
func (p *Pair) CertPEM() []byte {
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: p.Cert.Raw})
}

// KeyPEM is the key, as PKCS #8 (RFC 5958).
func (p *Pair) KeyPEM() ([]byte, error) {
	der, err := x509.MarshalPKCS8PrivateKey(p.Key)
	return pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der}), err
}

// TLS is both, for a server or a client.
func (p *Pair) TLS() tls.Certificate {
	return tls.Certificate{Certificate: [][]byte{p.Cert.Raw}, PrivateKey: p.Key, Leaf: p.Cert}
}

// Pool trusts the certificate alone.
func (p *Pair) Pool() *x509.CertPool {
	pool := x509.NewCertPool()
	pool.AddCert(p.Cert)
	return pool
}
