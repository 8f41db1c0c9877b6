package main

import (
	"crypto/tls"
	"crypto/x509"
	"math/big"
	"net"
	"time"

	"github.com/spillway-dev/spillway/internal/pki"
)

// certificate is a self-signed one, for all hosts of the fleet, as PEM.
type certificate struct {
	serial     int64
	chain, key []byte
}

func newCertificate(serial int64) (certificate, error) {
	template := pki.Leaf("bench", 24*time.Hour, x509.ExtKeyUsageServerAuth)
	template.SerialNumber, template.DNSNames, template.IPAddresses = big.NewInt(serial), []string{"*" + domain}, []net.IP{net.IPv4(127, 0, 0, 1)}
	p, err := pki.Self(template)
	if err != nil {
		return certificate{}, err
	}
	key, err := p.KeyPEM()
	return certificate{serial: serial, chain: p.CertPEM(), key: key}, err
}

// pair is the certificate for a server of ours.
func (c certificate) pair() (tls.Certificate, error) { return tls.X509KeyPair(c.chain, c.key) }
