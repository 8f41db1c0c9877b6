package echo

import (
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"time"

	"github.com/spillway-dev/spillway/internal/pki"
)

const certLife = 30 * 24 * time.Hour

// certificate reads the configured certificate or makes a self-signed one.
func (s *Server) certificate() (tls.Certificate, error) {
	if s.cfg.CertFile != "" {
		cert, err := tls.LoadX509KeyPair(s.cfg.CertFile, s.cfg.KeyFile)
		if err != nil {
			return cert, fmt.Errorf("echo: certificate: %w", err)
		}
		return cert, nil
	}
	name := s.cfg.Identity.Pod
	if name == "" {
		name = "echo"
	}
	template := pki.Leaf(name, certLife, x509.ExtKeyUsageServerAuth)
	template.DNSNames = []string{name}
	pair, err := pki.Self(template)
	if err != nil {
		return tls.Certificate{}, fmt.Errorf("echo: certificate: %w", err)
	}
	return pair.TLS(), nil
}
