package cluster

import (
	"context"
	"sync"
)

// turns has some members be listed at a time, the others after them, until it is
// over. A process that goes on from a checkpoint computes what it knew, on one
// processor: lists that all come meanwhile would take that away from it, though
// they are wanted no earlier.
type turns struct {
	free chan struct{} // has one for each that is being listed
	over chan struct{}
}

func newTurns(atOnce int) *turns {
	return &turns{free: make(chan struct{}, atOnce), over: make(chan struct{})}
}

// take waits for a turn, and returns what ends it: to be called when the member
// has been listed or can't be. A nil turns has nobody wait.
func (t *turns) take(ctx context.Context) (end func()) {
	if t == nil {
		return func() {}
	}
	select {
	case t.free <- struct{}{}:
		return sync.OnceFunc(func() { <-t.free })
	case <-t.over:
	case <-ctx.Done():
	}
	return func() {}
}

// end has nobody wait any more.
func (t *turns) end() {
	if t != nil {
		close(t.over)
	}
}
