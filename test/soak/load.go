package main

import (
	"context"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"time"
)

const (
	inFlight     = 512 // requests without an answer, at most
	unsafeEvery  = 10  // every tenth is a POST
	freshEvery   = 8   // every eighth has a connection of its own
	mostFailures = 100 // that are told one by one
)

// load sends requests when they are due, not when an answer has come.
type load struct {
	edges  []*front
	rng    *rand.Rand // of run alone
	doing  func() []string
	excuse func(sent, done time.Time) bool
	began  time.Time

	mu     sync.Mutex
	groups []group
	tally  tally
}

// tally is what became of requests.
type tally struct {
	sent, late, again int // again: sent once more by the HTTP client, on a fresh connection
	answers           map[string]int
	latency           []uint32 // microseconds
	failed, excused   int
	failures          []failure // the first of both
}

// failure is a request whose answer was wrong.
type failure struct {
	At      string   `json:"at"` // since the beginning
	Edge    string   `json:"edge"`
	Request string   `json:"request"`
	Got     string   `json:"got"`
	Right   []string `json:"right"`
	TookMS  int64    `json:"took_ms"`
	Excused bool     `json:"excused,omitempty"`
	Doing   []string `json:"doing"` // what was going on, latest first
}

// run sends requests until ctx ends, and waits for their answers.
func (l *load) run(ctx context.Context, rate int) {
	var flying sync.WaitGroup
	defer flying.Wait()
	room := make(chan struct{}, inFlight)
	tick := time.NewTicker(time.Second / time.Duration(rate))
	defer tick.Stop()
	began, sent := time.Now(), 0
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		for due := int(time.Since(began).Seconds() * float64(rate)); sent < due; sent++ {
			if !l.admit(ctx, room) {
				return
			}
			r := l.next(sent)
			flying.Go(func() {
				defer func() { <-room }()
				l.one(r)
			})
		}
	}
}

// next draws a request; n is its number.
func (l *load) next(n int) request {
	l.mu.Lock()
	defer l.mu.Unlock()
	return request{
		edge: l.edges[n%len(l.edges)], target: choose(l.groups, l.rng.IntN(1<<30), l.rng.IntN(1<<30)),
		unsafe: l.rng.IntN(unsafeEvery) == 0, fresh: l.rng.IntN(freshEvery) == 0,
	}
}

// also sends requests to one more target of a group, which keeps the latest. A
// new group gets a fifth of the requests.
func (l *load) also(name string, t *target, most int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	i := slices.IndexFunc(l.groups, func(g group) bool { return g.name == name })
	if i < 0 {
		l.groups = append(l.groups, group{name: name, weight: 25})
		i = len(l.groups) - 1
	}
	g := &l.groups[i]
	if g.all = append(g.all, t); len(g.all) > most {
		g.all = slices.Delete(g.all, 0, 1)
	}
}

// admit waits for room and reports false at the end.
func (l *load) admit(ctx context.Context, room chan struct{}) bool {
	late := 0
	select {
	case room <- struct{}{}:
	default:
		late = 1
		select {
		case room <- struct{}{}:
		case <-ctx.Done():
			return false
		}
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.tally.sent++
	l.tally.late += late
	return true
}

// one sends a request and judges its answer. It is not ended with the load: a
// request that was sent is waited for.
func (l *load) one(r request) {
	sent := time.Now()
	reply := r.send(context.Background())
	done := time.Now()
	right := r.target.right(sent, done)
	l.mu.Lock()
	defer l.mu.Unlock()
	t := &l.tally
	t.again += reply.again
	t.latency = append(t.latency, uint32(done.Sub(sent).Microseconds()))
	if t.answers == nil {
		t.answers = map[string]int{}
	}
	if slices.Contains(right, reply.answer) {
		t.answers[reply.answer]++
		return
	}
	excused := r.unsafe && l.excuse(sent, done) && slices.ContainsFunc(right, func(a string) bool { return strings.HasPrefix(a, served("")) })
	if excused {
		t.excused++
	} else {
		t.failed++
	}
	if len(t.failures) < mostFailures {
		t.failures = append(t.failures, failure{
			At: since(l.began, sent), Edge: r.edge.edge, Request: r.String(), Got: reply.answer, Right: right,
			TookMS: done.Sub(sent).Milliseconds(), Excused: excused, Doing: l.doing(),
		})
	}
}

// since is a time in the soak, for people.
func since(began, at time.Time) string { return at.Sub(began).Round(time.Millisecond).String() }

// seen is a copy of the tally, without what may grow.
func (l *load) seen() tally {
	l.mu.Lock()
	defer l.mu.Unlock()
	t := l.tally
	t.latency, t.answers, t.failures = nil, nil, slices.Clone(t.failures)
	return t
}

// quantile of sorted durations, in milliseconds; 0 without any.
func quantile(sorted []uint32, q float64) float64 {
	if len(sorted) == 0 {
		return 0
	}
	return float64(sorted[min(int(q*float64(len(sorted))), len(sorted)-1)]) / 1000
}
