package main

import (
	"slices"
	"sync"
	"time"

	"github.com/spillway-dev/spillway/internal/lab/user"
)

// right is which answers were right when.
type right struct {
	mu    sync.Mutex
	spans []span
}

// span begins where the one before ends.
type span struct {
	from    time.Time
	answers []string
}

// kept is how long a span that is over is remembered: longer than any request takes.
const kept = 2 * user.GiveUp

// be makes these answers right from now on, and no others.
func (r *right) be(now time.Time, answers ...string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for len(r.spans) > 1 && now.Sub(r.spans[1].from) > kept {
		r.spans = slices.Delete(r.spans, 0, 1)
	}
	r.spans = append(r.spans, span{now, answers})
}

// of are the answers that were right at some time while a request was under way.
func (r *right) of(sent, done time.Time) (out []string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for i, s := range r.spans {
		over := i+1 < len(r.spans) && r.spans[i+1].from.Before(sent)
		if !over && s.from.Before(done) {
			out = append(out, s.answers...)
		}
	}
	slices.Sort(out)
	return slices.Compact(out)
}
