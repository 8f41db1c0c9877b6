package hds

import (
	"context"
	"fmt"
	"io"
	"net/netip"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"testing"

	core "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	health "github.com/envoyproxy/go-control-plane/envoy/service/health/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/spillway-dev/spillway/internal/xds"
	"github.com/spillway-dev/spillway/internal/xds/envoytest"
	"github.com/spillway-dev/spillway/internal/xds/xdstest"
)

const (
	clientsOf     = "SPILLWAY_TEST_HEALTH_CLIENTS" // the socket; set in a process that is the clients
	healthStreams = 100
	perConnection = 10 // a proxy has one besides that of ADS, and the connection is there
)

// healthClients are the other end of TestMemoryOfAStream, in a process of their own:
// their memory would count.
func healthClients(socket string) error {
	var conn *grpc.ClientConn
	for i := range healthStreams {
		if i%perConnection == 0 {
			var err error
			if conn, err = grpc.NewClient("unix://"+socket, grpc.WithTransportCredentials(insecure.NewCredentials())); err != nil {
				return err
			}
		}
		if err := healthClient(conn, fmt.Sprintf("edge-%d", i%perConnection), fmt.Sprint(i)); err != nil {
			return err
		}
	}
	_, _ = fmt.Println("ready")
	_, err := io.Copy(io.Discard, os.Stdin)
	return err
}

// healthClient opens a stream, and reports once what it is asked to probe.
func healthClient(conn *grpc.ClientConn, edge, node string) error {
	str, err := health.NewHealthDiscoveryServiceClient(conn).StreamHealthCheck(context.Background())
	if err != nil {
		return err
	}
	hello := &said{RequestType: &health.HealthCheckRequestOrEndpointHealthResponse_HealthCheckRequest{
		HealthCheckRequest: &health.HealthCheckRequest{Node: &core.Node{Cluster: edge, Id: node}},
	}}
	if err := str.Send(hello); err != nil {
		return err
	}
	spec, err := str.Recv()
	if err != nil {
		return err
	}
	var all []Canary
	for _, of := range spec.ClusterHealthChecks {
		for _, e := range of.LocalityEndpoints[0].Endpoints {
			if c, ok := canaryOf(of.ClusterName, e); ok {
				all = append(all, c)
			}
		}
	}
	return str.Send(&said{RequestType: &health.HealthCheckRequestOrEndpointHealthResponse_EndpointHealthResponse{EndpointHealthResponse: saw(core.HealthStatus_HEALTHY, all...)}})
}

// TestMemoryOfAStream: what a health stream costs the control plane, with its
// goroutines and what gRPC keeps for it: of a proxy that waits, and of one that
// probes 300 members, with one canary or three of each, and has reported.
func TestMemoryOfAStream(t *testing.T) {
	for _, c := range []struct {
		what    string
		each    int // canaries of a member
		proxies int // of an edge that probe
		most    int // bytes; three times what was measured, or more
	}{
		{"waits", 1, 1, 96 << 10},
		{"probes 300 canaries", 1, healthStreams, 192 << 10},
		{"probes 900 canaries", 3, healthStreams, 864 << 10},
	} {
		t.Run(c.what, func(t *testing.T) {
			var canaries []Canary
			for i := range 300 * c.each {
				canaries = append(canaries, Canary{fmt.Sprintf("member-%03d", i/c.each), netip.AddrPortFrom(netip.AddrFrom4([4]byte{10, 1, byte(i >> 8), byte(i)}), 80)})
			}
			s := New(Config{Canaries: func(string) []Canary { return canaries }, Probing: func(string) Probing { return Probing{Proxies: c.proxies} }})
			r := xdstest.New(t, xds.Config{Services: []xds.Service{s}})
			before := memory()
			cmd := exec.Command(os.Args[0])
			cmd.Env = append(os.Environ(), clientsOf+"="+r.Socket)
			var out envoytest.Buffer
			cmd.Stdout, cmd.Stderr = &out, &out
			in, err := cmd.StdinPipe()
			if err != nil {
				t.Fatal(err)
			}
			if err := cmd.Start(); err != nil {
				t.Fatal(err)
			}
			defer func() {
				_ = in.Close()
				if err := cmd.Wait(); err != nil {
					t.Errorf("the clients: %v\n%s", err, out.String())
				}
			}()
			envoytest.Until(t, "all streams are here", func() bool { return strings.Contains(out.String(), "ready") })
			each := (memory() - before) / healthStreams
			t.Logf("a health stream that %s: %d bytes", c.what, each)
			if each > c.most {
				t.Errorf("a health stream that %s takes %d bytes, %d at most", c.what, each, c.most)
			}
			runtime.KeepAlive(s)
		})
	}
}

// memory is what this process needs now: heap and stacks.
func memory() int {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int(m.HeapAlloc + m.StackInuse)
}
