package fleettest

import (
	"strings"
	"time"

	"github.com/spillway-dev/spillway/internal/model"
	"github.com/spillway-dev/spillway/internal/pki"
)

// SelfSigned makes a certificate for some names, with its key, as a TLS Secret
// has them. It is valid throughout the century.
func SelfSigned(names ...string) (model.Certificate, error) {
	template := pki.Leaf(strings.Join(names, " "), 0)
	template.DNSNames = names
	template.NotBefore, template.NotAfter = time.Date(2001, 1, 1, 0, 0, 0, 0, time.UTC), time.Date(2101, 1, 1, 0, 0, 0, 0, time.UTC)
	p, err := pki.Self(template)
	if err != nil {
		return model.Certificate{}, err
	}
	key, err := p.KeyPEM()
	return model.Certificate{Chain: p.CertPEM(), Key: key, Names: names}, err
}
