package envoy

import (
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"

	"github.com/spillway-dev/spillway/internal/fleet"
	"github.com/spillway-dev/spillway/internal/inc"
	"github.com/spillway-dev/spillway/internal/model"
	"github.com/spillway-dev/spillway/internal/xds/envoytest"
)

// oneHost serves shop.example from one pod, with TLS.
func oneHost(t *testing.T, p *pod, appProtocol string) *rig {
	t.Helper()
	return newRig(t, timingForTests).serving(t, p, appProtocol)
}

// shop serves shop.example from one endpoint.
func (w *world) shop(tx *inc.Tx, e model.Endpoint, appProtocol string) {
	def := target("web", "shop/web/http")
	w.host(tx, testClass, "shop.example", &def)
	w.use(tx, testView, "shop/web/http", appProtocol)
	w.group(tx, "shop/web/http", "eu-1", e)
	w.plan(tx, testView, "shop/web/http", share("eu-1", 0))
}

// serving has the rig serve shop.example.
func (r *rig) serving(t *testing.T, p *pod, appProtocol string) *rig {
	t.Helper()
	r.commit(func(tx *inc.Tx) {
		r.shop(tx, p.endpoint(), appProtocol)
		r.certificate(t, tx, "cert", "first")
		r.p.Chains.Set(tx, model.HostKey{Class: testClass, Host: "shop.example"}, fleet.Chain{Secrets: []model.SecretID{{Namespace: "shop", Name: "cert"}}})
	})
	r.settled(t)
	return r
}

// certificate writes Secret shop/secret with a certificate of this common name.
func (r *rig) certificate(t *testing.T, tx *inc.Tx, secret, name string) {
	r.p.In.Certificates.Set(tx, model.SecretID{Namespace: "shop", Name: secret}, selfSigned(t, name))
}

// presented is the common name of the certificate that a name gets, and the
// protocol that was agreed on.
func (r *rig) presented(t *testing.T, sni string) (name, protocol string) {
	t.Helper()
	c, err := tls.Dial("tcp", fmt.Sprintf("127.0.0.1:%d", r.https), &tls.Config{
		ServerName: sni, InsecureSkipVerify: true, NextProtos: []string{"h2", "http/1.1"},
	})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = c.Close() }()
	s := c.ConnectionState()
	return s.PeerCertificates[0].Subject.CommonName, s.NegotiatedProtocol
}

func TestCertificateIsReplacedAlone(t *testing.T) {
	r := oneHost(t, newPod(t, "web@eu-1/0"), "")
	name, protocol := r.presented(t, "shop.example")
	if name != "first" || protocol != "h2" {
		t.Errorf("presented %s for %s", name, protocol)
	}
	listener := r.get(t, r.t.Listeners, fmt.Sprintf("https-%d", r.https))
	r.commit(func(tx *inc.Tx) { r.certificate(t, tx, "cert", "second") })
	if !r.get(t, r.t.Listeners, listener.Name).Equal(listener) {
		t.Error("the listener changed with the certificate")
	}
	envoytest.Until(t, "the second certificate", func() bool { name, _ = r.presented(t, "shop.example"); return name == "second" })
}

func TestHeaders(t *testing.T) {
	r := oneHost(t, newPod(t, "web@eu-1/0"), "")
	got := r.ask(t, request{host: "shop.example:8080", path: "/a%3Fb?q=%2F//", header: http.Header{
		"X-Spillway-Scope": {"|other.example"}, "X_Under": {"forged"}, "X-Envoy-Retry-On": {"5xx"}, "X-Envoy-Upstream-Rq-Timeout-Ms": {"1"},
	}})
	for name, want := range map[string]string{
		"Server":                             "pod",
		"X-Host":                             "shop.example:8080",
		"X-Path":                             "/a%3Fb?q=%2F//",
		"Got-X-Forwarded-Proto":              "http",
		"Got-X_under":                        "",
		"Got-X-Spillway-Scope":               "",
		"Got-X-Envoy-Retry-On":               "",
		"Got-X-Envoy-Upstream-Rq-Timeout-Ms": "",
		"Got-X-Envoy-Expected-Rq-Timeout-Ms": "",
		"X-Envoy-Upstream-Service-Time":      "",
	} {
		if got.header.Get(name) != want {
			t.Errorf("%s is %q, want %q", name, got.header.Get(name), want)
		}
	}
	if got.header.Get("Got-X-Request-Id") == "" {
		t.Error("the request has no id")
	}
}

func TestBackendProtocols(t *testing.T) {
	for _, c := range []struct{ appProtocol, proto string }{
		{"", "HTTP/1.1"}, {"kubernetes.io/ws", "HTTP/1.1"}, {"kubernetes.io/h2c", "HTTP/2.0"}, {"grpc", "HTTP/2.0"}, {"something.example/else", "HTTP/1.1"},
	} {
		t.Run("appProtocol="+c.appProtocol, func(t *testing.T) {
			r := oneHost(t, newPod(t, "web@eu-1/0"), c.appProtocol)
			for _, q := range []request{{host: "shop.example", path: "/"}, {host: "shop.example", path: "/", tls: true, sni: "shop.example"}} {
				got := r.ask(t, q)
				if got.status != 200 || got.header.Get("X-Proto") != c.proto {
					t.Errorf("%+v", got)
				}
			}
		})
	}
}

