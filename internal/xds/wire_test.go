package xds

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"os"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	core "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	endpoint "github.com/envoyproxy/go-control-plane/envoy/config/endpoint/v3"
	discovery "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	"google.golang.org/genproto/googleapis/rpc/status"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
	grpcstatus "google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/anypb"

	"github.com/spillway-dev/spillway/internal/model"
	"github.com/spillway-dev/spillway/internal/xds/envoytest"
)

// makeResource wraps a message as the store takes it.
func makeResource(t testing.TB, name, version string, m proto.Message, refs ...Ref) *Resource {
	t.Helper()
	a, err := anypb.New(m)
	if err != nil {
		t.Fatal(err)
	}
	body, err := proto.MarshalOptions{Deterministic: true}.Marshal(a)
	if err != nil {
		t.Fatal(err)
	}
	return &Resource{Name: name, Version: version, Body: model.BodyOf(body, refs...)}
}

// makeAssignment has ten endpoints in two localities.
func makeAssignment(t testing.TB, name string, generation int) Change {
	t.Helper()
	cla := &endpoint.ClusterLoadAssignment{ClusterName: name}
	for l := range 2 {
		in := &endpoint.LocalityLbEndpoints{Locality: &core.Locality{Region: "eu", Zone: fmt.Sprintf("eu-%d", l)}, Priority: uint32(l)}
		for e := range 5 {
			in.LbEndpoints = append(in.LbEndpoints, &endpoint.LbEndpoint{HostIdentifier: &endpoint.LbEndpoint_Endpoint{
				Endpoint: &endpoint.Endpoint{Address: &core.Address{Address: &core.Address_SocketAddress{SocketAddress: &core.SocketAddress{
					Address: fmt.Sprintf("10.%d.%d.%d", l, generation%256, e), PortSpecifier: &core.SocketAddress_PortValue{PortValue: 8080},
				}}}},
			}})
		}
		cla.Endpoints = append(cla.Endpoints, in)
	}
	return Change{ClusterLoadAssignment, name, makeResource(t, name, fmt.Sprintf("%016x", generation), cla)}
}

// client is a delta ADS stream as a test drives it.
type client struct {
	t    testing.TB
	str  discovery.AggregatedDiscoveryService_DeltaAggregatedResourcesClient
	in   chan *discovery.DeltaDiscoveryResponse
	err  error // set before in is closed
	node *core.Node
}

func dial(t testing.TB, target string, creds credentials.TransportCredentials) *grpc.ClientConn {
	t.Helper()
	c, err := grpc.NewClient(target, grpc.WithTransportCredentials(creds), grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(64<<20)))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	return c
}

func (r *rig) client(edge, node string) *client {
	r.t.Helper()
	return openClient(r.t, dial(r.t, "unix://"+r.socket, insecure.NewCredentials()), edge, node)
}

func openClient(t testing.TB, conn *grpc.ClientConn, edge, node string) *client {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	str, err := discovery.NewAggregatedDiscoveryServiceClient(conn).DeltaAggregatedResources(ctx)
	c := &client{t: t, str: str, in: make(chan *discovery.DeltaDiscoveryResponse, 100), node: &core.Node{Id: node, Cluster: edge}}
	if err != nil { // the handshake may fail here, or at the first message
		cancel()
		c.err, c.str = err, nil
		close(c.in)
		return c
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		defer close(c.in)
		for {
			m, err := str.Recv()
			if err != nil {
				c.err = err
				return
			}
			c.in <- m
		}
	}()
	t.Cleanup(func() {
		cancel()
		<-done
	})
	return c
}

func (c *client) send(r *discovery.DeltaDiscoveryRequest) {
	c.t.Helper()
	if c.str == nil {
		return
	}
	r.Node, c.node = c.node, nil
	if err := c.str.Send(r); err != nil {
		c.t.Log("send:", err)
	}
}

func (c *client) subscribe(u TypeURL, names ...string) {
	c.t.Helper()
	c.send(&discovery.DeltaDiscoveryRequest{TypeUrl: string(u), ResourceNamesSubscribe: names})
}

// receive returns the next response.
func (c *client) receive() *discovery.DeltaDiscoveryResponse {
	c.t.Helper()
	select {
	case m, ok := <-c.in:
		if !ok {
			c.t.Fatalf("the stream ended: %v", c.err)
		}
		return m
	case <-time.After(time.Minute):
		c.t.Fatal("no response in a minute")
	}
	return nil
}

