package demo

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/spillway-dev/spillway/internal/lab/user"
)

// tally is what became of requests. The zero value is ready for use.
type tally struct {
	counts  user.Counts
	done    int
	safe    class
	unsafe  class
	members map[string]int // answers by member
	pods    map[string]int // answers by pod
}

// class is what became of the requests of one kind: safe to retry or not.
type class struct {
	sent        int
	failed      int
	reasons     map[string]int
	first, last time.Time // when the first and the last that failed were sent
	latency     histogram
}

// outcome is one request.
type outcome struct {
	unsafe bool
	sent   time.Time
	took   time.Duration
	member string
	pod    string
	failed string // why; empty: it did not
}

func (t *tally) add(o outcome) {
	t.done++
	c := &t.safe
	if o.unsafe {
		c = &t.unsafe
	}
	c.sent++
	c.latency.add(o.took)
	if o.failed == "" {
		count(&t.members, o.member, 1)
		count(&t.pods, o.pod, 1)
		return
	}
	c.failed++
	count(&c.reasons, o.failed, 1)
	if c.first.IsZero() || o.sent.Before(c.first) {
		c.first = o.sent
	}
	if o.sent.After(c.last) {
		c.last = o.sent
	}
}

func count(in *map[string]int, key string, n int) {
	if *in == nil {
		*in = map[string]int{}
	}
	(*in)[key] += n
}

func (t *tally) clone() tally {
	out := *t
	out.members, out.pods = maps.Clone(t.members), maps.Clone(t.pods)
	out.safe.reasons, out.unsafe.reasons = maps.Clone(t.safe.reasons), maps.Clone(t.unsafe.reasons)
	return out
}

// plus adds up what several edges saw.
func (t tally) plus(o tally) tally {
	t = t.clone()
	t.counts, t.done = t.counts.Plus(o.counts), t.done+o.done
	t.safe, t.unsafe = t.safe.plus(o.safe), t.unsafe.plus(o.unsafe)
	for k, n := range o.members {
		count(&t.members, k, n)
	}
	for k, n := range o.pods {
		count(&t.pods, k, n)
	}
	return t
}

func (c class) plus(o class) class {
	c.reasons = maps.Clone(c.reasons)
	for k, n := range o.reasons {
		count(&c.reasons, k, n)
	}
	c.sent, c.failed = c.sent+o.sent, c.failed+o.failed
	c.latency.merge(&o.latency)
	if c.first.IsZero() || (!o.first.IsZero() && o.first.Before(c.first)) {
		c.first = o.first
	}
	if o.last.After(c.last) {
		c.last = o.last
	}
	return c
}

// String lists the failures, most frequent first.
func (c class) String() string {
	keys := slices.SortedFunc(maps.Keys(c.reasons), func(a, b string) int {
		if d := c.reasons[b] - c.reasons[a]; d != 0 {
			return d
		}
		return strings.Compare(a, b)
	})
	parts := make([]string, len(keys))
	for i, k := range keys {
		parts[i] = fmt.Sprintf("%d × %s", c.reasons[k], k)
	}
	return strings.Join(parts, ", ")
}

// unscathed is an error if any request failed.
func (t tally) unscathed() error {
	if err := t.safe.unscathed("safe"); err != nil {
		return err
	}
	return t.unsafe.unscathed("unsafe")
}

func (c class) unscathed(kind string) error {
	if c.failed == 0 {
		return nil
	}
	return fmt.Errorf("%d of %d %s requests failed within %s: %s", c.failed, c.sent, kind, c.last.Sub(c.first).Round(time.Millisecond), c)
}

// histogram counts durations in buckets that grow by a tenth, from a tenth of a
// millisecond on: its size is bounded and its error below a tenth.
type histogram struct {
	counts [160]int
	n      int
	long   int // longer than a second
	most   time.Duration
}

const firstBucket = 100 * time.Microsecond

func (h *histogram) add(d time.Duration) {
	h.n++
	h.most = max(h.most, d)
	if d > time.Second {
		h.long++
	}
	i := 0
	if d > firstBucket {
		i = int(math.Ceil(math.Log(float64(d)/float64(firstBucket)) / math.Log(1.1)))
	}
	h.counts[min(i, len(h.counts)-1)]++
}

func (h *histogram) merge(o *histogram) {
	for i, n := range o.counts {
		h.counts[i] += n
	}
	h.n, h.long, h.most = h.n+o.n, h.long+o.long, max(h.most, o.most)
}

// quantile is an upper bound of the q-th quantile, 0 without data.
func (h *histogram) quantile(q float64) time.Duration {
	seen, want := 0, int(math.Ceil(q*float64(h.n)))
	for i, n := range h.counts {
		if seen += n; n > 0 && seen >= want {
			return min(h.most, time.Duration(float64(firstBucket)*math.Pow(1.1, float64(i))))
		}
	}
	return 0
}
