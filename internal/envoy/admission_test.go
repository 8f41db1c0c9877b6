package envoy

import (
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/spillway-dev/spillway/internal/fleet"
	"github.com/spillway-dev/spillway/internal/inc"
	"github.com/spillway-dev/spillway/internal/model"
	"github.com/spillway-dev/spillway/internal/pki"
)

// visitor is a client with a certificate of an authority, or with none.
type visitor struct {
	name string
	pair *pki.Pair
}

// visitors are one of each of some authorities, and one with nothing.
func visitors(t *testing.T, names ...string) (out []visitor, authorities []string) {
	t.Helper()
	for _, name := range names {
		ca, err := pki.Self(pki.Authority(name, time.Hour))
		if err != nil {
			t.Fatal(err)
		}
		pair, err := ca.Sign(pki.Leaf("client of "+name, time.Hour, x509.ExtKeyUsageClientAuth))
		if err != nil {
			t.Fatal(err)
		}
		out, authorities = append(out, visitor{name, pair}), append(authorities, string(ca.CertPEM()))
	}
	return append(out, visitor{name: "nobody"}), authorities
}

// visit asks once, on a connection of its own, and gives what the pod was told of the
// client; an error: it was not let in.
func (r *rig) visit(t *testing.T, v visitor, sni string) (string, error) {
	t.Helper()
	config := &tls.Config{ServerName: sni, InsecureSkipVerify: true} //nolint:gosec // a test
	if v.pair != nil {
		own := v.pair.TLS() // whichever authorities the port names
		config.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return &own, nil }
	}
	c := &http.Client{Transport: &http.Transport{TLSClientConfig: config, DisableKeepAlives: true}, Timeout: 10 * time.Second}
	q, err := http.NewRequestWithContext(t.Context(), http.MethodGet, fmt.Sprintf("https://127.0.0.1:%d/", r.https), nil)
	if err != nil {
		t.Fatal(err)
	}
	q.Host = "shop.example"
	q.Header.Set("X-Forwarded-Client-Cert", "forged")
	a, err := c.Do(q)
	if err != nil {
		return "", err
	}
	defer func() { _ = a.Body.Close() }()
	_, err = io.Copy(io.Discard, a.Body)
	if a.StatusCode != http.StatusOK {
		t.Errorf("%s: %d", v.name, a.StatusCode)
	}
	return a.Header.Get("X-Told"), err
}

// TestClientsAreLetInByCertificates: whoever a port lets in by its certificate, by
// whatever name it asks, however the port's own certificates come, and while what it asks
// for changes. The pod is told of the client what was checked, or all of it.
func TestClientsAreLetInByCertificates(t *testing.T) {
	all, ca := visitors(t, "one", "two")
	for _, certificates := range []delivery{static, onDemand} {
		t.Run(certificates.String(), func(t *testing.T) {
			p := newPod(t, "web@eu-1/0")
			tell := func(w http.ResponseWriter, q *http.Request) {
				w.Header().Set("X-Told", q.Header.Get("X-Forwarded-Client-Cert"))
			}
			handler := p.server.Handler
			p.server.Handler = http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) { tell(w, q); handler.ServeHTTP(w, q) })
			r := newRigWith(t, timingForTests, certificates, usual)
			r.commit(func(tx *inc.Tx) {
				r.shop(tx, p.endpoint(), "")
				for _, name := range []model.Host{"", "shop.example"} {
					r.certificate(t, tx, "cert", "shop.example")
					r.p.Chains.Set(tx, model.HostKey{Class: testClass, Host: name}, fleet.Chain{Secrets: []model.SecretID{{Namespace: "shop", Name: "cert"}}})
				}
			})
			for _, c := range []struct {
				what   string
				trust  model.ClientTrust
				letIn  string
				whole  bool // certificates are passed on
				silent bool // nothing is told
			}{
				{what: "nothing is asked", letIn: "one two nobody", silent: true},
				{what: "one", trust: model.ClientTrustKey{CA: ca[0]}.ClientTrust(), letIn: "one"},
				{what: "two", trust: model.ClientTrustKey{CA: ca[1]}.ClientTrust(), letIn: "two"},
				{what: "both", trust: model.ClientTrustKey{CA: ca[0] + ca[1]}.ClientTrust(), letIn: "one two"},
				{what: "one or not", trust: model.ClientTrustKey{CA: ca[0], Fallback: true}.ClientTrust(), letIn: "one two nobody", whole: true},
				{what: "nothing again", letIn: "one two nobody", silent: true},
			} {
				r.commit(func(tx *inc.Tx) {
					row, _ := r.p.ClassInfo.Get(nil, testClass)
					row.Clients = c.trust
					r.specs.Set(tx, testClass, row)
				})
				validateAll(t, r.world)
				r.settled(t)
				for _, v := range all {
					for _, sni := range []string{"shop.example", "else.example", ""} {
						told, err := r.visit(t, v, sni)
						in := strings.Contains(c.letIn, v.name)
						if (err == nil) != in {
							t.Errorf("%s: %s as %q: %v", c.what, v.name, sni, err)
							continue
						}
						if !in {
							continue
						}
						known := v.pair != nil && !c.silent
						if says := strings.Contains(told, "client of "+v.name); says != known {
							t.Errorf("%s: of %s the pod is told %q", c.what, v.name, told)
						}
						if whole := strings.Contains(told, "BEGIN%20CERTIFICATE"); whole != (known && c.whole) || strings.Contains(told, "forged") {
							t.Errorf("%s: of %s the pod is told %q", c.what, v.name, told)
						}
					}
				}
			}
		})
	}
}
