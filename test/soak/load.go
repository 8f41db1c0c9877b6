package main

import (
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/spillway-dev/spillway/internal/lab/user"
)

const (
	inFlight     = 512 // requests without an answer, at most
	unsafeEvery  = 10  // every tenth is a POST
	freshEvery   = 8   // every eighth has a connection of its own
	mostFailures = 100 // that are told one by one
)

// load asks edges for targets, and judges their answers.
type load struct {
	user.Load
	edges  []*user.Edge
	rng    *rand.Rand // of draw alone
	doing  func() []string
	excuse func(sent, done time.Time) bool
	began  time.Time

	mu     sync.Mutex
	groups []group
	tally  tally
}

// tally is what became of requests.
type tally struct {
	answers         map[string]int
	latency         []uint32 // microseconds
	failed, excused int
	failures        []failure // the first of both
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

// draw makes request number n.
func (l *load) draw(n int) (user.Request, func(user.Reply)) {
	l.mu.Lock()
	defer l.mu.Unlock()
	t := choose(l.groups, l.rng.IntN(1<<30), l.rng.IntN(1<<30))
	r := user.Request{
		Edge: l.edges[n%len(l.edges)], URL: t.String(),
		Unsafe: l.rng.IntN(unsafeEvery) == 0, Fresh: l.rng.IntN(freshEvery) == 0,
	}
	return r, func(reply user.Reply) { l.judge(t, r, reply) }
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

// judge looks at the answer about a target.
func (l *load) judge(t *target, r user.Request, reply user.Reply) {
	right, got := t.right(reply.Sent, reply.Done), answer(reply)
	l.mu.Lock()
	defer l.mu.Unlock()
	sum := &l.tally
	sum.latency = append(sum.latency, uint32(reply.Done.Sub(reply.Sent).Microseconds()))
	if sum.answers == nil {
		sum.answers = map[string]int{}
	}
	if slices.Contains(right, got) {
		sum.answers[got]++
		return
	}
	excused := r.Unsafe && l.excuse(reply.Sent, reply.Done) && slices.ContainsFunc(right, func(a string) bool { return strings.HasPrefix(a, served("")) })
	if excused {
		sum.excused++
	} else {
		sum.failed++
	}
	l.keep(failure{
		Edge: r.Edge.Name, Request: r.String(), Got: got, Right: right, TookMS: reply.Done.Sub(reply.Sent).Milliseconds(), Excused: excused,
	}, reply.Sent)
}

// tell keeps a failure of a load beside.
func (l *load) tell(f failure, sent time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.keep(f, sent)
}

// keep is called with the lock.
func (l *load) keep(f failure, sent time.Time) {
	if len(l.tally.failures) < mostFailures {
		f.At, f.Doing = since(l.began, sent), l.doing()
		l.tally.failures = append(l.tally.failures, f)
	}
}

// since is a time in the soak, for people.
func since(began, at time.Time) string { return at.Sub(began).Round(time.Millisecond).String() }

// failed is how many requests failed so far.
func (l *load) failed() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.tally.failed
}

// quantile of sorted durations, in milliseconds; 0 without any.
func quantile(sorted []uint32, q float64) float64 {
	if len(sorted) == 0 {
		return 0
	}
	return float64(sorted[min(int(q*float64(len(sorted))), len(sorted)-1)]) / 1000
}
