package inc

import (
	"math"
	"math/bits"
)

// agenda is the set of tables that have rows to write or to evaluate, by their
// places in the order of declaration. A commit steps only those: most commits
// are of few tables, and each table's step is code and memory of its own.
type agenda []uint64

func (a *agenda) add(table int) {
	for table/64 >= len(*a) {
		*a = append(*a, 0)
	}
	(*a)[table/64] |= 1 << (table % 64)
}

func (a agenda) remove(table int) { a[table/64] &^= 1 << (table % 64) }

// next is the first table from a place on, or past all.
func (a agenda) next(from int) int {
	for word := from / 64; word < len(a); word++ {
		left := a[word]
		if word == from/64 {
			left &= ^uint64(0) << (from % 64)
		}
		if left != 0 {
			return word*64 + bits.TrailingZeros64(left)
		}
	}
	return math.MaxInt
}
