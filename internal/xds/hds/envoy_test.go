package hds

import (
	"fmt"
	"net"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/spillway-dev/spillway/internal/xds"
	"github.com/spillway-dev/spillway/internal/xds/envoytest"
	"github.com/spillway-dev/spillway/internal/xds/xdstest"
)

// board keeps whether each canary answered last.
type board struct {
	mu    sync.Mutex
	last  map[Canary]bool
	whole int // reports
	same  int // that only said the same again
}

func (b *board) put(r Report) (again func(time.Time) bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.whole++
	if b.last == nil {
		b.last = map[Canary]bool{}
	}
	for _, c := range r.Canaries {
		b.last[c.Canary] = c.Healthy
	}
	return func(time.Time) bool {
		b.mu.Lock()
		defer b.mu.Unlock()
		b.same++
		return true
	}
}

func (b *board) forget() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.last = nil
}

// until waits for a report and returns how long it took.
func (b *board) until(t *testing.T, c Canary, healthy bool) time.Duration {
	t.Helper()
	start := time.Now()
	envoytest.Until(t, fmt.Sprintf("%v healthy=%v", c, healthy), func() bool {
		b.mu.Lock()
		defer b.mu.Unlock()
		is, ok := b.last[c]
		return ok && is == healthy
	})
	return time.Since(start)
}

// TestEnvoyReportsCanaries: a real Envoy probes what it is told, reports
// silent and refused loss, takes updates, and goes on after the server was
// killed.
func TestEnvoyReportsCanaries(t *testing.T) {
	a, b := newTarget(t), newTarget(t)
	ca, cb := Canary{"eu-1", a.addr.AddrPort()}, Canary{"us-1", b.addr.AddrPort()}
	var list atomic.Pointer[[]Canary]
	list.Store(&[]Canary{ca})
	var seen board
	s := New(Config{Canaries: func(string) []Canary { return *list.Load() }, Health: seen.put})
	r := xdstest.New(t, xds.Config{Services: []xds.Service{s}})
	e := r.Envoy("fra", "fra-1")
	seen.until(t, ca, true)

	a.drop()
	t.Logf("silent loss reported after %v, by the settings at most %v", seen.until(t, ca, false), Probing{}.Detection())
	a.accept()
	seen.until(t, ca, true)
	a.refuse()
	t.Logf("refusal reported after %v", seen.until(t, ca, false))
	a.accept()
	seen.until(t, ca, true)

	list.Store(&[]Canary{ca, cb})
	s.CanariesChanged()
	seen.until(t, cb, true)
	whole := -1
	envoytest.Until(t, "ten reports in a row that are not read", func() bool {
		seen.mu.Lock()
		defer seen.mu.Unlock()
		if seen.whole != whole {
			whole, seen.same = seen.whole, 0
		}
		return seen.same >= 10
	})

	r.Kill()
	seen.forget()
	b.drop()
	r.Start()
	seen.until(t, ca, true)
	seen.until(t, cb, false)
	if got := e.Stats(t, "hds_delegate.updates"); got == "" {
		t.Error("no statistics of health discovery")
	}
}

// TestEnvoyStopsProbing: what is no longer asked for is no longer probed.
func TestEnvoyStopsProbing(t *testing.T) {
	a := newTarget(t)
	counted, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = counted.Close() }()
	probed := make(chan struct{})
	go func() {
		for {
			c, err := counted.Accept()
			if err != nil {
				close(probed)
				return
			}
			_ = c.Close()
			probed <- struct{}{}
		}
	}()
	ca, cb := Canary{"eu-1", a.addr.AddrPort()}, Canary{"eu-1", counted.Addr().(*net.TCPAddr).AddrPort()}
	var list atomic.Pointer[[]Canary]
	list.Store(&[]Canary{ca, cb})
	var seen board
	s := New(Config{Canaries: func(string) []Canary { return *list.Load() }, Health: seen.put})
	r := xdstest.New(t, xds.Config{Services: []xds.Service{s}})
	e := r.Envoy("fra", "fra-1")
	<-probed
	<-probed

	list.Store(&[]Canary{ca})
	s.CanariesChanged()
	envoytest.Until(t, "the second update", func() bool { return e.Stats(t, "hds_delegate.updates") == "hds_delegate.updates: 2\n" })
	quiet := time.NewTimer(20 * Probing{}.withDefaults().Interval)
	defer quiet.Stop()
	for after := 0; ; after++ {
		select {
		case <-probed:
			if after > 1 { // one may have been on its way
				t.Fatal("still probed")
			}
		case <-quiet.C:
			_ = counted.Close()
			for range probed {
			}
			return
		}
	}
}
