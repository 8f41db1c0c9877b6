package envoy

import (
	"cmp"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"net/url"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/spillway-dev/spillway/internal/fleet"
	"github.com/spillway-dev/spillway/internal/inc"
	"github.com/spillway-dev/spillway/internal/model"
	"github.com/spillway-dev/spillway/internal/pki"
)

// tlsPod is a pod that speaks TLS alone, with a certificate of an authority for
// names and a URI. It says by which name and protocol it was asked.
type tlsPod struct {
	authority *pki.Pair
	server    *httptest.Server
}

func newTLSPod(t *testing.T, uri string, names ...string) *tlsPod {
	t.Helper()
	ca, err := pki.Self(pki.Authority("pods", time.Hour))
	if err != nil {
		t.Fatal(err)
	}
	leaf := pki.Leaf("pod", time.Hour, x509.ExtKeyUsageServerAuth)
	leaf.DNSNames = names
	if u, err := url.Parse(uri); err == nil && uri != "" {
		leaf.URIs = []*url.URL{u}
	}
	pair, err := ca.Sign(leaf)
	if err != nil {
		t.Fatal(err)
	}
	// A server of Go has no TLS state of an HTTP/2 request whose scheme is that of the
	// client of the proxy, so it is noted when the connection is made.
	var last atomic.Pointer[tls.ConnectionState]
	p := &tlsPod{authority: ca, server: httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("X-Answered-By", fmt.Sprintf("%s by %s, %s@eu-1/0", last.Load().ServerName, r.Proto, tls.VersionName(last.Load().Version)))
	}))}
	p.server.TLS = &tls.Config{
		Certificates: []tls.Certificate{pair.TLS()}, NextProtos: []string{"h2", "http/1.1"},
		VerifyConnection: func(s tls.ConnectionState) error { last.Store(&s); return nil },
	}
	p.server.EnableHTTP2 = true
	p.server.Config.ErrorLog = log.New(io.Discard, "", 0) // of handshakes that the proxy ends
	p.server.StartTLS()
	t.Cleanup(p.server.Close)
	return p
}

func (p *tlsPod) endpoint() model.Endpoint {
	at := netip.MustParseAddrPort(strings.TrimPrefix(p.server.URL, "https://"))
	return model.Endpoint{Addr: at.Addr(), Port: at.Port()}
}

// TestBackendOverTLS: a pod is asked over TLS by the name that a policy says, and
// gets nothing if its certificate is of nobody that is trusted, or for other names.
func TestBackendOverTLS(t *testing.T) {
	p := newTLSPod(t, "spiffe://pods/web", "web.internal", "*.wild.internal")
	stranger, err := pki.Self(pki.Authority("strangers", time.Hour))
	if err != nil {
		t.Fatal(err)
	}
	ca := string(p.authority.CertPEM())
	r := newRig(t, timingForTests)
	r.commit(func(tx *inc.Tx) {
		r.shop(tx, p.endpoint(), "")
	})
	texts := func(list ...string) model.Texts { return model.TextsOf(list) }
	for _, c := range []struct {
		name string
		app  string
		is   model.UpstreamTLSKey
		want string // who answers, or the status
	}{
		{"by its name", "", model.UpstreamTLSKey{Host: "web.internal", CA: ca}, "web.internal by HTTP/1.1, TLS 1.3"},
		{"over HTTP/2", "kubernetes.io/h2c", model.UpstreamTLSKey{Host: "web.internal", CA: ca}, "web.internal by HTTP/2.0, TLS 1.3"},
		{"by a name under its wildcard", "https", model.UpstreamTLSKey{Host: "a.wild.internal", CA: ca}, "a.wild.internal by HTTP/1.1, TLS 1.3"},
		{"beside others that are trusted", "", model.UpstreamTLSKey{Host: "web.internal", CA: string(stranger.CertPEM()) + ca}, "web.internal by HTTP/1.1, TLS 1.3"},
		{"of nobody that is trusted", "", model.UpstreamTLSKey{Host: "web.internal", CA: string(stranger.CertPEM())}, "503"},
		{"of nobody that can be trusted", "", model.UpstreamTLSKey{Host: "web.internal", Broken: true}, "500"},
		{"for another name", "", model.UpstreamTLSKey{Host: "other.internal", CA: ca}, "503"},
		{"with the names that are said", "", model.UpstreamTLSKey{Host: "other.internal", Names: texts("no.internal", "web.internal"), CA: ca}, "other.internal by HTTP/1.1, TLS 1.3"},
		{"without the name that is said", "", model.UpstreamTLSKey{Host: "web.internal", Names: texts("no.internal"), CA: ca}, "503"},
		{"with the wildcard that is said", "", model.UpstreamTLSKey{Host: "other.internal", Names: texts("*.wild.internal"), CA: ca}, "other.internal by HTTP/1.1, TLS 1.3"},
		{"with the URI that is said", "", model.UpstreamTLSKey{Host: "other.internal", URIs: texts("spiffe://pods/web"), CA: ca}, "other.internal by HTTP/1.1, TLS 1.3"},
		{"without the URI that is said", "", model.UpstreamTLSKey{Host: "web.internal", URIs: texts("spiffe://pods/other"), CA: ca}, "503"},
		{"with one of both that are said", "", model.UpstreamTLSKey{Host: "web.internal", Names: texts("web.internal"), URIs: texts("spiffe://pods/other"), CA: ca}, "web.internal by HTTP/1.1, TLS 1.3"},
	} {
		t.Run(c.name, func(t *testing.T) {
			r.commit(func(tx *inc.Tx) {
				r.p.Backends.Set(tx, backend("shop/web/http"), fleet.Backend{AppProtocol: c.app, TLS: c.is.UpstreamTLS()})
			})
			validateAll(t, r.world)
			r.settled(t)
			got := r.ask(t, request{host: "shop.example", path: "/"})
			if answer := cmp.Or(strings.TrimSuffix(got.by, "@eu-1/0"), fmt.Sprint(got.status)); answer != c.want {
				t.Errorf("answered %q (%v), want %q", answer, got.err, c.want)
			}
		})
	}
}

