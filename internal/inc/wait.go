package inc

import "slices"

// A large change touches few rows that many rows read: a class, the place of a
// member. To evaluate all of those in one commit would make everybody else
// wait. So a table may be told which tables its rows can wait for, and a graph
// how many such rows a commit evaluates. The others keep their value, and what
// they read, until it is their turn.
//
// Only what is dirty for no other reason waits. A row that gets or loses its
// key, or that read anything else that changed, is evaluated at once, and then
// with the present rows of all that it reads. So at any time a row is what its
// function says of the rows it read last, and each row that differs from what
// it would be from scratch waits, or depends on one that does.

// News is a table or an index: what a row may learn late.
type News interface {
	node
	of() (*Graph, int)
}

// MayWait lets rows of t wait when nothing but what they read of these tables
// and indexes has changed. Those that wait go in key order.
//
// It is for tables whose readers bear to see old and new rows side by side.
func MayWait[K Key[K], V Value[V]](t *Table[K, V], of ...News) {
	if t.compute == nil || t.g.began {
		panic(misuse(t.name + " can't wait: it is an input, or the first commit was made"))
	}
	for _, n := range of {
		if g, at := n.of(); g != t.g || at >= t.id {
			panic(misuse(t.name + " waits for " + n.label() + ", which is not declared before it"))
		}
		t.queue.news = append(t.queue.news, uint16(slices.Index(t.g.nodes, node(n))))
	}
}

// Portion sets how many rows that can wait a commit evaluates, in all tables
// together: each table with rows that wait gets its share. 0, as at first: all
// of them, so that nothing ever waits.
func (g *Graph) Portion(rows int) { g.wait.portion = rows }

// Backlog is the number of rows that wait. While it is not 0, commits have
// something to do even without writes.
func (g *Graph) Backlog() int { return g.wait.rows }

// Waiting is the number of rows of the table that wait. It records nothing: it
// is for use between commits.
func (t *Table[K, V]) Waiting() int {
	t.g.outside(t.id)
	return t.queue.late
}

// Hurry has the row at k evaluated by the next commit, if it waits. It is for use
// between commits, and by watchers.
func (t *Table[K, V]) Hurry(k K) {
	t.g.outside(t.id)
	if i := t.find(k); i != 0 && t.at(i).flags&late != 0 {
		t.flag(i, stale)
	}
}

// waiting is what a graph knows of the rows that wait.
type waiting struct {
	portion int
	rows    int // that wait, in all tables
	left    int // of the portion, in this commit
	ahead   int // of rows: in tables that this commit has yet to step
}

func (w *waiting) begin() { w.left, w.ahead = w.portion, w.rows }

// share tells how many of the n rows of a table go now.
func (w *waiting) share(n int) int {
	if n == 0 || w.portion <= 0 {
		return n
	}
	take := min(n, (w.left*n+w.ahead-1)/w.ahead)
	w.left -= take
	w.ahead -= n
	return take
}

// queue holds the rows of a table that wait: a heap, but for the newest.
type queue struct {
	news   []uint16 // nodes that rows may wait for
	late   int      // rows that wait
	heap   []uint32 // may name rows that no longer wait
	newest []uint32 // not in the heap yet
}

func (q *queue) patient(of uint16) bool { return slices.Contains(q.news, of) }

// postpone makes row i wait, unless it is evaluated in this commit anyway.
func (t *Table[K, V]) postpone(i uint32) {
	row := t.at(i)
	if row.flags&(stale|touched) != 0 {
		row.flags |= stale
		return
	}
	if row.flags&late != 0 {
		return
	}
	row.flags |= late
	t.g.work.add(t.order)
	t.queue.late++
	t.g.wait.rows++
	t.g.wait.ahead++
	if row.flags&queued == 0 {
		row.flags |= queued
		t.queue.newest = append(t.queue.newest, i)
	}
}

// takeLate makes the share of this commit dirty.
func (t *Table[K, V]) takeLate() {
	if t.queue.late == 0 {
		return
	}
	n := t.g.wait.share(t.queue.late)
	if n == t.queue.late {
		t.unqueueAll()
		return
	}
	t.line()
	for n > 0 {
		if t.unqueue(t.pop()) {
			n--
		}
	}
}

// unqueueAll leaves nothing of the queue.
func (t *Table[K, V]) unqueueAll() {
	for _, i := range t.queue.heap {
		t.unqueue(i)
	}
	for _, i := range t.queue.newest {
		t.unqueue(i)
	}
	t.queue.heap, t.queue.newest = nil, nil
}

// unqueue makes a row that left the queue dirty, and tells whether it waited
// still.
func (t *Table[K, V]) unqueue(i uint32) bool {
	row := t.at(i)
	row.flags &^= queued
	if row.flags&late == 0 {
		t.drop(i)
		return false
	}
	t.flag(i, stale)
	return true
}

// line gives the newest rows their places in the heap.
func (t *Table[K, V]) line() {
	q := &t.queue
	for _, i := range q.newest {
		q.heap = append(q.heap, i)
		t.up(len(q.heap) - 1)
	}
	q.newest = nil
}

// pop takes the row that goes first.
func (t *Table[K, V]) pop() uint32 {
	heap := t.queue.heap
	first, last := heap[0], len(heap)-1
	heap[0] = heap[last]
	t.queue.heap = heap[:last]
	t.down(0)
	return first
}

func (t *Table[K, V]) sooner(a, b uint32) bool { return t.compare(a, b) < 0 }

func (t *Table[K, V]) up(i int) {
	heap := t.queue.heap
	for i > 0 && t.sooner(heap[i], heap[(i-1)/2]) {
		heap[i], heap[(i-1)/2] = heap[(i-1)/2], heap[i]
		i = (i - 1) / 2
	}
}

func (t *Table[K, V]) down(i int) {
	heap := t.queue.heap
	for {
		child := 2*i + 1
		if child+1 < len(heap) && t.sooner(heap[child+1], heap[child]) {
			child++
		}
		if child >= len(heap) || !t.sooner(heap[child], heap[i]) {
			return
		}
		heap[i], heap[child] = heap[child], heap[i]
		i = child
	}
}
