package app

import (
	"context"
	"path/filepath"
	"strings"
	"testing"

	core "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	tls "github.com/envoyproxy/go-control-plane/envoy/extensions/transport_sockets/tls/v3"
	discovery "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/spillway-dev/spillway/internal/inc"
	"github.com/spillway-dev/spillway/internal/ingest"
	"github.com/spillway-dev/spillway/internal/model"
	"github.com/spillway-dev/spillway/internal/xds"
)

// TestASecretIsAnsweredForNamesUnderAWildcard: a proxy asks for names that no
// table has; while a member's rows are missing too, what is unknown is absent.
func TestASecretIsAnsweredForNamesUnderAWildcard(t *testing.T) {
	w := newWorld()
	w.p.Defaults = ingest.DefaultConfig()
	w.p.Defaults.OnDemand = true
	store := xds.NewStore()
	x := newProxies(w.p, w.envoy, newGaps(w.p), store, func() {})
	w.load()
	w.g.Commit(func(tx *inc.Tx) {
		w.p.In.Members.Set(tx, "eu-2", model.MemberSpec{Seen: true})
		id, root := model.SecretID{Namespace: "shop", Name: "wild"}, model.Object{Kind: "Ingress", Namespace: "shop", Name: "tls"}
		w.p.In.Certificates.Set(tx, id, model.Certificate{Chain: []byte("chain"), Key: []byte("key"), Names: []string{"*.shop.example"}})
		w.p.In.Roots.Set(tx, root, model.Root{TLS: []model.TLS{{Hosts: []model.Host{"*.shop.example"}, Secret: id}}})
	})
	if w.p.Missing.Len() == 0 {
		t.Fatal("no member is missing")
	}
	x.flush()
	ask := secretsOf(t, store)
	if got := ask("a.shop.example"); len(got.Resources) != 1 || secretIn(t, got.Resources[0]) != "a.shop.example: chain" {
		t.Errorf("answered %v", got.Resources)
	}
	if got := ask("a.other.example"); strings.Join(got.RemovedResources, " ") != "a.other.example" {
		t.Errorf("answered %v", got)
	}
}

func secretIn(t *testing.T, r *discovery.Resource) string {
	t.Helper()
	var s tls.Secret
	if err := r.Resource.UnmarshalTo(&s); err != nil {
		t.Fatal(err)
	}
	return s.Name + ": " + string(s.GetTlsCertificate().CertificateChain.GetInlineBytes())
}

// secretsOf opens a stream as a proxy of fra, which asks for secrets by name.
func secretsOf(t *testing.T, store *xds.Store) (ask func(name string) *discovery.DeltaDiscoveryResponse) {
	t.Helper()
	socket := filepath.Join(t.TempDir(), "xds.sock")
	l, err := xds.ListenUnix(socket)
	if err != nil {
		t.Fatal(err)
	}
	server := xds.NewServer(xds.Config{Store: store, ViewOf: func(string) (string, bool) { return viewOfFra, true }})
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- server.Serve(ctx, l) }()
	conn, err := grpc.NewClient("unix:"+socket, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = conn.Close()
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
	str, err := discovery.NewAggregatedDiscoveryServiceClient(conn).DeltaAggregatedResources(ctx)
	if err != nil {
		t.Fatal(err)
	}
	nonce := ""
	return func(name string) *discovery.DeltaDiscoveryResponse {
		t.Helper()
		if err := str.Send(&discovery.DeltaDiscoveryRequest{
			Node: &core.Node{Id: "1", Cluster: "fra"}, TypeUrl: string(xds.Secret), ResponseNonce: nonce, ResourceNamesSubscribe: []string{name},
		}); err != nil {
			t.Fatal(err)
		}
		got, err := str.Recv()
		if err != nil {
			t.Fatal(err)
		}
		nonce = got.Nonce
		return got
	}
}
