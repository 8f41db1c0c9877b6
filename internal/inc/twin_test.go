package inc

import (
	"fmt"
	"maps"
	"slices"
)

// at names a row of a program.
type at struct {
	node int
	k    num
}

// twin is the engine's dumb twin: it computes every row after every commit,
// from nothing but the inputs and, for rows whose function panics, the value
// they had. It says which rows an ideal engine would have evaluated: those
// that read something that differs, and those whose key is new.
type twin struct {
	p     program
	rows  []map[num]cell
	fed   map[at]bool
	reads map[at][]at
	fault map[at]string
}

func newTwin(p program) *twin {
	w := &twin{p: p, rows: make([]map[num]cell, len(p)), fed: map[at]bool{}, reads: map[at][]at{}, fault: map[at]string{}}
	for i := range w.rows {
		w.rows[i] = map[num]cell{}
	}
	return w
}

// view is a twin as a derivation sees it.
type view struct {
	*twin
	read []at
}

func (v *view) note(node int, k num) {
	if !slices.Contains(v.read, at{node, k}) {
		v.read = append(v.read, at{node, k})
	}
}

func (v *view) get(node int, k num) (cell, bool) {
	v.note(node, k)
	c, ok := v.rows[node][k]
	return c, ok
}

func (v *view) group(node int, j num) []cell {
	v.note(node, j)
	var out []cell
	for _, k := range v.members(node, j) {
		out = append(out, v.rows[v.p[node].from[0]][k])
	}
	return out
}

func (v *view) groupKeys(node int, j num) []num {
	v.note(node, j)
	return v.members(node, j)
}

// members is computed anew each time.
func (w *twin) members(node int, j num) []num {
	var out []num
	for k, c := range w.rows[w.p[node].from[0]] {
		if slices.Contains(w.p[node].by(k, c), j) {
			out = append(out, k)
		}
	}
	slices.Sort(out)
	return out
}

// seen is what a read of a row or group shows, as text.
func (w *twin) seen(a at) string {
	v := &view{twin: w}
	if w.p[a.node].kind == "index" {
		return fmt.Sprint(v.groupKeys(a.node, a.k), v.group(a.node, a.k))
	}
	return fmt.Sprint(v.get(a.node, a.k))
}

func (w *twin) has(node int, k num) bool {
	if w.p[node].kind == "index" {
		return len(w.members(node, k)) > 0
	}
	_, ok := w.rows[node][k]
	return ok
}

// commit applies edits, recomputes everything, and returns the rows to evaluate.
func (w *twin) commit(edits []edit) (evaluated []at) {
	before := *w
	before.rows = make([]map[num]cell, len(w.p))
	for i := range w.rows {
		before.rows[i] = maps.Clone(w.rows[i])
	}
	last := map[at][]edit{}
	for _, e := range edits {
		last[at{e.node, e.k}] = append(last[at{e.node, e.k}], e)
	}
	for a, es := range last {
		v, ok := w.rows[a.node][a.k]
		for _, e := range es {
			v, ok = e.on(v, ok)
		}
		w.store(a, func() (cell, bool) { return v, ok })
	}
	for i, n := range w.p {
		if n.kind != "derive" {
			continue
		}
		for k := num(0); k < domain; k++ {
			if w.derive(&before, at{i, k}) {
				evaluated = append(evaluated, at{i, k})
			}
		}
	}
	return evaluated
}

func (w *twin) derive(before *twin, a at) (evaluated bool) {
	n := w.p[a.node]
	if !slices.ContainsFunc(n.from, func(s int) bool { return w.has(s, a.k) }) {
		delete(w.rows[a.node], a.k)
		delete(w.fed, a)
		delete(w.reads, a)
		delete(w.fault, a)
		return false
	}
	evaluated = !w.fed[a] || slices.ContainsFunc(w.reads[a], func(r at) bool { return w.seen(r) != before.seen(r) })
	v := &view{twin: w}
	w.store(a, func() (cell, bool) { return w.p.run(n, v, a.k) })
	w.fed[a], w.reads[a] = true, v.read
	return evaluated
}

// store gives a row what f returns, or leaves it and notes a fault if f or an
// index over the table panics.
func (w *twin) store(a at, f func() (cell, bool)) {
	old, had := w.rows[a.node][a.k]
	defer func() {
		if p := recover(); p != nil {
			w.fault[a] = p.(string)
			if delete(w.rows[a.node], a.k); had {
				w.rows[a.node][a.k] = old
			}
		}
	}()
	c, ok := f()
	if delete(w.rows[a.node], a.k); ok {
		for _, n := range w.p {
			if n.kind == "index" && n.from[0] == a.node && (c != old || !had) {
				n.by(a.k, c)
			}
		}
		w.rows[a.node][a.k] = c
	}
	delete(w.fault, a)
}
