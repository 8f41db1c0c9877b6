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
	Bulk() (letters int, full bool)
	Take() []func(*inc.Tx)
	Took(writes int, turn time.Duration)
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
	// patient tells whether rows may wait: not before proxies may come.
	patient func() bool
	// touched is called with how many rows of tables a look took: tests count them.
	touched func(rows int)
	rows    pace
	next    int           // whose turn it is of those that can wait: see lanes
	batched time.Time     // when the last batch of bulk was taken
	apart   time.Duration // between two small batches
	pulse   pulse
	timings timings
}

func newLoop(g *inc.Graph, mail mailbox, log *slog.Logger) *loop {
	return &loop{graph: g, mail: mail, asks: make(chan func()), done: make(chan struct{}), now: time.Now, log: log,
		patient: func() bool { return true }, touched: func(int) {}, rows: pace{fairRows}, apart: batchTime, timings: newTimings()}
}

// run turns until ctx ends.
func (l *loop) run(ctx context.Context) {
	defer close(l.done)
	timer := time.NewTimer(0)
	defer timer.Stop()
	turn := func() {
		if next := l.turn(); !next.IsZero() {
			timer.Reset(max(next.Sub(l.now()), time.Millisecond))
		}
	}
	for {
		select {
		case <-ctx.Done():
			return
		case f := <-l.asks:
			l.pulse.beats(f)
		case <-l.mail.Wake():
			l.pulse.beats(turn)
		case <-timer.C:
			l.pulse.beats(turn)
		case <-l.backlog():
			l.pulse.beats(turn)
		}
	}
}

// always is ready.
var always = func() <-chan struct{} { c := make(chan struct{}); close(c); return c }()

// backlog is ready while something that can wait is left to do.
func (l *loop) backlog() <-chan struct{} {
	if l.graph.Backlog() > 0 {
		return always
	}
	if at, waits := l.batch(); waits && !l.now().Before(at) {
		return always
	}
	return nil
}

// batchTime is how long bulk waits for more of its kind after a batch: each is
// told to every proxy, which costs them and us something, however small it is.
const batchTime = 100 * time.Millisecond

// batch is when the next batch of bulk is due, if any waits.
func (l *loop) batch() (at time.Time, waits bool) {
	letters, full := l.mail.Bulk()
	switch {
	case letters == 0:
		return time.Time{}, false
	case full, !l.patient():
		return time.Time{}, true
	}
	return l.batched.Add(l.apart), true
}

// turn commits and publishes what is urgent or due, and then, apart from it, a
// part of something that can wait. It returns when the next turn is due, if nothing
// happens before; zero: none is.
func (l *loop) turn() (next time.Time) {
	late, next := l.due(l.now())
	if urgent := append(l.mail.TakeUrgent(), late...); len(urgent) > 0 {
		l.commit(urgent, fewRows)
	}
	l.spare()
	if at, waits := l.batch(); waits {
		next = sooner(next, at)
	}
	return next
}

// spare works off a part of something that can wait: in turns, so that none keeps
// the others from theirs.
func (l *loop) spare() {
	lanes := [...]func() bool{l.bulk, l.portion}
	for range lanes {
		lane := lanes[l.next]
		l.next = (l.next + 1) % len(lanes)
		if lane() {
			return
		}
	}
}

// bulk commits a batch of what came in bulk, if there is any.
func (l *loop) bulk() bool {
	began := l.now()
	if at, waits := l.batch(); !waits || began.Before(at) {
		return false
	}
	writes := l.mail.Take()
	if len(writes) == 0 {
		return false
	}
	l.batched = began
	l.commit(writes, fewRows)
	l.mail.Took(len(writes), l.now().Sub(began))
	return true
}

// portion works off some of the rows that wait, if there are any.
func (l *loop) portion() bool {
	if l.graph.Backlog() == 0 {
		return false
	}
	began := l.now()
	l.commit(nil, l.rows.fit)
	if l.graph.Backlog() > 0 {
		l.rows.took(l.now().Sub(began))
	}
	return true
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
	computed := l.now()
	l.publish(stats)
	over := l.now()
	l.timings.publish.Observe(over.Sub(computed).Seconds())
	l.timings.turn.Observe(over.Sub(began).Seconds())
	l.pulse.backlog.Store(int64(l.graph.Backlog()))
	if stats.Changed > 0 {
		l.log.Debug("turn", "writes", len(writes), "evaluated", stats.Evaluated, "changed", stats.Changed,
			"waiting", l.graph.Backlog(), "took", over.Sub(began))
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
