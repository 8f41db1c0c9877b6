package app

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"github.com/spillway-dev/spillway/internal/inc"
)

// errStopped says that the loop ended before it could answer.
var errStopped = errors.New("stopping")

// mailbox is what the loop needs of cluster.Mailbox.
type mailbox interface {
	Wake() <-chan struct{}
	Take() []func(*inc.Tx)
}

// loop owns the graph. It takes what came, commits it as one transaction and
// lets the outputs publish. Nothing else touches the graph.
//
// What can happen: something is in the mailbox; a time that was asked for has
// come; somebody asks to look at the tables; the end.
type loop struct {
	graph *inc.Graph
	mail  mailbox
	asks  chan func()
	done  chan struct{}
	now   func() time.Time
	log   *slog.Logger

	// due returns writes that time alone makes necessary, and when it wants to
	// be asked again; zero: not before something else happens.
	due func(now time.Time) ([]func(*inc.Tx), time.Time)
	// publish is called after each commit.
	publish func(inc.Stats)
}

func newLoop(g *inc.Graph, mail mailbox, log *slog.Logger) *loop {
	return &loop{graph: g, mail: mail, asks: make(chan func()), done: make(chan struct{}), now: time.Now, log: log}
}

// run turns until ctx ends.
func (l *loop) run(ctx context.Context) {
	defer close(l.done)
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case f := <-l.asks:
			f()
		case <-l.mail.Wake():
			l.turn(timer)
		case <-timer.C:
			l.turn(timer)
		}
	}
}

// turn takes the whole mailbox and what is due, and commits it.
func (l *loop) turn(timer *time.Timer) {
	now := l.now()
	late, next := l.due(now)
	writes := append(l.mail.Take(), late...)
	if !next.IsZero() {
		timer.Reset(max(next.Sub(now), time.Millisecond))
	}
	if len(writes) == 0 {
		return
	}
	stats := l.graph.Commit(func(tx *inc.Tx) {
		for _, write := range writes {
			write(tx)
		}
	})
	l.publish(stats)
	if stats.Changed > 0 {
		l.log.Debug("turn", "writes", len(writes), "evaluated", stats.Evaluated, "changed", stats.Changed, "took", l.now().Sub(now))
	}
}

// look runs f where it may read the tables, between two turns.
func (l *loop) look(ctx context.Context, f func()) error {
	ran := make(chan struct{})
	select {
	case l.asks <- func() { f(); close(ran) }:
		<-ran
		return nil
	case <-ctx.Done():
		return ctx.Err()
	case <-l.done:
		return errStopped
	}
}
