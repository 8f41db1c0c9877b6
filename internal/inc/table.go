package inc

import "slices"

// Table maps keys to values.
type Table[K Key[K], V Value[V]] struct {
	rows[K, V]
	g       *Graph
	id      int
	order   int // among tables
	name    string
	compute func(*Reader, K) (V, bool) // nil: an input
	sources []Keys[K]
	staged  []write[V] // inputs: what this commit wrote, in order of writing
	dirty   []uint32   // derived: rows that carry stale or touched
	queue   queue      // derived: rows that wait
	crowd   *crowd     // derived: reads that rows share; nil: none
	feeds   []sink[K]
	indexes []index[K, V]
	watch   []func([]Change[K, V])
	changes []Change[K, V] // of this commit, if watched
	faults  dict[panicked]
	evals   int
}

// Keys is what a derived table can take its keys from: a table, or an index
// (the groups that have rows).
type Keys[K Key[K]] interface {
	has(key uint32) bool
	feed(sink[K])
	of() (*Graph, int)
}

// sink is a derived table, as the sources of its keys see it.
type sink[K Key[K]] interface {
	takes() *keys[K] // of the graph, as all its tables and indexes with such keys
	touch(key uint32)
}

// write is one Set, Delete or Edit of an input.
type write[V any] struct {
	row  uint32
	ok   bool
	val  V
	edit func(old V, ok bool) (V, bool) // nil: val and ok say what the row is
}

func newTable[K Key[K], V Value[V]](g *Graph, name string) *Table[K, V] {
	t := &Table[K, V]{g: g, name: name, rows: newRows[K, V](g)}
	t.id, t.order = g.declare(t, name), len(g.tables)
	g.tables = append(g.tables, t)
	return t
}

// Input declares a table that the caller writes. Names are unique in a graph.
func Input[K Key[K], V Value[V]](g *Graph, name string) *Table[K, V] {
	return newTable[K, V](g, name)
}

// Set writes a row of an input table.
func (t *Table[K, V]) Set(tx *Tx, k K, v V) { t.stage(tx, k, write[V]{ok: true, val: v}) }

// Delete removes a row of an input table; it need not exist.
func (t *Table[K, V]) Delete(tx *Tx, k K) { t.stage(tx, k, write[V]{}) }

// Edit writes a row as f makes it of what it is after the writes before in this
// commit; false: absent. f must be pure, and is called at the end of the commit.
func (t *Table[K, V]) Edit(tx *Tx, k K, f func(old V, ok bool) (V, bool)) {
	t.stage(tx, k, write[V]{edit: f})
}

func (t *Table[K, V]) stage(tx *Tx, k K, w write[V]) {
	if t.compute != nil {
		panic(misuse(t.name + " is derived: it cannot be written"))
	}
	if tx == nil || tx.g != t.g {
		panic(misuse(t.name + " is written outside its commit"))
	}
	w.row = t.need(k)
	t.at(w.row).flags |= touched
	t.staged = append(t.staged, w)
	t.g.work.add(t.order)
}

// Get returns the row at k. A change of that row, or its appearance, will
// recompute the row r belongs to.
func (t *Table[K, V]) Get(r *Reader, k K) (V, bool) {
	var i uint32
	if t.g.records(r, t.id) {
		i = t.need(k)
		t.g.note(r, t.id, i)
	} else {
		i = t.find(k)
	}
	if i == 0 {
		var none V
		return none, false
	}
	row := t.at(i)
	return row.val, row.flags&present != 0
}

// Keys returns the keys of all rows in order. It records nothing: it is for
// snapshots, outside derivations.
func (t *Table[K, V]) Keys() []K {
	t.g.outside(t.id)
	return t.keys()
}

// Len is the number of rows. It records nothing, like Keys.
func (t *Table[K, V]) Len() int {
	t.g.outside(t.id)
	return t.n
}

// Watch calls f after each commit that changed the table, with the changes in
// key order. By then all tables are up to date.
func (t *Table[K, V]) Watch(f func([]Change[K, V])) { t.watch = append(t.watch, f) }

func (t *Table[K, V]) has(k uint32) bool { return t.holds(k) }
func (t *Table[K, V]) takes() *keys[K]   { return t.space }
func (t *Table[K, V]) feed(s sink[K])    { t.feeds = append(t.feeds, s) }
func (t *Table[K, V]) of() (*Graph, int) { return t.g, t.id }
func (t *Table[K, V]) label() string     { return t.name }
func (t *Table[K, V]) rank() int         { return t.order }

func (t *Table[K, V]) patient(from uint16) bool { return t.queue.patient(from) }

func (t *Table[K, V]) step() {
	if t.compute == nil {
		t.stepInput()
	} else {
		t.stepDerived()
	}
	if changes := t.changes; len(changes) > 0 {
		t.changes = nil
		for _, f := range t.watch {
			t.g.publish = append(t.g.publish, func() { f(changes) })
		}
	}
}

func (t *Table[K, V]) stepInput() {
	staged := t.inOrder(t.staged)
	t.staged = nil
	for n, first := 0, 0; n < len(staged); n++ {
		i := staged[n].row
		if n+1 < len(staged) && staged[n+1].row == i {
			continue
		}
		t.at(i).flags &^= touched
		t.update(i, func(*Reader, K) (V, bool) { return t.written(i, staged[first:n+1]) })
		t.drop(i)
		first = n + 1
	}
}

// inOrder returns writes in the order of their keys, those of one row in the
// order in which they were made. Each is moved at most once: they are large.
func (t *Table[K, V]) inOrder(staged []write[V]) []write[V] {
	if slices.IsSortedFunc(staged, func(a, b write[V]) int { return t.compare(a.row, b.row) }) {
		return staged
	}
	order := make([]uint32, len(staged))
	for i := range order {
		order[i] = uint32(i)
	}
	sortRuns(order, func(a, b uint32) int { return t.compare(staged[a].row, staged[b].row) })
	out := make([]write[V], len(staged))
	for n, i := range order {
		out[n] = staged[i]
	}
	return out
}

// written is what row i is after writes, in order.
func (t *Table[K, V]) written(i uint32, writes []write[V]) (V, bool) {
	row := t.at(i)
	val, ok := row.val, row.flags&present != 0
	for _, w := range writes {
		if w.edit != nil {
			val, ok = w.edit(val, ok)
		} else {
			val, ok = w.val, w.ok
		}
	}
	return val, ok
}

// set gives row i a new value, or none, and marks all that depends on it.
func (t *Table[K, V]) set(i uint32, val V, ok bool) {
	row := t.at(i)
	old, had := row.val, row.flags&present != 0
	row.val = val
	row.flags |= present
	if !ok {
		row.flags &^= present
	}
	for _, x := range t.indexes {
		x.apply(i)
	}
	t.g.changed(&row.meta)
	if had != ok {
		t.n += count(ok) - count(had)
		for _, s := range t.feeds {
			s.touch(row.key)
		}
	}
	t.g.stats.Changed++
	if len(t.watch) > 0 {
		t.changes = append(t.changes, Change[K, V]{t.key(i), pointer(old, had), pointer(val, ok)})
	}
}

func count(b bool) int {
	if b {
		return 1
	}
	return 0
}

func pointer[V any](v V, ok bool) *V {
	if !ok {
		return nil
	}
	return &v
}
