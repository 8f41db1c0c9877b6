package inc

import (
	"iter"
	"math"
	"math/bits"
)

// Rows and dependencies are numbered, and live in pages that never move: a
// number is a third of a pointer's cost, needs no garbage collection, and no
// commit ever pays for copying a large slice. A page of which no number is
// given out is given back, but for one: what comes and goes at the border of a
// page makes none each time.
const (
	pageBits = 6
	pageSize = 1 << pageBits // of the bits in arena.used
	full     = math.MaxUint64
)

// arena is numbered memory. Number 0 is never given out: it means none.
type arena[T any] struct {
	pages []*[pageSize]T // nil: no number of it is given out; the last one is not nil
	used  []uint64       // of each page: its numbers that are given out, and number 0
	room  ring           // pages with numbers to give out, those that are nil behind the others
	spare *[pageSize]T   // zero
	given int            // numbers given out
}

func (a *arena[T]) at(i uint32) *T { return &a.pages[i>>pageBits][i&(pageSize-1)] }

// take gives out a number; its memory is zero.
func (a *arena[T]) take() uint32 {
	page, ok := a.room.first()
	if !ok {
		page = a.extend()
	}
	if a.pages[page] == nil {
		a.pages[page], a.spare = pageOf(a.spare), nil
	}
	used := &a.used[page]
	at := bits.TrailingZeros64(^*used)
	if *used |= 1 << at; *used == full {
		a.room.remove(page)
	}
	a.given++
	return page<<pageBits | uint32(at)
}

func pageOf[T any](spare *[pageSize]T) *[pageSize]T {
	if spare != nil {
		return spare
	}
	return new([pageSize]T)
}

// extend adds a page.
func (a *arena[T]) extend() uint32 {
	page := uint32(len(a.pages))
	a.pages, a.used = append(a.pages, nil), append(a.used, 0)
	if page == 0 {
		a.used[page] = 1 // so that it is never given back
	}
	a.room.extend(len(a.pages))
	a.room.pushFront(page)
	return page
}

// give returns a number.
func (a *arena[T]) give(i uint32) {
	var zero T
	*a.at(i) = zero
	page := i >> pageBits
	used := &a.used[page]
	if *used == full {
		a.room.pushFront(page)
	}
	a.given--
	if *used &^= 1 << (i & (pageSize - 1)); *used == 0 {
		a.release(page)
	}
}

// release gives back a page of which no number is given out.
func (a *arena[T]) release(page uint32) {
	a.spare, a.pages[page] = a.pages[page], nil
	a.room.remove(page)
	a.room.pushBack(page)
	for last := len(a.pages) - 1; a.pages[last] == nil; last-- { // page 0 is not nil
		a.room.remove(uint32(last))
		a.pages, a.used = a.pages[:last], a.used[:last]
	}
	a.pages, a.used = fit(a.pages), fit(a.used)
	a.room.cut(len(a.pages))
}

// all are the numbers given out.
func (a *arena[T]) all() iter.Seq[uint32] {
	return func(yield func(uint32) bool) {
		for page, used := range a.used {
			if page == 0 {
				used &^= 1
			}
			for ; used != 0; used &= used - 1 {
				if !yield(uint32(page)<<pageBits | uint32(bits.TrailingZeros64(used))) {
					return
				}
			}
		}
	}
}

// places notes a number, not 0, for each of many numbers, in pages made on
// demand.
type places struct {
	pages []*[pageSize]uint32 // nil: none is noted; the last one is not nil
	noted []uint8             // in each page
	spare *[pageSize]uint32   // zero
}

// get returns the number noted for i, 0 if there is none.
func (p *places) get(i uint32) uint32 {
	if page := int(i >> pageBits); page < len(p.pages) && p.pages[page] != nil {
		return p.pages[page][i&(pageSize-1)]
	}
	return 0
}

// set notes a number for i, for which none is noted.
func (p *places) set(i, number uint32) {
	page := int(i >> pageBits)
	for page >= len(p.pages) {
		p.pages, p.noted = append(p.pages, nil), append(p.noted, 0)
	}
	if p.pages[page] == nil {
		p.pages[page], p.spare = pageOf(p.spare), nil
	}
	p.pages[page][i&(pageSize-1)] = number
	p.noted[page]++
}

// clear forgets the number noted for i.
func (p *places) clear(i uint32) {
	page := int(i >> pageBits)
	p.pages[page][i&(pageSize-1)] = 0
	if p.noted[page]--; p.noted[page] > 0 {
		return
	}
	p.spare, p.pages[page] = p.pages[page], nil
	last := len(p.pages)
	for last > 0 && p.pages[last-1] == nil {
		last--
	}
	p.pages, p.noted = fit(p.pages[:last]), fit(p.noted[:last])
}
