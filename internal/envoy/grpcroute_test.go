package envoy

import (
	"context"
	"fmt"
	"net"
	"net/netip"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	healthv1 "google.golang.org/grpc/health/grpc_health_v1"

	"github.com/spillway-dev/spillway/internal/fleet"
	"github.com/spillway-dev/spillway/internal/inc"
	"github.com/spillway-dev/spillway/internal/model"
)

// healthPod is a gRPC server that answers with one status, once and as a stream.
type healthPod struct {
	healthv1.UnimplementedHealthServer
	status healthv1.HealthCheckResponse_ServingStatus
}

func (h *healthPod) Check(context.Context, *healthv1.HealthCheckRequest) (*healthv1.HealthCheckResponse, error) {
	return &healthv1.HealthCheckResponse{Status: h.status}, nil
}

func (h *healthPod) Watch(_ *healthv1.HealthCheckRequest, to grpc.ServerStreamingServer[healthv1.HealthCheckResponse]) error {
	return to.Send(&healthv1.HealthCheckResponse{Status: h.status})
}

func newHealthPod(t *testing.T, status healthv1.HealthCheckResponse_ServingStatus) model.Endpoint {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s := grpc.NewServer()
	healthv1.RegisterHealthServer(s, &healthPod{status: status})
	go func() { _ = s.Serve(l) }()
	t.Cleanup(s.Stop)
	at := netip.MustParseAddrPort(l.Addr().String())
	return model.Endpoint{Addr: at.Addr(), Port: at.Port()}
}

// TestGRPC: a method of gRPC is a path as any other, in a list and in a tree.
func TestGRPC(t *testing.T) {
	for name, s := range map[string]sizes{"list": usual, "tree": asTrees} {
		t.Run(name, func(t *testing.T) {
			r := newRigOf(t, timingForTests, s)
			r.commit(func(tx *inc.Tx) {
				for name, status := range map[string]healthv1.HealthCheckResponse_ServingStatus{
					"shop/method/grpc": healthv1.HealthCheckResponse_SERVING, "shop/service/grpc": healthv1.HealthCheckResponse_NOT_SERVING,
				} {
					r.use(tx, testView, name, "kubernetes.io/h2c")
					r.group(tx, name, "eu-1", newHealthPod(t, status))
					r.plan(tx, testView, name, share("eu-1", 0))
				}
				r.host(tx, testClass, "shop.example", nil,
					fleet.Route{Match: exact("/grpc.health.v1.Health/Check"), Target: target("web", "shop/method/grpc")},
					fleet.Route{Match: prefix("/grpc.health.v1.Health"), Target: target("web", "shop/service/grpc")})
			})
			r.settled(t)
			conn, err := grpc.NewClient(fmt.Sprintf("127.0.0.1:%d", r.http),
				grpc.WithTransportCredentials(insecure.NewCredentials()), grpc.WithAuthority("shop.example"))
			if err != nil {
				t.Fatal(err)
			}
			defer func() { _ = conn.Close() }()
			client := healthv1.NewHealthClient(conn)
			if got, err := client.Check(t.Context(), &healthv1.HealthCheckRequest{}); err != nil || got.Status != healthv1.HealthCheckResponse_SERVING {
				t.Errorf("Check: %v %v", got, err)
			}
			stream, err := client.Watch(t.Context(), &healthv1.HealthCheckRequest{})
			if err != nil {
				t.Fatal(err)
			}
			if got, err := stream.Recv(); err != nil || got.Status != healthv1.HealthCheckResponse_NOT_SERVING {
				t.Errorf("Watch: %v %v", got, err)
			}
		})
	}
}

// TestOnePodInTwoWays: a host of calls speaks HTTP/2 to a pod of which the Service
// says nothing, and another host does not. Where the Service says it, it is one
// cluster.
func TestOnePodInTwoWays(t *testing.T) {
	for appProtocol, want := range map[string][2]string{"": {"HTTP/2.0", "HTTP/1.1"}, "kubernetes.io/h2c": {"HTTP/2.0", "HTTP/2.0"}} {
		t.Run("appProtocol="+appProtocol, func(t *testing.T) {
			r := oneHost(t, newPod(t, "web@eu-1/0"), appProtocol)
			r.commit(func(tx *inc.Tx) {
				used := need{view: testView, backend: backend("shop/web/http"), dial: overHTTP2}
				r.needs.Set(tx, used, model.There{})
				route := fleet.Route{Match: exact("/shop.Cart/Add"), Target: target("web", "shop/web/http")}
				r.p.Hosts.Set(tx, model.HostKey{Class: testClass, Host: "calls.example"}, fleet.Host{Routes: []fleet.Route{route}, Dial: overHTTP2})
			})
			r.settled(t)
			for i, q := range []request{{host: "calls.example", path: "/shop.Cart/Add"}, shopRequest} {
				if got := r.ask(t, q); got.status != 200 || got.header.Get("X-Proto") != want[i] {
					t.Errorf("%s: %+v", q.host, got)
				}
			}
		})
	}
}
