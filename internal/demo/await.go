package demo

import (
	"context"
	"fmt"
	"time"
)

const (
	// patience is how long a chapter waits for something that must come. It is
	// generous: a slow machine is no failure.
	patience  = 90 * time.Second
	pollEvery = 25 * time.Millisecond
)

// await asks until check is content, for as long as patience. The last error of
// check, which says what was seen, ends up in the error.
func (f *fleet) await(ctx context.Context, what string, check func(context.Context) error) error {
	limited, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	tick := time.NewTicker(pollEvery)
	defer tick.Stop()
	seen := error(nil)
	for {
		err := check(limited)
		if err == nil {
			return nil
		}
		if seen == nil || limited.Err() == nil { // else it says only that time is up
			seen = err
		}
		f.tell.waiting(what, seen)
		select {
		case <-tick.C:
		case <-limited.Done():
			if ctx.Err() != nil {
				return ctx.Err()
			}
			return fmt.Errorf("waited %s for %s: %w", patience, what, seen)
		}
	}
}
