package inc

import (
	"fmt"
	"io"
)

// TableStat describes a table.
type TableStat struct {
	Name        string
	Input       bool // written by the caller; otherwise derived
	Rows        int
	Evaluations int // calls of its function so far
}

// Tables describes all tables in the order of declaration.
func (g *Graph) Tables() []TableStat {
	out := make([]TableStat, len(g.tables))
	for i, t := range g.tables {
		out[i] = t.stat()
	}
	return out
}

// Why lists what a row read when it was last evaluated, first read first: nil
// for an input and for what does not exist. For an index, as a Read names it,
// the rows of the group. key is the key's text. It looks at every key of the
// table.
func (g *Graph) Why(table, key string) []Read {
	n := g.names[table]
	if n == nil {
		return nil
	}
	return n.why(key)
}

// WriteText writes the rows of a table, one a line, in key order: the key, two
// spaces, the value; for a row that is at fault, also the panic.
func (g *Graph) WriteText(w io.Writer, table string) error {
	t, ok := g.names[table].(interface {
		lines(func(string) error) error
	})
	if !ok {
		return fmt.Errorf("inc: no table %q", table)
	}
	return t.lines(func(s string) error {
		_, err := io.WriteString(w, s+"\n")
		return err
	})
}

func (t *Table[K, V]) stat() TableStat {
	return TableStat{Name: t.name, Input: t.compute == nil, Rows: t.n, Evaluations: t.evals}
}

func (t *Table[K, V]) why(key string) []Read {
	for _, i := range t.sorted(present | fed) {
		if t.text(i) == key {
			return t.g.readsOf(t.meta(i))
		}
	}
	return nil
}

func (t *Table[K, V]) lines(line func(string) error) error {
	for _, i := range t.sorted(present | faulted) {
		s, row := t.text(i), t.at(i)
		if row.flags&present != 0 {
			s += fmt.Sprintf("  %+v", row.val)
		}
		if row.flags&faulted != 0 {
			s += "  !" + t.faults[i].value
		}
		if err := line(s); err != nil {
			return err
		}
	}
	return nil
}

func (x *Index[J, K, V]) why(key string) []Read {
	for _, g := range x.sorted(present) {
		if x.text(g) == key {
			var out []Read
			for _, i := range x.at(g).val {
				out = append(out, Read{x.t.name, x.t.text(i)})
			}
			return out
		}
	}
	return nil
}

func (x *Index[J, K, V]) lines(line func(string) error) error {
	for _, g := range x.sorted(present) {
		s := x.text(g) + " "
		for _, i := range x.at(g).val {
			s += " " + x.t.text(i)
		}
		if err := line(s); err != nil {
			return err
		}
	}
	return nil
}
