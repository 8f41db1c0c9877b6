package user

import (
	"context"
	"time"
)

// Rest pauses, unless ctx ends.
func Rest(ctx context.Context, d time.Duration) {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
	case <-ctx.Done():
	}
}
