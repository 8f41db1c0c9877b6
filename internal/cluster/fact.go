package cluster

import (
	"cmp"
	"iter"
	"slices"
	"strings"

	"github.com/spillway-dev/spillway/internal/inc"
)

// fact is one row that an object gives, of whatever table.
type fact interface {
	key() any // of the mailbox: the table and the row's key
	equal(fact) bool
	set(*inc.Tx)
	drop(*inc.Tx)
}

// row is a fact of a table.
type row[K inc.Key[K], V inc.Value[V]] struct {
	table *inc.Table[K, V]
	k     K
	v     V
}

// rowKey names a row of a table in the mailbox.
type rowKey[K inc.Key[K], V inc.Value[V]] struct {
	table *inc.Table[K, V]
	k     K
}

func (r row[K, V]) key() any        { return rowKey[K, V]{r.table, r.k} }
func (r row[K, V]) set(tx *inc.Tx)  { r.table.Set(tx, r.k, r.v) }
func (r row[K, V]) drop(tx *inc.Tx) { r.table.Delete(tx, r.k) }

func (r row[K, V]) equal(o fact) bool {
	other, ok := o.(row[K, V])
	return ok && other.k == r.k && other.v.Equal(r.v)
}

// Past is what a checkpoint says, by table, before it is in the tables.
type Past map[any]any

// Recall notes the rows of a table.
func Recall[K inc.Key[K], V inc.Value[V]](p Past, t *inc.Table[K, V], found iter.Seq2[K, V]) {
	var all []row[K, V]
	for k, v := range found {
		all = append(all, row[K, V]{t, k, v})
	}
	p[t] = all
}

// rows returns the facts that a table will hold.
func rows[K inc.Key[K], V inc.Value[V]](p Past, t *inc.Table[K, V]) []row[K, V] {
	all, _ := p[t].([]row[K, V])
	return all
}

// values is rows by their keys.
func values[K inc.Key[K], V inc.Value[V]](p Past, t *inc.Table[K, V]) map[K]V {
	out := map[K]V{}
	for _, r := range rows(p, t) {
		out[r.k] = r.v
	}
	return out
}

// name is the namespace and name of an object.
type name struct{ namespace, name string }

func (a name) compare(b name) int {
	return cmp.Or(strings.Compare(a.namespace, b.namespace), strings.Compare(a.name, b.name))
}

// entry is what is known of one object: most give one fact, and there are
// many objects.
type entry struct{ facts fact } // nil, one fact, or several

// several are the facts of an object that gives more than one.
type several []fact

func (s several) key() any        { panic("several facts have no key") }
func (s several) equal(fact) bool { panic("several facts are compared one by one") }
func (s several) set(*inc.Tx)     { panic("several facts are set one by one") }
func (s several) drop(*inc.Tx)    { panic("several facts are dropped one by one") }

func newEntry(facts []fact) entry {
	switch len(facts) {
	case 0:
		return entry{}
	case 1:
		return entry{facts[0]}
	}
	return entry{several(facts)}
}

func (e entry) all(yield func(fact) bool) {
	many, ok := e.facts.(several)
	if !ok {
		if e.facts != nil {
			yield(e.facts)
		}
		return
	}
	for _, f := range many {
		if !yield(f) {
			return
		}
	}
}

// with is the entry and one fact more.
func (e entry) with(f fact) entry {
	facts := slices.AppendSeq([]fact{}, e.all)
	return newEntry(append(facts, f))
}

// find returns the fact of the same row.
func (e entry) find(key any) fact {
	for f := range e.all {
		if f.key() == key {
			return f
		}
	}
	return nil
}
