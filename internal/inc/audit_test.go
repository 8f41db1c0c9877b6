package inc

import "fmt"

// kept is a node's bookkeeping.
type kept interface {
	live() int
	keyed() (space any, rows int)
	audit() error
	eachMeta(func(*meta))
}

func live(n node) int { return n.(kept).live() }

func (s *rows[K, V]) live() int { return int(s.last) - len(s.free) }

func (s *rows[K, V]) keyed() (space any, rows int) { return s.space, s.live() }

func (s *rows[K, V]) eachMeta(f func(*meta)) {
	for i := uint32(1); i <= s.last; i++ {
		f(&s.at(i).meta)
	}
}

// audit checks that each row kept is needed and can be found by its key.
func (s *rows[K, V]) audit() error {
	needed, here := 0, 0
	for i := uint32(1); i <= s.last; i++ {
		r := s.at(i)
		if !r.needed() {
			if fmt.Sprint(*r) != fmt.Sprint(row[V]{}) {
				return fmt.Errorf("row %d holds memory though it is not needed", i)
			}
			continue
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
	for _, page := range s.places {
		if page != nil {
			for _, i := range page {
				placed += int(min(1, i))
			}
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
	live := 0
	for i := uint32(1); i <= s.last; i++ {
		e := s.at(i)
		if e.rows == 0 {
			if fmt.Sprint(*e) != fmt.Sprint(keyed[K]{}) {
				return fmt.Errorf("key %v is kept without rows", e.key)
			}
			continue
		}
		live++
		if s.find(e.key) != i {
			return fmt.Errorf("key %v is lost", e.key)
		}
	}
	if kept := int(s.last) - len(s.free); live != kept || live < n {
		return fmt.Errorf("%d keys have rows, %d are kept, for %d rows", live, kept, n)
	}
	return nil
}

// audit checks the lists of groups besides.
func (x *Index[J, K, V]) audit() error {
	lists := 0
	for g := uint32(1); g <= x.last; g++ {
		n := len(x.list(g))
		if x.at(g).flags&many != 0 {
			lists++
		}
		if (n > 1) != (x.at(g).flags&many != 0) || (n > 0) != (x.at(g).flags&present != 0) {
			return fmt.Errorf("group %d has %d rows, flags %b", g, n, x.at(g).flags)
		}
	}
	if kept := int(x.lists.last) - len(x.lists.free); kept != lists {
		return fmt.Errorf("%d groups have lists, %d are kept", lists, kept)
	}
	return x.rows.audit()
}

// waits checks that the queue names the rows that wait, and others only while
// some do.
func (t *Table[K, V]) waits() (int, error) {
	in, waiting := 0, 0
	for i := uint32(1); i <= t.last; i++ {
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
	if err := auditKeys(g); err != nil {
		return err
	}
	if kept := int(g.edges.last) - len(g.edges.free); readers != kept || reads != kept {
		return fmt.Errorf("%d dependencies kept, %d as readers, %d as reads", kept, readers, reads)
	}
	return nil
}

// auditKeys checks that each key counts its rows.
func auditKeys(g *Graph) error {
	rows := map[any]int{}
	for _, n := range g.nodes {
		space, live := n.(kept).keyed()
		rows[space] += live
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
	for i := uint32(1); i <= s.last; i++ {
		n += int(s.at(i).rows)
	}
	return n
}
