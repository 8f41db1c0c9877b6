package cluster

import (
	"hash/maphash"
	"slices"

	"github.com/spillway-dev/spillway/internal/inc"
)

// kind is what nearly every object of a resource gives: one row of a table, and
// perhaps some of another. Of such an object its name and hashes are kept.
type kind interface {
	// pack is the short form of an object's facts, if they have one.
	pack(n name, facts []fact) packed
	// bare are the facts of a short form, without their values.
	bare(n name, p packed) []fact
}

// packed is the short form of an object.
type packed struct {
	ok bool
	part
	more []part // in the order of the object's facts
}

// part is the short form of a row.
type part struct {
	also string // what the row's key has and the object's name does not tell
	sum  uint64 // of the row's value
}

// seed is of this process: nobody can make two values with equal sums.
var seed = maphash.MakeSeed()

// kindOf is a kind whose keys are made of names.
type kindOf[K inc.Key[K], V inc.Value[V]] struct {
	table *inc.Table[K, V]
	key   func(n name, also string) K
	also  func(K) string
	sum   func(*maphash.Hash, V) // of all that Equal looks at
}

func (c kindOf[K, V]) pack(n name, facts []fact) packed {
	if len(facts) != 1 {
		return packed{}
	}
	r, ok := facts[0].(row[K, V])
	if !ok || r.table != c.table {
		return packed{}
	}
	also := c.also(r.k)
	return packed{ok: c.key(n, also) == r.k, part: part{also, c.hash(r.v)}}
}

func (c kindOf[K, V]) hash(v V) uint64 {
	var h maphash.Hash
	h.SetSeed(seed)
	c.sum(&h, v)
	return h.Sum64()
}

func (c kindOf[K, V]) bare(n name, p packed) []fact {
	return []fact{sumOf[K, V]{rowKey[K, V]{c.table, c.key(n, p.also)}, p.sum, c.hash}}
}

// sumOf is a row of which only the hash is known.
type sumOf[K inc.Key[K], V inc.Value[V]] struct {
	rowKey[K, V]
	sum  uint64
	hash func(V) uint64
}

func (s sumOf[K, V]) equal(o fact) bool {
	r, ok := o.(row[K, V])
	return ok && r.at() == s.rowKey && s.hash(r.v) == s.sum
}

// withParts is a kind whose objects have rows of another one beside the first.
type withParts struct{ first, parts kind }

func (c withParts) pack(n name, facts []fact) packed {
	if len(facts) == 0 {
		return packed{}
	}
	out := c.first.pack(n, facts[:1])
	for i := 1; i < len(facts) && out.ok; i++ {
		p := c.parts.pack(n, facts[i:i+1])
		out.ok = p.ok
		out.more = append(out.more, p.part)
	}
	return out
}

func (c withParts) bare(n name, p packed) []fact {
	out := c.first.bare(n, p)
	for _, part := range p.more {
		out = append(out, c.parts.bare(n, packed{part: part})...)
	}
	return out
}

// shelf keeps what is known of objects by name.
type shelf struct {
	kind  kind              // nil: none has a short form
	first map[uint32]uint32 // hash of a name -> number of an object, the others by next
	short []short           // number 1 is short[0]
	more  map[uint32][]part // by number: of objects that have some
	free  uint32            // a number that nobody has, the others by next
	whole map[name]*whole   // objects that have no short form
	round uint32
	load  load             // of all objects
	loads map[string]*load // of those of some namespaces; nil: they are not counted apart
}

// short is an object in short form: 72 bytes, since a fleet has many.
type short struct {
	n name
	part
	next   uint32
	round  uint32 // when it was last marked
	weight weight
}

// whole is an object with all its facts.
type whole struct {
	facts  []fact
	round  uint32
	weight weight
}

func newShelf(k kind) shelf {
	return shelf{kind: k, first: map[uint32]uint32{}, more: map[uint32][]part{}, whole: map[name]*whole{}}
}

// packedAs is the short form of facts, if a kind has one.
func packedAs(k kind, n name, facts []fact) packed {
	if k == nil {
		return packed{}
	}
	return k.pack(n, facts)
}

// count adds an object to what there is.
func (s *shelf) count(n name, w weight) {
	s.load.add(w)
	s.countIn(n, w)
}

// countIn adds it to what there is of its namespace, if that is counted apart.
func (s *shelf) countIn(n name, w weight) {
	if l := s.loads[n.namespace]; l != nil {
		l.add(w)
	}
}

// uncount takes it away.
func (s *shelf) uncount(n name, w weight) {
	s.load.remove(w)
	if l := s.loads[n.namespace]; l != nil {
		l.remove(w)
	}
}

// loadOf is that of a namespace which is counted apart; empty: of all.
func (s *shelf) loadOf(namespace string) load {
	if namespace == "" {
		return s.load
	}
	if l := s.loads[namespace]; l != nil {
		return *l
	}
	return load{}
}

// room makes room for a number of objects on an empty shelf.
func (s *shelf) room(n int) {
	if s.kind == nil || len(s.short) > 0 {
		return
	}
	s.short, s.first = make([]short, 0, n), make(map[uint32]uint32, n)
}

