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
}

// keys numbers the keys of one type, for all tables and indexes of a graph:
// most keys have rows in many of them, and are stored once.
type keys[K Key[K]] struct {
	arena[keyed[K]]
	g      *Graph
	byHash hashes
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
	if s.byHash.n == 0 {
		return 0
	}
	for at := s.byHash.at(hash, 0); ; at = s.byHash.at(at, 1) {
		switch p := s.byHash.slots[at]; {
		case p == 0:
			return 0
		case p.hash() == hash && s.at(p.number()).key == k:
			return p.number()
		}
	}
}

// need returns the number of k and gives it one if it has none.
func (s *keys[K]) need(k K) uint32 {
	hash := s.hash(k)
	if i := s.search(hash, k); i != 0 {
		return i
	}
	i := s.take()
	*s.at(i) = keyed[K]{key: k}
	s.byHash.add(hash, i)
	return i
}

// drop forgets key i, unless a table or an index has a row of it.
func (s *keys[K]) drop(i uint32) {
	e := s.at(i)
	if e.rows > 0 {
		return
	}
	if !s.byHash.remove(s.hash(e.key), i) {
		panic(misuse(fmt.Sprintf("key %d, %v, is not where it belongs: it does not equal itself", i, e.key)))
	}
	s.give(i)
}
