package inc

// Rows and dependencies are numbered, and live in pages that never move: a
// number is a third of a pointer's cost, needs no garbage collection, and no
// commit ever pays for copying a large slice.
const (
	pageBits = 6
	pageSize = 1 << pageBits
)

// arena is numbered memory. Number 0 is never given out: it means none.
type arena[T any] struct {
	pages []*[pageSize]T
	last  uint32   // highest number ever given out
	free  []uint32 // numbers given back
}

func (a *arena[T]) at(i uint32) *T { return &a.pages[i>>pageBits][i&(pageSize-1)] }

// take gives out a number; its memory is zero.
func (a *arena[T]) take() uint32 {
	if n := len(a.free); n > 0 {
		i := a.free[n-1]
		a.free = a.free[:n-1]
		return i
	}
	a.last++
	for int(a.last>>pageBits) >= len(a.pages) {
		a.pages = append(a.pages, new([pageSize]T))
	}
	return a.last
}

// give returns a number.
func (a *arena[T]) give(i uint32) {
	var zero T
	*a.at(i) = zero
	a.free = append(a.free, i)
}

// places notes a number for each of many numbers, in pages made on demand.
type places []*[pageSize]uint32

// get returns the number noted for i, 0 if there is none.
func (p places) get(i uint32) uint32 {
	if page := int(i >> pageBits); page < len(p) && p[page] != nil {
		return p[page][i&(pageSize-1)]
	}
	return 0
}

// at is where the number for i is noted.
func (p *places) at(i uint32) *uint32 {
	page := int(i >> pageBits)
	for page >= len(*p) {
		*p = append(*p, nil)
	}
	if (*p)[page] == nil {
		(*p)[page] = new([pageSize]uint32)
	}
	return &(*p)[page][i&(pageSize-1)]
}
