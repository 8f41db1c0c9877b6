package envoy

import (
	"bufio"
	"bytes"
	"cmp"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"strings"
	"testing"

	wire "golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"

	"github.com/spillway-dev/spillway/internal/fleet"
	"github.com/spillway-dev/spillway/internal/inc"
	"github.com/spillway-dev/spillway/internal/xds/envoytest"
)

// forged is what a client says of itself, or of a proxy that it says is in between.
var forged = http.Header{
	"X-Forwarded-For": {"203.0.113.7", "203.0.113.8"}, "X-Forwarded-Proto": {"gopher"}, "X-Forwarded-Host": {"evil.example"},
	"X-Forwarded-Port": {"1"}, "X-Forwarded-Prefix": {"/evil"}, "X-Forwarded-Scheme": {"gopher"}, "X-Forwarded-Server": {"evil"},
	"X-Forwarded-Ssl": {"on"}, "X-Forwarded-By": {"evil"}, "X-Real-Ip": {"203.0.113.7"}, "X-Client-Ip": {"203.0.113.7"},
	"Forwarded": {"for=203.0.113.7"}, "X-Envoy-External-Address": {"203.0.113.7"}, "X-Envoy-Internal": {"true"},
	"X-Forwarded-Client-Cert": {"By=evil"},
}

// trust has the edge of a rig be behind proxies that are trusted.
func (r *rig) trust(t *testing.T, hops uint8) {
	t.Helper()
	view, _ := r.p.Views.Get(nil, "fra")
	key := view.Key.Key()
	key.TrustedHops = hops
	r.commit(func(tx *inc.Tx) { r.p.Views.Set(tx, "fra", fleet.View{Key: key.View(), Classes: view.Classes}) })
	r.settled(t)
	envoytest.Until(t, "the chain that trusts as many", func() bool {
		q := shopRequest
		q.header = http.Header{"X-Forwarded-For": {"192.0.2.3, 192.0.2.2, 192.0.2.1"}}
		return r.ask(t, q).header.Get("Got-X-Forwarded-For") == []string{"127.0.0.1", "192.0.2.1", "192.0.2.2"}[hops]
	})
}

// Pods see who a connection is from, and nothing else of what a client says of
// itself. Behind trusted proxies it is who the outermost of these says.
func TestClaims(t *testing.T) {
	for name, s := range map[string]sizes{"list": usual, "tree": asTrees} {
		for _, certificates := range []delivery{static, onDemand} {
			t.Run(name+", "+certificates.String(), func(t *testing.T) {
				testClaims(t, newRigWith(t, timingForTests, certificates, s).serving(t, newPod(t, "web@eu-1/0"), ""))
			})
		}
	}
}

// Listeners for one class alone trust as many.
func TestClaimsAtAnOwnAddress(t *testing.T) {
	r := oneHost(t, newPod(t, "web@eu-1/0"), "")
	r.alone(true)
	r.settled(t)
	name := fmt.Sprintf("http-%d@127.0.0.1", r.http)
	envoytest.Until(t, "the listener at the address", func() bool { return strings.Contains(r.proc.Get(t, "/listeners"), name) })
	testClaims(t, r)
}

func testClaims(t *testing.T, r *rig) {
	t.Helper()
	secure := request{host: "shop.example", path: "/", tls: true, sni: "shop.example"}
	trusted := uint8(0)
	// Envoy writes the machine's address for a client of loopback.
	near := r.ask(t, shopRequest).header.Get("Got-X-Forwarded-For")
	if ip, err := netip.ParseAddr(near); err != nil || forged.Get("X-Forwarded-For") == ip.String() {
		t.Fatalf("X-Forwarded-For is %q", near)
	}
	for _, c := range []struct {
		hops         uint8
		sent         []string
		client, seen string // seen: X-Forwarded-Proto over HTTP
	}{
		{0, nil, near, "http"},
		{0, forged["X-Forwarded-For"], near, "http"},
		{1, nil, "127.0.0.1", "gopher"}, // nobody is in between
		{1, forged["X-Forwarded-For"], "203.0.113.8", "gopher"},
		{1, []string{"1.1.1.1, 192.0.2.1,2001:db8::1"}, "2001:db8::1", "gopher"},
		{2, forged["X-Forwarded-For"], "203.0.113.7", "gopher"},
		{2, []string{"1.1.1.1, 192.0.2.1,2001:db8::1"}, "192.0.2.1", "gopher"},
	} {
		if c.hops != trusted {
			r.trust(t, c.hops)
			trusted = c.hops
		}
		for _, q := range []request{shopRequest, shopRequest.overHTTP2(t), secure, secure.overHTTP2(t)} {
			q.header = forged.Clone()
			delete(q.header, "X-Forwarded-For")
			if c.sent != nil {
				q.header["X-Forwarded-For"] = c.sent
			}
			got := r.ask(t, q)
			if got.status != 200 {
				t.Fatalf("%+v", got)
			}
			want := map[string]string{"X-Forwarded-For": c.client, "X-Forwarded-Proto": c.seen, "X-Envoy-External-Address": cmp.Or(map[string]string{near: "127.0.0.1"}[c.client], c.client)}
			if q.tls && c.hops == 0 {
				want["X-Forwarded-Proto"] = "https"
			}
			for name := range forged {
				if has := got.header.Get("Got-" + name); has != want[name] {
					t.Errorf("%d hops, tls %t, %q sent: pods see %s %q, want %q", c.hops, q.tls, c.sent, name, has, want[name])
				}
			}
		}
	}
}

