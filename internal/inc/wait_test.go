package inc

import (
	"bytes"
	"fmt"
	"maps"
	"slices"
	"testing"

	"pgregory.net/rapid"
)

// calm is a program in which nothing panics: a row at fault remembers.
func (p program) calm() program {
	for i := range p {
		p[i].poison = domain
		for s := range p[i].steps {
			p[i].steps[s].poison = domain
		}
	}
	return p
}

// now is a rig's tables as they are.
type now struct{ *rig }

func (v now) get(node int, k num) (cell, bool) { return v.tables[node].Get(nil, k) }
func (v now) group(node int, j num) []cell     { return v.indexes[node].Get(nil, j) }
func (v now) groupKeys(node int, j num) []num  { return v.indexes[node].Keys(nil, j) }
func (v now) waits(node int, k num) bool {
	i := v.tables[node].find(k)
	return i != 0 && v.tables[node].at(i).flags&late != 0
}
func (v now) fed(a at) bool {
	return slices.ContainsFunc(v.p[a.node].from, func(s int) bool {
		if v.p[s].kind == "index" {
			return v.indexes[s].has(v.indexes[s].space.find(a.k))
		}
		return v.tables[s].has(v.tables[s].space.find(a.k))
	})
}

// seen is what reads show, as text.
func (v now) seen() map[at]string {
	out := map[at]string{}
	for i, n := range v.p {
		for k := range num(domain) {
			if n.kind == "index" {
				out[at{i, k}] = fmt.Sprint(v.groupKeys(i, k), v.group(i, k))
			} else {
				out[at{i, k}] = fmt.Sprint(v.get(i, k))
			}
		}
	}
	return out
}

// before is what a commit found.
type before struct {
	seen  map[at]string
	reads map[at][]at
	fed   map[at]bool
	hurry map[at]bool // that waited, and were told to go
}

func (b *rig) before() before {
	out := before{now{b}.seen(), maps.Clone(b.reads), map[at]bool{}, map[at]bool{}}
	for a := range b.reads {
		out.fed[a] = now{b}.fed(a)
	}
	return out
}

// checkWaiting holds a commit against the promise of MayWait.
func (b *rig) checkWaiting(t *rapid.T, was before, portion int) {
	v := now{b}
	seen, free := v.seen(), 0
	for i, n := range b.p {
		if n.kind != "derive" {
			continue
		}
		var early, waiting []num
		for k := range num(domain) {
			a := at{i, k}
			evaluated := slices.Contains(b.evaluated, a)
			must := v.fed(a) && (!was.fed[a] || was.hurry[a] || slices.ContainsFunc(was.reads[a], func(r at) bool {
				return seen[r] != was.seen[r] && !slices.Contains(n.waits, r.node)
			}))
			switch {
			case must && !evaluated:
				t.Fatalf("%s[%d] was not evaluated", b.name(i), k)
			case v.waits(i, k):
				waiting = append(waiting, k)
				if evaluated || seen[a] != was.seen[a] || !v.fed(a) {
					t.Fatalf("%s[%d] waits, and changed", b.name(i), k)
				}
			case v.fed(a):
				if c, ok := b.p.run(n, v, k); ok && fmt.Sprint(c, ok) != seen[a] || !ok && v.tables[i].holds(v.tables[i].space.find(k)) {
					t.Fatalf("%s[%d] is %s, should be %v %v", b.name(i), k, seen[a], c, ok)
				}
			case v.tables[i].holds(v.tables[i].space.find(k)):
				t.Fatalf("%s[%d] has no source", b.name(i), k)
			}
			moved := slices.ContainsFunc(n.from, func(s int) bool { return seen[at{s, k}] != was.seen[at{s, k}] })
			if evaluated && !must && !moved { // its key may have gone and come
				free++
				early = append(early, k)
			}
		}
		for _, k := range early {
			for _, w := range waiting {
				if w < k {
					t.Fatalf("%s[%d] went before %d", b.name(i), k, w)
				}
			}
		}
	}
	if free > portion {
		t.Fatalf("%d rows were evaluated that could wait, of %v; the portion is %d", free, b.evaluated, portion)
	}
	if err := audit(b.g); err != nil || b.bad != "" {
		t.Fatal(err, b.bad)
	}
}

// hurry has some rows go with the next commit, and tells which of these waited.
func (b *rig) hurry(t *rapid.T, waited map[at]bool) {
	for range rapid.IntRange(0, 2).Draw(t, "hurries") {
		a := at{rapid.IntRange(0, len(b.p)-1).Draw(t, "node"), num(rapid.IntRange(0, domain-1).Draw(t, "k"))}
		if b.p[a.node].kind == "derive" {
			waited[a] = now{b}.waits(a.node, a.k)
			b.tables[a.node].Hurry(a.k)
		}
	}
}

