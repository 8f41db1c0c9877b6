package cluster

import (
	"cmp"
	"iter"
	"strings"

	"github.com/spillway-dev/spillway/internal/inc"
	"github.com/spillway-dev/spillway/internal/model"
)

// fact is one row that an object gives, of whatever table.
type fact interface {
	key() any // of the mailbox: the table and the row's key
	is(fact) bool
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

// placed is a fact of a table, with its value or without.
type placed[K inc.Key[K], V inc.Value[V]] interface{ at() rowKey[K, V] }

func (k rowKey[K, V]) at() rowKey[K, V] { return k }
func (k rowKey[K, V]) key() any         { return k }
func (k rowKey[K, V]) set(*inc.Tx)      { panic("a row without its value is set") }
func (k rowKey[K, V]) drop(tx *inc.Tx)  { k.table.Delete(tx, k.k) }
func (k rowKey[K, V]) is(o fact) bool {
	other, ok := o.(placed[K, V])
	return ok && other.at() == k
}

func (r row[K, V]) at() rowKey[K, V] { return rowKey[K, V]{r.table, r.k} }
func (r row[K, V]) key() any         { return r.at() }
func (r row[K, V]) is(o fact) bool   { return r.at().is(o) }
func (r row[K, V]) set(tx *inc.Tx)   { r.table.Set(tx, r.k, r.v) }
func (r row[K, V]) drop(tx *inc.Tx)  { r.table.Delete(tx, r.k) }

func (r row[K, V]) equal(o fact) bool {
	other, ok := o.(row[K, V])
	return ok && r.is(o) && other.v.Equal(r.v)
}

// few facts are looked through one by one.
const few = 8

// finder finds the one of some facts that is of the same row as another.
func finder(facts []fact) func(fact) fact {
	if len(facts) <= few {
		return func(of fact) fact { return find(facts, of) }
	}
	at := make(map[any]fact, len(facts))
	for _, f := range facts {
		at[f.key()] = f
	}
	return func(of fact) fact { return at[of.key()] }
}

// find returns the fact of the same row.
func find(facts []fact, of fact) fact {
	for _, f := range facts {
		if of.is(f) {
			return f
		}
	}
	return nil
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

// name is the namespace and name of an object. The namespace of one in a
// workspace is scoped: model.Scoped.
type name struct{ namespace, name string }

func nameIn(workspace, namespace, n string) name {
	return name{model.Scoped(model.Workspace(workspace), namespace), n}
}

// object is the one of a kind that is called so.
func (a name) object(kind string) model.Object {
	w, namespace := model.Unscoped(a.namespace)
	return model.Object{Workspace: string(w), Kind: kind, Namespace: namespace, Name: a.name}
}

func (a name) compare(b name) int {
	return cmp.Or(strings.Compare(a.namespace, b.namespace), strings.Compare(a.name, b.name))
}
