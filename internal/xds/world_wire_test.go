package xds

import (
	"strings"
	"testing"

	core "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	discovery "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	grpcstatus "google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/anypb"

	"github.com/spillway-dev/spillway/internal/xds/envoytest"
)

// TestWorldEncoding: our encoding is what the protobuf library reads.
func TestWorldEncoding(t *testing.T) {
	ch := makeAssignment(t, "shop/web", 7)
	r := Response{Type: ClusterLoadAssignment, Nonce: "2a", Version: "v", Resources: []*Resource{ch.Resource, ch.Resource}}
	raw := r.Append(nil)
	if len(raw) != r.Size() {
		t.Errorf("%d bytes, Size says %d", len(raw), r.Size())
	}
	var got discovery.DiscoveryResponse
	if err := proto.Unmarshal(raw, &got); err != nil {
		t.Fatal(err)
	}
	var body anypb.Any
	if err := proto.Unmarshal(ch.Resource.Bytes(), &body); err != nil {
		t.Fatal(err)
	}
	want := &discovery.DiscoveryResponse{TypeUrl: string(ClusterLoadAssignment), Nonce: "2a", VersionInfo: "v", Resources: []*anypb.Any{&body, &body}}
	if !proto.Equal(&got, want) {
		t.Errorf("got %v\nwant %v", &got, want)
	}
}

// TestWorldOverTheWire: a gRPC client gets the view of gRPC clients and no
// other, and what it asks for decides what it is told.
func TestWorldOverTheWire(t *testing.T) {
	reports := &Reports{}
	r := newRig(t, Config{ClientViewOf: func(edge string) (string, bool) { return edge + " grpc", edge == "fra" }, Reports: reports})
	r.cfg.Store.Publish("fra", []Change{makeAssignment(t, "proxies", 1)})
	r.cfg.Store.Publish("fra grpc", []Change{makeAssignment(t, "shop/web", 1)})
	ask := func(edge string, u TypeURL, names ...string) (*discovery.DiscoveryResponse, error) {
		conn := dial(t, "unix://"+r.socket, insecure.NewCredentials())
		str, err := discovery.NewAggregatedDiscoveryServiceClient(conn).StreamAggregatedResources(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if err := str.Send(&discovery.DiscoveryRequest{Node: &core.Node{Id: "a", Cluster: edge}, TypeUrl: string(u), ResourceNames: names}); err != nil {
			t.Fatal(err)
		}
		return str.Recv()
	}
	m, err := ask("fra", ClusterLoadAssignment, "shop/web", "proxies")
	if err != nil || len(m.Resources) != 1 || m.VersionInfo == "" {
		t.Errorf("got %v %v", m, err)
	}
	if m, err := ask("fra", Listener, "shop.example"); err != nil || len(m.Resources) != 0 {
		t.Errorf("a listener that is not there: %v %v", m, err)
	}
	if _, err := ask("fra", Listener); grpcstatus.Code(err) != codes.InvalidArgument || !strings.Contains(err.Error(), "DELTA_GRPC") {
		t.Errorf("a wildcard: %v", err)
	}
	if _, err := ask("par", Listener, "shop.example"); grpcstatus.Code(err) != codes.NotFound {
		t.Errorf("an unknown edge: %v", err)
	}
	streams, _ := reports.Take()
	if len(streams) == 0 || streams[0].Class != GRPC || streams[0].View != "fra grpc" {
		t.Errorf("reported %+v", streams)
	}
	c := r.client("fra", "p")
	c.subscribe(ClusterLoadAssignment, "proxies", "shop/web")
	if got := text(c.receive()); !strings.Contains(got, "proxies@") || strings.Contains(got, "shop/web@") {
		t.Errorf("a proxy got %s", got)
	}
}

// TestClientIdentity: a certificate is for proxies or for gRPC clients, not both.
func TestClientIdentity(t *testing.T) {
	ca := envoytest.NewCA(t)
	cert, key := ca.Leaf(t, "server", envoytest.IP("127.0.0.1"))
	e, err := ListenTLS("127.0.0.1:0", cert, key, ca.File)
	if err != nil {
		t.Fatal(err)
	}
	store := NewStore()
	store.Publish("fra", []Change{makeAssignment(t, "a", 1)})
	store.Publish("fra grpc", []Change{makeAssignment(t, "a", 1)})
	_, stop := serve(t, Config{
		Store: store, TrustDomain: "spillway.test", Allow: func(_, id string) bool { return id != "spiffe://spillway.test/grpc/locked" },
		ViewOf:       func(edge string) (string, bool) { return edge, true },
		ClientViewOf: func(edge string) (string, bool) { return edge + " grpc", true },
	}, e)
	defer stop()
	for _, c := range []struct {
		id, edge string
		code     codes.Code
		says     string
	}{
		{"spiffe://spillway.test/grpc/fra", "fra", codes.OK, ""},
		{"spiffe://spillway.test/grpc/par", "fra", codes.PermissionDenied, "spiffe://spillway.test/grpc/fra"},
		{"spiffe://spillway.test/edge/fra", "fra", codes.PermissionDenied, "spiffe://spillway.test/grpc/fra"},
		{"spiffe://evil.test/grpc/fra", "fra", codes.PermissionDenied, "trust domain"},
		{"spiffe://spillway.test/grpc/locked", "locked", codes.PermissionDenied, "spec.identity"},
	} {
		t.Run(c.id+" as "+c.edge, func(t *testing.T) {
			creds := clientTLS(t, ca, ca, envoytest.URI(c.id))
			str, err := discovery.NewAggregatedDiscoveryServiceClient(dial(t, e.Addr().String(), creds)).StreamAggregatedResources(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			r := &discovery.DiscoveryRequest{Node: &core.Node{Id: "n", Cluster: c.edge}, TypeUrl: string(ClusterLoadAssignment), ResourceNames: []string{"a"}}
			if err := str.Send(r); err != nil {
				t.Fatal(err)
			}
			if _, err := str.Recv(); grpcstatus.Code(err) != c.code || err != nil && !strings.Contains(err.Error(), c.says) {
				t.Errorf("got %v", err)
			}
		})
	}
	creds := clientTLS(t, ca, ca, envoytest.URI("spiffe://spillway.test/grpc/fra"))
	cl := openClient(t, dial(t, e.Addr().String(), creds), "fra", "n")
	cl.subscribe(ClusterLoadAssignment, "a")
	if st := cl.end(); st.Code() != codes.PermissionDenied || !strings.Contains(st.Message(), "/edge/fra") {
		t.Errorf("a gRPC client's certificate was taken for a proxy's: %v", st)
	}
}
