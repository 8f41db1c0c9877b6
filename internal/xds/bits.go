package xds

import (
	"math"
	"math/bits"
)

// bitset is a set of small numbers, one bit each. Its zero value is empty. It
// keeps the words from its lowest member to its highest: one that gets empty
// keeps nothing, and one of few members costs little wherever they are.
type bitset struct {
	words []uint64
	from  uint32 // number of the first word
	n     uint32 // members
}

func (b *bitset) has(i uint32) bool {
	w := i>>6 - b.from // a huge number where it is below
	return w < uint32(len(b.words)) && b.words[w]&(1<<(i&63)) != 0
}

// set adds i and tells whether it was absent.
func (b *bitset) set(i uint32) bool {
	if b.has(i) {
		return false
	}
	b.reach(i >> 6)
	b.words[i>>6-b.from] |= 1 << (i & 63)
	b.n++
	return true
}

// put adds or removes i.
func (b *bitset) put(i uint32, in bool) {
	if in {
		b.set(i)
	} else {
		b.clear(i)
	}
}

// reach makes room for word w, and some more on its side: what grows word by
// word is copied seldom.
func (b *bitset) reach(w uint32) {
	n := uint32(len(b.words))
	switch {
	case n == 0:
		b.words, b.from = make([]uint64, 1), w
	case w < b.from:
		more := min(b.from, b.from-w+n/8)
		b.words = append(make([]uint64, more, more+n), b.words...)
		b.from -= more
	case w >= b.from+n:
		n = w - b.from + 1
		if n > uint32(cap(b.words)) {
			b.words = append(make([]uint64, 0, n+n/8), b.words...)
		}
		b.words = b.words[:n]
	}
}

// clear removes i and tells whether it was present.
func (b *bitset) clear(i uint32) bool {
	if !b.has(i) {
		return false
	}
	b.words[i>>6-b.from] &^= 1 << (i & 63)
	if b.n--; b.n == 0 {
		*b = bitset{}
	}
	return true
}

// word is the members from 64*w on, a bit each.
func (b *bitset) word(w uint32) uint64 {
	if at := w - b.from; at < uint32(len(b.words)) {
		return b.words[at]
	}
	return 0
}

func (b *bitset) any() bool { return b.n > 0 }

func (b *bitset) count() int { return int(b.n) }

// each calls f for the members in ascending order until f returns false, and returns
// false then. f may clear members, and set ones it was already called for.
func (b *bitset) each(f func(uint32) bool) bool {
	return b.between(0, math.MaxUint32, func(uint32) uint64 { return math.MaxUint64 }, f)
}

// eachFrom is the same for the members from start on, and then those before it,
// of those that only has: a bit each of those from 64*w on.
func (b *bitset) eachFrom(start uint32, only func(w uint32) uint64, f func(uint32) bool) {
	if b.between(start, math.MaxUint32, only, f) {
		b.between(0, start, only, f)
	}
}

// between is that for the members from low to high-1. It returns false if f did.
func (b *bitset) between(low, high uint32, only func(w uint32) uint64, f func(uint32) bool) bool {
	for at := max(low>>6, b.from); at < b.from+uint32(len(b.words)); at++ {
		at = max(at, b.from) // it may have got empty, and begun anew
		w := b.words[at-b.from] & only(at)
		if at == low>>6 {
			w &= math.MaxUint64 << (low & 63)
		}
		for ; w != 0; w &= w - 1 {
			i := at<<6 + uint32(bits.TrailingZeros64(w))
			if i >= high {
				return true
			}
			if !f(i) {
				return false
			}
		}
	}
	return true
}

// move takes the members of ids out of b, into to, and tells whether there
// were any.
func (b *bitset) move(ids, to *bitset) bool {
	moved := false
	ids.each(func(i uint32) bool {
		if b.clear(i) {
			moved = true
			to.set(i)
		}
		return true
	})
	return moved
}

// add adds the members of c, 64 at a time.
func (b *bitset) add(c *bitset) {
	if c.n == 0 {
		return
	}
	b.reach(c.from)
	b.reach(c.from + uint32(len(c.words)) - 1)
	for i, w := range c.words {
		at := &b.words[c.from+uint32(i)-b.from]
		b.n += uint32(bits.OnesCount64(w &^ *at))
		*at |= w
	}
}
