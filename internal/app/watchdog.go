package app

import (
	"context"
	"fmt"
	"log/slog"
	"sync/atomic"
	"time"
)

// How long a turn of the loop may take before the process counts as stuck. The
// first lists are one turn, as long as that takes.
const (
	standsFor      = 10 * time.Second
	standsForFirst = 5 * time.Minute
)

// pulse is what may be known of the loop without asking it.
type pulse struct {
	busy    atomic.Bool
	done    atomic.Uint64 // turns and looks
	backlog atomic.Int64  // rows that wait
}

// beats runs f as one turn or look.
func (p *pulse) beats(f func()) {
	p.busy.Store(true)
	f()
	p.done.Add(1)
	p.busy.Store(false)
}

// watchdog tells whether the loop stands still. It counts its own looks and not
// the time, so that a process that was stopped is not one that is stuck.
type watchdog struct {
	loop  *pulse
	first func() bool // what is listed first is not published yet
	log   *slog.Logger
	clock func() time.Time

	done  uint64       // by the last look
	still atomic.Int64 // looks in which the loop was in the same turn
}

// run looks until ctx ends.
func (w *watchdog) run(ctx context.Context) {
	tick := time.NewTicker(beat)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
			w.clock()
			w.look()
		}
	}
}

// look is called once a beat.
func (w *watchdog) look() {
	done := w.loop.done.Load()
	same := w.loop.busy.Load() && done == w.done
	was := w.alive() != nil
	if w.done = done; same {
		w.still.Add(1)
	} else {
		w.still.Store(0)
	}
	switch err := w.alive(); {
	case err != nil && !was:
		w.log.Error("the control plane stands still: /healthz fails", "error", err)
	case err == nil && was:
		w.log.Info("the control plane goes on")
	}
}

// standing is how long the loop has been in one turn, by looks.
func (w *watchdog) standing() time.Duration { return time.Duration(w.still.Load()) * beat }

// alive is nil unless the loop stands still.
func (w *watchdog) alive() error {
	limit := standsFor
	if w.first() {
		limit = standsForFirst
	}
	if d := w.standing(); d >= limit {
		return fmt.Errorf("the loop has been in one turn for %v: proxies and DNS keep what they have, and nothing new is published", d)
	}
	return nil
}
