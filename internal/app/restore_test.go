package app

import (
	"context"
	"log/slog"
	"testing"
	"time"

	"github.com/spillway-dev/spillway/internal/checkpoint"
	"github.com/spillway-dev/spillway/internal/inc"
)

// TestListsComeWhileTheTablesAreComputed: watches go on from what a checkpoint
// has before it is committed, and what they read is committed after it.
func TestListsComeWhileTheTablesAreComputed(t *testing.T) {
	const n = 3
	dir, now := t.TempDir(), time.Unix(1_000_000, 0)
	start := func(watch func(*Offline)) (*big, *checkpoint.Store) {
		state, err := checkpoint.Open(checkpoint.Options{Dir: dir, Log: slog.New(slog.DiscardHandler), Now: func() time.Time { return now }})
		if err != nil {
			t.Fatal(err)
		}
		o := newOffline(OfflineOptions{Now: func() time.Time { return now }, Log: slog.New(slog.DiscardHandler), State: state}, watch)
		return &big{server: o.s, n: n}, state
	}
	stop := func(s *checkpoint.Store) {
		over, end := context.WithCancel(t.Context())
		end()
		s.Run(over)
	}
	w, state := start(func(*Offline) {})
	state.Complete()
	w.graph.Commit(func(tx *inc.Tx) {
		w.fleet(tx)
		for i := range n {
			w.host(tx, i)
		}
	})
	state.Committed()
	stop(state)

	now = now.Add(time.Hour)
	w, state = start(func(o *Offline) {
		if there := o.s.prog.Hosts.Len(); there != 0 {
			t.Errorf("%d hosts are computed before anything is watched", there)
		}
		if err := o.Feed.List("ingresses", nil); err != nil {
			t.Error(err)
		}
	})
	if there := w.prog.Hosts.Len(); there != n {
		t.Errorf("%d hosts after the checkpoint, want %d", there, n)
	}
	old := w.prog.In.Outdated.Len()
	if old == 0 || old != w.prog.In.Sources.Len() {
		t.Errorf("%d of %d members are said to be outdated", old, w.prog.In.Sources.Len())
	}
	turn := func() { w.loop.turn() }
	turn()
	if there := w.prog.Hosts.Len(); there != 0 {
		t.Errorf("%d hosts are there though the hub has none", there)
	}
	stop(state)

	now = now.Add(time.Second) // what is said of the past is written down as well
	w, state = start(func(*Offline) {})
	defer stop(state)
	if again := w.prog.In.Outdated.Len(); again != old {
		t.Errorf("%d members are outdated after another restart, want %d", again, old)
	}
}
