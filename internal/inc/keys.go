package inc

import (
	"fmt"
	"hash/maphash"
	"reflect"
)

// keyed is a key that some table or index has a row of.
type keyed[K any] struct {
	key  K
	rows uint32 // tables and indexes that have a row of it
	next uint32 // next key with the same hash
}

// keys numbers the keys of one type, for all tables and indexes of a graph:
// most keys have rows in many of them, and are stored once. The map holds
// hashes, not keys.
type keys[K Key[K]] struct {
	arena[keyed[K]]
	g     *Graph
	first dict[uint32] // hash -> key, the others by next
}

// keysOf returns the keys of a graph that have type K.
func keysOf[K Key[K]](g *Graph) *keys[K] {
	typ := reflect.TypeFor[K]()
	if s, ok := g.keys[typ]; ok {
		return s.(*keys[K])
	}
	s := &keys[K]{g: g}
	g.keys[typ] = s
	return s
}

func (s *keys[K]) hash(k K) uint32 { return uint32(maphash.Comparable(s.g.seed, k)) & s.g.mask }

// find returns the number of k, 0 if no row has it.
func (s *keys[K]) find(k K) uint32 { return s.search(s.hash(k), k) }

func (s *keys[K]) search(hash uint32, k K) uint32 {
	i := s.first.get(hash)
	for i != 0 && s.at(i).key != k {
		i = s.at(i).next
	}
	return i
}

// need returns the number of k and gives it one if it has none.
func (s *keys[K]) need(k K) uint32 {
	hash := s.hash(k)
	if i := s.search(hash, k); i != 0 {
		return i
	}
	i := s.take()
	*s.at(i) = keyed[K]{key: k, next: s.first.get(hash)}
	s.first.set(hash, i)
	return i
}

// drop forgets key i, unless a table or an index has a row of it.
func (s *keys[K]) drop(i uint32) {
	e := s.at(i)
	if e.rows > 0 {
		return
	}
	hash := s.hash(e.key)
	switch head := s.first.get(hash); {
	case head != i:
		s.before(head, i).next = e.next
	case e.next != 0:
		s.first.set(hash, e.next)
	default:
		s.first.drop(hash)
	}
	s.give(i)
}

// before returns the key before key i in the chain that begins with head.
func (s *keys[K]) before(head, i uint32) *keyed[K] {
	for head != 0 && s.at(head).next != i {
		head = s.at(head).next
	}
	if head == 0 {
		panic(misuse(fmt.Sprintf("key %d, %v, is not where it belongs: it does not equal itself", i, s.at(i).key)))
	}
	return s.at(head)
}
