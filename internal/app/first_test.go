package app

import (
	"io"
	"net"
	"path/filepath"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/spillway-dev/spillway/internal/cluster"
	"github.com/spillway-dev/spillway/internal/inc"
	"github.com/spillway-dev/spillway/internal/xds"
)

// TestFirstListsAreOneCommit: what comes before hub and members are known is
// taken at once, but nobody waits long for a member.
func TestFirstListsAreOneCommit(t *testing.T) {
	for _, c := range []struct {
		what  string
		told  bool // all members say something
		after time.Duration
	}{{"all members are listed", true, firstLook}, {"a member is silent", false, firstLook + firstPatience}} {
		mail, now, hub := cluster.NewMailbox(), time.Unix(0, 0), false
		mail.Hold()
		f := first{hub: func() bool { return hub }, members: func() bool { return c.told }, over: mail.Release, patience: firstPatience}
		put := func(from, to int) {
			for i := from; i < to; i++ {
				mail.Put(cluster.Bulk, i, func(*inc.Tx) {})
			}
		}
		put(0, 3000)
		if next := f.due(now); !next.Equal(now.Add(firstLook)) || len(mail.Take()) > 0 {
			t.Errorf("%s: without the hub's lists something is committed, next look %v", c.what, next)
		}
		hub = true
		put(3000, 5000)
		begin := now
		for next := f.due(now); !next.IsZero(); next = f.due(now) {
			if len(mail.Take()) > 0 {
				t.Fatalf("%s: committed while waiting", c.what)
			}
			now = next
		}
		if waited := now.Sub(begin); waited > c.after {
			t.Errorf("%s: waited %v", c.what, waited)
		}
		if n := len(mail.Take()); n != 5000 {
			t.Errorf("%s: %d writes in the first commit, want all", c.what, n)
		}
		put(0, 5000)
		if n := len(mail.Take()); n == 0 || n == 5000 {
			t.Errorf("%s: %d writes in a batch after it", c.what, n)
		}
	}
}

// TestListsAreAwaitedAfterACheckpoint: until what API servers say now is read, and
// not long for one that says nothing, the hub included.
func TestListsAreAwaitedAfterACheckpoint(t *testing.T) {
	start := time.Unix(1000, 0)
	for _, c := range []struct {
		what         string
		hub, members time.Duration // after which they are read
		want         time.Duration
	}{
		{"all are read at once", 0, 0, 0},
		{"a member is slow", 0, 200 * time.Millisecond, 200 * time.Millisecond},
		{"a member is silent", 0, time.Hour, savedPatience},
		{"the hub is slow", time.Second, 0, time.Second},
		{"a member is silent, the hub slow", time.Second, time.Hour, time.Second + savedPatience},
		{"the hub is silent", time.Hour, 0, hubPatience},
	} {
		now, over := start, false
		after := func(d time.Duration) func() bool { return func() bool { return now.Sub(start) >= d } }
		f := first{hub: after(c.hub), members: after(c.members), over: func() { over = true }, until: start.Add(hubPatience), patience: savedPatience}
		for next := f.due(now); !next.IsZero(); next = f.due(now) {
			if over {
				t.Fatalf("%s: over, and it waits", c.what)
			}
			now = next
		}
		if waited := now.Sub(start); !over || waited != c.want {
			t.Errorf("%s: waited %v, want %v; over: %t", c.what, waited, c.want, over)
		}
	}
}

// TestHold: a proxy's connection waits until proxies may come, not for long.
func TestHold(t *testing.T) {
	for _, c := range []struct{ opens, want time.Duration }{{time.Second, time.Second}, {time.Hour, holdFor}} {
		synctest.Test(t, func(t *testing.T) {
			opened, began := make(chan struct{}), time.Now()
			timer := time.AfterFunc(c.opens, func() { close(opened) })
			defer timer.Stop()
			over := hold(t.Context(), opened)
			if waited := time.Since(began); waited != c.want || over != (c.opens == c.want) {
				t.Errorf("opened after %v: waited %v, want %v; opened: %t", c.opens, waited, c.want, over)
			}
		})
	}
}

// TestWhoWaitsIsServed: a connection that waits in the socket when proxies may
// come is the first to be served. An Envoy that is closed then comes back by its
// backoff, which has grown meanwhile.
func TestWhoWaitsIsServed(t *testing.T) {
	for range 100 { // it would be chance
		path := filepath.Join(t.TempDir(), "s")
		e, err := xds.ListenUnix(path)
		if err != nil {
			t.Fatal(err)
		}
		c, err := net.Dial("unix", path)
		if err != nil {
			t.Fatal(err)
		}
		opened := make(chan struct{})
		close(opened)
		if err := admit(t.Context(), e, opened); err != nil {
			t.Fatal(err)
		}
		if err := e.Listener.(*net.UnixListener).SetDeadline(time.Now().Add(time.Second)); err != nil {
			t.Fatal(err)
		}
		served, err := e.Accept()
		if err != nil {
			t.Fatalf("nobody waits any more: %v", err)
		}
		for _, one := range []io.Closer{c, served, e} {
			_ = one.Close()
		}
	}
}

// BenchmarkFirstList computes the first lists of a hub and two members: all as
// one commit, and in batches as they come in, those of the members at once.
func BenchmarkFirstList(b *testing.B) {
	const n = 2000
	for _, c := range []struct {
		what  string
		batch int
	}{{"one commit", 1 << 20}, {"batches", 1024}} {
		b.Run(c.what, func(b *testing.B) {
			evaluated := 0
			for b.Loop() {
				w := newBig(0)
				w.graph.Commit(func(*inc.Tx) {})
				for writes := range slices.Chunk(w.lists(n), c.batch) {
					evaluated += w.graph.Commit(func(tx *inc.Tx) {
						for _, write := range writes {
							write(tx)
						}
					}).Evaluated
				}
			}
			b.ReportMetric(float64(evaluated)/float64(b.N*n), "evaluations/host")
			b.ReportMetric(float64(b.Elapsed().Microseconds())/float64(b.N*n), "us/host")
		})
	}
}

// lists are the writes of n hosts in the order in which they come in: roots,
// then Services and their slices, of both members in turns.
func (b *big) lists(n int) (writes []func(*inc.Tx)) {
	for i := range n {
		writes = append(writes, func(tx *inc.Tx) { b.root(tx, i) })
	}
	for i := range n {
		for m := range 2 {
			writes = append(writes, func(tx *inc.Tx) { b.service(tx, i, m) })
		}
	}
	for i := range n {
		for m := range 2 {
			writes = append(writes, func(tx *inc.Tx) { b.slice(tx, i, m, 0) })
		}
	}
	return writes
}
