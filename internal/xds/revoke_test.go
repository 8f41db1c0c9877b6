package xds

import (
	"context"
	"crypto/x509"
	"net/netip"
	"os"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	core "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	health "github.com/envoyproxy/go-control-plane/envoy/service/health/v3"
	load "github.com/envoyproxy/go-control-plane/envoy/service/load_stats/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	grpcstatus "google.golang.org/grpc/status"

	"github.com/spillway-dev/spillway/internal/xds/envoytest"
)

// watched is a server over mTLS with the three streams of a proxy of fra, one of
// par beside it, and what may change meanwhile.
type watched struct {
	server   *Server
	store    *Store
	ca       *envoytest.CA
	revoked  atomic.Bool
	gone     atomic.Bool
	later    atomic.Int64 // what the clock is ahead
	ads, par *client
	others   map[string]grpc.ClientStream
}

func watch(t *testing.T) *watched {
	t.Helper()
	w := &watched{store: NewStore(), ca: envoytest.NewCA(t), others: map[string]grpc.ClientStream{}}
	cert, key := w.ca.Leaf(t, "server", envoytest.IP("127.0.0.1"))
	e, err := ListenTLS("127.0.0.1:0", cert, key, w.ca.File)
	if err != nil {
		t.Fatal(err)
	}
	w.publish(t, "1")
	health, _ := NewHealth(asked, nil)
	server, stop := serve(t, Config{
		Store:    w.store,
		ViewOf:   func(edge string) (string, bool) { return "v", edge == "par" || !w.gone.Load() },
		Allow:    func(edge, id string) bool { return edge == "par" || !w.revoked.Load() },
		Services: []Service{health, Load},
		Now:      func() time.Time { return time.Now().Add(time.Duration(w.later.Load())) },
	}, e)
	t.Cleanup(stop)
	w.server = server
	open := func(edge string) *client {
		conn := dial(t, e.Addr().String(), clientTLS(t, w.ca, w.ca, envoytest.URI("spiffe://spillway.test/edge/"+edge)))
		c := openClient(t, conn, edge, "n")
		c.subscribe(Secret, "tls")
		c.ack(c.receive())
		if edge == "fra" {
			w.others = openOthers(t, conn, edge)
		}
		return c
	}
	w.par, w.ads = open("par"), open("fra")
	envoytest.Until(t, "the server knows the load stream", func() bool { return server.beside[1].count() == 1 })
	return w
}

// openOthers opens a health and a load stream that the server takes.
func openOthers(t *testing.T, conn *grpc.ClientConn, edge string) map[string]grpc.ClientStream {
	t.Helper()
	h, l := helloOthers(t, conn, &core.Node{Cluster: edge, Id: "n"})
	if _, err := h.Recv(); err != nil { // it is asked to probe
		t.Fatal(err)
	}
	return map[string]grpc.ClientStream{"health": h, "load": l}
}

// helloOthers opens a health and a load stream, and says which node it is.
func helloOthers(t *testing.T, conn *grpc.ClientConn, node *core.Node) (health.HealthDiscoveryService_StreamHealthCheckClient, load.LoadReportingService_StreamLoadStatsClient) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	t.Cleanup(cancel)
	h, err := health.NewHealthDiscoveryServiceClient(conn).StreamHealthCheck(ctx)
	if err != nil {
		t.Fatal(err)
	}
	l, err := load.NewLoadReportingServiceClient(conn).StreamLoadStats(ctx)
	if err != nil {
		t.Fatal(err)
	}
	hello := &health.HealthCheckRequestOrEndpointHealthResponse{RequestType: &health.HealthCheckRequestOrEndpointHealthResponse_HealthCheckRequest{
		HealthCheckRequest: &health.HealthCheckRequest{Node: node},
	}}
	_ = h.Send(hello) // Recv says why
	_ = l.Send(&load.LoadStatsRequest{Node: node})
	return h, l
}

func (w *watched) publish(t *testing.T, version string) {
	w.store.Publish("v", []Change{{Secret, "tls", makeResource(t, "tls", version, &core.Node{Id: version})}})
}

// ended checks that the streams of fra end as they should, sent nothing more,
// and that par is served.
func (w *watched) ended(t *testing.T, code codes.Code, says string) {
	t.Helper()
	for m := range w.ads.in {
		t.Fatalf("was sent %s", text(m))
	}
	w.server.Reassign()
	ends := map[string]error{"ads": w.ads.err}
	for name, str := range w.others {
		for ends[name] == nil {
			ends[name] = str.RecvMsg(&load.LoadStatsResponse{})
		}
	}
	for name, err := range ends {
		if s := grpcstatus.Convert(err); s.Code() != code || !strings.Contains(s.Message(), says) {
			t.Errorf("%s ended with %v", name, err)
		}
	}
	if got := text(w.par.receive()); got != "tls@2" {
		t.Errorf("par got %s", got)
	}
}

// TestRevocation: open streams end when their identity is taken out of its Edge,
// or the Edge goes, and are not sent the key that was rotated because of that.
func TestRevocation(t *testing.T) {
	for name, c := range map[string]struct {
		revoke func(*watched)
		code   codes.Code
		says   string
	}{
		"identity": {func(w *watched) { w.revoked.Store(true) }, codes.PermissionDenied, "spec.identity.spiffeIDs"},
		"edge":     {func(w *watched) { w.gone.Store(true) }, codes.NotFound, `"fra" was deleted`},
	} {
		t.Run(name, func(t *testing.T) {
			w := watch(t)
			c.revoke(w)
			w.publish(t, "2") // the loop publishes before it has anybody asked again
			w.ended(t, c.code, c.says)
		})
	}
}

