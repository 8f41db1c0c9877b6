package demo

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/spillway-dev/spillway/internal/lab/user"
)

// scene is what a chapter has seen so far.
type scene struct {
	figures map[string]int64
	said    []string
	undo    func(context.Context) error // what a failed chapter leaves to undo; may be nil
}

// set keeps a figure. Its name ends in its unit: _ms, _bytes; else it counts.
func (s *scene) set(name string, n int64) {
	if s.figures == nil {
		s.figures = map[string]int64{}
	}
	s.figures[name] = n
}

func (s *scene) ms(name string, d time.Duration) { s.set(name, d.Milliseconds()) }

// say adds a part to what is told about the chapter.
func (s *scene) say(format string, args ...any) {
	s.said = append(s.said, fmt.Sprintf(format, args...))
}

func (s *scene) text() string { return strings.Join(s.said, "; ") }

// load keeps the figures of a load. Several loads of a chapter add up, and of
// quantiles the worst counts.
func (s *scene) load(t tally) {
	for name, n := range map[string]int{
		"requests": t.safe.sent, "failed": t.safe.failed, "requests_unsafe": t.unsafe.sent, "failed_unsafe": t.unsafe.failed,
		"over_1s": t.safe.latency.long, "over_1s_unsafe": t.unsafe.latency.long, "sent_late": t.counts.Late, "client_retries": t.counts.Again,
	} {
		s.set(name, s.figures[name]+int64(n))
	}
	for name, d := range map[string]time.Duration{
		"p50_ms": t.safe.latency.quantile(0.5), "p99_ms": t.safe.latency.quantile(0.99),
		"slowest_ms": t.safe.latency.most, "slowest_unsafe_ms": t.unsafe.latency.most,
	} {
		s.set(name, max(s.figures[name], d.Milliseconds()))
	}
}

// round is a duration for people.
func round(d time.Duration) time.Duration {
	switch {
	case d > 10*time.Second:
		return d.Round(time.Second)
	case d > time.Second:
		return d.Round(100 * time.Millisecond)
	}
	return d.Round(time.Millisecond)
}

// hold is how many requests at each edge show that something goes on: two
// seconds' worth.
const hold = 2 * rate

// underLoad acts while requests are sent at edges, with some before and some
// after, and keeps the figures.
func (f *fleet) underLoad(ctx context.Context, s *scene, at []string, act func(context.Context, *load) error) (tally, error) {
	if err := f.quiet(ctx); err != nil {
		return tally{}, err
	}
	var to []*user.Edge
	for _, edge := range at {
		to = append(to, f.lab.Edge(edge, nil))
	}
	return f.loaded(ctx, s, shopHost, to, act)
}

// loaded acts while requests for a host are sent to somebody.
func (f *fleet) loaded(ctx context.Context, s *scene, host string, to []*user.Edge, act func(context.Context, *load) error) (tally, error) {
	l := startLoad(host, to)
	err := f.more(ctx, l, hold/2)
	if err == nil {
		err = act(ctx, l)
	}
	if err == nil {
		err = f.more(ctx, l, hold/2)
	}
	sum := l.stop()
	s.load(sum)
	if err != nil && sum.unscathed() != nil {
		err = fmt.Errorf("%w; under load: %w", err, sum.unscathed())
	}
	return sum, err
}

// more waits for n more outcomes at each edge.
func (f *fleet) more(ctx context.Context, l *load, n int) error {
	want := l.completed() + n
	return f.await(ctx, fmt.Sprintf("%d more answers", n), func(context.Context) error {
		if got := l.completed(); got < want {
			return fmt.Errorf("%d are missing", want-got)
		}
		return nil
	})
}

// unharmed is underLoad where no request may fail.
func (f *fleet) unharmed(ctx context.Context, s *scene, at []string, act func(context.Context, *load) error) error {
	sum, err := f.underLoad(ctx, s, at, act)
	if err != nil {
		return err
	}
	if err := sum.unscathed(); err != nil {
		return err
	}
	s.say("%d requests, 0 failed", sum.done)
	return nil
}

// answeredBy waits until a member has answered n more requests at an edge.
func (f *fleet) answeredBy(ctx context.Context, l *load, edge, member string, n int) error {
	want := l.seen(edge).members[member] + n
	return f.await(ctx, fmt.Sprintf("answers of %s at edge %s", member, edge), func(context.Context) error {
		if got := l.seen(edge).members[member]; got < want {
			return fmt.Errorf("%d are missing", want-got)
		}
		return nil
	})
}