// Two Host headers are no request (RFC 9112, 3.2). The tables have the rest, see
// malformed.txt: a client of Go sends one.
func TestTwoHosts(t *testing.T) {
	r := oneHost(t, newPod(t, "web@eu-1/0"), "")
	for _, hosts := range []string{
		"Host: shop.example\r\nHost: shop.example\r\n", "Host: shop.example\r\nhost: b.example\r\n", "Host: user@shop.example\r\n",
	} {
		c := r.dial(t)
		fmt.Fprintf(c, "GET / HTTP/1.1\r\n%s\r\n", hosts)
		resp, err := http.ReadResponse(bufio.NewReader(c), nil)
		if err != nil {
			t.Fatal(err)
		}
		_ = resp.Body.Close()
		if resp.StatusCode != http.StatusBadRequest {
			t.Errorf("%q: %s", hosts, resp.Status)
		}
	}
	if got := r.ask(t, request{method: http.MethodTrace, host: "shop.example", path: "/"}); got.header.Get("Allow") == "" {
		t.Errorf("TRACE: %+v", got) // RFC 9110, 15.5.6
	}
	for _, hosts := range [][2]string{{":authority", ":authority"}, {":authority", "host"}, {"host", "host"}} {
		if by := r.overFrames(t, hosts); by != "400" && by != "reset" && by != "200 shop.example" { // a pod sees one of both
			t.Errorf("%q over HTTP/2: %s", hosts, by)
		}
	}
}

// overFrames sends a request in HTTP/2 with two fields for its host, and returns its
// status and what host a pod saw, or "reset".
func (r *rig) overFrames(t *testing.T, hosts [2]string) string {
	t.Helper()
	c := r.dial(t)
	fmt.Fprint(c, wire.ClientPreface)
	f := wire.NewFramer(c, c)
	f.ReadMetaHeaders = hpack.NewDecoder(4096, nil)
	if err := f.WriteSettings(); err != nil {
		t.Fatal(err)
	}
	var block bytes.Buffer
	to := hpack.NewEncoder(&block)
	for _, h := range [][2]string{{":method", "GET"}, {":scheme", "http"}, {":path", "/"}, {hosts[0], "shop.example"}, {hosts[1], "b.example"}} {
		if err := to.WriteField(hpack.HeaderField{Name: h[0], Value: h[1]}); err != nil {
			t.Fatal(err)
		}
	}
	if err := f.WriteHeaders(wire.HeadersFrameParam{StreamID: 1, BlockFragment: block.Bytes(), EndStream: true, EndHeaders: true}); err != nil {
		t.Fatal(err)
	}
	for {
		frame, err := f.ReadFrame()
		if err != nil {
			return "reset"
		}
		switch frame := frame.(type) {
		case *wire.RSTStreamFrame, *wire.GoAwayFrame:
			return "reset"
		case *wire.MetaHeadersFrame:
			out := frame.PseudoValue("status")
			for _, h := range frame.RegularFields() {
				if h.Name == "x-host" {
					out += " " + h.Value
				}
			}
			return out
		}
	}
}

// dial opens a connection to the HTTP port.
func (r *rig) dial(t *testing.T) net.Conn {
	t.Helper()
	c, err := net.Dial("tcp", fmt.Sprintf("127.0.0.1:%d", r.http))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	return c
}
