package inc

import (
	"fmt"
	"hash/maphash"
	"slices"
)

// meta is what the engine keeps about a row beside its key and value.
type meta struct {
	readers uint32 // first edge from this row to a row that read it
	reads   uint32 // last edge to this row from a row it read
	next    uint32 // next row with the same hash
	flags   uint8
}

const (
	present uint8 = 1 << iota // has a value
	fed                       // derived: some source has its key
	stale                     // something it read has changed
	touched                   // a source got or lost its key, or an input was written
	faulted                   // its last evaluation panicked
	late                      // what it may wait for has changed, and it was not evaluated since
	queued                    // it is in its table's queue
)

// needed tells whether anything would miss the row.
func (m *meta) needed() bool { return m.flags != 0 || m.readers != 0 || m.reads != 0 }

// row is one key. A row exists while it has a value, was read (though absent),
// or is waiting to be evaluated.
type row[K, V any] struct {
	key K
	val V
	meta
}

// rows numbers keys. The map holds hashes, not keys: each key is stored once.
type rows[K Key[K], V any] struct {
	arena[row[K, V]]
	g     *Graph
	first map[uint32]uint32 // hash -> row, the others by meta.next
	n     int               // rows present
}

func newRows[K Key[K], V any](g *Graph) rows[K, V] {
	return rows[K, V]{g: g, first: map[uint32]uint32{}}
}

func (s *rows[K, V]) hash(k K) uint32 { return uint32(maphash.Comparable(s.g.seed, k)) & s.g.mask }

// find returns the number of k, 0 if it has none.
func (s *rows[K, V]) find(k K) uint32 { return s.search(s.hash(k), k) }

func (s *rows[K, V]) search(hash uint32, k K) uint32 {
	i := s.first[hash]
	for i != 0 && s.at(i).key != k {
		i = s.at(i).next
	}
	return i
}

// holds tells whether k has a value.
func (s *rows[K, V]) holds(k K) bool {
	i := s.find(k)
	return i != 0 && s.at(i).flags&present != 0
}

// need returns the number of k and gives it one if it has none.
func (s *rows[K, V]) need(k K) uint32 {
	hash := s.hash(k)
	if i := s.search(hash, k); i != 0 {
		return i
	}
	i := s.take()
	r := s.at(i)
	r.key, r.next = k, s.first[hash]
	s.first[hash] = i
	return i
}

// drop forgets row i, unless something needs it.
func (s *rows[K, V]) drop(i uint32) {
	r := s.at(i)
	if r.needed() {
		return
	}
	hash := s.hash(r.key)
	switch head := s.first[hash]; {
	case head != i:
		s.before(head, i).next = r.next
	case r.next != 0:
		s.first[hash] = r.next
	default:
		delete(s.first, hash)
	}
	s.give(i)
}

// before returns the row before row i in the chain that begins with head.
func (s *rows[K, V]) before(head, i uint32) *row[K, V] {
	for head != 0 && s.at(head).next != i {
		head = s.at(head).next
	}
	if head == 0 {
		panic(misuse(fmt.Sprintf("row %d, %v, is not where its key is: the key does not equal itself", i, s.at(i).key)))
	}
	return s.at(head)
}

func (s *rows[K, V]) meta(i uint32) *meta { return &s.at(i).meta }

func (s *rows[K, V]) text(i uint32) string { return fmt.Sprint(s.at(i).key) }

// named returns the row present or fed whose key reads so, 0 if there is none.
func (s *rows[K, V]) named(text string) uint32 {
	for i := uint32(1); i <= s.last; i++ {
		if s.at(i).flags&(present|fed) != 0 && s.text(i) == text {
			return i
		}
	}
	return 0
}

func (s *rows[K, V]) compare(a, b uint32) int { return s.at(a).key.Compare(s.at(b).key) }

// sorted returns the rows that carry one of the flags, in key order.
func (s *rows[K, V]) sorted(flags uint8) []uint32 {
	out := make([]uint32, 0, s.n)
	for i := uint32(1); i <= s.last; i++ {
		if s.at(i).flags&flags != 0 {
			out = append(out, i)
		}
	}
	slices.SortFunc(out, s.compare)
	return out
}

// keys returns the keys of the rows present, in order.
func (s *rows[K, V]) keys() []K {
	at := s.sorted(present)
	out := make([]K, len(at))
	for n, i := range at {
		out[n] = s.at(i).key
	}
	return out
}
