package main

import (
	"context"
	"net"
	"net/netip"
	"strings"
	"testing"
	"time"
)

// TestExpectOfRoutes: what two Services share is answered by either; a second host is
// there when the route has it; without a route HTTPS is 404, since the gate keeps its
// certificate.
func TestExpectOfRoutes(t *testing.T) {
	x := newRouted("routed", 0, true)
	at := func(host, path string, tls bool) *target {
		for _, t := range x.targets {
			if t.host == host && t.path == path && t.tls == tls {
				return t
			}
		}
		t.Fatalf("no target %s%s", host, path)
		return nil
	}
	shared := routes{"/": "web", "/x": "web" + and + "api"}
	for _, c := range []struct {
		t       *target
		paths   routes
		aliased bool
		want    string
	}{
		{at(x.host, "/", false), shared, false, "200 web"},
		{at(x.host, "/x", false), shared, false, "200 web, 200 api"},
		{at(x.alias, "/", false), shared, false, notFound},
		{at(x.alias, "/", false), shared, true, "200 web"},
		{at(x.host, "/", true), nil, false, notFound},
	} {
		x.aliased = c.aliased
		first, also := x.expect(c.t, c.paths)
		if got := strings.Join(append(first, also...), ", "); got != c.want {
			t.Errorf("%s, aliased %v: %q, want %q", c.t, c.aliased, got, c.want)
		}
	}
}

// TestBesideJudges: a connection is answered by a pod of a Service that is right, or
// fails; it is excused when nobody could tell.
func TestBesideJudges(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = l.Close() }()
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			_, _ = c.Write([]byte("{\"pod\":\"web-1-2\"}\n"))
			_ = c.Close()
		}
	}()
	to := netip.MustParseAddrPort(l.Addr().String())
	for _, c := range []struct {
		right   string
		excused bool
		want    passed
	}{
		{served("web"), false, passed{Connections: 1}},
		{served("api"), false, passed{Connections: 1, Failed: 1}},
		{served("api"), true, passed{Connections: 1, Excused: 1}},
	} {
		x := newStreams()[0]
		x.only(time.Now(), c.right)
		b := &beside{load: testLoad(c.excused), streams: []*stream{x}, addresses: []netip.Addr{to.Addr()}, http: to.Port()}
		b.once(0)
		if got := b.sum(); got != c.want || len(b.load.tally.failures) != c.want.Failed+c.want.Excused {
			t.Errorf("%s: %+v, want %+v; %v", c.right, got, c.want, b.load.tally.failures)
		}
	}
	if got := newStreams()[0].answered(context.Background(), netip.MustParseAddrPort("127.0.0.1:1")); !strings.Contains(got, "refused") {
		t.Errorf("nobody listens: %q", got)
	}
}
