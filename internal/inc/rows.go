package inc

import "fmt"

// meta is what the engine keeps about a row beside its value.
type meta struct {
	readers uint32 // first edge from this row to a row that read it
	reads   uint32 // last edge to this row from a row it read
	key     uint32 // its number
	flags   uint8
	set     uint8 // of reads that it shares with others of its table; 0: none
}

// The states of a derived row. An arrow is what happens, with the flags that it
// sets; an evaluation clears all but present, fed and queued.
//
//	         a source gets the key: touched            evaluated
//	no row ─────────────────────────────────► dirty ─────────────► fed, present if its function says so
//	  ▲                                       ▲  ▲                  │
//	  │                                       │  └──────────────────┤ what it read has changed: stale
//	  │                                       │                     │ a source loses the key: touched
//	  │                     its turn, Hurry,  │                     │
//	  │                     or any other news │                     ▼
//	  │                                       └────────────────── waits ◄─ what it may wait for has changed: late, queued
//	  │
//	  └── evaluated without a source, and nobody reads it: dropped. While somebody does, it stays, absent.
//
// A row that is read and has no source is a row without flags. One whose
// function panicked is faulted beside all this, until an evaluation succeeds.
// queued outlives late: a row that was evaluated early stays in its table's
// queue until it is its turn there.
const (
	present uint8 = 1 << iota // has a value
	fed                       // derived: some source has its key
	stale                     // something it read has changed
	touched                   // a source got or lost its key, or an input was written
	faulted                   // its last evaluation panicked
	late                      // what it may wait for has changed, and it was not evaluated since
	queued                    // it is in its table's queue
	many                      // groups: it has more than one row
)

// needed tells whether anything would miss the row.
func (m *meta) needed() bool { return m.flags != 0 || m.readers != 0 || m.reads != 0 || m.set != 0 }

// row is what one table has at a key. A row exists while it has a value, was
// read (though absent), or is waiting to be evaluated.
type row[V any] struct {
	val V
	meta
}

// rows are those of one table or index.
type rows[K Key[K], V any] struct {
	arena[row[V]]
	space  *keys[K]
	places places // key -> row, 0: none
	n      int    // rows present
}

func newRows[K Key[K], V any](g *Graph) rows[K, V] { return rows[K, V]{space: keysOf[K](g)} }

// find returns the row of k, 0 if there is none.
func (s *rows[K, V]) find(k K) uint32 {
	return s.places.get(s.space.find(k))
}

// holds tells whether a key has a value.
func (s *rows[K, V]) holds(key uint32) bool {
	i := s.places.get(key)
	return i != 0 && s.at(i).flags&present != 0
}

// need returns the row of k and makes one if there is none.
func (s *rows[K, V]) need(k K) uint32 { return s.row(s.space.need(k)) }

// row returns the row of a key and makes one if there is none.
func (s *rows[K, V]) row(key uint32) uint32 {
	i := s.places.get(key)
	if i == 0 {
		i = s.take()
		s.places.set(key, i)
		s.at(i).key = key
		s.space.at(key).rows++
	}
	return i
}

// drop forgets row i, unless something needs it.
func (s *rows[K, V]) drop(i uint32) {
	r := s.at(i)
	if r.needed() {
		return
	}
	key := r.key
	s.places.clear(key)
	s.give(i)
	s.space.at(key).rows--
	s.space.drop(key)
}

// key is that of row i.
func (s *rows[K, V]) key(i uint32) K { return s.space.at(s.at(i).key).key }

func (s *rows[K, V]) meta(i uint32) *meta { return &s.at(i).meta }

func (s *rows[K, V]) text(i uint32) string { return fmt.Sprint(s.key(i)) }

func (s *rows[K, V]) compare(a, b uint32) int { return s.key(a).Compare(s.key(b)) }

// sorted returns the rows that carry one of the flags, in key order.
func (s *rows[K, V]) sorted(flags uint8) []uint32 {
	out := make([]uint32, 0, s.n)
	for i := range s.all() {
		if s.at(i).flags&flags != 0 {
			out = append(out, i)
		}
	}
	sortRuns(out, s.compare)
	return out
}

// keys returns the keys of the rows present, in order.
func (s *rows[K, V]) keys() []K {
	at := s.sorted(present)
	out := make([]K, len(at))
	for n, i := range at {
		out[n] = s.key(i)
	}
	return out
}
