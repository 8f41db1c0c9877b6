package app

import (
	"container/heap"
	"time"
)

// deadlines says which of many keys are due, in the order of time. While none
// is, it looks at none but the first. Its zero value is ready for use.
type deadlines[K comparable] struct {
	heap   []deadline[K]
	places map[K]int // in the heap
	looked int       // entries looked at by pop, for tests
}

type deadline[K comparable] struct {
	key K
	at  time.Time
}

// set gives a key a deadline in place of its last one.
func (d *deadlines[K]) set(key K, at time.Time) {
	if i, ok := d.places[key]; ok {
		d.heap[i].at = at
		heap.Fix(d, i)
		return
	}
	heap.Push(d, deadline[K]{key, at})
}

// drop takes a key's deadline away, if it has one.
func (d *deadlines[K]) drop(key K) {
	if i, ok := d.places[key]; ok {
		heap.Remove(d, i)
	}
}

// next is the first deadline, zero if there is none.
func (d *deadlines[K]) next() time.Time {
	if len(d.heap) == 0 {
		return time.Time{}
	}
	return d.heap[0].at
}

// pop returns a key that is due, and forgets its deadline.
func (d *deadlines[K]) pop(now time.Time) (key K, ok bool) {
	if len(d.heap) == 0 {
		return key, false
	}
	d.looked++
	if now.Before(d.heap[0].at) {
		return key, false
	}
	return heap.Pop(d).(deadline[K]).key, true
}

// Len, Less, Swap, Push and Pop are for package heap.
func (d *deadlines[K]) Len() int           { return len(d.heap) }
func (d *deadlines[K]) Less(a, b int) bool { return d.heap[a].at.Before(d.heap[b].at) }

func (d *deadlines[K]) Swap(a, b int) {
	d.heap[a], d.heap[b] = d.heap[b], d.heap[a]
	d.places[d.heap[a].key], d.places[d.heap[b].key] = a, b
}

func (d *deadlines[K]) Push(x any) {
	if d.places == nil {
		d.places = map[K]int{}
	}
	one := x.(deadline[K])
	d.places[one.key] = len(d.heap)
	d.heap = append(d.heap, one)
}

func (d *deadlines[K]) Pop() any {
	last := len(d.heap) - 1
	one := d.heap[last]
	d.heap[last] = deadline[K]{}
	d.heap = d.heap[:last]
	delete(d.places, one.key)
	return one
}
