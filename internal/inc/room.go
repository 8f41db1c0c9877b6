package inc

import "maps"

// What holds rows of a burst gives its memory back when they are gone: at the
// latest when it could hold four times what it does. Then it is made anew with
// room to spare, so that the cost is a part of that of the changes before.

// smallRoom is not worth giving back.
const smallRoom = 8

// fit returns s, in less memory if it is mostly empty.
func fit[T any](s []T) []T {
	if cap(s) <= smallRoom || len(s) > cap(s)/4 {
		return s
	}
	return append(make([]T, 0, 2*len(s)), s...)
}

// dict is a map that can shrink, which those of Go do not.
type dict[V any] struct {
	entries map[uint32]V
	room    int // most entries since it was made
}

func (d *dict[V]) get(k uint32) V { return d.entries[k] }

func (d *dict[V]) set(k uint32, v V) {
	if d.entries == nil {
		d.entries = map[uint32]V{}
	}
	d.entries[k] = v
	d.room = max(d.room, len(d.entries))
}

func (d *dict[V]) drop(k uint32) {
	delete(d.entries, k)
	n := len(d.entries)
	if d.room <= smallRoom || n > d.room/4 {
		return
	}
	less := make(map[uint32]V, n)
	maps.Copy(less, d.entries)
	d.entries, d.room = less, n
}

// ring is a list of numbers below a bound, each in it once or not at all.
type ring struct {
	links []link // the link of number i is at i+1; the first one is before the first number and after the last
}

type link struct{ prev, next uint32 }

// extend makes place for n numbers.
func (r *ring) extend(n int) {
	for len(r.links) <= n {
		r.links = append(r.links, link{})
	}
}

// cut ends with n numbers; the others are not in the list.
func (r *ring) cut(n int) { r.links = fit(r.links[:n+1]) }

// first returns the first number of the list; false if it is empty.
func (r *ring) first() (uint32, bool) {
	if len(r.links) == 0 || r.links[0].next == 0 {
		return 0, false
	}
	return r.links[0].next - 1, true
}

func (r *ring) pushFront(i uint32) { r.insert(i+1, 0, r.links[0].next) }
func (r *ring) pushBack(i uint32)  { r.insert(i+1, r.links[0].prev, 0) }

func (r *ring) insert(at, prev, next uint32) {
	r.links[at] = link{prev, next}
	r.links[prev].next, r.links[next].prev = at, at
}

// remove takes a number off the list that it is in.
func (r *ring) remove(i uint32) {
	l := r.links[i+1]
	r.links[l.prev].next, r.links[l.next].prev = l.next, l.prev
}
