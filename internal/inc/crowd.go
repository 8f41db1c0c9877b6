package inc

import (
	"fmt"
	"iter"
	"math/bits"
	"slices"
)

// Some rows are read by very many: a class by all of its hosts, a member by all
// that is there. An edge for each of those reads would be most of what a program
// keeps. So a table may be told of which tables its rows read alike: what one
// evaluation reads of those is a set, which all rows that read the same share.
//
// A set knows its rows by a bit for each row of the table: with all of its sets
// a table pays at most 32 bytes a row, and a change finds the rows that read it
// at the cost of 1/64 of the table's.

// Shared lets rows of t share what they read of these tables and indexes. It is
// for what most rows of t read alike, or a change of which concerns many.
func Shared[K Key[K], V Value[V]](t *Table[K, V], of ...News) {
	if t.compute == nil || t.g.began || t.crowd != nil {
		panic(misuse(t.name + " can't share reads: it is an input, does so already, or the first commit was made"))
	}
	c := &crowd{g: t.g, t: t, limit: mostSets}
	for _, n := range of {
		if g, at := n.of(); g != t.g || at >= t.id {
			panic(misuse(t.name + " shares reads of " + n.label() + ", which is not declared before it"))
		}
		c.nodes = append(c.nodes, uint16(slices.Index(t.g.nodes, node(n))))
	}
	c.id = t.g.declare(c, "shared reads of "+t.name)
	t.crowd = c
}

// mostSets bounds the sets of a table, so that meta.set holds their numbers and
// finding one is cheap. What does not fit is read by edges.
const mostSets = 255

// crowd is the sets of reads that rows of a table share. To what is read, a set
// is a row that read it.
type crowd struct {
	g       *Graph
	id      int
	t       table
	nodes   []uint16 // whose rows are read so
	limit   int
	sets    []readSet // from number 1
	last    uint8     // the set that was asked for last
	heard   bool      // some set has news
	scratch []readRow // what the present evaluation read
}

// readSet is one of them; without rows, it is nothing.
type readSet struct {
	meta
	reads []readRow // sorted, each once
	rows  []uint64  // that share it, as bits
	n     int       // of them
	news  uint8     // stale or late, when something it read has changed
}

// readRow is a row of a node.
type readRow struct {
	row  uint32
	node uint16
}

func (a readRow) compare(b readRow) int {
	if a.node != b.node {
		return int(a.node) - int(b.node)
	}
	return int(int64(a.row) - int64(b.row))
}

// shares notes a read of the present evaluation, if it is one to share.
func (c *crowd) shares(node int, row uint32) bool {
	if c == nil || !slices.Contains(c.nodes, uint16(node)) {
		return false
	}
	if p := (readRow{row, uint16(node)}); !slices.Contains(c.scratch, p) {
		c.scratch = append(c.scratch, p)
	}
	return true
}

// settle gives a row what its evaluation read, in place of what it read before.
func (c *crowd) settle(r *Reader, row *meta) {
	if c == nil {
		return
	}
	slices.SortFunc(c.scratch, readRow.compare)
	was, now := row.set, c.find(c.scratch)
	if now == 0 {
		for _, p := range c.scratch {
			c.g.link(r, int(p.node), p.row)
		}
	}
	if c.scratch = c.scratch[:0]; now == was {
		return
	}
	if row.set = now; now != 0 {
		c.join(now, r.row)
	}
	if was != 0 {
		c.leave(was, r.row)
	}
}

// find returns the set of some reads, and makes it if there is none. 0: there
// are no reads, or too many sets.
func (c *crowd) find(reads []readRow) uint8 {
	if len(reads) == 0 {
		return 0
	}
	same := func(s readSet) bool { return slices.Equal(s.reads, reads) }
	if c.last != 0 && same(c.sets[c.last-1]) {
		return c.last
	}
	at := slices.IndexFunc(c.sets, same)
	if at < 0 {
		if at = c.add(reads); at < 0 {
			return 0
		}
	}
	c.last = uint8(at + 1)
	return c.last
}

func (c *crowd) add(reads []readRow) int {
	at := slices.IndexFunc(c.sets, func(s readSet) bool { return s.n == 0 })
	if at < 0 {
		if len(c.sets) >= c.limit {
			return -1
		}
		at = len(c.sets)
		c.sets = append(c.sets, readSet{})
	}
	c.sets[at].reads = slices.Clone(reads)
	r := &Reader{g: c.g, node: c.id, row: uint32(at + 1)}
	for _, p := range reads {
		c.g.link(r, int(p.node), p.row)
	}
	return at
}

// join has a row share a set.
func (c *crowd) join(set uint8, row uint32) {
	s := &c.sets[set-1]
	for uint32(len(s.rows)) <= row/64 {
		s.rows = append(s.rows, 0)
	}
	s.rows[row/64] |= 1 << (row % 64)
	s.n++
}

// leave forgets that a row shares a set, and the set with its last row.
func (c *crowd) leave(set uint8, row uint32) {
	s := &c.sets[set-1]
	s.rows[row/64] &^= 1 << (row % 64)
	if s.n--; s.n > 0 {
		return
	}
	c.g.unlink(&s.meta)
	*s = readSet{}
}

// mark notes that something a set read has changed.
func (c *crowd) mark(set uint32, from uint16) {
	why := stale
	if c.t.patient(from) {
		why = late
	}
	c.sets[set-1].news |= why
	c.heard = true
	c.g.work.add(c.t.rank())
}

// gather marks the rows of sets that have news.
func (t *Table[K, V]) gather() {
	c := t.crowd
	if c == nil || !c.heard {
		return
	}
	c.heard = false
	for n := range c.sets {
		s := &c.sets[n]
		if s.news == 0 {
			continue
		}
		for i := range s.each() {
			if s.news&stale != 0 {
				t.flag(i, stale)
			} else {
				t.postpone(i)
			}
		}
		s.news = 0
	}
	t.g.work.remove(t.order) // it is being stepped
}

// each are the rows that share the set.
func (s *readSet) each() iter.Seq[uint32] {
	return func(yield func(uint32) bool) {
		for word, rows := range s.rows {
			for ; rows != 0; rows &= rows - 1 {
				if !yield(uint32(word*64 + bits.TrailingZeros64(rows))) {
					return
				}
			}
		}
	}
}

func (c *crowd) meta(set uint32) *meta  { return &c.sets[set-1].meta }
func (c *crowd) drop(uint32)            {}
func (c *crowd) label() string          { return "shared reads of " + c.t.label() }
func (c *crowd) text(set uint32) string { return fmt.Sprint(c.sets[set-1].reads) }

func (c *crowd) why(any, int) []Read                        { return nil } // no caller knows its name
func (c *crowd) scan(uint32, int, func(Cell)) (next uint32) { return 0 }
