package work

// Ranked is a queue of two parts: what is urgent goes before all else, and in each part
// lanes take turns. Like Lanes it is used under the lock of the work queue.
type Ranked[T, L comparable] struct {
	urgent      func(T) bool
	first, rest *Lanes[T, L]
	calm        map[T]bool // that wait in rest
	ghosts      map[T]int  // that are there, but wait in first by now, or were done
	gone        int        // ghosts, all together
}

// NewRanked is an empty queue; urgent is asked when a piece comes, or comes again.
func NewRanked[T, L comparable](lane func(T) L, urgent func(T) bool) *Ranked[T, L] {
	return &Ranked[T, L]{urgent: urgent, first: NewLanes(lane), rest: NewLanes(lane), calm: map[T]bool{}, ghosts: map[T]int{}}
}

// Touch is told of a piece that waits already: it goes on to what is urgent if it
// became so.
func (q *Ranked[T, L]) Touch(piece T) {
	if !q.calm[piece] || !q.urgent(piece) {
		return
	}
	delete(q.calm, piece)
	q.ghosts[piece]++
	q.gone++
	q.first.Push(piece)
}

// Push adds a piece at the end of its lane.
func (q *Ranked[T, L]) Push(piece T) {
	if q.urgent(piece) {
		q.first.Push(piece)
		return
	}
	q.calm[piece] = true
	q.rest.Push(piece)
}

// Len is how many wait.
func (q *Ranked[T, L]) Len() int { return q.first.Len() + q.rest.Len() - q.gone }

// Pop takes the next piece.
func (q *Ranked[T, L]) Pop() T {
	if q.first.Len() > 0 {
		return q.first.Pop()
	}
	for {
		piece := q.rest.Pop()
		n := q.ghosts[piece]
		if n == 0 {
			delete(q.calm, piece)
			return piece
		}
		if q.gone--; n == 1 {
			delete(q.ghosts, piece)
		} else {
			q.ghosts[piece] = n - 1
		}
	}
}
