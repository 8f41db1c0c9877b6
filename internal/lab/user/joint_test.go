package user

import (
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/spillway-dev/spillway/internal/pki"
)

// twoHosts is a server of HTTP/2 with one certificate for a.example and b.example, that
// answers with the name of the handshake, the host and the client's address.
func twoHosts(t *testing.T) (*httptest.Server, *Edge) {
	t.Helper()
	ca, err := pki.Self(pki.Authority("test", time.Hour))
	if err != nil {
		t.Fatal(err)
	}
	template := pki.Leaf("server", time.Hour, x509.ExtKeyUsageServerAuth)
	template.DNSNames = []string{"a.example", "b.example"}
	pair, err := ca.Sign(template)
	if err != nil {
		t.Fatal(err)
	}
	s := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		fmt.Fprintln(w, r.TLS.ServerName, r.Host, r.RemoteAddr)
	}))
	s.TLS, s.EnableHTTP2 = &tls.Config{Certificates: []tls.Certificate{pair.TLS()}}, true
	s.StartTLS()
	t.Cleanup(s.Close)
	at := netip.MustParseAddrPort(s.Listener.Addr().String())
	e := NewEdge("test", at.Addr(), 0, int(at.Port()), ca.Pool())
	t.Cleanup(e.Close)
	return s, e
}

// asked returns what the server saw.
func asked(t *testing.T, r Request) (sni, host, from string) {
	t.Helper()
	reply := r.Send(t.Context())
	if reply.Err != nil || reply.Status != http.StatusOK || reply.Again != 0 {
		t.Fatalf("%s: %+v", r, reply)
	}
	out := strings.Fields(string(reply.Body))
	return out[0], out[1], out[2]
}

func TestOneConnectionForSeveralHosts(t *testing.T) {
	s, e := twoHosts(t)
	a, b := Request{Edge: e, URL: "https://a.example/", On: "a.example"}, Request{Edge: e, URL: "https://b.example/", On: "a.example"}
	sni, host, first := asked(t, a)
	if sni != "a.example" || host != "a.example" {
		t.Error(sni, host)
	}
	sni, host, from := asked(t, b)
	if sni != "a.example" || host != "b.example" || from != first {
		t.Errorf("b.example: handshake for %s, host %s, connection %s; want that for a.example, %s", sni, host, from, first)
	}
	b.Fresh = true
	if sni, host, from := asked(t, b); sni != "a.example" || host != "b.example" || from == first {
		t.Errorf("fresh: handshake for %s, host %s, connection %s; want another one than %s", sni, host, from, first)
	}
	s.CloseClientConnections()
	if reply := a.Send(t.Context()); reply.Status != http.StatusOK || reply.Again > 1 {
		t.Errorf("after the connection was closed: %+v", reply)
	}
}

// What no browser does is an error: the certificate is not for the host.
func TestNotForTheCertificate(t *testing.T) {
	_, e := twoHosts(t)
	for _, r := range []Request{
		{Edge: e, URL: "https://c.example/", On: "a.example"},
		{Edge: e, URL: "https://c.example/", On: "a.example", Fresh: true},
	} {
		if reply := r.Send(t.Context()); reply.Status != 0 || reply.Err == nil || !strings.Contains(reply.Err.Error(), "c.example") {
			t.Errorf("%s: %+v", r, reply)
		}
	}
}
