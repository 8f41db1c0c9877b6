package main

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/spillway-dev/spillway/internal/lab/user"
)

// op is something that happens to the fleet. do returns when its effect is
// there.
type op struct {
	name   string
	weight int
	blind  bool // meanwhile, what becomes of pods may not reach the edges
	do     func(*soak, context.Context, *rand.Rand) (what string, err error)
}

// lane is ops one after another; lanes go on at the same time.
type lane struct {
	name  string
	pause time.Duration // between two ops: up to twice as long
	ops   []op
}

var lanes = []lane{
	{"edits", 300 * time.Millisecond, edits},
	{"gateways", 300 * time.Millisecond, gatewayEdits},
	{"pods", time.Second, churn},
	{"faults", 3 * time.Second, faults},
}

// deed is an op that was begun.
type deed struct {
	kind  string // name of the op
	what  string // what was done, once it is over
	began time.Time
	ended time.Time // zero: it goes on
}

// diary is what happens and has happened lately.
type diary struct {
	mu     sync.Mutex
	began  time.Time
	lately []*deed
	counts map[string]*count
}

// count is how often an op was done and how long it took.
type count struct {
	Done   int   `json:"done"`
	MeanMS int64 `json:"mean_ms"`
	MaxMS  int64 `json:"max_ms"`
	sum    time.Duration
}

// mentioned is how many ops a failure names; remembered how many are kept.
const mentioned, remembered = 6, 64

func (d *diary) begin(kind string) *deed {
	d.mu.Lock()
	defer d.mu.Unlock()
	one := &deed{kind: kind, began: time.Now()}
	d.lately = append(d.lately, one)
	if len(d.lately) > remembered {
		d.lately = slices.Delete(d.lately, 0, 1)
	}
	return one
}

// end keeps what was done.
func (d *diary) end(one *deed, what string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	one.what, one.ended = what, time.Now()
	c := d.counts[one.kind]
	if c == nil {
		c = &count{}
		d.counts[one.kind] = c
	}
	took := one.ended.Sub(one.began)
	c.Done++
	c.sum += took
	c.MeanMS, c.MaxMS = (c.sum / time.Duration(c.Done)).Milliseconds(), max(c.MaxMS, took.Milliseconds())
}

// doing tells the last ops, latest first.
func (d *diary) doing() (out []string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, one := range slices.Backward(d.lately) {
		text := since(d.began, one.began) + " " + one.String()
		if one.ended.IsZero() {
			text += ", not over"
		} else {
			text += ", over at " + since(d.began, one.ended)
		}
		if out = append(out, text); len(out) == mentioned {
			break
		}
	}
	return out
}

func (d *deed) String() string { return join(d.kind, d.what) }

func join(kind, what string) string { return strings.TrimSpace(kind + " " + what) }

// overlaps tells whether an op of some kinds went on at some time between, or
// shortly before.
func (d *diary) overlaps(from, to time.Time, is func(kind string) bool) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return slices.ContainsFunc(d.lately, func(one *deed) bool {
		return is(one.kind) && one.began.Before(to) && (one.ended.IsZero() || one.ended.Add(lag).After(from))
	})
}

// runLane does ops of a lane until ctx ends. The last one is finished.
func (s *soak) runLane(ctx context.Context, l lane, rng *rand.Rand) error {
	sum := 0
	for _, o := range l.ops {
		sum += o.weight
	}
	for ctx.Err() == nil {
		o := pick(l.ops, rng.IntN(sum))
		one := s.diary.begin(o.name)
		what, err := o.do(s, context.WithoutCancel(ctx), rng)
		if err != nil {
			return fmt.Errorf("%s, begun at %s: %w", join(o.name, what), since(s.diary.began, one.began), err)
		}
		s.diary.end(one, what)
		s.tell("%-12s %s, %s", l.name, one, one.ended.Sub(one.began).Round(time.Millisecond))
		user.Rest(ctx, time.Duration(rng.Int64N(int64(2*l.pause))))
	}
	return nil
}

// pick is the op at n of the weights added up.
func pick(ops []op, n int) op {
	for _, o := range ops {
		if n -= o.weight; n < 0 {
			return o
		}
	}
	panic("weights and sum differ")
}
