package inc

import "slices"

// keepDirty is the longest list of dirty rows whose memory is kept for the
// next commit: a large first load must not be held, or paid for, for ever.
const keepDirty = 1024

// Derive declares a table with a row for each key of its sources for which f
// reports true. A source gives keys only; f reads values like any other, with
// Get. f must be pure: it may read tables declared earlier, through its
// Reader, and nothing else.
func Derive[K Key[K], V Value[V]](g *Graph, name string, f func(*Reader, K) (V, bool), from ...Keys[K]) *Table[K, V] {
	if len(from) == 0 {
		panic(misuse(name + " has no source of keys"))
	}
	for _, s := range from {
		if other, _ := s.of(); other != g {
			panic(misuse(name + " takes its keys from another graph"))
		}
	}
	t := newTable[K, V](g, name)
	t.compute, t.sources = f, from
	for _, s := range from {
		s.feed(t)
	}
	return t
}

func (t *Table[K, V]) touch(key uint32) { t.flag(t.row(key), touched) }

func (t *Table[K, V]) mark(row uint32, from uint16) {
	if t.queue.patient(from) {
		t.postpone(row)
	} else {
		t.flag(row, stale)
	}
}

func (t *Table[K, V]) flag(i uint32, why uint8) {
	row := t.at(i)
	if row.flags&(stale|touched) == 0 {
		t.dirty = append(t.dirty, i)
		t.g.work.add(t.order)
	}
	row.flags |= why
}

// stepDerived evaluates the dirty rows, and some of those that wait. No row
// gets dirty meanwhile: only earlier tables mark this one.
func (t *Table[K, V]) stepDerived() {
	t.gather()
	t.takeLate()
	dirty := t.dirty
	if len(t.watch) > 0 { // nobody else learns in which order rows were evaluated
		sortRuns(dirty, t.compare)
	}
	for _, i := range dirty {
		t.refresh(i)
		t.drop(i)
	}
	if t.queue.late == 0 {
		t.unqueueAll()
	} else {
		t.g.work.add(t.order) // of the next commit
	}
	if t.dirty = dirty[:0]; cap(dirty) > keepDirty {
		t.dirty = nil
	}
}

func (t *Table[K, V]) refresh(i uint32) {
	row := t.at(i)
	was := row.flags
	row.flags &^= stale | touched | fed | late
	if was&late != 0 {
		t.queue.late--
		t.g.wait.rows--
	}
	if !slices.ContainsFunc(t.sources, func(s Keys[K]) bool { return s.has(row.key) }) {
		t.g.unlink(&row.meta)
		t.update(i, absent)
		return
	}
	row.flags |= fed
	if was&fed != 0 && was&(stale|late) == 0 {
		return // another source has the key now
	}
	t.g.unlink(&row.meta)
	t.evals++
	t.g.stats.Evaluated++
	t.update(i, t.compute)
}

func absent[K, V any](*Reader, K) (v V, ok bool) { return v, false }
