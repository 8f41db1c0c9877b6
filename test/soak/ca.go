package main

import (
	"crypto/x509"
	"math/big"
	"sync/atomic"
	"time"

	"github.com/spillway-dev/spillway/internal/pki"
)

// ca signs the certificates of hosts; clients trust it alone.
type ca struct {
	pair *pki.Pair
	pool *x509.CertPool
	last atomic.Int64 // serial number
}

func newCA() (*ca, error) {
	pair, err := pki.Self(pki.Authority("soak", 48*time.Hour))
	if err != nil {
		return nil, err
	}
	return &ca{pair: pair, pool: pair.Pool()}, nil
}

// pair is a certificate and its key, in PEM.
type pair struct {
	cert, key string
	serial    int64
}

// sign makes a new key and certificate for a host.
func (a *ca) sign(host string) (pair, error) {
	serial := a.last.Add(1)
	template := pki.Leaf(host, 24*time.Hour, x509.ExtKeyUsageServerAuth)
	template.SerialNumber, template.DNSNames = big.NewInt(serial), []string{host}
	p, err := a.pair.Sign(template)
	if err != nil {
		return pair{}, err
	}
	key, err := p.KeyPEM()
	return pair{string(p.CertPEM()), string(key), serial}, err
}
