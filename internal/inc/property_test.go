package inc

import (
	"cmp"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// rig runs a program on the engine and keeps all that it says.
type rig struct {
	p         program
	g         *Graph
	tables    []*Table[num, cell]
	indexes   []*Index[num, num, cell]
	replay    []map[num]cell // tables, as published changes tell them
	told      []Fault
	evaluated []at        // in this commit
	reads     map[at][]at // of each row's last evaluation
	bad       string      // what a watcher found wrong
}

func newRig(p program) *rig {
	b := &rig{p: p, g: New(), tables: make([]*Table[num, cell], len(p)), indexes: make([]*Index[num, num, cell], len(p)),
		replay: make([]map[num]cell, len(p)), reads: map[at][]at{}}
	for i, n := range p {
		switch n.kind {
		case "input":
			b.tables[i] = Input[num, cell](b.g, b.name(i))
		case "index":
			b.indexes[i] = IndexBy(b.tables[n.from[0]], n.by)
		case "derive":
			var from []Keys[num]
			for _, s := range n.from {
				if p[s].kind == "index" {
					from = append(from, b.indexes[s])
				} else {
					from = append(from, b.tables[s])
				}
			}
			b.tables[i] = Derive(b.g, b.name(i), func(r *Reader, k num) (cell, bool) {
				b.evaluated = append(b.evaluated, at{i, k})
				v := &rigView{b, r, at{i, k}}
				b.reads[v.self] = nil
				return p.run(n, v, k)
			}, from...)
			MayWait(b.tables[i], b.news(n.waits)...)
			if len(n.shares) > 0 {
				Shared(b.tables[i], b.news(n.shares)...)
				b.tables[i].crowd.limit = n.sets
			}
		}
		if t := b.tables[i]; t != nil {
			b.replay[i] = map[num]cell{}
			t.Watch(func(cs []Change[num, cell]) { b.watch(i, cs) })
		}
	}
	b.g.WatchFaults(func(fs []Fault) {
		if fmt.Sprint(fs) == fmt.Sprint(b.told) {
			b.bad = fmt.Sprintf("told again: %v", fs)
		}
		b.told = fs
	})
	return b
}

func (b *rig) news(nodes []int) []News {
	out := make([]News, len(nodes))
	for i, n := range nodes {
		if out[i] = b.tables[n]; b.p[n].kind == "index" {
			out[i] = b.indexes[n]
		}
	}
	return out
}

func (b *rig) name(i int) string {
	if x := b.indexes[i]; x != nil {
		return x.name
	}
	return fmt.Sprint("t", i)
}

func (b *rig) watch(i int, cs []Change[num, cell]) {
	for n, c := range cs {
		old, had := b.replay[i][c.Key]
		if had != (c.Old != nil) || had && *c.Old != old || c.Old == nil && c.New == nil || had && c.New != nil && *c.New == old {
			b.bad = fmt.Sprintf("%s[%d]: published %v -> %v over %v", b.name(i), c.Key, c.Old, c.New, old)
		}
		if n > 0 && cs[n-1].Key >= c.Key {
			b.bad = fmt.Sprintf("%s: published %d after %d", b.name(i), c.Key, cs[n-1].Key)
		}
		if delete(b.replay[i], c.Key); c.New != nil {
			b.replay[i][c.Key] = *c.New
		}
	}
}

func (b *rig) commit(edits []edit) Stats {
	b.evaluated = nil
	return b.g.Commit(func(tx *Tx) {
		for _, e := range edits {
			switch {
			case e.by:
				b.tables[e.node].Edit(tx, e.k, e.on)
			case e.set:
				b.tables[e.node].Set(tx, e.k, e.v)
			default:
				b.tables[e.node].Delete(tx, e.k)
			}
		}
	})
}

// rigView is the engine as a derivation sees it.
type rigView struct {
	b    *rig
	r    *Reader
	self at
}

func (v *rigView) note(node int, k num) {
	if !slices.Contains(v.b.reads[v.self], at{node, k}) {
		v.b.reads[v.self] = append(v.b.reads[v.self], at{node, k})
	}
}

func (v *rigView) get(node int, k num) (cell, bool) {
	v.note(node, k)
	return v.b.tables[node].Get(v.r, k)
}

func (v *rigView) group(node int, j num) []cell {
	v.note(node, j)
	return v.b.indexes[node].Get(v.r, j)
}

func (v *rigView) groupKeys(node int, j num) []num {
	v.note(node, j)
	return v.b.indexes[node].Keys(v.r, j)
}

// names are reads as the engine prints them.
func (b *rig) names(rs []at) []Read {
	var out []Read
	for _, r := range rs {
		out = append(out, Read{b.name(r.node), fmt.Sprint(r.k)})
	}
	return out
}

// inOrder sorts what a row of a table read, if the table has no order of reading.
func (b *rig) inOrder(table string, reads []Read) []Read {
	if b.g.names[table].(*Table[num, cell]).crowd != nil {
		reads = slices.Clone(reads)
		slices.SortFunc(reads, func(a, b Read) int { return cmp.Or(strings.Compare(a.Table, b.Table), strings.Compare(a.Key, b.Key)) })
	}
	return reads
}

// check compares the engine with its twin.
func (b *rig) check(t *rapid.T, w *twin, want []at, s Stats) {
	if b.bad != "" {
		t.Fatal(b.bad)
	}
	if !slices.Equal(b.evaluated, want) || s.Evaluated != len(want) {
		t.Fatalf("evaluated %v (%d), want %v", b.evaluated, s.Evaluated, want)
	}
	for i := range b.p {
		if b.tables[i] == nil {
			b.checkIndex(t, w, i)
			continue
		}
		got := map[num]cell{}
		for _, k := range b.tables[i].Keys() {
			got[k], _ = b.tables[i].Get(nil, k)
		}
		if !maps.Equal(got, w.rows[i]) || b.tables[i].Len() != len(got) {
			t.Fatalf("%s holds %v, want %v", b.name(i), got, w.rows[i])
		}
		if !maps.Equal(b.replay[i], got) {
			t.Fatalf("%s was published as %v, holds %v", b.name(i), b.replay[i], got)
		}
		for k := range num(domain) {
			got, want := b.g.Why(b.name(i), k, math.MaxInt), b.names(w.reads[at{i, k}])
			if !slices.Equal(b.inOrder(b.name(i), got), b.inOrder(b.name(i), want)) {
				t.Fatalf("%s[%d] read %v, want %v", b.name(i), k, got, want)
			}
		}
	}
	b.checkFaults(t, w)
	if err := audit(b.g); err != nil {
		t.Fatal(err)
	}
}

func (b *rig) checkIndex(t *rapid.T, w *twin, i int) {
	var groups []num
	for j := range num(domain) {
		want := w.members(i, j)
		if got := b.indexes[i].First(nil, j, 2); !slices.Equal(got, want[:min(2, len(want))]) {
			t.Fatalf("%s[%d] begins with %v, of %v", b.name(i), j, got, want)
		}
		if got := b.indexes[i].Keys(nil, j); !slices.Equal(got, want) {
			t.Fatalf("%s[%d] holds %v, want %v", b.name(i), j, got, want)
		}
		var each []num
		var rows []cell
		b.indexes[i].Each(nil, j, func(k num, v cell) { each, rows = append(each, k), append(rows, v) })
		if !slices.Equal(each, want) || !slices.Equal(rows, b.indexes[i].Get(nil, j)) {
			t.Fatalf("%s[%d] goes over %v %v, want %v", b.name(i), j, each, rows, want)
		}
		if len(want) > 0 {
			groups = append(groups, j)
		}
	}
	if got := b.indexes[i].Groups(); !slices.Equal(got, groups) {
		t.Fatalf("%s has groups %v, want %v", b.name(i), got, groups)
	}
}

func (b *rig) checkFaults(t *rapid.T, w *twin) {
	var want, told []string
	for i := range b.p {
		for k := range num(domain) {
			if p, ok := w.fault[at{i, k}]; ok {
				want = append(want, fmt.Sprintln(b.name(i), k, p, b.inOrder(b.name(i), b.names(w.reads[at{i, k}]))))
			}
		}
	}
	for _, f := range b.told {
		told = append(told, fmt.Sprintln(f.Table, f.Key, f.Panic, b.inOrder(f.Table, f.Reads)))
	}
	if !slices.Equal(told, want) {
		t.Fatalf("told faults %q, want %q", told, want)
	}
	if now := b.g.Faults(); fmt.Sprint(now) != fmt.Sprint(b.told) {
		t.Fatalf("faults %v, told %v", now, b.told)
	}
}

// TestRandomPrograms: after every commit the engine holds what its twin
// computes from scratch, having evaluated the rows it had to, once, in order,
// and no others; the published changes, provenance and faults are true.
func TestRandomPrograms(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p := drawProgram(t)
		b, w := newRig(p), newTwin(p)
		if rapid.Bool().Draw(t, "collide") {
			b.g.mask = 1
		}
		for range rapid.IntRange(1, 12).Draw(t, "commits") {
			edits := drawEdits(t, p)
			want := w.commit(edits)
			b.check(t, w, want, b.commit(edits))
		}
		b.clear(t)
	})
}

// clear deletes all inputs: then nothing may be left, not even bookkeeping.
func (b *rig) clear(t *rapid.T) {
	b.g.Commit(func(tx *Tx) {
		for i, n := range b.p {
			for k := range num(domain) {
				if n.kind == "input" {
					b.tables[i].Delete(tx, k)
				}
			}
		}
	})
	if err := audit(b.g); err != nil {
		t.Fatal(err)
	}
	for _, n := range b.g.nodes {
		if n := live(n); n != 0 {
			t.Fatalf("%d rows left", n)
		}
	}
	if n := b.g.edges.given; n != 0 {
		t.Fatalf("%d dependencies left", n)
	}
}

// TestBatchingDoesNotMatter: the same writes in one commit or in many, in any
// order of commits, give the same tables, as text. Programs without panics:
// a row at fault remembers.
func TestBatchingDoesNotMatter(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p := drawProgram(t).calm()
		inputs := state{}
		many := newRig(p)
		for range rapid.IntRange(1, 12).Draw(t, "commits") {
			edits := drawEdits(t, p)
			inputs.write(edits)
			many.commit(edits)
		}
		many.same(t, inputs)
	})
}