func hashOf(n name) uint32 { return uint32(maphash.Comparable(seed, n)) }

func (s *shelf) at(i uint32) *short { return &s.short[i-1] }

// find returns the number of an object in short form, 0 if it is not there in
// this form.
func (s *shelf) find(n name) uint32 {
	i := s.first[hashOf(n)]
	for i != 0 && s.at(i).n != n {
		i = s.at(i).next
	}
	return i
}

// facts are those of an object, and whether it is there.
func (s *shelf) facts(n name) ([]fact, bool) {
	if i := s.find(n); i != 0 {
		return s.kind.bare(n, packed{part: s.at(i).part, more: s.more[i]}), true
	}
	if o := s.whole[n]; o != nil {
		return o.facts, true
	}
	return nil, false
}

// same reports whether an object gives what it gave before.
func (s *shelf) same(n name, facts []fact, p packed) bool {
	if p.ok {
		i := s.find(n)
		return i != 0 && s.at(i).part == p.part && slices.Equal(s.more[i], p.more)
	}
	old := s.whole[n]
	if old == nil || len(old.facts) != len(facts) {
		return false
	}
	for _, f := range facts {
		if was := find(old.facts, f); was == nil || !was.equal(f) {
			return false
		}
	}
	return true
}

// put keeps an object in place of what was known of it.
func (s *shelf) put(n name, facts []fact, p packed, w weight) {
	if !p.ok {
		s.drop(n)
		s.whole[n] = &whole{facts, s.round, w}
		s.count(n, w)
		return
	}
	i := s.find(n)
	if i == 0 {
		s.drop(n)
		i = s.add(n)
	} else {
		s.uncount(n, s.at(i).weight)
	}
	s.count(n, w)
	o := s.at(i)
	o.part, o.round, o.weight = p.part, s.round, w
	if delete(s.more, i); len(p.more) > 0 {
		s.more[i] = slices.Clip(p.more)
	}
}

func (s *shelf) add(n name) uint32 {
	i := s.free
	if i != 0 {
		s.free = s.at(i).next
	} else {
		s.short = append(s.short, short{})
		i = uint32(len(s.short))
	}
	hash := hashOf(n)
	*s.at(i) = short{n: n, next: s.first[hash]}
	s.first[hash] = i
	return i
}

// drop forgets an object; it need not be there.
func (s *shelf) drop(n name) {
	if o := s.whole[n]; o != nil {
		s.uncount(n, o.weight)
		delete(s.whole, n)
		return
	}
	hash := hashOf(n)
	before := uint32(0)
	for i := s.first[hash]; i != 0; before, i = i, s.at(i).next {
		if s.at(i).n != n {
			continue
		}
		switch next := s.at(i).next; {
		case before != 0:
			s.at(before).next = next
		case next != 0:
			s.first[hash] = next
		default:
			delete(s.first, hash)
		}
		delete(s.more, i)
		s.uncount(n, s.at(i).weight)
		*s.at(i) = short{next: s.free}
		s.free = i
		return
	}
}

// shrink gives back the room of objects that are gone, where at most a part of them is
// there: one of so many.
func (s *shelf) shrink(of int) {
	if len(s.first)*of > len(s.short) {
		return
	}
	old := *s
	s.short, s.first, s.more, s.free = nil, map[uint32]uint32{}, map[uint32][]part{}, 0
	s.room(len(old.first))
	for _, i := range old.first {
		for ; i != 0; i = old.at(i).next {
			o := *old.at(i)
			at := s.add(o.n)
			s.at(at).part, s.at(at).round, s.at(at).weight = o.part, o.round, o.weight
			if more := old.more[i]; more != nil {
				s.more[at] = more
			}
		}
	}
}

// all calls yield for every object, in no order.
func (s *shelf) all(yield func(n name, round uint32) bool) {
	for n, o := range s.whole {
		if !yield(n, o.round) {
			return
		}
	}
	for _, i := range s.first {
		for ; i != 0; i = s.at(i).next {
			if !yield(s.at(i).n, s.at(i).round) {
				return
			}
		}
	}
}

// mark says that an object is there in this round, and what it weighs.
func (s *shelf) mark(n name, w weight) {
	round, was := s.marks(n)
	if round == nil {
		return
	}
	s.uncount(n, *was)
	s.count(n, w)
	*round, *was = s.round, w
}

// marks are what an object is marked with, nil if it is not there.
func (s *shelf) marks(n name) (*uint32, *weight) {
	if i := s.find(n); i != 0 {
		return &s.at(i).round, &s.at(i).weight
	}
	if o := s.whole[n]; o != nil {
		return &o.round, &o.weight
	}
	return nil, nil
}

// names are those of some objects, sorted.
func (s *shelf) names(some func(n name, round uint32) bool) []name {
	var out []name
	for n, round := range s.all {
		if some(n, round) {
			out = append(out, n)
		}
	}
	slices.SortFunc(out, name.compare)
	return out
}

// every object is there.
func every(name, uint32) bool { return true }
