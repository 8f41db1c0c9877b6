package xds

import "math/bits"

// bitset is a set of small numbers, one bit each. Its zero value is empty.
type bitset []uint64

func (b bitset) has(i uint32) bool {
	w := int(i >> 6)
	return w < len(b) && b[w]&(1<<(i&63)) != 0
}

// set adds i and tells whether it was absent.
func (b *bitset) set(i uint32) bool {
	w := int(i >> 6)
	if w >= len(*b) {
		*b = append(*b, make(bitset, w+1-len(*b))...)
	}
	old := (*b)[w]
	(*b)[w] = old | 1<<(i&63)
	return old != (*b)[w]
}

// clear removes i and tells whether it was present.
func (b bitset) clear(i uint32) bool {
	if !b.has(i) {
		return false
	}
	b[i>>6] &^= 1 << (i & 63)
	return true
}

func (b bitset) any() bool {
	for _, w := range b {
		if w != 0 {
			return true
		}
	}
	return false
}

func (b bitset) count() int {
	n := 0
	for _, w := range b {
		n += bits.OnesCount64(w)
	}
	return n
}

// each calls f for the members in ascending order until f returns false. f
// may clear members, and set ones it was already called for.
func (b bitset) each(f func(uint32) bool) {
	for i := range b {
		for w := b[i]; w != 0; w &= w - 1 {
			if !f(uint32(i<<6 + bits.TrailingZeros64(w))) {
				return
			}
		}
	}
}

// move takes the members of ids out of b, into to, and tells whether there
// were any.
func (b bitset) move(ids bitset, to *bitset) bool {
	moved := false
	for i := range min(len(b), len(ids)) {
		w := b[i] & ids[i]
		if w == 0 {
			continue
		}
		moved = true
		b[i] &^= w
		for len(*to) <= i {
			*to = append(*to, 0)
		}
		(*to)[i] |= w
	}
	return moved
}

// union returns the members of b or c; it may reuse b.
func (b bitset) union(c bitset) bitset {
	for len(b) < len(c) {
		b = append(b, 0)
	}
	for i, w := range c {
		b[i] |= w
	}
	return b
}
