package hub

import (
	"k8s.io/client-go/util/workqueue"
)

// lane is whose work it is: that of a namespace, or of no namespace.
type lane struct {
	workspace string
	namespace string
}

func laneOf(j job) lane { return lane{j.object.Workspace, j.object.Namespace} }

// lanes is a queue in which namespaces take turns: however much one has to be
// done, each other's next piece waits for one piece of it. It holds a piece at
// most once, since the work queue around it asks; so it is bounded by objects.
// It is used under the lock of the work queue.
type lanes struct {
	waiting map[lane][]job // in the order in which they came, none is empty
	turns   []lane         // those with work, whose turn comes first is first
	n       int
}

func newLanes() *lanes { return &lanes{waiting: map[lane][]job{}} }

// Touch is told of a piece that waits already: it keeps its place.
func (q *lanes) Touch(job) {}

// Push adds a piece at the end of its lane.
func (q *lanes) Push(j job) {
	l := laneOf(j)
	if len(q.waiting[l]) == 0 {
		q.turns = append(q.turns, l)
	}
	q.waiting[l] = append(q.waiting[l], j)
	q.n++
}

// Len is how many wait.
func (q *lanes) Len() int { return q.n }

// Pop takes the next piece of the lane whose turn it is.
func (q *lanes) Pop() job {
	l := q.turns[0]
	q.turns = q.turns[1:]
	j := q.waiting[l][0]
	if rest := q.waiting[l][1:]; len(rest) > 0 {
		q.waiting[l] = rest
		q.turns = append(q.turns, l)
	} else {
		delete(q.waiting, l)
	}
	q.n--
	return j
}

var _ workqueue.Queue[job] = (*lanes)(nil)
