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
