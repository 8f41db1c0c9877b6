package hub

import (
	"context"
	"time"

	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/util/flowcontrol"

	"github.com/spillway-dev/spillway/internal/work"
)

// line is work that waits for no other: it has its own workers and its own
// share of requests, but for an API server that only fails.
type line struct {
	client  dynamic.Interface
	queue   work.Queue[job]
	workers int
	gate    *work.Gate
}

func newLine(client dynamic.Interface, workers int, budget flowcontrol.RateLimiter) *line {
	return &line{client: client, workers: workers, queue: newQueue(retryFirst, retryLast), gate: work.NewGate(budget)}
}

// lane is whose work it is: that of a namespace, or of no namespace.
type lane struct {
	workspace string
	namespace string
}

func laneOf(j job) lane { return lane{j.object.Workspace, j.object.Namespace} }

// newQueue is a work queue in which namespaces take turns.
func newQueue(first, last time.Duration) work.Queue[job] { return work.NewQueue(laneOf, first, last) }

// work does one piece after the other until the queue is shut down.
func (l *line) work(ctx context.Context, do func(job)) {
	for l.gate.Pass(ctx) {
		j, end := l.queue.Get()
		if end {
			return
		}
		do(j)
		l.queue.Done(j)
	}
}
