package app

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/spillway-dev/spillway/internal/cluster"
	"github.com/spillway-dev/spillway/internal/inc"
	"github.com/spillway-dev/spillway/internal/model"
	"github.com/spillway-dev/spillway/internal/xds"
	"github.com/spillway-dev/spillway/internal/xds/bootstrap"
	"github.com/spillway-dev/spillway/internal/xds/envoytest"
)

// maxima are the highest rows of load that there were.
type maxima struct {
	mu   sync.Mutex
	rows map[model.Backend]float64
	left int // rows that there are
}

func (m *maxima) watch(changes []inc.Change[model.Backend, model.Load]) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, c := range changes {
		if c.New != nil {
			m.rows[c.Key] = max(m.rows[c.Key], c.New.Requests)
		}
		m.left += count(c.New) - count(c.Old)
	}
}

func count(l *model.Load) int {
	if l == nil {
		return 0
	}
	return 1
}

func (m *maxima) see() (busy, calm, idle float64, left int) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.rows[backendOf(0)], m.rows[backendOf(1)], m.rows[backendOf(2)], m.left
}

func (m *maxima) forget() {
	m.mu.Lock()
	defer m.mu.Unlock()
	clear(m.rows)
}

// served is a big server of three hosts on one pod, with its loop and its xDS
// server running, and a real Envoy of edge fra.
func served(t *testing.T, every time.Duration) (*maxima, int) {
	pod := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "hello") }))
	t.Cleanup(pod.Close)
	b := newBigWith(3, func(s *big) {
		s.loads = newLoads(s.prog, s.envoy, func(key any, write func(*inc.Tx)) { s.mail.Put(cluster.Bulk, key, write) })
	})
	port := envoytest.FreePort(t)
	b.commit(func(tx *inc.Tx) { b.plain(tx, uint16(port), netip.MustParseAddrPort(pod.Listener.Addr().String())) })
	b.settle(b.turns(func(inc.Stats) {}))
	seen := &maxima{rows: map[model.Backend]float64{}}
	b.prog.In.Loads.Watch(seen.watch)
	view, _ := b.prog.Views.Get(nil, "fra")

	socket := filepath.Join(t.TempDir(), "xds.sock")
	e, err := xds.ListenUnix(socket)
	if err != nil {
		t.Fatal(err)
	}
	server := xds.NewServer(xds.Config{
		Store: b.store, ViewOf: func(edge string) (string, bool) { return view.Key.String(), edge == "fra" },
		Load: b.loads.heard, LoadInterval: every,
	})
	l := newLoop(b.graph, b.mail, b.views, slog.New(slog.DiscardHandler))
	l.due = func(now time.Time) ([]func(*inc.Tx), time.Time) { return nil, b.loads.expire(now) }
	l.publish = func(inc.Stats) { b.proxies.flush() }
	ctx, cancel := context.WithCancel(context.Background())
	var parts sync.WaitGroup
	parts.Go(func() { l.run(ctx) })
	parts.Go(func() {
		if err := server.Serve(ctx, e); err != nil {
			t.Error(err)
		}
	})
	t.Cleanup(func() { cancel(); parts.Wait(); _ = e.Close() })

	admin := envoytest.Loopback(t)
	boot, err := bootstrap.Render(bootstrap.Options{Edge: "fra", NodeID: "fra-1", XDSSocket: socket, AdminAddress: admin})
	if err != nil {
		t.Fatal(err)
	}
	envoytest.Start(t, boot, admin)
	return seen, port
}

// plain serves all hosts in plaintext on a port, from one pod.
func (b *big) plain(tx *inc.Tx, port uint16, pod netip.AddrPort) {
	in := &b.prog.In
	c, _ := in.Configs.Get(nil, "c")
	c.HTTPPort = port
	in.Configs.Set(tx, "c", c)
	for _, id := range in.Roots.Keys() {
		root, _ := in.Roots.Get(nil, id)
		root.TLS = nil
		in.Roots.Set(tx, id, root)
	}
	for _, id := range in.Slices.Keys() {
		in.Slices.Set(tx, id, model.Slice{
			Ports: []model.SlicePort{{Name: "http", Number: pod.Port()}}, Endpoints: []model.Endpoint{{Addr: pod.Addr()}},
		})
	}
}

// TestLoadOfARealEnvoy: what clients send through Envoy becomes rows, of about
// as many requests a second, and none when it ends.
func TestLoadOfARealEnvoy(t *testing.T) {
	const every = 200 * time.Millisecond
	seen, port := served(t, every)
	client := &http.Client{Transport: &http.Transport{}}
	t.Cleanup(client.CloseIdleConnections)
	ask := func(host int) int {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, fmt.Sprintf("http://%s/", net.JoinHostPort("127.0.0.1", fmt.Sprint(port))), nil)
		if err != nil {
			t.Fatal(err)
		}
		req.Host = fmt.Sprintf("h%05d.apps.example", host)
		resp, err := client.Do(req)
		if err != nil {
			return 0
		}
		defer func() { _ = resp.Body.Close() }()
		_, _ = io.Copy(io.Discard, resp.Body)
		return resp.StatusCode
	}
	began := time.Now()
	ready := func() bool { return ask(0) == http.StatusOK && ask(1) == http.StatusOK }
	envoytest.Until(t, "a first row", func() bool { busy, _, _, _ := seen.see(); return ready() && busy > 0 })
	envoytest.Until(t, "rest", func() bool { _, _, _, left := seen.see(); return left == 0 })
	seen.forget()

	const many, few = 800, 50
	for i := range many {
		if got := ask(0); got != http.StatusOK {
			t.Fatalf("status %d", got)
		}
		if i%(many/few) == 0 {
			ask(1)
		}
	}
	envoytest.Until(t, "the row of the busy one to come and go", func() bool { busy, _, _, left := seen.see(); return busy > 0 && left == 0 })
	// Each was reported in this time, by a report of one interval or more; a row
	// is at least a quarter of its rate, and at most twice.
	low, high := many/4/time.Since(began).Seconds(), 2*many/every.Seconds()
	busy, calm, idle, _ := seen.see()
	t.Logf("rows at most: %v, %v and %v; %v to %v allowed", busy, calm, idle, low, high)
	if busy < low || busy > high || calm > min(busy, 2*few/every.Seconds()) || idle != 0 {
		t.Errorf("rows of %v, %v and %v requests a second", busy, calm, idle)
	}
}