// end waits until the server closed the stream, and returns how.
func (c *client) end() *grpcstatus.Status {
	c.t.Helper()
	for {
		select {
		case _, ok := <-c.in:
			if !ok {
				return grpcstatus.Convert(c.err)
			}
		case <-time.After(time.Minute):
			c.t.Fatal("the stream is still open")
		}
	}
}

func (c *client) ack(m *discovery.DeltaDiscoveryResponse) {
	c.t.Helper()
	c.send(&discovery.DeltaDiscoveryRequest{TypeUrl: m.TypeUrl, ResponseNonce: m.Nonce})
}

func (c *client) nack(m *discovery.DeltaDiscoveryResponse, words string) {
	c.t.Helper()
	c.send(&discovery.DeltaDiscoveryRequest{TypeUrl: m.TypeUrl, ResponseNonce: m.Nonce, ErrorDetail: &status.Status{Message: words}})
}

// text prints a response: names with versions, then removed names.
func text(m *discovery.DeltaDiscoveryResponse) string {
	var out []string
	for _, r := range m.Resources {
		out = append(out, r.Name+"@"+r.Version)
	}
	for _, n := range m.RemovedResources {
		out = append(out, "-"+n)
	}
	return strings.Join(out, " ")
}

// TestEncoding: our encoding is what the protobuf library reads.
func TestEncoding(t *testing.T) {
	ch := makeAssignment(t, "shop/web", 7)
	r := Response{Type: ClusterLoadAssignment, Nonce: "2a", Resources: []*Resource{ch.Resource, ch.Resource}, Removed: []string{"gone", "away"}}
	raw := r.Append(nil)
	if len(raw) != r.Size() {
		t.Errorf("%d bytes, Size says %d", len(raw), r.Size())
	}
	var got discovery.DeltaDiscoveryResponse
	if err := proto.Unmarshal(raw, &got); err != nil {
		t.Fatal(err)
	}
	var body anypb.Any
	if err := proto.Unmarshal(ch.Resource.Bytes(), &body); err != nil {
		t.Fatal(err)
	}
	one := &discovery.Resource{Name: "shop/web", Version: ch.Resource.Version, Resource: &body}
	want := &discovery.DeltaDiscoveryResponse{
		TypeUrl: string(ClusterLoadAssignment), Nonce: "2a", Resources: []*discovery.Resource{one, one}, RemovedResources: []string{"gone", "away"},
	}
	if !proto.Equal(&got, want) {
		t.Errorf("got %v\nwant %v", &got, want)
	}
}

// TestOneEndpointChange: one change is one response with one assignment, only
// on streams subscribed to it, of about 500 bytes for ten endpoints.
func TestOneEndpointChange(t *testing.T) {
	r := newRig(t, Config{})
	var all []Change
	for i := range 100 {
		all = append(all, makeAssignment(t, fmt.Sprintf("shop/svc-%02d", i), i))
	}
	r.cfg.Store.Publish("fra", all)
	a, b, other := r.client("fra", "a"), r.client("fra", "b"), r.client("fra", "c")
	for _, c := range []*client{a, b, other} {
		names := []string{"shop/svc-01", "shop/svc-02", "shop/svc-03"}
		if c == other {
			names = []string{"shop/svc-50"}
		}
		c.subscribe(ClusterLoadAssignment, names...)
		m := c.receive()
		if len(m.Resources) != len(names) {
			t.Fatalf("got %s", text(m))
		}
		c.ack(m)
	}
	r.cfg.Store.Publish("fra", []Change{makeAssignment(t, "shop/svc-02", 1000)})
	r.cfg.Store.Publish("fra", []Change{makeAssignment(t, "shop/svc-50", 1001)})
	for _, c := range []*client{a, b} {
		m := c.receive()
		if got, want := text(m), "shop/svc-02@00000000000003e8"; got != want {
			t.Errorf("got %s, want %s", got, want)
		}
		if n := proto.Size(m); n > 600 {
			t.Errorf("%d bytes", n)
		}
		c.ack(m)
	}
	// The first thing that reaches the other stream is its own change.
	m := other.receive()
	if got, want := text(m), "shop/svc-50@00000000000003e9"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	t.Logf("%d bytes", proto.Size(m))
	other.ack(m)
	// And nothing more comes: the next response is the one to the next change.
	r.cfg.Store.Publish("fra", []Change{makeAssignment(t, "shop/svc-01", 1002)})
	if got, want := text(a.receive()), "shop/svc-01@00000000000003ea"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}

