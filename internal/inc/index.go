package inc

import (
	"fmt"
	"slices"
)

// Index groups the rows of a table by other keys. A row may be in any number
// of groups. A group exists while it has rows.
type Index[J Key[J], K Key[K], V Value[V]] struct {
	rows[J, [1]uint32] // the row of each group or, with the flag many, the number of its list

	lists         arena[[]uint32] // the rows of groups that have more than one, in key order
	t             *Table[K, V]
	id            int
	name          string
	by            func(K, V) []J
	feeds         []sink[J]
	before, after []J // plan for the row being evaluated
}

// index is an Index, as its table sees it.
type index[K, V any] interface {
	plan(k K, old V, had bool, val V, ok bool) // compute the groups of the row, before and after
	apply(row uint32)                          // do as planned
}

// IndexBy declares an index. keys returns the groups that a row belongs to; it
// must be pure and read no table. An index is as early as its table.
func IndexBy[J Key[J], K Key[K], V Value[V]](t *Table[K, V], keys func(K, V) []J) *Index[J, K, V] {
	x := &Index[J, K, V]{t: t, by: keys, rows: newRows[J, [1]uint32](t.g)}
	var j J
	base := fmt.Sprintf("%s by %T", t.name, j)
	x.name = base
	for n := 2; t.g.names[x.name] != nil; n++ {
		x.name = fmt.Sprintf("%s (%d)", base, n)
	}
	x.id = t.g.declare(x, x.name)
	t.indexes = append(t.indexes, x)
	return x
}

func (x *Index[J, K, V]) plan(k K, old V, had bool, val V, ok bool) {
	x.before, x.after = nil, nil
	if had {
		x.before = x.groups(k, old)
	}
	if ok {
		x.after = x.groups(k, val)
	}
}

// groups returns the groups of a row in order, each once.
func (x *Index[J, K, V]) groups(k K, v V) []J {
	js := x.by(k, v)
	if len(js) < 2 {
		return js
	}
	js = slices.Clone(js)
	slices.SortFunc(js, J.Compare)
	return slices.Compact(js)
}

// apply marks the groups that gain, lose or keep the row: its value is new.
func (x *Index[J, K, V]) apply(i uint32) {
	for _, j := range x.before {
		if _, stays := slices.BinarySearchFunc(x.after, j, J.Compare); !stays {
			x.remove(j, i)
		}
	}
	for _, j := range x.after {
		x.insert(j, i)
	}
}

func (x *Index[J, K, V]) insert(j J, i uint32) {
	g := x.need(j)
	group, list := x.at(g), x.list(g)
	if at, in := slices.BinarySearchFunc(list, i, x.t.compare); !in {
		x.keep(g, slices.Insert(list, at, i))
	}
	x.t.g.changed(&group.meta)
	if group.flags&present == 0 {
		group.flags |= present
		x.n++
		x.touch(group.key)
	}
}

func (x *Index[J, K, V]) remove(j J, i uint32) {
	g := x.need(j)
	group, list := x.at(g), x.list(g)
	at, in := slices.BinarySearchFunc(list, i, x.t.compare)
	if !in {
		panic(misuse(fmt.Sprintf("row %s is not in group %v of %s: its value was changed in place", x.t.text(i), j, x.name)))
	}
	list = slices.Delete(list, at, at+1)
	x.keep(g, list)
	x.t.g.changed(&group.meta)
	if len(list) == 0 {
		group.flags &^= present
		x.n--
		x.touch(group.key)
		x.drop(g)
	}
}

// list returns the rows of group g, good until the group changes.
func (x *Index[J, K, V]) list(g uint32) []uint32 {
	group := x.at(g)
	switch {
	case group.flags&many != 0:
		return *x.lists.at(group.val[0])
	case group.val[0] == 0:
		return nil
	}
	return group.val[:]
}

// keep sets the rows of group g. One row is kept without a list of its own:
// most groups have just that.
func (x *Index[J, K, V]) keep(g uint32, list []uint32) {
	group, had := x.at(g), x.at(g).flags&many != 0
	if len(list) > 1 {
		if !had {
			group.val[0] = x.lists.take()
			group.flags |= many
		}
		*x.lists.at(group.val[0]) = fit(list)
		return
	}
	one := [1]uint32{}
	copy(one[:], list)
	if had {
		x.lists.give(group.val[0])
		group.flags &^= many
	}
	group.val = one
}

func (x *Index[J, K, V]) touch(key uint32) {
	for _, s := range x.feeds {
		s.touch(key)
	}
}

// group records a read of group j and returns its rows.
func (x *Index[J, K, V]) group(r *Reader, j J) []uint32 {
	var i uint32
	if x.t.g.records(r, x.t.id) {
		i = x.need(j)
		x.t.g.note(r, x.id, i)
	} else {
		i = x.find(j)
	}
	if i == 0 {
		return nil
	}
	return x.list(i)
}

// Get returns the rows of group j in key order. A change of any of them, and
// any row that joins or leaves the group, will recompute the row r belongs to.
func (x *Index[J, K, V]) Get(r *Reader, j J) []V {
	group := x.group(r, j)
	out := make([]V, len(group))
	for n, i := range group {
		out[n] = x.t.at(i).val
	}
	return out
}

// Keys returns the keys of the rows of group j, in order, and records like Get.
func (x *Index[J, K, V]) Keys(r *Reader, j J) []K {
	group := x.group(r, j)
	out := make([]K, len(group))
	for n, i := range group {
		out[n] = x.t.key(i)
	}
	return out
}

// Each calls f with the rows of group j, in key order, and records like Get. It makes no
// lists, for who reads many small groups.
func (x *Index[J, K, V]) Each(r *Reader, j J, f func(K, V)) {
	for _, i := range x.group(r, j) {
		f(x.t.key(i), x.t.at(i).val)
	}
}

// First returns the first keys of group j, of so many at most, at the cost of these
// whatever the size of the group, and records like Get.
func (x *Index[J, K, V]) First(r *Reader, j J, most int) []K {
	group := x.group(r, j)
	out := make([]K, min(most, len(group)))
	for n := range out {
		out[n] = x.t.key(group[n])
	}
	return out
}

// Has reports whether group j has rows, and records like Get.
func (x *Index[J, K, V]) Has(r *Reader, j J) bool { return len(x.group(r, j)) > 0 }

// Groups returns the groups that have rows, in order. It records nothing: it
// is for snapshots, outside derivations.
func (x *Index[J, K, V]) Groups() []J {
	x.t.g.outside(x.t.id)
	return x.keys()
}

func (x *Index[J, K, V]) has(j uint32) bool   { return x.holds(j) }
func (x *Index[J, K, V]) feed(s sink[J])      { x.feeds = append(x.feeds, s) }
func (x *Index[J, K, V]) of() (*Graph, int)   { return x.t.g, x.t.id }
func (x *Index[J, K, V]) label() string       { return x.name }
func (x *Index[J, K, V]) mark(uint32, uint16) { panic(misuse(x.name + " reads nothing")) }