// TestCertificateExpires: so do streams whose certificate is not valid any more.
func TestCertificateExpires(t *testing.T) {
	w := watch(t)
	w.later.Store(int64(2 * time.Hour))
	w.publish(t, "2")
	w.server.Reassign()
	for _, c := range []*client{w.ads, w.par} {
		if s := c.end(); s.Code() != codes.Unauthenticated || !strings.Contains(s.Message(), "has expired") {
			t.Errorf("ended with %v", s)
		}
	}
}

// TestClientCAIsReplaced: so does a stream for which the client CAs don't vouch
// any more.
func TestClientCAIsReplaced(t *testing.T) {
	w := watch(t)
	other, err := os.ReadFile(envoytest.NewCA(t).File)
	if err != nil {
		t.Fatal(err)
	}
	w.server.Reassign()
	w.publish(t, "2")
	for _, c := range []*client{w.ads, w.par} { // nothing changed yet
		m := c.receive()
		if got := text(m); got != "tls@2" {
			t.Fatalf("got %s", got)
		}
		c.ack(m)
	}
	if err := os.WriteFile(w.ca.File, other, 0o600); err != nil {
		t.Fatal(err)
	}
	next := time.Now().Add(time.Second) // file systems may not tell two writes apart
	if err := os.Chtimes(w.ca.File, next, next); err != nil {
		t.Fatal(err)
	}
	for _, c := range []*client{w.ads, w.par} { // the file is looked at
		if s := c.end(); s.Code() != codes.Unauthenticated || !strings.Contains(s.Message(), "does not vouch") {
			t.Errorf("ended with %v", s)
		}
	}
	for name, str := range w.others {
		if s := grpcstatus.Convert(str.RecvMsg(&load.LoadStatsResponse{})); s.Code() != codes.Unauthenticated {
			t.Errorf("%s ended with %v", name, s)
		}
	}
	if lookAtCAs > time.Second {
		t.Errorf("it is looked at each %v", lookAtCAs)
	}
}

// TestStreamsAreRecheckedByTime: each minute, and when the certificate expires.
func TestStreamsAreRecheckedByTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := NewServer(Config{Store: NewStore(), ViewOf: func(string) (string, bool) { return "v", true }})
		begin := time.Now()
		asked := 0
		credentialOf := func() *credential {
			return &credential{id: "x", until: begin.Add(90 * time.Second), verified: begin, cas: func() *x509.CertPool { asked++; return nil }}
		}
		l, err := s.Local(Proxy{Edge: "fra", Node: "n"}, &core.Node{})
		if err != nil {
			t.Fatal(err)
		}
		l.st.cred = credentialOf()
		for _, wait := range []time.Duration{time.Minute, 30 * time.Second} {
			_, next, err := l.Step(nil)
			if err != nil || time.Until(next) != wait {
				t.Fatalf("next %v, %v", next, err)
			}
			time.Sleep(wait)
		}
		if _, _, err := l.Step(nil); grpcstatus.Code(err) != codes.Unauthenticated || asked != 2 {
			t.Errorf("after the end: %v, the CAs were asked %d times", err, asked)
		}

		begin = time.Now()
		g, _, err := s.guard(Proxy{Edge: "fra", Node: "n"}, credentialOf())
		if err != nil {
			t.Fatal(err)
		}
		defer g.stop()
		for _, want := range []time.Duration{time.Minute, 90 * time.Second} {
			<-g.timer.C
			_, err = g.check()
			if after := time.Since(begin); after != want {
				t.Errorf("rechecked after %v, want %v", after, want)
			}
		}
		if grpcstatus.Code(err) != codes.Unauthenticated {
			t.Errorf("after the end: %v", err)
		}
	})
}

// TestHealthStreamBeforeItsEdge: Envoy asks again for health checks only after
// up to 30 s, so a stream that is earlier than its Edge waits for it. It ends
// with the Edge.
func TestHealthStreamBeforeItsEdge(t *testing.T) {
	var there atomic.Bool
	service, again := NewHealth(func(edge string) (netip.AddrPort, bool) {
		at, _ := asked(edge)
		return at, there.Load()
	}, nil)
	r := newRig(t, Config{ViewOf: func(string) (string, bool) { return "v", there.Load() }, Services: []Service{service, Load}})
	str := openOthers(t, dial(t, "unix://"+r.socket, insecure.NewCredentials()), "fra")["health"]
	r.server.Reassign()
	there.Store(true)
	r.server.Reassign()
	again()
	var spec health.HealthCheckSpecifier
	if err := str.RecvMsg(&spec); err != nil || len(spec.ClusterHealthChecks) != 1 {
		t.Fatalf("asked %v, %v", &spec, err)
	}
	there.Store(false)
	r.server.Reassign()
	if err := str.RecvMsg(&spec); grpcstatus.Code(err) != codes.NotFound {
		t.Errorf("without its Edge: %v", err)
	}
}
