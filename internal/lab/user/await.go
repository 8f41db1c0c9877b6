package user

import (
	"context"
	"fmt"
	"time"
)

// Patience is how long something that must come is waited for. Be generous: a
// slow machine is no failure.
type Patience struct {
	Most    time.Duration
	Poll    time.Duration                 // between two looks
	Waiting func(what string, seen error) // told after each look in vain; may be nil
}

// Await asks until check is content. The last error of check, which says what
// was seen, ends up in the error.
func (p Patience) Await(ctx context.Context, what string, check func(context.Context) error) error {
	limited, cancel := context.WithTimeout(ctx, p.Most)
	defer cancel()
	tick := time.NewTicker(p.Poll)
	defer tick.Stop()
	var seen error
	for {
		err := check(limited)
		if err == nil {
			return nil
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
				return ctx.Err()
			}
			return fmt.Errorf("waited %s for %s: %w", p.Most, what, seen)
		}
	}
}

// Rest pauses, unless ctx ends.
func Rest(ctx context.Context, d time.Duration) {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
	case <-ctx.Done():
	}
}
