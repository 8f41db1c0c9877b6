package main

import (
	"crypto/tls"
	"crypto/x509"
	"io"
	"log"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/spillway-dev/spillway/internal/lab/user"
)

// at is a front of an edge that is a test's server.
func at(t *testing.T, serve func(http.ResponseWriter, *http.Request), own *tls.Config, roots *x509.CertPool) *user.Edge {
	t.Helper()
	s := httptest.NewUnstartedServer(http.HandlerFunc(serve))
	s.Config.ErrorLog = log.New(io.Discard, "", 0) // of handshakes that should fail
	if s.TLS = own; own != nil {
		s.StartTLS()
	} else {
		s.Start()
	}
	to := netip.MustParseAddrPort(s.Listener.Addr().String())
	f := user.NewEdge("eu", to.Addr(), int(to.Port()), int(to.Port()), roots)
	t.Cleanup(func() {
		f.Close()
		s.Close()
	})
	return f
}

func testLoad(excused bool) *load {
	return &load{
		rng: rand.New(rand.NewPCG(1, 1)), began: time.Now(), doing: func() []string { return []string{"kill serve"} },
		excuse: func(time.Time, time.Time) bool { return excused },
	}
}

// TestLoadJudges: an answer that is right counts as such, any other fails, and
// only a POST is ever excused.
func TestLoadJudges(t *testing.T) {
	f := at(t, func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/web":
			_, _ = w.Write([]byte(`{"pod":"web-1-2"}`))
		case "/cut":
			panic(http.ErrAbortHandler)
		case "/noise":
			_, _ = w.Write([]byte("hello"))
		default:
			w.WriteHeader(http.StatusServiceUnavailable)
		}
	}, nil, nil)
	for _, c := range []struct {
		path, right     string
		unsafe, excuse  bool
		failed, excused int
		got             string
	}{
		{path: "/web", right: "200 web"},
		{path: "/web", right: "200 api", failed: 1, got: "200 web"},
		{path: "/gone", right: "503"},
		{path: "/gone", right: "200 web", failed: 1, got: "503"},
		{path: "/gone", right: "200 web", excuse: true, failed: 1, got: "503"},
		{path: "/gone", right: "200 web", unsafe: true, excuse: true, excused: 1, got: "503"},
		{path: "/gone", right: "404", unsafe: true, excuse: true, failed: 1, got: "503"},
		{path: "/gone", right: "200 web", unsafe: true, failed: 1, got: "503"},
		{path: "/cut", right: "200 web", failed: 1, got: "EOF"},
		{path: "/noise", right: "200 web", failed: 1, got: "not of a pod"},
	} {
		l := testLoad(c.excuse)
		x := newTarget("a.example", c.path, false, c.right)
		r := user.Request{Edge: f, URL: x.String(), Unsafe: c.unsafe}
		l.judge(x, r, r.Send(t.Context()))
		got := l.tally
		if got.failed != c.failed || got.excused != c.excused || len(got.latency) != 1 {
			t.Errorf("%+v: %d failed, %d excused", c, got.failed, got.excused)
		}
		if c.got != "" && (len(got.failures) != 1 || !strings.Contains(got.failures[0].Got, c.got) || got.failures[0].Doing[0] != "kill serve") {
			t.Errorf("%+v: told as %+v", c, got.failures)
		}
	}
}

// TestCertificates: one that is not for the host is a failure, and no TLS at
// all is an answer of its own.
func TestCertificates(t *testing.T) {
	authority, err := newCA()
	if err != nil {
		t.Fatal(err)
	}
	p, err := authority.sign("a.example")
	if err != nil {
		t.Fatal(err)
	}
	cert, err := tls.X509KeyPair([]byte(p.cert), []byte(p.key))
	if err != nil {
		t.Fatal(err)
	}
	serve := func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte(`{"pod":"web-1-2"}`)) }
	f := at(t, serve, &tls.Config{Certificates: []tls.Certificate{cert}}, authority.pool)
	refuses := at(t, serve, &tls.Config{GetConfigForClient: func(*tls.ClientHelloInfo) (*tls.Config, error) { return nil, http.ErrAbortHandler }}, authority.pool)
	for _, c := range []struct {
		at         *user.Edge
		host, want string
	}{{f, "a.example", "200 web"}, {f, "b.example", "certificate is valid for a.example"}, {refuses, "a.example", closed}} {
		for _, fresh := range []bool{false, true} {
			got := user.Request{Edge: c.at, URL: "https://" + c.host + "/", Fresh: fresh}.Send(t.Context())
			if !strings.Contains(answer(got), c.want) || c.want == "200 web" && got.Serial != p.serial {
				t.Errorf("%s, fresh %v: %s, %d", c.host, fresh, answer(got), got.Serial)
			}
		}
	}
}
