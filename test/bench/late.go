package main

import (
	"context"
	"time"
)

// span is a part of a wait.
type span struct {
	spent, lasted time.Duration
	told          bool // proxies were told something in it
}

// late waits for what comes late, and returns the CPU time that `serve` spends on it:
// what it spends in the parts of the wait in which proxies are told something, and in
// those beside them, above what it spends in the others. So half a minute of rest need
// not be known to the millisecond, and is measured where it is taken off.
func (w *world) late(ctx context.Context, done func(context.Context) error) (time.Duration, error) {
	const part = 100 * time.Millisecond
	over := make(chan error, 1)
	go func() { over <- done(ctx) }()
	var spans []span
	for {
		spent, told, at := w.usage().control, w.proxies.Responses(), time.Now()
		if err := pause(ctx, part); err != nil {
			return 0, err
		}
		spans = append(spans, span{w.usage().control - spent, time.Since(at), w.proxies.Responses() != told})
		select {
		case err := <-over:
			return aboveRest(spans), err
		default:
		}
	}
}

// aboveRest is what is spent in the spans that are not at rest, above those that are.
func aboveRest(spans []span) time.Duration {
	var rest, busy span
	for i, s := range spans {
		sum := &rest
		if s.told || i > 0 && spans[i-1].told || i+1 < len(spans) && spans[i+1].told {
			sum = &busy
		}
		sum.spent += s.spent
		sum.lasted += s.lasted
	}
	if rest.lasted == 0 {
		return busy.spent
	}
	return busy.spent - time.Duration(float64(rest.spent)/float64(rest.lasted)*float64(busy.lasted))
}
