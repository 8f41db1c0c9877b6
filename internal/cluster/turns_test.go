package cluster

import (
	"context"
	"sync/atomic"
	"testing"
	"testing/synctest"
)

// TestTurns: one at a time, the next when one has been listed, all when it is
// over; and who gives up takes no turn from others.
func TestTurns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		turns := newTurns(1)
		var had atomic.Int32
		ends := make(chan func(), 4)
		ask := func(ctx context.Context) {
			go func() {
				end := turns.take(ctx)
				had.Add(1)
				ends <- end
			}()
			synctest.Wait()
		}
		want := func(n int, when string) {
			t.Helper()
			if synctest.Wait(); int(had.Load()) != n {
				t.Fatalf("%s: %d had a turn, want %d", when, had.Load(), n)
			}
		}
		ask(t.Context())
		first := <-ends
		ask(ctx)
		want(1, "one is being listed")
		cancel()
		want(2, "the second one has left")
		(<-ends)()
		ask(t.Context())
		want(2, "one is still being listed")
		first()
		first()
		want(3, "it was listed, and said so twice")
		ask(t.Context())
		ask(t.Context())
		want(3, "another one is being listed")
		turns.end()
		want(5, "it is over")
	})
}
