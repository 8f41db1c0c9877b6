package work

import (
	"time"

	"k8s.io/client-go/util/workqueue"
)

// Queue is a work queue that brings back what fails, later each time.
type Queue[T comparable] = workqueue.TypedRateLimitingInterface[T]

// NewQueue is a queue in which lanes take turns. What fails comes back after
// first, then later each time, up to last.
func NewQueue[T, L comparable](lane func(T) L, first, last time.Duration) Queue[T] {
	return NewQueueOf(NewLanes(lane), first, last)
}

// NewQueueOf is a queue in which pieces go in the order of another one.
func NewQueueOf[T comparable](order workqueue.Queue[T], first, last time.Duration) Queue[T] {
	fair := workqueue.NewTypedWithConfig(workqueue.TypedQueueConfig[T]{Queue: order})
	delaying := workqueue.NewTypedDelayingQueueWithConfig(workqueue.TypedDelayingQueueConfig[T]{Queue: fair})
	return workqueue.NewTypedRateLimitingQueueWithConfig(
		workqueue.NewTypedItemExponentialFailureRateLimiter[T](first, last),
		workqueue.TypedRateLimitingQueueConfig[T]{DelayingQueue: delaying})
}

// Lanes is a queue in which lanes take turns: however much one has to be done,
// each other's next piece waits for one piece of it. It holds a piece at most
// once, since the work queue around it asks; so it is bounded by what there is
// work on. It is used under the lock of the work queue.
type Lanes[T, L comparable] struct {
	lane    func(T) L
	waiting map[L][]T // in the order in which they came, none is empty
	turns   []L       // those with work, whose turn comes first is first
	n       int
}

// NewLanes is an empty queue; lane says whose a piece of work is.
func NewLanes[T, L comparable](lane func(T) L) *Lanes[T, L] {
	return &Lanes[T, L]{lane: lane, waiting: map[L][]T{}}
}

// Touch is told of a piece that waits already: it keeps its place.
func (q *Lanes[T, L]) Touch(T) {}

// Push adds a piece at the end of its lane.
func (q *Lanes[T, L]) Push(piece T) {
	l := q.lane(piece)
	if len(q.waiting[l]) == 0 {
		q.turns = append(q.turns, l)
	}
	q.waiting[l] = append(q.waiting[l], piece)
	q.n++
}

// Len is how many wait.
func (q *Lanes[T, L]) Len() int { return q.n }

// Pop takes the next piece of the lane whose turn it is.
func (q *Lanes[T, L]) Pop() T {
	l := q.turns[0]
	q.turns = q.turns[1:]
	piece := q.waiting[l][0]
	if rest := q.waiting[l][1:]; len(rest) > 0 {
		q.waiting[l] = rest
		q.turns = append(q.turns, l)
	} else {
		delete(q.waiting, l)
	}
	q.n--
	return piece
}

var _ workqueue.Queue[int] = (*Lanes[int, int])(nil)
