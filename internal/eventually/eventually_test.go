package eventually

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"
)

var errClosed = errors.New("the door is closed")

func TestAwait(t *testing.T) {
	for name, c := range map[string]struct {
		p     Patience
		limit time.Duration // of the context
		check func(ctx context.Context, looks int) error
		want  string
		after time.Duration
	}{
		"it comes": {Patience{Most: time.Minute, Poll: time.Second}, time.Hour, func(_ context.Context, looks int) error {
			if looks < 3 {
				return errClosed
			}
			return nil
		}, "<nil>", 2 * time.Second},
		"it is late": {Patience{Most: time.Minute, Poll: time.Second}, time.Hour, func(context.Context, int) error { return errClosed },
			"waited 1m0s for the door: the door is closed", time.Minute},
		"the last look takes all that is left": {Patience{Most: time.Minute, Poll: time.Second}, time.Hour, func(ctx context.Context, looks int) error {
			if looks == 1 {
				return errClosed
			}
			<-ctx.Done()
			return ctx.Err()
		}, "waited 1m0s for the door: the door is closed", time.Minute},
		"the context ends": {Patience{Poll: time.Second}, 5 * time.Second, func(context.Context, int) error { return errClosed },
			"context deadline exceeded while waiting for the door: the door is closed", 5 * time.Second},
		"never": {Patience{Poll: time.Second}, time.Hour, func(context.Context, int) error { return fmt.Errorf("look: %w", Never(errClosed)) },
			"the door is closed", 0},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ctx, cancel := context.WithTimeout(t.Context(), c.limit)
				defer cancel()
				looks, told, began := 0, 0, time.Now()
				c.p.Waiting = func(string, error) { told++ }
				err := c.p.Await(ctx, "the door", func(ctx context.Context) error { looks++; return c.check(ctx, looks) })
				if fmt.Sprint(err) != c.want || time.Since(began) != c.after || (told == 0) != (c.after == 0) {
					t.Errorf("%v after %v, told %d times", err, time.Since(began), told)
				}
			})
		})
	}
}

type failed struct{ said string }

func (*failed) Helper()             {}
func (f *failed) Fatal(args ...any) { f.said = fmt.Sprint(args...) }

// TestFails: a test that waits in vain says for what.
func TestFails(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var f failed
		if True(&f, "the door", func() bool { return false }); f.said != "waited 2m0s for the door: it is not so" {
			t.Error(f.said)
		}
		if Nil(&f, "the door", func(context.Context) error { return errClosed }); f.said != "waited 2m0s for the door: the door is closed" {
			t.Error(f.said)
		}
	})
}