// TestBackendIsShownACertificate: the front's certificate is shown to a pod that is
// spoken to over TLS, and nothing to others; one more or less fails no request.
func TestBackendIsShownACertificate(t *testing.T) {
	p := newTLSPod(t, "", "web.internal")
	p.server.TLS.ClientAuth = tls.RequestClientCert
	p.server.Config.Handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		who := "nobody"
		if len(r.TLS.PeerCertificates) > 0 {
			who = r.TLS.PeerCertificates[0].Subject.CommonName
		}
		w.Header().Set("X-Answered-By", who+"@eu-1/0")
	})
	r := newRig(t, timingForTests)
	r.commit(func(tx *inc.Tx) {
		r.shop(tx, p.endpoint(), "")
		r.p.Backends.Set(tx, backend("shop/web/http"), fleet.Backend{TLS: model.UpstreamTLSKey{Host: "web.internal", CA: string(p.authority.CertPEM())}.UpstreamTLS()})
		r.certificate(t, tx, "one", "client one")
		r.certificate(t, tx, "two", "client two")
	})
	m := &twoMembers{rig: r}
	for _, c := range []struct{ secret, want string }{{"", "nobody"}, {"one", "client one"}, {"two", "client two"}, {"", "nobody"}} {
		show := func(tx *inc.Tx) {
			row, _ := r.p.ClassInfo.Get(nil, testClass)
			if row.Client = (model.SecretID{}); c.secret != "" {
				row.Client = model.SecretID{Namespace: "shop", Name: c.secret}
			}
			r.specs.Set(tx, testClass, row)
			host, _ := r.p.Hosts.Get(nil, model.HostKey{Class: testClass, Host: "shop.example"})
			id := need{view: testView, backend: backend("shop/web/http"), dial: host.Dial}
			r.needs.Delete(tx, id)
			host.Dial = model.DialKey{Client: row.Client}.Dial()
			id.dial = host.Dial
			r.needs.Set(tx, id, model.There{})
			r.p.Hosts.Set(tx, model.HostKey{Class: testClass, Host: "shop.example"}, host)
		}
		r.settled(t)
		noneFailed(t, m.load(t, 200, 2, request{host: "shop.example", path: "/"}, 50, func() {
			r.commit(show)
			validateAll(t, r.world)
			r.settled(t)
		}))
		if got := r.ask(t, request{host: "shop.example", path: "/"}); got.by != c.want+"@eu-1/0" {
			t.Errorf("shown is %q with %d (%v), want %q", got.by, got.status, got.err, c.want)
		}
	}
}

// TestTrustChangesUnderLoad: no request fails while authorities are exchanged, and
// who asked for a name goes on doing so.
func TestTrustChangesUnderLoad(t *testing.T) {
	p := newTLSPod(t, "", "web.internal")
	r := newRig(t, timingForTests)
	trust := func(more string) func(*inc.Tx) {
		return func(tx *inc.Tx) {
			r.p.Backends.Set(tx, backend("shop/web/http"), fleet.Backend{TLS: model.UpstreamTLSKey{Host: "web.internal", CA: string(p.authority.CertPEM()) + more}.UpstreamTLS()})
		}
	}
	r.commit(func(tx *inc.Tx) {
		r.shop(tx, p.endpoint(), "")
		trust("")(tx)
	})
	r.settled(t)
	stranger, err := pki.Self(pki.Authority("strangers", time.Hour))
	if err != nil {
		t.Fatal(err)
	}
	m := &twoMembers{rig: r}
	noneFailed(t, m.load(t, 200, 2, request{host: "shop.example", path: "/"}, 50, func() {
		r.commit(trust(string(stranger.CertPEM())))
		r.settled(t)
	}))
}

// TestClientsGetNothingOverTLS: a gRPC client takes whom it trusts from its own
// configuration, so a backend over TLS is none of its, and what is not in the clear
// is never asked in the clear.
func TestClientsGetNothingOverTLS(t *testing.T) {
	w := newWorld()
	w.g.Commit(func(tx *inc.Tx) {
		w.plain(tx)
		w.t.Clients.Demand.Set(tx, "fra", model.There{})
		to := target("web", "shop/web/http", "shop/b/http")
		w.host(tx, testClass, "shop.example", &to)
		for _, name := range []string{"shop/web/http", "shop/b/http"} {
			w.use(tx, testView, name, "")
			w.plan(tx, testView, name, share("eu-1", 0))
		}
		w.p.Backends.Set(tx, backend("shop/b/http"), fleet.Backend{TLS: model.UpstreamTLSKey{Host: "b.internal"}.UpstreamTLS()})
	})
	validateAll(t, w)
	res, ok := w.lookIn(w.t.Clients.Routes, testView, "shop.example")
	if !ok || len(res.Refs()) != 1 || res.Refs()[0].Name != "shop/web/http" {
		t.Errorf("%v refers to %v", ok, res.Refs())
	}
	if n := w.t.Clients.Clusters.Len(); n != 1 {
		t.Errorf("%d clusters: %v", n, w.t.Clients.Clusters.Keys())
	}
}
