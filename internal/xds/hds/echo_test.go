package hds

import (
	"context"
	"fmt"
	"net/netip"
	"testing"
	"time"

	core "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	health "github.com/envoyproxy/go-control-plane/envoy/service/health/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/spillway-dev/spillway/internal/xds"
	"github.com/spillway-dev/spillway/internal/xds/xdstest"
)

// dialed opens a health stream as a proxy does.
func dialed(t *testing.T, socket string) health.HealthDiscoveryService_StreamHealthCheckClient {
	t.Helper()
	conn, err := grpc.NewClient("unix:"+socket, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	ctx, cancel := context.WithCancel(t.Context())
	t.Cleanup(cancel)
	str, err := health.NewHealthDiscoveryServiceClient(conn).StreamHealthCheck(ctx)
	if err != nil {
		t.Fatal(err)
	}
	hello := &health.HealthCheckRequest{Node: &core.Node{Id: "fra-1", Cluster: "fra"}}
	if err := str.Send(&said{RequestType: &health.HealthCheckRequestOrEndpointHealthResponse_HealthCheckRequest{HealthCheckRequest: hello}}); err != nil {
		t.Fatal(err)
	}
	return str
}

func reported(r *health.EndpointHealthResponse) *said {
	return &said{RequestType: &health.HealthCheckRequestOrEndpointHealthResponse_EndpointHealthResponse{EndpointHealthResponse: r}}
}

// TestTheSameReportIsNotRead: it has the last one count on, until something
// differs: what is said, what is asked for, or whether the last one still stands.
func TestTheSameReportIsNotRead(t *testing.T) {
	a, b := canary("eu-1", "10.1.0.1:80"), canary("eu-1", "10.1.0.2:80")
	heard, looked := make(chan string), make(chan []Canary)
	stands := true
	s := New(Config{
		Canaries: func(string) []Canary { return <-looked },
		Health: func(r Report) func(time.Time) bool {
			text := ""
			for _, c := range r.Canaries {
				text += map[bool]string{true: "+", false: "-"}[c.Healthy]
			}
			heard <- text
			return func(time.Time) bool { heard <- "same"; return stands }
		},
	})
	rig := xdstest.New(t, xds.Config{Services: []xds.Service{s}})
	str := dialed(t, rig.Socket)
	ask := func(canaries ...Canary) {
		t.Helper()
		looked <- canaries
		if _, err := str.Recv(); err != nil {
			t.Fatal(err)
		}
	}
	asked := []Canary{a}
	say := func(want string, status core.HealthStatus) {
		t.Helper()
		if err := str.Send(reported(saw(status, asked...))); err != nil {
			t.Fatal(err)
		}
		if got := <-heard; got != want {
			t.Fatalf("heard %q, want %q", got, want)
		}
		s.CanariesChanged() // so that it is known to be done with
		looked <- asked
	}
	ask(asked...)
	say("+", core.HealthStatus_HEALTHY)
	say("same", core.HealthStatus_HEALTHY)
	say("same", core.HealthStatus_HEALTHY)
	say("-", core.HealthStatus_UNHEALTHY)
	stands = false
	say("same", core.HealthStatus_UNHEALTHY)
	stands = true
	say("-", core.HealthStatus_UNHEALTHY)
	say("same", core.HealthStatus_UNHEALTHY)

	asked = append(asked, b) // is believed to be down only later: until then each report is read
	s.CanariesChanged()
	ask(asked...)
	say("-", core.HealthStatus_UNHEALTHY)
	say("-", core.HealthStatus_UNHEALTHY)
	say("++", core.HealthStatus_HEALTHY)
	say("same", core.HealthStatus_HEALTHY)
}

// TestTheSameBytes: only the message right before counts.
func TestTheSameBytes(t *testing.T) {
	e := &echo{}
	e.stands.Store(true)
	x, y := []byte("x"), []byte("y")
	for i, c := range []struct {
		raw  []byte
		want bool
	}{{x, false}, {x, true}, {y, false}, {x, false}, {x, true}} {
		if got := e.same(c.raw); got != c.want {
			t.Errorf("message %d: %t", i, got)
		}
	}
	e.stands.Store(false)
	for range 2 {
		if e.same(x) {
			t.Error("taken though the last one does not stand")
		}
	}
}

// addresses are so many canaries of each of so many members.
func addresses(members, each int) (out []Canary) {
	for m := range members {
		for c := range each {
			out = append(out, Canary{fmt.Sprintf("member-%03d", m), netip.AddrPortFrom(netip.AddrFrom4([4]byte{10, byte(m >> 8), byte(m), byte(c + 1)}), 8080)})
		}
	}
	return out
}
