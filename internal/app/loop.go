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
	TakeUrgent() []func(*inc.Tx)
	Take() []func(*inc.Tx)
}

// loop owns the graph. It takes what came, commits it as one transaction and
// lets the outputs publish. Nothing else touches the graph.
//
// What can happen: something is in the mailbox; a time that was asked for has
// come; rows of a large change wait in the graph; somebody asks to look at the
// tables; the end.
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
	// patient tells whether rows may wait: not before the first publish.
	patient func() bool

	pace     pace
	bulkNext bool // bulk has its turn before the backlog has another
}

func newLoop(g *inc.Graph, mail mailbox, log *slog.Logger) *loop {
	return &loop{graph: g, mail: mail, asks: make(chan func()), done: make(chan struct{}), now: time.Now, log: log,
		patient: func() bool { return true }, pace: newPace()}
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
		case <-l.backlog():
			l.turn(timer)
		}
	}
}

// always is ready.
var always = func() <-chan struct{} { c := make(chan struct{}); close(c); return c }()

// backlog is ready while rows wait.
func (l *loop) backlog() <-chan struct{} {
	if l.graph.Backlog() > 0 {
		return always
	}
	return nil
}

// turn commits and publishes what is urgent or due, and then, apart from it, a
// batch of bulk or a portion of the rows that wait. Neither of those two can
// keep the other from its turn.
func (l *loop) turn(timer *time.Timer) {
	now := l.now()
	late, next := l.due(now)
	if !next.IsZero() {
		timer.Reset(max(next.Sub(now), time.Millisecond))
	}
	if urgent := append(l.mail.TakeUrgent(), late...); len(urgent) > 0 {
		l.commit(urgent, fewRows)
	}
	var bulk []func(*inc.Tx)
	if l.bulkNext || l.graph.Backlog() == 0 {
		bulk = l.mail.Take()
	}
	if l.bulkNext = len(bulk) == 0; !l.bulkNext {
		l.commit(bulk, fewRows)
		return
	}
	if l.graph.Backlog() == 0 {
		return
	}
	began := l.now()
	l.commit(nil, l.pace.rows)
	if l.graph.Backlog() > 0 {
		l.pace.took(l.now().Sub(began))
	}
}

// commit applies writes, works off a portion of the rows that wait, and
// publishes.
func (l *loop) commit(writes []func(*inc.Tx), portion int) {
	if !l.patient() {
		portion = 0
	}
	began := l.now()
	l.graph.Portion(portion)
	stats := l.graph.Commit(func(tx *inc.Tx) {
		for _, write := range writes {
			write(tx)
		}
	})
	l.publish(stats)
	if stats.Changed > 0 {
		l.log.Debug("turn", "writes", len(writes), "evaluated", stats.Evaluated, "changed", stats.Changed,
			"waiting", l.graph.Backlog(), "took", l.now().Sub(began))
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