// Routes, hosts and classes come and go while others are asked for: none of
// those requests fails, and a host is not found until it is served.
func TestHostsComeAndGoUnderLoad(t *testing.T) {
	r := oneHost(t, newPod(t, "web@eu-1/0"), "")
	m := &twoMembers{rig: r}
	def := target("web", "shop/web/http")
	for name, change := range map[string]func(tx *inc.Tx){
		"a route of it": func(tx *inc.Tx) {
			r.host(tx, testClass, "shop.example", &def, fleet.Route{Match: prefix("/new"), Target: def})
		},
		"another host":        func(tx *inc.Tx) { r.host(tx, testClass, "new.example", &def) },
		"a wildcard above it": func(tx *inc.Tx) { r.host(tx, testClass, "*.example", &def) },
		"a class on its ports": func(tx *inc.Tx) {
			r.class(tx, "younger", 2, uint16(r.http), uint16(r.https))
			r.together(tx, "younger")
			r.host(tx, "younger", "younger.example", &def)
		},
		"another host goes": func(tx *inc.Tx) { r.p.Hosts.Delete(tx, model.HostKey{Class: testClass, Host: "new.example"}) },
	} {
		t.Run(name, func(t *testing.T) {
			noneFailed(t, m.load(t, 200, 4, shopRequest, 50, func() {
				r.commit(change)
				r.settled(t)
			}))
		})
	}
	for host, want := range map[string]int{"younger.example": 200, "new.example": 200, "a.new.example": 404} { // *.example has new.example
		if got := r.ask(t, request{host: host, path: "/"}); got.status != want {
			t.Errorf("%s: %+v", host, got)
		}
	}
}

// A host that comes is answered 404, then 200, and nothing else.
func TestNewHostsAreNotFoundAndThenServed(t *testing.T) {
	r := oneHost(t, newPod(t, "web@eu-1/0"), "")
	def := target("web", "shop/web/http")
	for i := range 50 {
		host := model.Host(fmt.Sprintf("new-%d.example", i))
		r.commit(func(tx *inc.Tx) { r.host(tx, testClass, host, &def) })
		envoytest.Until(t, "the host to be served", func() bool {
			got := r.ask(t, request{host: string(host), path: "/"})
			if got.err != nil || got.status != 404 && got.status != 200 {
				t.Fatalf("%s: %+v", host, got)
			}
			return got.status == 200
		})
	}
}

// A changed protocol makes another cluster: the old one serves until the new
// one is there, and no request fails in between.
func TestProtocolChange(t *testing.T) {
	r := oneHost(t, newPod(t, "web@eu-1/0"), "")
	m := &twoMembers{rig: r}
	noneFailed(t, m.load(t, 300, 4, shopRequest, 50, func() {
		r.commit(func(tx *inc.Tx) { r.use(tx, testView, "shop/web/http", "kubernetes.io/h2c") })
		r.settled(t)
	}))
	if got := r.ask(t, shopRequest); got.header.Get("X-Proto") != "HTTP/2.0" {
		t.Errorf("%+v", got)
	}
}

func TestWebSocket(t *testing.T) {
	r := oneHost(t, newPod(t, "web@eu-1/0"), "")
	c, err := net.Dial("tcp", fmt.Sprintf("127.0.0.1:%d", r.http))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = c.Close() }()
	fmt.Fprint(c, "GET /chat HTTP/1.1\r\nHost: shop.example\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n")
	head := make([]byte, 12)
	if _, err := io.ReadFull(c, head); err != nil || string(head) != "HTTP/1.1 101" {
		t.Fatalf("%q %v", head, err)
	}
	fmt.Fprint(c, "over and back")
	var got strings.Builder
	for !strings.HasSuffix(got.String(), "over and back") {
		b := make([]byte, 64)
		n, err := c.Read(b)
		if err != nil {
			t.Fatal(err)
		}
		got.Write(b[:n])
	}
}

// An edge that says it has an IPv6 address listens on IPv6 too, and what it
// listened on before is the same as ever: no socket closes.
func TestIPv6(t *testing.T) {
	l, err := net.Listen("tcp6", "[::1]:0")
	if err != nil {
		t.Skip("this machine has no IPv6")
	}
	_ = l.Close()
	r := oneHost(t, newPod(t, "web@eu-1/0"), "")
	key := testView.Key()
	key.IPv6 = true
	six := key.View()
	r.commit(func(tx *inc.Tx) { r.edge(tx, "six", six) })
	for _, name := range []string{fmt.Sprintf("http-%d", r.http), fmt.Sprintf("https-%d", r.https)} {
		before, _ := r.lookIn(r.t.Listeners, testView, name)
		after, _ := r.lookIn(r.t.Listeners, six, name)
		if before.Version == "" || before.Version != after.Version {
			t.Errorf("%s has version %q, and %q with IPv6", name, before.Version, after.Version)
		}
	}
	r.move(six)
	r.settled(t)
	for _, host := range []string{"127.0.0.1", "::1"} {
		envoytest.Until(t, "an answer on "+host, func() bool {
			resp, err := http.Get("http://" + net.JoinHostPort(host, itoa(uint32(r.http))))
			if err != nil {
				return false
			}
			_ = resp.Body.Close()
			return resp.StatusCode == http.StatusNotFound // nobody serves that host
		})
	}
}
