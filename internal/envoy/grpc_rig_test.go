package envoy

import (
	"context"
	"fmt"
	"net"
	"net/netip"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/health"
	healthv1 "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/peer"
	grpcxds "google.golang.org/grpc/xds"

	"github.com/spillway-dev/spillway/internal/fleet"
	"github.com/spillway-dev/spillway/internal/inc"
	"github.com/spillway-dev/spillway/internal/model"
	"github.com/spillway-dev/spillway/internal/xds"
	"github.com/spillway-dev/spillway/internal/xds/bootstrap"
	"github.com/spillway-dev/spillway/internal/xds/envoytest"
	"github.com/spillway-dev/spillway/internal/xds/sotw"
)

// clientRig is a world with a real server that gRPC clients follow.
type clientRig struct {
	*feed
	address string
}

func newClientRig(t *testing.T) *clientRig { return newClientRigOf(t, usual) }

func newClientRigOf(t *testing.T, s sizes) *clientRig {
	t.Helper()
	r := &clientRig{feed: newFeed(s, func(all *Tables) []Type { return all.Clients.Types() })}
	r.commit(func(tx *inc.Tx) {
		r.plain(tx)
		r.t.Clients.Demand.Set(tx, "fra", model.There{})
	})
	l, err := xds.ListenPlaintext("127.0.0.1:0")
	r.address = r.listen(t, l, err)
	return r
}

// listen answers clients of edge fra on l until the test ends, and returns its
// address.
func (r *clientRig) listen(t *testing.T, l *xds.Endpoint, err error) string {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(r.serve(t, l, xds.Config{
		ClientViewOf: func(edge string) (string, bool) { return testView.String(), edge == "fra" }, ClientFace: sotw.New,
	}))
	return l.Addr().String()
}

const shopHost = "shop.example"

// shop is shop.example with all that follows from routes and a default backend
// whose endpoints are all in eu-1.
func (r *clientRig) shop(tx *inc.Tx, backend string, at []model.Endpoint, routes ...fleet.Route) {
	r.site(tx, shopHost, backend, routes...)
	r.serves(tx, backend, at...)
}

// site is a host with routes and a default backend, which is used.
func (r *clientRig) site(tx *inc.Tx, host model.Host, backend string, routes ...fleet.Route) need {
	def := target("web", backend)
	r.host(tx, testClass, host, &def, routes...)
	return r.use(tx, testView, backend, "grpc")
}

// serves says that a backend is used, and where in eu-1 it is.
func (r *clientRig) serves(tx *inc.Tx, backend string, at ...model.Endpoint) {
	r.use(tx, testView, backend, "grpc")
	r.group(tx, backend, "eu-1", at...)
	r.plan(tx, testView, backend, share("eu-1", 0))
}

// dial opens a channel of a real client to a host.
func (r *clientRig) dial(t *testing.T, host model.Host) client {
	t.Helper()
	return dialWith(t, host, bootstrap.Options{XDSAddress: r.address})
}

// client is a channel to a host.
type client struct{ healthv1.HealthClient }

// dialWith is dial, with what `spillway bootstrap grpc` prints for these options.
func dialWith(t *testing.T, host model.Host, o bootstrap.Options) client {
	t.Helper()
	o.Edge, o.NodeID = "fra", "cart-1"
	config, err := bootstrap.RenderGRPC(o)
	if err != nil {
		t.Fatal(err)
	}
	resolver, err := grpcxds.NewXDSResolverWithConfigForTesting(config)
	if err != nil {
		t.Fatal(err)
	}
	conn, err := grpc.NewClient("xds:///"+string(host), grpc.WithResolvers(resolver), grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	return client{healthv1.NewHealthClient(conn)}
}

// servers starts gRPC servers on loopback and returns their endpoints.
func servers(t *testing.T, n int) (out []model.Endpoint) {
	t.Helper()
	for range n {
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
		out = append(out, model.Endpoint{Addr: at.Addr(), Port: at.Port()})
	}
	return out
}

// call sends one request and returns the port that answered it.
func (c client) call(t *testing.T) (uint16, error) {
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	var from peer.Peer
	if _, err := c.Check(ctx, &healthv1.HealthCheckRequest{}, grpc.Peer(&from)); err != nil {
		return 0, err
	}
	return netip.MustParseAddrPort(from.Addr.String()).Port(), nil
}

// answered sends one request, which must be answered, and counts it by port.
func (c client) answered(t *testing.T, by map[uint16]int) {
	t.Helper()
	port, err := c.call(t)
	if err != nil {
		t.Fatal(err)
	}
	by[port]++
}

// goesTo sends one request, which one endpoint must answer.
func (c client) goesTo(t *testing.T, e model.Endpoint) {
	t.Helper()
	if port, err := c.call(t); err != nil || port != e.Port {
		t.Errorf("reached %d (%v), want %d", port, err, e.Port)
	}
}

// traffic sends requests until it is stopped and counts those that failed.
type traffic struct {
	last    atomic.Uint32 // port
	sent    atomic.Int64
	early   atomic.Int64 // see TestClientFollowsChanges
	errs    chan error
	stopped atomic.Bool
	done    sync.WaitGroup
}

const senders = 2

func (c client) traffic(t *testing.T) *traffic {
	x := &traffic{errs: make(chan error, senders)}
	for range senders {
		x.done.Go(func() {
			for !x.stopped.Load() {
				port, err := c.call(t)
				switch {
				case err == nil:
					x.last.Store(uint32(port))
					x.sent.Add(1)
				case strings.Contains(err.Error(), "unknown cluster selected"):
					x.early.Add(1)
				default:
					x.errs <- err
					return
				}
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
	x.stopped.Store(true)
	x.done.Wait()
	close(x.errs)
	for err := range x.errs {
		t.Errorf("after %d requests one failed: %v", x.sent.Load(), err)
	}
}
