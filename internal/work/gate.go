package work

import (
	"context"
	"sync"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/util/flowcontrol"
)

// Patience is how many failures in a row make an API server seem to do nothing
// but fail.
const Patience = 5

// Gate slows work down while everything fails: each piece of work has a
// back-off of its own, but there may be thousands of them. What fails for the
// objects of one lane alone holds nobody up: others succeed in between.
type Gate struct {
	budget flowcontrol.RateLimiter // of attempts while everything fails
	turn   chan struct{}           // has who waits for the budget: one at a time
	mu     sync.Mutex
	failed int // in a row
}

// NewGate is an open gate. The budget is what may be asked while all fails.
func NewGate(budget flowcontrol.RateLimiter) *Gate {
	return &Gate{budget: budget, turn: make(chan struct{}, 1)}
}

// Pass waits until something may be tried, and reports whether it may: ctx has
// not ended. What is tried is chosen after that. The first worker with success
// opens the gate for all.
func (g *Gate) Pass(ctx context.Context) bool {
	if !g.failing() {
		return ctx.Err() == nil
	}
	select {
	case g.turn <- struct{}{}:
	case <-ctx.Done():
		return false
	}
	defer func() { <-g.turn }()
	if !g.failing() {
		return ctx.Err() == nil
	}
	return g.budget.Wait(ctx) == nil
}

func (g *Gate) failing() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.failed >= Patience
}

// Came takes what came of an attempt.
func (g *Gate) Came(err error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if servers(err) {
		g.failed++
	} else {
		g.failed = 0
	}
}

// servers reports whether an error is the API server's, and says nothing about
// the object that was asked for.
func servers(err error) bool {
	switch {
	case err == nil, apierrors.IsNotFound(err), apierrors.IsConflict(err), apierrors.IsInvalid(err), apierrors.IsForbidden(err), apierrors.IsBadRequest(err):
		return false
	}
	return true
}
