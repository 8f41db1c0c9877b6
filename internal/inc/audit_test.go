package inc

import (
	"fmt"
	"math/bits"
	"reflect"
	"slices"
)

// kept is a node's bookkeeping.
type kept interface {
	live() int
	keyed() (space any, rows int)
	audit() error
	eachMeta(func(*meta))
}

func live(n node) int { return n.(kept).live() }

func (s *rows[K, V]) live() int { return s.given }

func (s *rows[K, V]) keyed() (space any, rows int) { return s.space, s.live() }

func (s *rows[K, V]) eachMeta(f func(*meta)) {
	for i := range s.all() {
		f(&s.at(i).meta)
	}
}

// audit checks that what is not given out is zero, or given back, and that each
// page with numbers to give out is known.
func (a *arena[T]) audit() error {
	given := 0
	var with, without int // pages with room: there, given back
	for page, used := range a.used {
		given += bits.OnesCount64(used)
		switch {
		case a.pages[page] == nil && used == 0 && page+1 < len(a.pages):
			without++
		case a.pages[page] == nil || used == 0:
			return fmt.Errorf("page %d of %d: %b are given out, there %t", page, len(a.pages), used, a.pages[page] != nil)
		case used != full:
			with++
		}
	}
	if given -= min(1, len(a.used)); given != a.given {
		return fmt.Errorf("%d numbers are given out, counted %d", given, a.given)
	}
	for n, page := range a.room.all() {
		if a.used[page] == full || (a.pages[page] != nil) != (n < with) || n >= with+without {
			return fmt.Errorf("page %d is %d. of those with room, of %d and %d", page, n, with, without)
		}
	}
	if n := len(a.room.all()); n != with+without {
		return fmt.Errorf("%d pages have room, %d are known", with+without, n)
	}
	return a.zero()
}

// zero checks that memory that is not given out is zero.
func (a *arena[T]) zero() error {
	clean := func(page *[pageSize]T, used uint64) error {
		for at := range pageSize {
			if page != nil && used&(1<<at) == 0 && !reflect.ValueOf(page).Elem().Index(at).IsZero() {
				return fmt.Errorf("%v holds memory though it is not needed", page[at])
			}
		}
		return nil
	}
	for page, used := range a.used {
		if err := clean(a.pages[page], used); err != nil {
			return err
		}
	}
	return clean(a.spare, 0)
}

// all are the numbers of a ring, in order.
func (r *ring) all() []uint32 {
	var out []uint32
	for i, ok := r.first(); ok; i, ok = r.links[i+1].next-1, r.links[i+1].next != 0 {
		out = append(out, i)
	}
	return out
}

// audit checks that each row kept is needed and can be found by its key.
func (s *rows[K, V]) audit() error {
	needed, here := 0, 0
	if err := s.arena.audit(); err != nil {
		return err
	}
	for i := range s.all() {
		r := s.at(i)
		if !r.needed() {
			return fmt.Errorf("row %d is kept though it is not needed", i)
		}
		needed++
		if r.flags&present != 0 {
			here++
		}
		if r.flags&(stale|touched) != 0 {
			return fmt.Errorf("row %v is dirty after the commit", s.key(i))
		}
		if r.flags&(late|queued) == late {
			return fmt.Errorf("row %v waits outside of the queue", s.key(i))
		}
		if s.find(s.key(i)) != i {
			return fmt.Errorf("row %v is lost", s.key(i))
		}
	}
	placed := 0
	for at, page := range s.places.pages {
		if page == nil {
			continue
		}
		before := placed
		for _, i := range page {
			placed += int(min(1, i))
		}
		if n := int(s.places.noted[at]); n == 0 || n != placed-before {
			return fmt.Errorf("page %d of places has %d, counted %d", at, placed-before, n)
		}
	}
	if needed != s.live() || here != s.n || placed != needed {
		return fmt.Errorf("%d rows needed, %d kept, %d placed; %d present, %d counted", needed, s.live(), placed, here, s.n)
	}
	return s.space.audit(needed)
}

// audit checks that a key of which there are rows can be found, and that no
// other is kept; n is how many of the rows are of one table or index.
func (s *keys[K]) audit(n int) error {
	if err := s.arena.audit(); err != nil {
		return err
	}
	for i := range s.all() {
		e := s.at(i)
		if e.rows == 0 {
			return fmt.Errorf("key %v is kept without rows", e.key)
		}
		if s.find(e.key) != i {
			return fmt.Errorf("key %v is lost", e.key)
		}
	}
	if s.given < n || s.byHash.n != s.given {
		return fmt.Errorf("%d keys for %d rows, %d hashes", s.given, n, s.byHash.n)
	}
	return nil
}

