package xds

import (
	"bytes"
	"crypto/tls"
	"encoding/binary"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"testing"
	"time"

	core "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	discovery "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	"golang.org/x/net/http2"
	"google.golang.org/protobuf/proto"

	"github.com/spillway-dev/spillway/internal/xds/envoytest"
)

// slowly is a call whose request comes a part at a time.
type slowly struct {
	*io.PipeWriter
	answer chan *http.Response
	ended  chan error
}

// callSlowly opens a connection of its own.
func callSlowly(t *testing.T, addr string, cfg *tls.Config) *slowly {
	t.Helper()
	r, w := io.Pipe()
	out := &slowly{w, make(chan *http.Response, 1), make(chan error, 1)}
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "https://"+addr+"/envoy.service.discovery.v3.AggregatedDiscoveryService/DeltaAggregatedResources", r)
	if err != nil {
		t.Fatal(err)
	}
	req.Header = http.Header{"Content-Type": {"application/grpc"}, "Te": {"trailers"}}
	transport := &http.Transport{TLSClientConfig: cfg, Protocols: new(http.Protocols)}
	transport.Protocols.SetHTTP2(true)
	t.Cleanup(func() {
		_ = w.Close()
		transport.CloseIdleConnections()
	})
	go func() {
		resp, err := transport.RoundTrip(req)
		if err != nil {
			out.ended <- err
			r.CloseWithError(err)
			return
		}
		t.Cleanup(func() { _ = resp.Body.Close() })
		out.answer <- resp
	}()
	return out
}

// messageBytes is a message as gRPC sends it.
func messageBytes(t *testing.T, m proto.Message) []byte {
	t.Helper()
	raw, err := proto.Marshal(m)
	if err != nil {
		t.Fatal(err)
	}
	return append(binary.BigEndian.AppendUint32([]byte{0}, uint32(len(raw))), raw...)
}

// TestRequestsThatNeverEnd: whoever begins more requests than there is room for
// loses connections; somebody else's large request, which comes slowly meanwhile,
// is answered.
func TestRequestsThatNeverEnd(t *testing.T) {
	const most, part = 8 << 20, 3 << 20
	ca := envoytest.NewCA(t)
	cert, key := ca.Leaf(t, "server", envoytest.IP("127.0.0.1"))
	e, err := ListenTLS("127.0.0.1:0", cert, key, ca.File)
	if err != nil {
		t.Fatal(err)
	}
	store := NewStore()
	store.Publish("v", []Change{{Secret, "tls", makeResource(t, "tls", "1", &core.Node{Cluster: "fra", Id: "n"})}})
	s := NewServer(Config{
		Store: store, ClientFace: NewWorld, Limits: Limits{First: time.Hour},
		ViewOf: func(string) (string, bool) { return "v", true },
		Allow:  func(string, string) bool { return true },
	})
	s.unread.most = most
	t.Cleanup(run(t, s, e))
	as := func(edge string) *tls.Config {
		return clientConfig(t, ca, ca, envoytest.URI("spiffe://spillway.test/edge/"+edge))
	}

	names := append(many(40_000, 80), "tls")
	whole := messageBytes(t, &discovery.DeltaDiscoveryRequest{Node: &core.Node{Cluster: "fra", Id: "n"}, TypeUrl: string(Secret), ResourceNamesSubscribe: names})
	honest := callSlowly(t, e.Addr().String(), as("fra"))
	if _, err := honest.Write(whole[:part]); err != nil {
		t.Fatal(err)
	}
	envoytest.Until(t, "the honest part is there", func() bool { return s.unread.all.Load() == part })

	endless := append(binary.BigEndian.AppendUint32([]byte{0}, firstRequestBytes), make([]byte, 2*part)...)
	lost := make(chan error, 3)
	for range cap(lost) {
		bad := callSlowly(t, e.Addr().String(), as("par"))
		go func() { _, _ = bad.Write(endless) }() // it may be cut off
		go func() { lost <- <-bad.ended }()
	}
	for range cap(lost) - 1 { // one may be left, if the others went first
		if err := <-lost; err == nil {
			t.Error("a request that never ends ended well")
		}
	}
	envoytest.Until(t, "there is room again", func() bool { return s.unread.all.Load() <= most })

	if _, err := honest.Write(whole[part:]); err != nil {
		t.Fatalf("the honest client was cut off: %v", err)
	}
	select {
	case resp := <-honest.answer:
		if _, err := io.ReadFull(resp.Body, make([]byte, messageHeader+1)); err != nil {
			t.Fatalf("%s: %v", resp.Header, err)
		}
	case err := <-honest.ended:
		t.Fatalf("the honest client was cut off: %v", err)
	}
	s.unread.mu.Lock()
	defer s.unread.mu.Unlock()
	for c := range s.unread.conns {
		if n := c.held(); n != 0 && c.who.identity == "spiffe://spillway.test/edge/fra" {
			t.Errorf("%d bytes of a request that was answered are unread", n)
		}
	}
}

// TestFrames: however the bytes come, content alone is counted.
func TestFrames(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	for range 200 {
		var wire bytes.Buffer
		wire.WriteString(http2.ClientPreface)
		f := http2.NewFramer(&wire, nil)
		want := 0
		for range rng.IntN(20) {
			n := rng.IntN(40)
			var err error
			switch rng.IntN(4) {
			case 0:
				err = f.WriteSettings(http2.Setting{ID: http2.SettingMaxFrameSize, Val: 1 << 14})
			case 1:
				err = f.WriteHeaders(http2.HeadersFrameParam{StreamID: 1, BlockFragment: make([]byte, n), EndHeaders: true})
			case 2:
				err = f.WritePing(false, [8]byte{})
			case 3:
				err, want = f.WriteData(1, false, make([]byte, n)), want+n
			}
			if err != nil {
				t.Fatal(err)
			}
		}
		var in frames
		got := 0
		for p := wire.Bytes(); len(p) > 0; {
			n := min(len(p), 1+rng.IntN(30))
			got += in.data(p[:n])
			p = p[n:]
		}
		if got != want {
			t.Fatalf("counted %d bytes of %d", got, want)
		}
	}
}

// TestClosedConnectionsCountNothing: whatever comes or is taken after the end.
func TestClosedConnectionsCountNothing(t *testing.T) {
	u := newUnread(nil)
	near, far := net.Pipe()
	defer far.Close()
	c := &connection{Conn: near, raw: near, unread: u, gone: func() {}}
	u.add(c)
	c.count(100)
	c.took(20 - messageHeader)
	if got := u.all.Load(); got != 80 {
		t.Errorf("%d bytes are there", got)
	}
	for range 2 {
		_ = c.Close()
		c.count(7)
	}
	if got := u.all.Load(); got != 0 || len(u.conns) != 0 {
		t.Errorf("%d bytes and %d connections are left", got, len(u.conns))
	}
}
