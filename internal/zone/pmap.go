package zone

import (
	"hash/maphash"
	"iter"
	"math/bits"
)

// pmap is an immutable map from names to values: a hash array mapped trie, 32
// ways a level. with and without return a new map that shares all but the path
// to the key, so that one change of a zone of any size copies a few hundred
// bytes and readers need no lock. The zero value is empty.
type pmap[V any] struct {
	root *branch[V]
	size int
}

type branch[V any] struct {
	bitmap uint32    // which of the 32 slots are taken
	slots  []slot[V] // only those, in order
}

// slot holds either a branch or a leaf.
type slot[V any] struct {
	kid  *branch[V]
	leaf *leaf[V]
}

type leaf[V any] struct {
	hash uint64
	key  Name
	val  V
	next *leaf[V] // another key with the same 64 bits of hash
}

// The seed is drawn per process, so that nobody can choose names that collide.
// No result depends on it: the order of a pmap is never shown.
var seed = maphash.MakeSeed()

const (
	fanBits = 5
	fanMask = 1<<fanBits - 1
)

// get finds a key given as bytes, which it does not keep.
func (m pmap[V]) get(key []byte) (V, bool) { return m.root.find(maphash.Bytes(seed, key), key) }

func (b *branch[V]) find(hash uint64, key []byte) (v V, ok bool) {
	for shift := uint(0); b != nil; shift += fanBits {
		bit, i := b.place(hash, shift)
		if b.bitmap&bit == 0 {
			return v, false
		}
		s := &b.slots[i]
		for l := s.leaf; l != nil; l = l.next {
			if l.hash == hash && string(l.key) == string(key) {
				return l.val, true
			}
		}
		b = s.kid
	}
	return v, false
}

// with is the map with one key set.
func (m pmap[V]) with(key Name, v V) pmap[V] {
	hash := maphash.String(seed, string(key))
	root, added := m.root.with(&leaf[V]{hash: hash, key: key, val: v}, 0)
	return pmap[V]{root: root, size: m.size + added}
}

// without is the map with one key gone.
func (m pmap[V]) without(key Name) pmap[V] {
	if _, ok := m.get([]byte(key)); !ok {
		return m
	}
	return pmap[V]{root: m.root.without(maphash.String(seed, string(key)), key, 0), size: m.size - 1}
}

// all yields every key and value in no order.
func (m pmap[V]) all() iter.Seq2[Name, V] {
	return func(yield func(Name, V) bool) { m.root.walk(yield) }
}

// place is where a hash stands at a depth: its bit and the index of its slot.
func (b *branch[V]) place(hash uint64, shift uint) (bit uint32, index int) {
	bit = uint32(1) << (hash >> shift & fanMask)
	return bit, bits.OnesCount32(b.bitmap & (bit - 1))
}

func (b *branch[V]) with(l *leaf[V], shift uint) (*branch[V], int) {
	if b == nil {
		b = &branch[V]{}
	}
	bit, i := b.place(l.hash, shift)
	if b.bitmap&bit == 0 {
		out := &branch[V]{bitmap: b.bitmap | bit, slots: make([]slot[V], len(b.slots)+1)}
		copy(out.slots, b.slots[:i])
		copy(out.slots[i+1:], b.slots[i:])
		out.slots[i] = slot[V]{leaf: l}
		return out, 1
	}
	s, added := b.slots[i].with(l, shift+fanBits)
	return b.replaced(i, s), added
}

func (s slot[V]) with(l *leaf[V], shift uint) (slot[V], int) {
	switch {
	case s.leaf == nil:
		kid, added := s.kid.with(l, shift)
		return slot[V]{kid: kid}, added
	case s.leaf.hash == l.hash:
		chain, added := s.leaf.chained(l)
		return slot[V]{leaf: chain}, added
	}
	kid, _ := (*branch[V])(nil).with(s.leaf, shift)
	kid, added := kid.with(l, shift)
	return slot[V]{kid: kid}, added
}

// chained is the chain with l set in it.
func (l *leaf[V]) chained(with *leaf[V]) (*leaf[V], int) {
	rest, had := l.unchained(with.key)
	head := *with
	head.next = rest
	if had {
		return &head, 0
	}
	return &head, 1
}

// unchained is the chain without a key, and whether it was there.
func (l *leaf[V]) unchained(key Name) (*leaf[V], bool) {
	if l == nil {
		return nil, false
	}
	if l.key == key {
		return l.next, true
	}
	rest, had := l.next.unchained(key)
	if !had {
		return l, false
	}
	head := *l
	head.next = rest
	return &head, true
}

func (b *branch[V]) without(hash uint64, key Name, shift uint) *branch[V] {
	bit, i := b.place(hash, shift)
	s := b.slots[i]
	if s.leaf != nil {
		s.leaf, _ = s.leaf.unchained(key)
	} else {
		s.kid = s.kid.without(hash, key, shift+fanBits)
		if only := s.kid.only(); only != nil {
			s = slot[V]{leaf: only}
		}
	}
	if s.leaf != nil || s.kid != nil {
		return b.replaced(i, s)
	}
	if len(b.slots) == 1 {
		return nil
	}
	out := &branch[V]{bitmap: b.bitmap &^ bit, slots: make([]slot[V], 0, len(b.slots)-1)}
	out.slots = append(append(out.slots, b.slots[:i]...), b.slots[i+1:]...)
	return out
}

// only is the leaf of a branch that holds nothing else.
func (b *branch[V]) only() *leaf[V] {
	if b == nil || len(b.slots) != 1 {
		return nil
	}
	return b.slots[0].leaf
}

func (b *branch[V]) replaced(i int, s slot[V]) *branch[V] {
	out := &branch[V]{bitmap: b.bitmap, slots: append([]slot[V](nil), b.slots...)}
	out.slots[i] = s
	return out
}

func (b *branch[V]) walk(yield func(Name, V) bool) bool {
	if b == nil {
		return true
	}
	for _, s := range b.slots {
		for l := s.leaf; l != nil; l = l.next {
			if !yield(l.key, l.val) {
				return false
			}
		}
		if !s.kid.walk(yield) {
			return false
		}
	}
	return true
}
