package inc

import (
	"fmt"
	"io"
	"maps"
	"reflect"
	"slices"
)

// TableStat describes a table.
type TableStat struct {
	Name        string
	Input       bool // written by the caller; otherwise derived
	Rows        int
	Evaluations int // calls of its function so far
}

// Name is the table's name, which no other has.
func (t *Table[K, V]) Name() string { return t.name }

// Tables describes all tables in the order of declaration.
func (g *Graph) Tables() []TableStat {
	out := make([]TableStat, len(g.tables))
	for i, t := range g.tables {
		out[i] = t.stat()
	}
	return out
}

// Why lists what a row read when it was last evaluated, first read first, most
// at most: nil for an input and for what does not exist. For an index, as a Read
// names it, the rows of the group. key is as Scan hands it out.
func (g *Graph) Why(table string, key any, most int) []Read {
	n := g.names[table]
	if n == nil {
		return nil
	}
	return n.why(key, most)
}

// WriteText writes the rows of a table, one a line, in key order: the key, two
// spaces, the value; for a row that is at fault, also the panic.
func (g *Graph) WriteText(w io.Writer, name string) error {
	t, ok := g.names[name].(table)
	if !ok {
		return fmt.Errorf("inc: no table %q", name)
	}
	return t.write(w)
}

func (t *Table[K, V]) stat() TableStat {
	return TableStat{Name: t.name, Input: t.compute == nil, Rows: t.n, Evaluations: t.evals}
}

func (t *Table[K, V]) why(key any, most int) []Read {
	k, ok := key.(K)
	if i := t.find(k); ok && i != 0 {
		return t.reads(i, most)
	}
	return nil
}

func (x *Index[J, K, V]) why(key any, most int) []Read {
	j, ok := key.(J)
	g := x.find(j)
	if !ok || g == 0 {
		return nil
	}
	var out []Read
	for _, i := range first(x.list(g), most) {
		out = append(out, Read{x.t.name, x.t.text(i)})
	}
	return out
}

// first are the first of a list.
func first[T any](list []T, most int) []T { return list[:min(len(list), most)] }

func (t *Table[K, V]) write(w io.Writer) error {
	for _, i := range t.sorted(present | faulted) {
		s, row := t.text(i), t.at(i)
		if row.flags&present != 0 {
			s += fmt.Sprintf("  %+v", row.val)
		}
		if row.flags&faulted != 0 {
			s += "  !" + t.faults.get(i).value
		}
		if _, err := fmt.Fprintln(w, s); err != nil {
			return err
		}
	}
	return nil
}

// Node describes a table or an index: how it is declared, and which others its
// rows read.
type Node struct {
	Name   string
	Key    string   // type of its keys
	Of     string   // the table of an index; empty: it is a table
	Input  bool     // written by the caller
	From   []string // what a derived table takes its keys from
	Waits  []string // for news of what its rows may wait
	Shares []string // of what its rows share their reads
	Reads  []string // what its rows read at present, in the order of declaration
}

// Map describes all tables and indexes in the order of declaration. It looks at
// every dependency.
func (g *Graph) Map() []Node {
	reads := map[node]map[uint16]bool{}
	for i := range g.edges.all() {
		e := g.edges.at(i)
		by := g.nodes[e.toNode]
		if c, ok := by.(*crowd); ok {
			by = c.t
		}
		if reads[by] == nil {
			reads[by] = map[uint16]bool{}
		}
		reads[by][e.fromNode] = true
	}
	var out []Node
	for _, n := range g.nodes {
		if d, ok := n.(interface{ describe() Node }); ok {
			row := d.describe()
			row.Reads = g.labels(slices.Sorted(maps.Keys(reads[n])))
			out = append(out, row)
		}
	}
	return out
}

func (g *Graph) labels(nodes []uint16) []string {
	out := make([]string, len(nodes))
	for i, n := range nodes {
		out[i] = g.nodes[n].label()
	}
	return out
}

func (t *Table[K, V]) describe() Node {
	out := Node{Name: t.name, Key: reflect.TypeFor[K]().String(), Input: t.compute == nil, Waits: t.g.labels(t.queue.news)}
	for _, s := range t.sources {
		out.From = append(out.From, s.(node).label())
	}
	if t.crowd != nil {
		out.Shares = t.g.labels(t.crowd.nodes)
	}
	return out
}

func (x *Index[J, K, V]) describe() Node {
	return Node{Name: x.name, Key: reflect.TypeFor[J]().String(), Of: x.t.name}
}
