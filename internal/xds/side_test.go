package xds

import (
	"testing"

	core "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	health "github.com/envoyproxy/go-control-plane/envoy/service/health/v3"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	grpcstatus "google.golang.org/grpc/status"

	"github.com/spillway-dev/spillway/internal/xds/envoytest"
)

// TestSideStreamsAreBounded: a service has as many streams as the server may,
// and one that ends makes room. Those of ADS are counted apart.
func TestSideStreamsAreBounded(t *testing.T) {
	const most = 2
	service, _ := NewHealth(asked, nil)
	r := newRig(t, Config{Services: []Service{service, Load}, MaxStreams: most, MaxOfOne: most})
	r.cfg.Store.Publish("fra", nil)
	client := health.NewHealthDiscoveryServiceClient(dial(t, "unix://"+r.socket, insecure.NewCredentials()))
	open := func() (health.HealthDiscoveryService_StreamHealthCheckClient, error) {
		str, err := client.StreamHealthCheck(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if err := str.Send(&health.HealthCheckRequestOrEndpointHealthResponse{RequestType: &health.HealthCheckRequestOrEndpointHealthResponse_HealthCheckRequest{
			HealthCheckRequest: &health.HealthCheckRequest{Node: &core.Node{Cluster: "fra", Id: "n"}},
		}}); err != nil {
			t.Fatal(err)
		}
		_, err = str.Recv()
		return str, err
	}
	var last health.HealthDiscoveryService_StreamHealthCheckClient
	for i := range most {
		str, err := open()
		if err != nil {
			t.Fatalf("stream %d: %v", i, err)
		}
		last = str
	}
	if _, err := open(); grpcstatus.Code(err) != codes.ResourceExhausted {
		t.Errorf("one more: %v", err)
	}
	if got := r.server.beside[0].count(); got != most {
		t.Errorf("%d streams are counted, want %d", got, most)
	}
	c := r.client("fra", "n")
	c.subscribe(Secret, "x")
	c.receive()
	if err := last.CloseSend(); err != nil {
		t.Fatal(err)
	}
	envoytest.Until(t, "room", func() bool { return r.server.beside[0].count() < most })
	if _, err := open(); err != nil {
		t.Errorf("after one has left: %v", err)
	}
}
