package inc

import (
	"fmt"
	"math/bits"
)

// Cell is a row of any table, or a group of an index, as Graph.Scan hands it
// out. What is in it never changes, so whoever has it may read it later.
type Cell struct {
	Key   any
	Value any    // nil: it is absent, or a group
	Fault string // what its function panicked with last; empty: nothing
}

// Scan calls f with rows, in no order. It begins where the Scan before it said,
// at 0 at first, looks at most rows at most, though always at a page of them,
// and returns where to go on; 0: that was the last. So a table can be read in
// steps, with commits between them: a row that is there all the time is handed
// out, once, and one that comes or goes meanwhile may be.
func (t *Table[K, V]) Scan(from uint32, most int, f func(K, V)) (next uint32) {
	t.g.outside(t.id)
	return t.some(from, most, func(i uint32) {
		if row := t.at(i); row.flags&present != 0 {
			f(t.key(i), row.val)
		}
	})
}

// Scan is Table.Scan for the table of a name. Of an index it hands out the groups.
func (g *Graph) Scan(name string, from uint32, most int, f func(Cell)) (next uint32, err error) {
	n := g.names[name]
	if n == nil {
		return 0, fmt.Errorf("inc: no table %q", name)
	}
	return n.scan(from, most, f), nil
}

func (t *Table[K, V]) scan(from uint32, most int, f func(Cell)) uint32 {
	return t.some(from, most, func(i uint32) {
		row := t.at(i)
		if row.flags&(present|faulted) == 0 {
			return
		}
		c := Cell{Key: t.key(i)}
		if row.flags&present != 0 {
			c.Value = row.val
		}
		if row.flags&faulted != 0 {
			c.Fault = t.faults.get(i).value
		}
		f(c)
	})
}

func (x *Index[J, K, V]) scan(from uint32, most int, f func(Cell)) uint32 {
	return x.some(from, most, func(g uint32) {
		if x.at(g).flags&present != 0 {
			f(Cell{Key: x.key(g)})
		}
	})
}

// some calls f with numbers given out, from a number on, and returns where to go
// on, 0 at the end. Pages that were given back count as a number, too: nothing of
// this grows with the arena.
func (a *arena[T]) some(from uint32, most int, f func(uint32)) uint32 {
	for first := from >> pageBits; int(from>>pageBits) < len(a.used); {
		page := from >> pageBits
		used := a.used[page] & (full << (from & (pageSize - 1)))
		if page == 0 {
			used &^= 1
		}
		if most -= max(bits.OnesCount64(used), 1); most < 0 && page > first {
			return from
		}
		for ; used != 0; used &= used - 1 {
			f(page<<pageBits | uint32(bits.TrailingZeros64(used)))
		}
		from = (page + 1) << pageBits
	}
	return 0
}
