// Package eventually waits, in real time, for what other processes and
// goroutines do: Patience in programs, True and Nil in tests.
package eventually

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// Patience is how long something that must come is waited for. Be generous: a
// slow machine is no failure.
type Patience struct {
	Most    time.Duration                 // 0: as long as the context
	Poll    time.Duration                 // between two looks
	Waiting func(what string, seen error) // told after each look in vain; may be nil
}

// never is an error after which there is nothing to wait for.
type never struct{ error }

// Never is what a check returns when waiting is of no use any more: Await ends
// with err.
func Never(err error) error { return never{err} }

// Await asks until check is content. The last error of check, which says what
// was seen, ends up in the error.
func (p Patience) Await(ctx context.Context, what string, check func(context.Context) error) error {
	limited, cancel := ctx, context.CancelFunc(func() {})
	if p.Most > 0 {
		limited, cancel = context.WithTimeout(ctx, p.Most)
	}
	defer cancel()
	tick := time.NewTicker(p.Poll)
	defer tick.Stop()
	var seen error
	for {
		err := check(limited)
		if err == nil {
			return nil
		}
		if end := (never{}); errors.As(err, &end) {
			return end.error
		}
		if seen == nil || limited.Err() == nil { // else it says only that time is up
			seen = err
		}
		if p.Waiting != nil {
			p.Waiting(what, seen)
		}
		select {
		case <-tick.C:
		case <-limited.Done():
			if ctx.Err() != nil {
				return fmt.Errorf("%w while waiting for %s: %w", ctx.Err(), what, seen)
			}
			return fmt.Errorf("waited %s for %s: %w", p.Most, what, seen)
		}
	}
}

// inTests ends what is broken, not what is slow.
var inTests = Patience{Most: 2 * time.Minute, Poll: 10 * time.Millisecond}

// Test is what is used of a testing.TB: programs do not link package testing.
type Test interface {
	Helper()
	Fatal(args ...any)
}

// Nil asks until check returns nil; else the test fails with its last error.
func Nil(t Test, what string, check func(context.Context) error) {
	t.Helper()
	// Not the test's context: that has ended when a test cleans up.
	if err := inTests.Await(context.Background(), what, check); err != nil {
		t.Fatal(err)
	}
}

var errNotSo = errors.New("it is not so")

// True asks until cond holds.
func True(t Test, what string, cond func() bool) {
	t.Helper()
	Nil(t, what, func(context.Context) error {
		if cond() {
			return nil
		}
		return errNotSo
	})
}
