package inc

import (
	"fmt"

	"pgregory.net/rapid"
)

// Random programs over a domain so small that everything collides: keys are
// 0 to 3, values two small numbers. A program is data, run by the engine and
// by its dumb twin alike.

const domain = 4

type cell struct{ a, b int }

func (c cell) Equal(o cell) bool { return c == o }

// program is its nodes: tables and indexes, each using earlier ones only.
type program []declaration

// declaration is one node of a program. Numbers in it are places in the program.
type declaration struct {
	kind   string // "input", "derive" or "index"
	from   []int  // derive: sources of keys; index: its table
	steps  []step // derive
	waits  []int  // derive: what its rows may wait for
	shares []int  // derive: of what its rows share their reads
	sets   int    // derive: how many sets of such reads there may be
	mod    int    // derive: how much of the result is cut off
	skip   int    // derive: which results are no row
	groups int    // index: how rows are grouped
	poison int    // index: the value whose grouping panics, if below 4
}

// step is one read of a derivation, and what it does with it.
type step struct {
	node          int
	mul, add, dyn int // which key it reads; dyn: depending on what was read before
	unless        int // the read is left out for some of what was read before
	keys          bool
	poison        int // the key for which it may panic, if below 4
}

// world is how a derivation sees other nodes.
type world interface {
	get(node int, k num) (cell, bool)
	group(node int, j num) []cell
	groupKeys(node int, j num) []num
}

// run is the function of a derived table.
func (p program) run(n declaration, w world, k num) (cell, bool) {
	acc := int(k) + 1
	for i, s := range n.steps {
		if s.unless > 0 && acc%s.unless == 0 {
			continue
		}
		at := num((int(k)*s.mul + s.add + acc*s.dyn) % domain)
		switch {
		case p[s.node].kind != "index":
			c, ok := w.get(s.node, at)
			if acc = acc*3 + c.a*2 + c.b + 1; !ok {
				acc += 5
			}
		case s.keys:
			for _, k := range w.groupKeys(s.node, at) {
				acc = acc*3 + int(k) + 1
			}
		default:
			for _, c := range w.group(s.node, at) {
				acc = acc*3 + c.a*2 + c.b + 1
			}
		}
		acc %= 251
		if int(k) == s.poison && acc%3 == 0 {
			panic(fmt.Sprintf("step %d at %d", i, acc))
		}
	}
	return cell{acc % n.mod, acc / 7 % 2}, acc%7 != n.skip
}

// by is the function of an index.
func (n declaration) by(k num, c cell) []num {
	if c.a == n.poison {
		panic(fmt.Sprintf("group of %d", c.a))
	}
	a, b := num(c.a%domain), num(c.b%domain)
	switch n.groups {
	case 0:
		return []num{a}
	case 1:
		return []num{a, k, a}
	case 2:
		if c.a == 0 {
			return nil
		}
		return []num{b}
	default:
		return []num{3, b, 1}
	}
}

func drawProgram(t *rapid.T) program {
	n := func(name string, below int) int { return rapid.IntRange(0, below-1).Draw(t, name) }
	p := program{{kind: "input"}}
	for range n("nodes", 6) {
		p = append(p, drawNode(t, p, []string{"derive", "index", "input", "derive"}[n("kind", 4)]))
	}
	// Always: an index over a derived table, a table that reads it and is not
	// fed by it, and one more behind that.
	p = append(p, drawNode(t, p, "derive"))
	p = append(p, declaration{kind: "index", from: []int{len(p) - 1}, groups: n("groups", 4), poison: n("poison", 4*domain)})
	reads := drawNode(t, p, "derive")
	reads.from = []int{0}
	reads.steps = append(reads.steps, step{node: len(p) - 1, mul: 1, dyn: n("dyn", 2), poison: n("poison", 4*domain)})
	p = append(p, reads)
	return append(p, drawNode(t, p, "derive"))
}

func drawNode(t *rapid.T, p program, kind string) declaration {
	n := func(name string, below int) int { return rapid.IntRange(0, below-1).Draw(t, name) }
	d := declaration{kind: kind}
	switch kind {
	case "index":
		d.from = []int{n("over", len(p))}
		for p[d.from[0]].kind == "index" {
			d.from[0]--
		}
		d.groups, d.poison = n("groups", 4), n("poison", 4*domain)
	case "derive":
		d.mod, d.skip, d.sets = 1+n("mod", domain), n("skip", 14), n("sets", 6)
		for range 1 + n("sources", 2) {
			d.from = append(d.from, n("source", len(p)))
		}
		for range n("steps", 4) {
			d.steps = append(d.steps, step{
				node: n("reads", len(p)), mul: n("mul", 2), add: n("add", domain), dyn: n("dyn", 2),
				unless: n("unless", 4), keys: n("keys", 4) == 0, poison: n("poison", 3*domain),
			})
			if n("waits", 2) == 0 {
				d.waits = append(d.waits, d.steps[len(d.steps)-1].node)
			}
			if n("shares", 2) == 0 {
				d.shares = append(d.shares, d.steps[len(d.steps)-1].node)
			}
		}
	}
	return d
}

// edit is one write of an input.
type edit struct {
	node int
	k    num
	set  bool // else deletes
	by   bool // edits
	v    cell
}

// on is what a row is after the edit.
func (e edit) on(old cell, ok bool) (cell, bool) {
	switch {
	case !e.by:
		return e.v, e.set
	case !ok:
		return e.v, true
	}
	sum := cell{(old.a + e.v.a) % domain, old.b | e.v.b}
	return sum, sum.a != 0
}

// state is what inputs are after edits.
type state map[at]edit

func (s state) write(edits []edit) {
	for _, e := range edits {
		now := edit{node: e.node, k: e.k}
		was := s[at{e.node, e.k}]
		now.v, now.set = e.on(was.v, was.set)
		s[at{e.node, e.k}] = now
	}
}

func drawEdits(t *rapid.T, p program) []edit {
	var out []edit
	for range rapid.IntRange(0, 4).Draw(t, "edits") {
		e := edit{node: rapid.IntRange(0, len(p)-1).Draw(t, "node")}
		for p[e.node].kind != "input" {
			e.node--
		}
		e.k = num(rapid.IntRange(0, domain-1).Draw(t, "k"))
		how := rapid.IntRange(0, 5).Draw(t, "how")
		e.set, e.by = how > 0, how > 3
		e.v = cell{rapid.IntRange(0, domain-1).Draw(t, "a"), rapid.IntRange(0, 1).Draw(t, "b")}
		out = append(out, e)
	}
	return out
}