// audit checks the lists of groups besides.
func (x *Index[J, K, V]) audit() error {
	lists := 0
	for g := range x.all() {
		n := len(x.list(g))
		if x.at(g).flags&many != 0 {
			lists++
		}
		if (n > 1) != (x.at(g).flags&many != 0) || (n > 0) != (x.at(g).flags&present != 0) {
			return fmt.Errorf("group %d has %d rows, flags %b", g, n, x.at(g).flags)
		}
	}
	if kept := x.lists.given; kept != lists {
		return fmt.Errorf("%d groups have lists, %d are kept", lists, kept)
	}
	if err := x.lists.audit(); err != nil {
		return err
	}
	return x.rows.audit()
}

// waits checks that the queue names the rows that wait, and others only while
// some do.
func (t *Table[K, V]) waits() (int, error) {
	in, waiting := 0, 0
	for i := range t.all() {
		in += int(t.at(i).flags&queued) / int(queued)
		waiting += int(t.at(i).flags&late) / int(late)
	}
	if q := &t.queue; len(q.heap)+len(q.newest) != in || q.late != waiting || waiting == 0 && in > 0 {
		return 0, fmt.Errorf("%d rows wait, %d are queued; counted %d and %d", waiting, in, q.late, len(q.heap)+len(q.newest))
	}
	return waiting, nil
}

// audit checks that the bookkeeping of a graph between commits is whole, and
// that it holds nothing it does not need.
func audit(g *Graph) error {
	readers, reads, waiting := 0, 0, 0
	for _, t := range g.tables {
		n, err := t.(interface{ waits() (int, error) }).waits()
		if waiting += n; err != nil {
			return fmt.Errorf("%s: %w", t.label(), err)
		}
	}
	if waiting != g.Backlog() {
		return fmt.Errorf("%d rows wait, told %d", waiting, g.Backlog())
	}
	for _, n := range g.nodes {
		if err := n.(kept).audit(); err != nil {
			return fmt.Errorf("%s: %w", n.label(), err)
		}
		n.(kept).eachMeta(func(m *meta) {
			for i := m.readers; i != 0; i = g.edges.at(i).next {
				readers++
			}
			for i := m.reads; i != 0; i = g.edges.at(i).nextRead {
				reads++
			}
		})
	}
	if err := g.edges.audit(); err != nil {
		return err
	}
	if err := auditKeys(g); err != nil {
		return err
	}
	if kept := g.edges.given; readers != kept || reads != kept {
		return fmt.Errorf("%d dependencies kept, %d as readers, %d as reads", kept, readers, reads)
	}
	return nil
}

func (c *crowd) live() int {
	return len(slices.DeleteFunc(slices.Clone(c.sets), func(s readSet) bool { return s.n == 0 }))
}

func (c *crowd) keyed() (space any, rows int) { return nil, 0 }

// bits are the rows of a set.
func (s readSet) bits() []uint32 {
	return slices.Collect(s.each())
}

func (c *crowd) eachMeta(f func(*meta)) {
	for i := range c.sets {
		f(&c.sets[i].meta)
	}
}

// audit checks that each set counts the rows that share it, that no two are the
// same, and that one without rows is nothing.
func (c *crowd) audit() error {
	rows := map[uint8]int{}
	c.t.(kept).eachMeta(func(m *meta) { rows[m.set]++ })
	seen := map[string]bool{}
	for i, s := range c.sets {
		switch text := fmt.Sprint(s.reads); {
		case s.n != rows[uint8(i+1)] || s.n != len(s.bits()):
			return fmt.Errorf("set %d has %d rows, %d bits, counted %d", i+1, rows[uint8(i+1)], len(s.bits()), s.n)
		case s.n == 0 && !reflect.ValueOf(s).IsZero():
			return fmt.Errorf("set %d is kept without rows: %+v", i+1, s)
		case s.n > 0 && (len(s.reads) == 0 || seen[text]):
			return fmt.Errorf("set %d is empty or another one's: %s", i+1, text)
		case s.news != 0:
			return fmt.Errorf("set %d has news after the commit", i+1)
		default:
			seen[text] = true
		}
	}
	if c.heard || len(c.scratch) > 0 || len(c.sets) > c.limit {
		return fmt.Errorf("news %t, %d reads left, %d sets of %d", c.heard, len(c.scratch), len(c.sets), c.limit)
	}
	return nil
}

// auditKeys checks that each key counts its rows.
func auditKeys(g *Graph) error {
	rows := map[any]int{}
	for _, n := range g.nodes {
		if space, live := n.(kept).keyed(); space != nil {
			rows[space] += live
		}
	}
	if len(rows) != len(g.keys) {
		return fmt.Errorf("%d sets of keys for %d types", len(rows), len(g.keys))
	}
	for typ, space := range g.keys {
		if counted := space.(interface{ counted() int }).counted(); counted != rows[space] {
			return fmt.Errorf("keys of type %v count %d rows, there are %d", typ, counted, rows[space])
		}
	}
	return nil
}

func (s *keys[K]) counted() int {
	n := 0
	for i := range s.all() {
		n += int(s.at(i).rows)
	}
	return n
}
