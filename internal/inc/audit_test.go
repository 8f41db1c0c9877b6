package inc

import "fmt"

// kept is a node's bookkeeping.
type kept interface {
	live() int
	audit() error
	eachMeta(func(*meta))
}

func live(n node) int { return n.(kept).live() }

func (s *rows[K, V]) live() int { return int(s.last) - len(s.free) }

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
			if fmt.Sprint(*r) != fmt.Sprint(row[K, V]{}) {
				return fmt.Errorf("row %v holds memory though it is not needed", r.key)
			}
			continue
		}
		needed++
		if r.flags&present != 0 {
			here++
		}
		if r.flags&(stale|touched) != 0 {
			return fmt.Errorf("row %v is dirty after the commit", r.key)
		}
		if r.flags&(late|queued) == late {
			return fmt.Errorf("row %v waits outside of the queue", r.key)
		}
		if s.find(r.key) != i {
			return fmt.Errorf("row %v is lost", r.key)
		}
	}
	if needed != s.live() || here != s.n {
		return fmt.Errorf("%d rows needed, %d kept; %d present, %d counted", needed, s.live(), here, s.n)
	}
	return nil
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
	if kept := int(g.edges.last) - len(g.edges.free); readers != kept || reads != kept {
		return fmt.Errorf("%d dependencies kept, %d as readers, %d as reads", kept, readers, reads)
	}
	return nil
}
