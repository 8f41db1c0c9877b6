package inc

import (
	"fmt"
	"math"
	"slices"
)

const maxNode = math.MaxUint16

// edge is one dependency: row to read row from. It is in two lists: the
// readers of from, doubly linked, and the reads of to.
type edge struct {
	from, to         uint32 // rows
	fromNode, toNode uint16
	prev, next       uint32 // in the readers of from
	nextRead         uint32 // in the reads of to
}

// Reader is given to a derivation. Reading through it records what was read,
// so that the row is recomputed when that changes. It is good for that one
// call. A nil Reader reads without recording, outside derivations only.
type Reader struct {
	g    *Graph
	node int
	row  uint32 // 0: no evaluation is going on
	with *crowd // nil: its rows share no reads
}

// records checks that r may read the table at place from, and tells whether to
// record what it reads.
func (g *Graph) records(r *Reader, from int) bool {
	if r == nil {
		g.outside(from)
		return false
	}
	if r.row == 0 || r.g != g {
		panic(misuse("read of " + g.nodes[from].label() + " through a Reader of another graph or past evaluation"))
	}
	if from >= r.node {
		panic(misuse(fmt.Sprintf("%s reads %s, which is not declared before it", g.nodes[r.node].label(), g.nodes[from].label())))
	}
	return true
}

// outside checks that no evaluation is going on: it would miss a dependency.
func (g *Graph) outside(from int) {
	if g.reader.row != 0 {
		panic(misuse(fmt.Sprintf("%s reads %s without its Reader", g.nodes[g.reader.node].label(), g.nodes[from].label())))
	}
}

// note records a read of the row being evaluated: with others, or by an edge.
func (g *Graph) note(r *Reader, fromNode int, from uint32) {
	if !r.with.shares(fromNode, from) {
		g.link(r, fromNode, from)
	}
}

// link records that the row being evaluated read a row. It pushes on the front
// of the readers, so a second read of the same row in one evaluation finds its
// edge there.
func (g *Graph) link(r *Reader, fromNode int, from uint32) {
	source, self := g.nodes[fromNode].meta(from), g.nodes[r.node].meta(r.row)
	if source.readers != 0 {
		first := g.edges.at(source.readers)
		if first.to == r.row && int(first.toNode) == r.node {
			return
		}
	}
	i := g.edges.take()
	*g.edges.at(i) = edge{
		from: from, to: r.row, fromNode: uint16(fromNode), toNode: uint16(r.node),
		next: source.readers, nextRead: self.reads,
	}
	if source.readers != 0 {
		g.edges.at(source.readers).prev = i
	}
	source.readers, self.reads = i, i
}

// unlink forgets what a row read.
func (g *Graph) unlink(self *meta) {
	for i := self.reads; i != 0; {
		e := *g.edges.at(i)
		g.edges.give(i)
		if e.next != 0 {
			g.edges.at(e.next).prev = e.prev
		}
		if e.prev != 0 {
			g.edges.at(e.prev).next = e.next
		} else {
			source := g.nodes[e.fromNode]
			if source.meta(e.from).readers = e.next; e.next == 0 {
				source.drop(e.from)
			}
		}
		i = e.nextRead
	}
	self.reads = 0
}

// changed marks the readers of a row.
func (g *Graph) changed(source *meta) {
	for i := source.readers; i != 0; {
		e := g.edges.at(i)
		g.nodes[e.toNode].mark(e.to, e.fromNode)
		i = e.next
	}
}

// Read names a row that another row read: a key of a table, or a group of an index.
type Read struct{ Table, Key string }

// reads lists what row i read: what it shares with others, then the rest, first
// read first, most at most.
func (t *Table[K, V]) reads(i uint32, most int) []Read {
	self := t.meta(i)
	var out []Read
	if self.set != 0 {
		out = t.g.readsOf(t.crowd.meta(uint32(self.set)), most)
	}
	return append(out, t.g.readsOf(self, most-len(out))...)
}

// readsOf lists what a row read, first read first, most at most.
func (g *Graph) readsOf(self *meta, most int) []Read {
	var all []uint32
	for i := self.reads; i != 0; i = g.edges.at(i).nextRead {
		all = append(all, i)
	}
	slices.Reverse(all)
	var out []Read
	for _, i := range first(all, most) {
		e := g.edges.at(i)
		source := g.nodes[e.fromNode]
		out = append(out, Read{source.label(), source.text(e.from)})
	}
	return out
}
