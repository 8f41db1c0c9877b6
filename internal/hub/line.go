package hub

import (
	"context"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/util/flowcontrol"
	"k8s.io/client-go/util/workqueue"
)

// line is work that waits for no other: it has its own workers and its own
// share of requests, but for an API server that only fails.
type line struct {
	client  dynamic.Interface
	queue   workqueue.TypedRateLimitingInterface[job]
	workers int
	gate    gate
}

func newLine(client dynamic.Interface, workers int, budget flowcontrol.RateLimiter) *line {
	return &line{client: client, workers: workers, queue: newQueue(retryFirst, retryLast), gate: gate{budget: budget, turn: make(chan struct{}, 1)}}
}

// newQueue is a work queue with lanes, which brings back what fails, later each time.
func newQueue(first, last time.Duration) workqueue.TypedRateLimitingInterface[job] {
	fair := workqueue.NewTypedWithConfig(workqueue.TypedQueueConfig[job]{Queue: newLanes()})
	delaying := workqueue.NewTypedDelayingQueueWithConfig(workqueue.TypedDelayingQueueConfig[job]{Queue: fair})
	return workqueue.NewTypedRateLimitingQueueWithConfig(
		workqueue.NewTypedItemExponentialFailureRateLimiter[job](first, last),
		workqueue.TypedRateLimitingQueueConfig[job]{DelayingQueue: delaying})
}

// work does one piece after the other until the queue is shut down.
func (l *line) work(ctx context.Context, do func(job)) {
	for l.gate.pass(ctx) {
		j, end := l.queue.Get()
		if end {
			return
		}
		do(j)
		l.queue.Done(j)
	}
}

// patience is how many failures in a row make an API server seem to do nothing
// but fail.
const patience = 5

// gate slows a line down while everything fails: each piece of work has a
// back-off of its own, but there may be thousands of them. What fails for the
// objects of one namespace alone holds nobody up: others succeed in between.
type gate struct {
	budget flowcontrol.RateLimiter // of attempts while everything fails: see NewWriter
	turn   chan struct{}           // has who waits for the budget: one at a time
	mu     sync.Mutex
	failed int // in a row
}

// pass waits until something may be tried, and reports whether it may: ctx has
// not ended. What is tried is chosen after that. The first worker with success
// opens the gate for all.
func (g *gate) pass(ctx context.Context) bool {
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

func (g *gate) failing() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.failed >= patience
}

// came takes what came of an attempt.
func (g *gate) came(err error) {
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