// TestRowsThatWait: in random programs with random portions, a row is
// evaluated at once unless it may wait, and if it is told to go; what waits
// keeps its value; all else is what its function says of the rows there are; no
// commit evaluates more than its portion beyond what it must, and of that the
// first keys; and once nothing waits, everything is as if it had been written
// at once.
func TestRowsThatWait(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p := drawProgram(t).calm()
		inputs := state{}
		b := newRig(p)
		commit := func(edits []edit) {
			portion := rapid.IntRange(1, 3).Draw(t, "portion")
			b.g.Portion(portion)
			was := b.before()
			b.hurry(t, was.hurry)
			b.commit(edits)
			b.checkWaiting(t, was, portion)
		}
		for range rapid.IntRange(1, 12).Draw(t, "commits") {
			edits := drawEdits(t, p)
			inputs.write(edits)
			commit(edits)
		}
		for n := 0; b.g.Backlog() > 0; n++ {
			if n > 1000 {
				t.Fatal("the backlog does not end")
			}
			commit(nil)
		}
		b.same(t, inputs)
		b.g.Portion(0)
		b.clear(t)
	})
}

// same compares a rig with one that was given its inputs at once.
func (b *rig) same(t *rapid.T, inputs state) {
	once := newRig(b.p)
	once.commit(slices.Collect(maps.Values(inputs)))
	for i, n := range b.p {
		if n.kind == "index" {
			continue
		}
		var a, z bytes.Buffer
		if err := b.g.WriteText(&a, b.name(i)); err != nil {
			t.Fatal(err)
		}
		if err := once.g.WriteText(&z, once.name(i)); err != nil {
			t.Fatal(err)
		}
		if a.String() != z.String() {
			t.Fatalf("%s holds\n%s at once\n%s", b.name(i), &a, &z)
		}
	}
}

// TestPortions: a large change is worked off in portions, in the order of keys,
// and a row of its own change does not wait with the others.
func TestPortions(t *testing.T) {
	const n, portion = 1000, 10
	g := New()
	common, own := Input[num, num](g, "common"), Input[num, num](g, "own")
	var evaluated []num
	sums := Derive(g, "sums", func(r *Reader, k num) (num, bool) {
		evaluated = append(evaluated, k)
		a, _ := common.Get(r, 0)
		b, _ := own.Get(r, k)
		return a + b, true
	}, own)
	MayWait(sums, common)
	g.Portion(portion)
	g.Commit(func(tx *Tx) {
		for k := range num(n) {
			own.Set(tx, k, k)
		}
	})
	evaluated = nil
	g.Commit(func(tx *Tx) { common.Set(tx, 0, 1) })
	if want := []num{0, 1, 2, 3, 4, 5, 6, 7, 8, 9}; !slices.Equal(evaluated, want) {
		t.Errorf("evaluated %v, want the first, %v", evaluated, want)
	}
	if g.Backlog() != n-portion {
		t.Errorf("%d rows wait, want %d", g.Backlog(), n-portion)
	}
	evaluated = nil
	g.Commit(func(tx *Tx) { own.Set(tx, 200, 0) })
	if got, _ := sums.Get(nil, 200); got != 1 || len(evaluated) != portion+1 {
		t.Errorf("a row with a change of its own is %d, want 1; evaluated %v", got, evaluated)
	}
	for _, k := range []num{n - 1, 0, 200, n} { // one waits
		sums.Hurry(k)
	}
	evaluated = nil
	g.Commit(func(*Tx) {})
	if got, _ := sums.Get(nil, n-1); got != n || len(evaluated) != portion+1 {
		t.Errorf("a row that was to go next is %d, want %d; evaluated %v", got, n, evaluated)
	}
	turns := 1
	for ; g.Backlog() > 0; turns++ {
		if s := g.Commit(func(*Tx) {}); s.Evaluated > portion {
			t.Fatalf("a turn evaluated %d rows", s.Evaluated)
		}
	}
	if turns != 98 {
		t.Errorf("the rest took %d turns, want 98", turns)
	}
	for k := range num(n) {
		if got, _ := sums.Get(nil, k); got != 1+k && k != 200 {
			t.Errorf("row %d is %d", k, got)
		}
	}
}

// TestSharesOfAPortion: tables that wait side by side end together.
func TestSharesOfAPortion(t *testing.T) {
	g := New()
	common, few, many := Input[num, num](g, "common"), Input[num, num](g, "few"), Input[num, num](g, "many")
	count := map[string]int{}
	for name, from := range map[string]*Table[num, num]{"a": few, "b": many} {
		MayWait(Derive(g, name, func(r *Reader, k num) (num, bool) {
			count[name]++
			return common.Get(r, 0)
		}, from), common)
	}
	g.Commit(func(tx *Tx) {
		for k := range num(1000) {
			many.Set(tx, k, k)
			if k < 100 {
				few.Set(tx, k, k)
			}
		}
	})
	clear(count)
	g.Portion(110)
	g.Commit(func(tx *Tx) { common.Set(tx, 0, 1) })
	if count["a"] != 10 || count["b"] != 100 {
		t.Errorf("evaluated %v, want 10 and 100", count)
	}
}
