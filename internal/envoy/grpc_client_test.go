package envoy

import (
	"context"
	"fmt"
	"net"
	"net/netip"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/health"
	healthv1 "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/peer"
	"google.golang.org/grpc/status"
	grpcxds "google.golang.org/grpc/xds"

	"github.com/spillway-dev/spillway/internal/fleet"
	"github.com/spillway-dev/spillway/internal/inc"
	"github.com/spillway-dev/spillway/internal/model"
	"github.com/spillway-dev/spillway/internal/steer"
	"github.com/spillway-dev/spillway/internal/xds"
	"github.com/spillway-dev/spillway/internal/xds/bootstrap"
	"github.com/spillway-dev/spillway/internal/xds/envoytest"
)

// clientRig is a world with a real server that gRPC clients follow.
type clientRig struct {
	*world
	store   *xds.Store
	reports *xds.Reports
	address string
	pending map[model.View][]xds.Change
}

func newClientRig(t *testing.T) *clientRig { return newClientRigOf(t, usual) }

func newClientRigOf(t *testing.T, s sizes) *clientRig {
	t.Helper()
	r := &clientRig{world: newWorldOf(s), store: xds.NewStore(), reports: &xds.Reports{}, pending: map[model.View][]xds.Change{}}
	for _, typ := range r.t.Clients.Types() {
		typ.Table.Watch(func(changes []inc.Change[Key, Resource]) {
			for _, c := range changes {
				r.pending[c.Key.View] = append(r.pending[c.Key.View], change(typ.URL, c))
			}
		})
	}
	r.commit(func(tx *inc.Tx) {
		r.plain(tx)
		r.t.Clients.Demand.Set(tx, "fra", Demand{})
	})
	l, err := xds.ListenPlaintext("127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	r.address = l.Addr().String()
	r.serve(t, l)
	return r
}

// serve answers on l until the test ends.
func (r *clientRig) serve(t *testing.T, l *xds.Endpoint) {
	t.Helper()
	view := func(edge string) (string, bool) { return testView.String(), edge == "fra" }
	server := xds.NewServer(xds.Config{Store: r.store, Reports: r.reports, ViewOf: view, ClientViewOf: view})
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- server.Serve(ctx, l) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
}

// commit applies f and publishes what changed.
func (r *clientRig) commit(f func(*inc.Tx)) {
	r.g.Commit(f)
	r.store.Publish(testView.String(), r.pending[testView])
	clear(r.pending)
}

// dial opens a channel of a real client to a target.
func (r *clientRig) dial(t *testing.T, target string) healthv1.HealthClient {
	t.Helper()
	return dialWith(t, target, bootstrap.Options{Edge: "fra", NodeID: "cart-1", XDSAddress: r.address})
}

// dialWith is dial, with what `spillway bootstrap grpc` prints for these options.
func dialWith(t *testing.T, target string, o bootstrap.Options) healthv1.HealthClient {
	t.Helper()
	config, err := bootstrap.RenderGRPC(o)
	if err != nil {
		t.Fatal(err)
	}
	resolver, err := grpcxds.NewXDSResolverWithConfigForTesting(config)
	if err != nil {
		t.Fatal(err)
	}
	conn, err := grpc.NewClient(target, grpc.WithResolvers(resolver), grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	return healthv1.NewHealthClient(conn)
}

// server starts a gRPC server on loopback and returns its endpoint.
func server(t *testing.T) model.Endpoint {
	t.Helper()
	l, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s := grpc.NewServer()
	healthv1.RegisterHealthServer(s, health.NewServer())
	var wg sync.WaitGroup
	wg.Go(func() { _ = s.Serve(l) })
	t.Cleanup(func() {
		s.Stop()
		wg.Wait()
	})
	at := netip.MustParseAddrPort(l.Addr().String())
	return model.Endpoint{Addr: at.Addr(), Port: at.Port()}
}

// call sends one request and returns the port that answered it.
func call(t *testing.T, c healthv1.HealthClient) (uint16, error) {
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	var from peer.Peer
	if _, err := c.Check(ctx, &healthv1.HealthCheckRequest{}, grpc.Peer(&from)); err != nil {
		return 0, err
	}
	return netip.MustParseAddrPort(from.Addr.String()).Port(), nil
}

// traffic sends requests until it is stopped and counts those that failed.
type traffic struct {
	last    atomic.Uint32 // port
	sent    atomic.Int64
	early   atomic.Int64 // see TestClientFollowsChanges
	errs    chan error
	stopped chan struct{}
	done    sync.WaitGroup
}

func (r *clientRig) traffic(t *testing.T, c healthv1.HealthClient) *traffic {
	x := &traffic{errs: make(chan error, 1), stopped: make(chan struct{})}
	for range 2 {
		x.done.Go(func() {
			for {
				select {
				case <-x.stopped:
					return
				default:
				}
				port, err := call(t, c)
				if err != nil && strings.Contains(err.Error(), "unknown cluster selected") {
					x.early.Add(1)
					continue
				}
				if err != nil {
					select {
					case x.errs <- err:
					default:
					}
					return
				}
				x.last.Store(uint32(port))
				x.sent.Add(1)
			}
		})
	}
	return x
}

// reaches waits until requests go to an endpoint.
func (x *traffic) reaches(t *testing.T, e model.Endpoint) {
	t.Helper()
	envoytest.Until(t, fmt.Sprintf("requests to reach %d", e.Port), func() bool {
		return len(x.errs) > 0 || x.last.Load() == uint32(e.Port)
	})
}

func (x *traffic) stop(t *testing.T) {
	t.Helper()
	close(x.stopped)
	x.done.Wait()
	select {
	case err := <-x.errs:
		t.Errorf("after %d requests one failed: %v", x.sent.Load(), err)
	default:
	}
}

const checkMethod = "/grpc.health.v1.Health/Check"

// TestClientBalances: a channel to xds:///HOST spreads requests over the
// localities of the first tier by their weights.
func TestClientBalances(t *testing.T) {
	r := newClientRig(t)
	a, b, far := server(t), server(t), server(t)
	r.commit(func(tx *inc.Tx) {
		def := target("web", "shop/web/grpc")
		r.host(tx, testClass, "shop.example", &def)
		r.use(tx, testView, "shop/web/grpc", "grpc")
		r.group(tx, "shop/web/grpc", "eu-1", a)
		r.group(tx, "shop/web/grpc", "eu-2", b)
		r.group(tx, "shop/web/grpc", "us-1", far)
		heavy := share("eu-1", 0)
		heavy.Weight = 3
		r.plan(tx, testView, "shop/web/grpc", heavy, share("eu-2", 0), share("us-1", 1))
	})
	c := r.dial(t, "xds:///shop.example")
	got := map[uint16]int{}
	envoytest.Until(t, "both localities to serve", func() bool { // connections open one after the other
		port, err := call(t, c)
		if err != nil {
			t.Fatal(err)
		}
		got[port]++
		return got[a.Port] > 0 && got[b.Port] > 0
	})
	clear(got)
	for range 400 {
		port, err := call(t, c)
		if err != nil {
			t.Fatal(err)
		}
		got[port]++
	}
	t.Logf("3 to 1: %d and %d", got[a.Port], got[b.Port])
	if got[far.Port] > 0 || 2*got[a.Port] < 3*got[b.Port] || got[b.Port] == 0 {
		t.Errorf("requests went to %v; 3 parts are for %d, 1 for %d, none for %d", got, a.Port, b.Port, far.Port)
	}
}

// TestClientOfParts: a client follows the entries of a backend in parts, and
// reaches all of its endpoints; when a part empties, the next one serves.
func TestClientOfParts(t *testing.T) {
	r := newClientRigOf(t, fourParts)
	eps := make([]model.Endpoint, 8)
	for i := range eps {
		eps[i] = server(t)
	}
	r.commit(func(tx *inc.Tx) {
		def := target("web", "shop/web/grpc")
		r.host(tx, testClass, "shop.example", &def)
		r.use(tx, testView, "shop/web/grpc", "grpc")
		r.group(tx, "shop/web/grpc", "eu-1", slices.Clone(eps)...)
		r.plan(tx, testView, "shop/web/grpc", share("eu-1", 0))
		r.t.LastParts.Set(tx, backend("shop/web/grpc"), 4) // and it stays so
	})
	if n := len(r.t.Clients.Clusters.Keys()); n != 8 {
		t.Fatalf("%d clusters, want 4 parts and 4 entries", n)
	}
	c := r.dial(t, "xds:///shop.example")
	got := map[uint16]bool{}
	envoytest.Until(t, "all endpoints to serve", func() bool {
		port, err := call(t, c)
		if err != nil {
			t.Fatal(err)
		}
		got[port] = true
		return len(got) == len(eps)
	})
	left := slices.DeleteFunc(slices.Clone(eps), func(e model.Endpoint) bool { return endpoint{addr: e.Addr, port: e.Port}.part(4) == 0 })
	r.commit(func(tx *inc.Tx) { r.group(tx, "shop/web/grpc", "eu-1", left...) })
	for range 100 {
		if _, err := call(t, c); err != nil {
			t.Fatal(err)
		}
	}
}

// TestClientFollowsChanges: requests go on while the endpoints change, then the
// tiers, then the routes, and none fails but for one reason, which is grpc-go's
// own: it uses new routes an instant before its balancer knows a cluster that
// they name for the first time (1.84, ClientConn.updateResolverStateAndUnlock).
func TestClientFollowsChanges(t *testing.T) {
	r := newClientRig(t)
	var at [4]model.Endpoint
	for i := range at {
		at[i] = server(t)
	}
	r.commit(func(tx *inc.Tx) {
		def := target("web", "shop/web/grpc")
		r.host(tx, testClass, "shop.example", &def)
		r.use(tx, testView, "shop/web/grpc", "grpc")
		r.group(tx, "shop/web/grpc", "eu-1", at[0])
		r.plan(tx, testView, "shop/web/grpc", share("eu-1", 0))
	})
	x := r.traffic(t, r.dial(t, "xds:///shop.example"))
	x.reaches(t, at[0])
	r.commit(func(tx *inc.Tx) { r.group(tx, "shop/web/grpc", "eu-1", at[1]) })
	x.reaches(t, at[1])
	r.commit(func(tx *inc.Tx) {
		r.group(tx, "shop/web/grpc", "us-1", at[2])
		lost := share("eu-1", 0)
		lost.State = steer.Failed
		r.plan(tx, testView, "shop/web/grpc", lost, share("us-1", 1))
	})
	x.reaches(t, at[2])
	if n := x.early.Load(); n > 0 {
		t.Errorf("%d requests failed though no route changed", n)
	}
	r.commit(func(tx *inc.Tx) { // another cluster, and the old one gone, in one commit
		def := target("web", "shop/new/grpc")
		r.host(tx, testClass, "shop.example", &def, fleet.Route{Match: prefix("/other.Service"), Target: target("web")})
		r.use(tx, testView, "shop/new/grpc", "grpc")
		r.group(tx, "shop/new/grpc", "eu-1", at[3])
		r.plan(tx, testView, "shop/new/grpc", share("eu-1", 0))
		r.p.Uses.Delete(tx, fleet.UseID{View: testView, Backend: backend("shop/web/grpc")})
	})
	x.reaches(t, at[3])
	r.commit(func(tx *inc.Tx) {
		def := target("web", "shop/web/grpc")
		r.host(tx, testClass, "shop.example", &def, fleet.Route{Match: prefix("/grpc.health.v1.Health"), Target: target("web", "shop/new/grpc")})
		r.use(tx, testView, "shop/web/grpc", "grpc")
		r.group(tx, "shop/new/grpc", "eu-1", at[0])
	})
	x.reaches(t, at[0])
	x.stop(t)
	t.Logf("%d requests, %d before the balancer knew their cluster", x.sent.Load(), x.early.Load())
}

// TestClientRoutes: what a match means to a client is what it means to a proxy.
func TestClientRoutes(t *testing.T) {
	r := newClientRig(t)
	right, wrong := server(t), server(t)
	for name, c := range map[string]struct {
		match model.Match
		hit   bool
	}{
		"exact":             {exact(checkMethod), true},
		"exact, other":      {exact(checkMethod + "s"), false},
		"service":           {prefix("/grpc.health.v1.Health"), true},
		"method as prefix":  {prefix(checkMethod), true},
		"part of a service": {prefix("/grpc.health.v1.Heal"), false},
		"everything":        {prefix("/"), true},
	} {
		t.Run(name, func(t *testing.T) {
			host := model.Host(strings.NewReplacer(" ", "-", ",", "").Replace(name) + ".example")
			r.commit(func(tx *inc.Tx) {
				def := target("web", "shop/wrong/grpc")
				r.host(tx, testClass, host, &def, fleet.Route{Match: c.match, Target: target("web", "shop/right/grpc")})
				for name, at := range map[string]model.Endpoint{"shop/right/grpc": right, "shop/wrong/grpc": wrong} {
					r.use(tx, testView, name, "grpc")
					r.group(tx, name, "eu-1", at)
					r.plan(tx, testView, name, share("eu-1", 0))
				}
			})
			want := wrong
			if c.hit {
				want = right
			}
			if port, err := call(t, r.dial(t, "xds:///"+string(host))); err != nil || port != want.Port {
				t.Errorf("reached %d (%v), want %d", port, err, want.Port)
			}
		})
	}
}

// TestClientWithoutBackend: a match without a usable backend fails at once, and
// no shorter one takes its requests. So does a host without endpoints.
func TestClientWithoutBackend(t *testing.T) {
	r := newClientRig(t)
	at := server(t)
	r.commit(func(tx *inc.Tx) {
		def := target("web", "shop/web/grpc")
		r.host(tx, testClass, "shop.example", &def, fleet.Route{Match: prefix("/grpc.health.v1.Health"), Target: target("web")})
		r.use(tx, testView, "shop/web/grpc", "grpc")
		r.group(tx, "shop/web/grpc", "eu-1", at)
		r.plan(tx, testView, "shop/web/grpc", share("eu-1", 0))
		empty := target("web", "shop/empty/grpc")
		r.host(tx, testClass, "empty.example", &empty)
		r.use(tx, testView, "shop/empty/grpc", "grpc")
	})
	for _, name := range []string{"xds:///shop.example", "xds:///empty.example"} {
		if port, err := call(t, r.dial(t, name)); status.Code(err) != codes.Unavailable {
			t.Errorf("%s: %d %v", name, port, err)
		}
	}
}

// TestClientLookup: an ExternalName is looked up by the client.
func TestClientLookup(t *testing.T) {
	r := newClientRig(t)
	at := server(t)
	r.commit(func(tx *inc.Tx) {
		def := target("web", "shop/out/grpc")
		r.host(tx, testClass, "shop.example", &def)
		id := r.use(tx, testView, "shop/out/grpc", "grpc")
		r.p.Backends.Set(tx, id.Backend, fleet.Backend{AppProtocol: "grpc", External: true})
		r.p.Groups.Set(tx, fleet.GroupID{Backend: id.Backend, Member: "eu-1"}, fleet.Group{External: "localhost", Port: at.Port})
		r.p.Groups.Set(tx, fleet.GroupID{Backend: id.Backend, Member: "us-1"}, fleet.Group{External: "far.invalid", Port: 1})
		r.plan(tx, testView, "shop/out/grpc", share("eu-1", 0), share("us-1", 1))
	})
	if port, err := call(t, r.dial(t, "xds:///shop.example")); err != nil || port != at.Port {
		t.Errorf("reached %d: %v", port, err)
	}
}

// TestClientRejects: a client goes on with what it had, and says which resource
// it refused and why; its words reach the object that the resource was made of.
func TestClientRejects(t *testing.T) {
	r := newClientRig(t)
	at := server(t)
	r.commit(func(tx *inc.Tx) {
		def := target("web", "shop/web/grpc")
		r.host(tx, testClass, "shop.example", &def)
		r.use(tx, testView, "shop/web/grpc", "grpc")
		r.group(tx, "shop/web/grpc", "eu-1", at)
		r.plan(tx, testView, "shop/web/grpc", share("eu-1", 0))
	})
	x := r.traffic(t, r.dial(t, "xds:///shop.example"))
	x.reaches(t, at)
	r.commit(func(tx *inc.Tx) { // one address twice, which clients refuse
		r.group(tx, "shop/web/grpc", "eu-2", at)
		r.plan(tx, testView, "shop/web/grpc", share("eu-1", 0), share("eu-2", 0))
	})
	var said xds.ProxyVerdict
	envoytest.Until(t, "the client to refuse the assignment", func() bool {
		_, verdicts := r.reports.Take()
		for _, v := range verdicts {
			if v.Error != "" {
				said = v
			}
		}
		return said.Error != ""
	})
	if said.Class != xds.GRPC || said.Type != xds.ClusterLoadAssignment || said.Name != "shop/web/grpc/h2c" || !strings.Contains(said.Error, "duplicate endpoint") {
		t.Errorf("it said %+v", said)
	}
	r.commit(func(tx *inc.Tx) {
		id := model.RejectionID{View: testView, Type: string(said.Type), Name: said.Name, GRPC: true}
		r.p.In.Rejections.Set(tx, id, model.Rejection{Version: said.Version, Error: said.Error})
	})
	fs, ok := r.t.Findings.Get(nil, rootObject("web"))
	if !ok || !strings.Contains(fs[0].Message, "a gRPC client in eu/eu-a refused the ClusterLoadAssignment") {
		t.Errorf("the Ingress is told %v", fs)
	}
	x.stop(t)
	r.commit(func(tx *inc.Tx) { r.plan(tx, testView, "shop/web/grpc", share("eu-1", 0)) })
	if _, ok := r.t.Findings.Get(nil, rootObject("web")); ok {
		t.Error("the finding stays after the cause is gone")
	}
}

// TestClientsCostNothing: an edge without gRPC clients has no row for them, and
// the last that leaves takes them along.
func TestClientsCostNothing(t *testing.T) {
	w := newWorld()
	rows := func() (n int) {
		for _, typ := range w.t.Clients.Types() {
			n += typ.Table.Len()
		}
		return n + w.t.Clients.hosts.Len() + w.t.Clients.shapes.Len()
	}
	w.g.Commit(func(tx *inc.Tx) {
		w.plain(tx)
		def := target("web", "shop/web/grpc")
		w.host(tx, testClass, "shop.example", &def)
		w.host(tx, testClass, "*.shop.example", &def)
		w.use(tx, testView, "shop/web/grpc", "grpc")
	})
	if n := rows(); n != 0 {
		t.Errorf("%d rows for nobody", n)
	}
	w.g.Commit(func(tx *inc.Tx) { w.t.Clients.Demand.Set(tx, "fra", Demand{}) })
	if n := rows(); n != 6 {
		t.Errorf("%d rows for one host and one backend: %v", n, w.t.Clients.Listeners.Keys())
	}
	if a, b := get(t, w.t.Assignments, "shop/web/grpc/h2c"), get(t, w.t.Clients.Assignments, "shop/web/grpc/h2c"); &a.Body[0] != &b.Body[0] {
		t.Error("the assignment is not the one of the proxies")
	}
	w.g.Commit(func(tx *inc.Tx) { w.t.Clients.Demand.Delete(tx, "fra") })
	if n := rows(); n != 0 {
		t.Errorf("%d rows stay", n)
	}
}

// TestClientsWaysIn: what the bootstrap says works over mTLS and a unix socket.
func TestClientsWaysIn(t *testing.T) {
	r := newClientRig(t)
	at := server(t)
	r.commit(func(tx *inc.Tx) {
		def := target("web", "shop/web/grpc")
		r.host(tx, testClass, "shop.example", &def)
		r.use(tx, testView, "shop/web/grpc", "grpc")
		r.group(tx, "shop/web/grpc", "eu-1", at)
		r.plan(tx, testView, "shop/web/grpc", share("eu-1", 0))
	})
	ca := envoytest.NewCA(t)
	cert, key := ca.Leaf(t, "server", envoytest.IP("127.0.0.1"))
	secure, err := xds.ListenTLS("127.0.0.1:0", cert, key, ca.File)
	if err != nil {
		t.Fatal(err)
	}
	r.serve(t, secure)
	path := filepath.Join(t.TempDir(), "xds.sock")
	local, err := xds.ListenUnix(path)
	if err != nil {
		t.Fatal(err)
	}
	r.serve(t, local)
	mine, mineKey := ca.Leaf(t, "cart", envoytest.URI("spiffe://spillway.test/grpc/fra"))
	for name, o := range map[string]bootstrap.Options{
		"mTLS":        {XDSAddress: secure.Addr().String(), CA: ca.File, Cert: mine, Key: mineKey},
		"unix socket": {XDSSocket: path},
	} {
		t.Run(name, func(t *testing.T) {
			o.Edge, o.NodeID = "fra", "cart-1"
			if port, err := call(t, dialWith(t, "xds:///shop.example", o)); err != nil || port != at.Port {
				t.Errorf("reached %d: %v", port, err)
			}
		})
	}
}
