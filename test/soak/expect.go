package main

import (
	"fmt"
	"slices"
	"sync"
	"time"
)

// Answers that are no status and no name of a workload.
const (
	closed   = "closed" // no TLS for the name: the handshake ends
	notFound = "404"
	noPods   = "503"
)

// served is the answer of a pod of a workload.
func served(workload string) string { return "200 " + workload }

// lag is how long after the last edge showed a new answer the old one is still
// right: a proxy has several threads, and a machine may be slow.
const lag = 5 * time.Second

// kept is how long an answer that is over is remembered: longer than any
// request takes.
const kept = time.Minute

// target is what a client asks for, and which answers are right when.
type target struct {
	host, path string
	tls        bool

	mu    sync.Mutex
	spans []span
}

// span is a time in which an answer is right.
type span struct {
	answer      string
	from, until time.Time // until is zero: still
}

func newTarget(host, path string, tls bool, answers ...string) *target {
	t := &target{host: host, path: path, tls: tls}
	for _, a := range answers {
		t.spans = append(t.spans, span{answer: a})
	}
	return t
}

func (t *target) String() string {
	scheme := "http"
	if t.tls {
		scheme = "https"
	}
	return fmt.Sprintf("%s://%s%s", scheme, t.host, t.path)
}

// allow makes answers right from now on, besides those that are.
func (t *target) allow(now time.Time, answers ...string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.spans = slices.DeleteFunc(t.spans, func(s span) bool { return s.over(now.Add(-kept)) })
	for _, a := range answers {
		if !slices.ContainsFunc(t.spans, func(s span) bool { return s.answer == a && s.until.IsZero() }) {
			t.spans = append(t.spans, span{answer: a, from: now})
		}
	}
}

// only makes the other answers wrong, soon.
func (t *target) only(now time.Time, answers ...string) {
	t.allow(now, answers...)
	t.mu.Lock()
	defer t.mu.Unlock()
	for i := range t.spans {
		if s := &t.spans[i]; s.until.IsZero() && !slices.Contains(answers, s.answer) {
			s.until = now.Add(lag)
		}
	}
}

func (s span) over(at time.Time) bool { return !s.until.IsZero() && s.until.Before(at) }

// right lists the answers that were right at some time of a request.
func (t *target) right(sent, done time.Time) (out []string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, s := range t.spans {
		if !s.over(sent) && !s.from.After(done) && !slices.Contains(out, s.answer) {
			out = append(out, s.answer)
		}
	}
	slices.Sort(out)
	return out
}

// now lists the answers that will stay right: those without an end.
func (t *target) now() (out []string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, s := range t.spans {
		if s.until.IsZero() {
			out = append(out, s.answer)
		}
	}
	return out
}

// group is targets that a share of the requests goes to.
type group struct {
	name   string
	weight int
	all    []*target
}

// choose picks a target: the group by weight, in it any. n and m are random.
func choose(groups []group, n, m int) *target {
	sum := 0
	for _, g := range groups {
		sum += g.weight
	}
	n %= sum
	for _, g := range groups {
		if n -= g.weight; n < 0 {
			return g.all[m%len(g.all)]
		}
	}
	panic("weights and sum differ")
}