// TestStateOfTheWorldIsRefused with a message that says what to do.
func TestStateOfTheWorldIsRefused(t *testing.T) {
	r := newRig(t, Config{})
	conn := dial(t, "unix://"+r.socket, insecure.NewCredentials())
	str, err := discovery.NewAggregatedDiscoveryServiceClient(conn).StreamAggregatedResources(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	_, err = str.Recv()
	if s := grpcstatus.Convert(err); s.Code() != codes.Unimplemented || !strings.Contains(s.Message(), "DELTA_GRPC") {
		t.Errorf("got %v", err)
	}
}

// TestEdges: an unknown edge is refused; one that moves is sent the
// difference; one that is deleted is closed; a name of another view is absent.
func TestEdges(t *testing.T) {
	var viewID atomic.Value
	viewID.Store("one")
	reports := &Reports{}
	r := newRig(t, Config{Reports: reports, ReportTypes: []TypeURL{Secret}, ViewOf: func(edge string) (string, bool) {
		v := viewID.Load().(string)
		return v, edge == "fra" && v != ""
	}})
	secret := func(version string) Change {
		return Change{Secret, "tls", makeResource(t, "tls", version, &core.Node{Id: version})}
	}
	r.cfg.Store.Publish("one", []Change{secret("1")})
	r.cfg.Store.Publish("two", []Change{secret("2"), {Secret, "two-only", makeResource(t, "two-only", "1", &core.Node{})}})

	stranger := r.client("par", "x")
	stranger.subscribe(Secret, "tls")
	if s := stranger.end(); s.Code() != codes.NotFound || !strings.Contains(s.Message(), `Edge "par"`) {
		t.Errorf("got %v", s)
	}
	c := r.client("fra", "a")
	c.subscribe(Secret, "tls", "two-only")
	m := c.receive()
	if got := text(m); got != "tls@1 -two-only" {
		t.Errorf("got %s", got)
	}
	c.ack(m)
	viewID.Store("two")
	r.server.Reassign()
	m = c.receive()
	if got := text(m); got != "tls@2 two-only@1" {
		t.Errorf("got %s", got)
	}
	c.nack(m, "no")
	for range 2 {
		c.ack(c.receive())
	}
	// Wait until the last answer was taken: a change is sent only after it.
	r.cfg.Store.Publish("two", []Change{secret("3")})
	if got := text(c.receive()); got != "tls@3" {
		t.Errorf("got %s", got)
	}
	st := r.server.Streams()
	if len(st) != 1 || st[0].View != "two" || st[0].Types[0].NACKs != 1 || st[0].Types[0].Subscribed != 2 {
		t.Errorf("got %+v", st)
	}
	viewID.Store("")
	r.server.Reassign()
	if s := c.end(); s.Code() != codes.NotFound {
		t.Errorf("got %v", s)
	}
	envoytest.Until(t, "the stream is gone", func() bool { return len(r.server.Streams()) == 0 })
	var last StreamChange
	var verdicts []ProxyVerdict
	envoytest.Until(t, "its end is reported", func() bool { // right after it is gone
		streams, said := reports.Take()
		for _, last = range streams {
		}
		verdicts = append(verdicts, said...)
		return len(streams) > 0 && !last.Open
	})
	if last.Reason != reasonEdgeGone {
		t.Errorf("got %+v", last)
	}
	if len(verdicts) != 2 || verdicts[0].Name != "tls" || verdicts[0].Version != "2" || verdicts[0].Error != "" || verdicts[0].Edge != "fra" {
		t.Errorf("got %+v", verdicts)
	}
}

// TestSilentClientIsClosed: a response that is never answered ends the stream.
func TestSilentClientIsClosed(t *testing.T) {
	r := newRig(t, Config{Limits: Limits{AckTimeout: 50 * time.Millisecond}})
	r.cfg.Store.Publish("fra", []Change{makeAssignment(t, "a", 1)})
	c := r.client("fra", "a")
	c.subscribe(ClusterLoadAssignment, "a")
	if s := c.end(); s.Code() != codes.DeadlineExceeded {
		t.Errorf("got %v", s)
	}
}

// TestMuteClientIsClosed: a stream on which nobody says who it is ends.
func TestMuteClientIsClosed(t *testing.T) {
	r := newRig(t, Config{Limits: Limits{First: 50 * time.Millisecond}})
	conn := dial(t, "unix://"+r.socket, insecure.NewCredentials())
	str, err := discovery.NewAggregatedDiscoveryServiceClient(conn).DeltaAggregatedResources(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := str.Recv(); grpcstatus.Code(err) != codes.DeadlineExceeded {
		t.Errorf("ended with %v", err)
	}
}

// TestInitialSyncsTakeTurns: more streams than places all get their state,
// also when the first ones never ask for listeners.
func TestInitialSyncsTakeTurns(t *testing.T) {
	r := newRig(t, Config{InitialSyncs: 1})
	r.cfg.Store.Publish("fra", []Change{makeAssignment(t, "a", 1)})
	for i := range 3 {
		c := r.client("fra", fmt.Sprint(i))
		c.subscribe(ClusterLoadAssignment, "a")
		if got := text(c.receive()); !strings.HasPrefix(got, "a@") {
			t.Errorf("got %s", got)
		}
	}
}

// TestIdentity: over mTLS a client speaks only for the edge in its certificate.
func TestIdentity(t *testing.T) {
	ca, otherCA := envoytest.NewCA(t), envoytest.NewCA(t)
	cert, key := ca.Leaf(t, "server", envoytest.IP("127.0.0.1"))
	e, err := ListenTLS("127.0.0.1:0", cert, key, ca.File)
	if err != nil {
		t.Fatal(err)
	}
	address := e.Addr().String()
	store := NewStore()
	store.Publish("fra", []Change{makeAssignment(t, "a", 1)})
	s, stop := serve(t, Config{
		Store: store, ViewOf: func(edge string) (string, bool) { return edge, true },
		TrustDomain: "spillway.test", Allow: func(edge, id string) bool { return edge != "locked" },
	}, e)
	defer stop()
	_ = s
	for _, c := range []struct {
		name, edge string
		ca         *envoytest.CA
		names      []envoytest.Name
		code       codes.Code
		says       string
	}{
		{"right", "fra", ca, []envoytest.Name{envoytest.URI("spiffe://spillway.test/edge/fra")}, codes.OK, ""},
		{"other edge", "fra", ca, []envoytest.Name{envoytest.URI("spiffe://spillway.test/edge/par")}, codes.PermissionDenied, `spiffe://spillway.test/edge/par but node.cluster is "fra"`},
		{"not an edge", "fra", ca, []envoytest.Name{envoytest.URI("spiffe://spillway.test/ns/x/sa/fra")}, codes.PermissionDenied, "node.cluster"},
		{"other domain", "fra", ca, []envoytest.Name{envoytest.URI("spiffe://evil.test/edge/fra")}, codes.PermissionDenied, "trust domain"},
		{"not listed", "locked", ca, []envoytest.Name{envoytest.URI("spiffe://spillway.test/edge/locked")}, codes.PermissionDenied, "spec.identity"},
		{"no name", "fra", ca, nil, codes.PermissionDenied, "exactly one URI name"},
		{"two names", "fra", ca, []envoytest.Name{envoytest.URI("spiffe://spillway.test/edge/fra"), envoytest.URI("spiffe://spillway.test/edge/par")}, codes.PermissionDenied, "exactly one URI name"},
		{"other CA", "fra", otherCA, []envoytest.Name{envoytest.URI("spiffe://spillway.test/edge/fra")}, codes.Unavailable, ""},
		{"no certificate", "fra", nil, nil, codes.Unavailable, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			cl := openClient(t, dial(t, address, clientTLS(t, ca, c.ca, c.names...)), c.edge, "n")
			cl.subscribe(ClusterLoadAssignment, "a")
			if c.code == codes.OK {
				cl.receive()
				return
			}
			if st := cl.end(); st.Code() != c.code || !strings.Contains(st.Message(), c.says) {
				t.Errorf("got %v", st)
			}
		})
	}
}

func clientTLS(t *testing.T, trust, ca *envoytest.CA, names ...envoytest.Name) credentials.TransportCredentials {
	t.Helper()
	return credentials.NewTLS(clientConfig(t, trust, ca, names...))
}

func clientConfig(t *testing.T, trust, ca *envoytest.CA, names ...envoytest.Name) *tls.Config {
	t.Helper()
	pem, err := os.ReadFile(trust.File)
	if err != nil {
		t.Fatal(err)
	}
	cfg := &tls.Config{RootCAs: x509.NewCertPool()}
	cfg.RootCAs.AppendCertsFromPEM(pem)
	if ca != nil {
		cert, key := ca.Leaf(t, "client", names...)
		pair, err := tls.LoadX509KeyPair(cert, key)
		if err != nil {
			t.Fatal(err)
		}
		cfg.Certificates = []tls.Certificate{pair}
	}
	return cfg
}
