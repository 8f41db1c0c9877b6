package inc

import (
	"cmp"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"testing"
)

// word and num are the keys and values of the tests.
type (
	word string
	num  int
)

func (w word) Compare(o word) int { return strings.Compare(string(w), string(o)) }
func (n num) Equal(o num) bool    { return n == o }
func (n num) Compare(o num) int   { return cmp.Compare(n, o) }

// sums is a program: words with numbers, their sum per first letter, and a
// tenth of that, which panics above 100.
type sums struct {
	g             *Graph
	in, sum, tens *Table[word, num]
	by            *Index[word, word, num]
}

func newSums() sums {
	g := New()
	p := sums{g: g, in: Input[word, num](g, "in")}
	p.by = IndexBy(p.in, func(k word, _ num) []word { return []word{k[:1]} })
	p.sum = Derive(g, "sum", func(r *Reader, k word) (num, bool) {
		var s num
		for _, n := range p.by.Get(r, k) {
			s += n
		}
		return s, true
	}, p.by)
	p.tens = Derive(g, "tens", func(r *Reader, k word) (num, bool) {
		n, ok := p.sum.Get(r, k)
		if n > 100 {
			panic(fmt.Sprint(n, " is too much"))
		}
		return n / 10, ok
	}, p.sum)
	return p
}

func (p sums) set(k word, n num) Stats {
	return p.g.Commit(func(tx *Tx) { p.in.Set(tx, k, n) })
}

func expect(t *testing.T, what string, got, want any) {
	t.Helper()
	if g, w := fmt.Sprintf("%+v", got), fmt.Sprintf("%+v", want); g != w {
		t.Errorf("%s: got %s, want %s", what, g, w)
	}
}

func TestStats(t *testing.T) {
	p := newSums()
	expect(t, "first", p.g.Commit(func(tx *Tx) {
		p.in.Set(tx, "a1", 1)
		p.in.Set(tx, "a2", 11)
		p.in.Set(tx, "b1", 30)
	}), Stats{Evaluated: 4, Changed: 3 + 2 + 2})
	expect(t, "no change", p.set("b1", 30), Stats{})
	expect(t, "cut off", p.set("a2", 12), Stats{Evaluated: 2, Changed: 2})
	expect(t, "all the way", p.set("a2", 22), Stats{Evaluated: 2, Changed: 3})
	expect(t, "tables", p.g.Tables(), []TableStat{
		{Name: "in", Input: true, Rows: 3},
		{Name: "sum", Rows: 2, Evaluations: 4},
		{Name: "tens", Rows: 2, Evaluations: 4},
	})
}

func TestLastWriteWins(t *testing.T) {
	p := newSums()
	var told []string
	p.in.Watch(func(cs []Change[word, num]) {
		for _, c := range cs {
			told = append(told, fmt.Sprintln(c.Key, c.Old != nil, c.New != nil))
		}
	})
	p.g.Commit(func(tx *Tx) {
		p.in.Set(tx, "b", 1)
		p.in.Set(tx, "a", 1)
		p.in.Set(tx, "c", 1)
		p.in.Delete(tx, "c")
		p.in.Delete(tx, "b")
		p.in.Set(tx, "b", 2)
	})
	expect(t, "told", told, []string{"a false true\n", "b false true\n"})
	n, _ := p.in.Get(nil, "b")
	expect(t, "b", n, 2)
	if n, ok := p.in.Get(nil, "c"); n != 0 || ok {
		t.Errorf("c is %d, %t", n, ok)
	}
}

func TestFault(t *testing.T) {
	p := newSums()
	var told [][]Fault
	p.g.WatchFaults(func(fs []Fault) { told = append(told, fs) })
	p.set("a", 20)
	p.set("b", 30)
	p.set("a", 200) // keeps 2
	p.set("c", 300) // has none to keep
	p.set("b", 40)  // b costs nothing to a and c, and tells nothing new
	expect(t, "times told", len(told), 2)
	fs := p.g.Faults()
	if len(fs) != 2 {
		t.Fatal(fs)
	}
	for i := range fs {
		if !strings.HasPrefix(fs[i].At, "inc_test.go:") {
			t.Error(fs[i].At)
		}
		fs[i].At = ""
	}
	expect(t, "faults", fs, []Fault{
		{Table: "tens", Key: "a", Panic: "200 is too much", Reads: []Read{{"sum", "a"}}},
		{Table: "tens", Key: "c", Panic: "300 is too much", Reads: []Read{{"sum", "c"}}},
	})
	expectText(t, p.g, "tens", "a  2  !200 is too much\nb  4\nc  !300 is too much\n")
	p.set("a", 50)
	p.g.Commit(func(tx *Tx) { p.in.Delete(tx, "c") })
	expectText(t, p.g, "tens", "a  5\nb  4\n")
	expect(t, "told last", told[len(told)-1], []Fault(nil))
}

func expectText(t *testing.T, g *Graph, table, want string) {
	t.Helper()
	var b strings.Builder
	if err := g.WriteText(&b, table); err != nil {
		t.Fatal(err)
	}
	expect(t, table, b.String(), want)
}

// TestFaultOfInput: a value that an index or Equal can't bear stays out.
func TestFaultOfInput(t *testing.T) {
	g := New()
	in := Input[word, num](g, "in")
	IndexBy(in, func(_ word, n num) []num { return []num{10 / n} })
	g.Commit(func(tx *Tx) {
		in.Set(tx, "a", 5)
		in.Set(tx, "b", 0)
	})
	g.Commit(func(tx *Tx) { in.Set(tx, "a", 0) })
	expectText(t, g, "in", "a  5  !runtime error: integer divide by zero\nb  !runtime error: integer divide by zero\n")
	g.Commit(func(tx *Tx) {
		in.Set(tx, "a", 5)
		in.Delete(tx, "b")
	})
	expectText(t, g, "in", "a  5\n")
}

func TestWhy(t *testing.T) {
	p := newSums()
	p.g.Commit(func(tx *Tx) {
		p.in.Set(tx, "a2", 2)
		p.in.Set(tx, "a1", 1)
	})
	expect(t, "tens", p.g.Why("tens", word("a"), 9), []Read{{"sum", "a"}})
	expect(t, "sum", p.g.Why("sum", word("a"), 9), []Read{{"in by inc.word", "a"}})
	expect(t, "index", p.g.Why("in by inc.word", word("a"), 9), []Read{{"in", "a1"}, {"in", "a2"}})
	expect(t, "the first", p.g.Why("in by inc.word", word("a"), 1), []Read{{"in", "a1"}})
	expect(t, "no reads wanted", p.g.Why("sum", word("a"), 0), []Read(nil))
	expect(t, "input", p.g.Why("in", word("a1"), 9), []Read(nil))
	expect(t, "no group", p.g.Why("in by inc.word", word("z"), 9), []Read(nil))
	expect(t, "no row", p.g.Why("sum", word("z"), 9), []Read(nil))
	expect(t, "a key of another type", p.g.Why("sum", "a", 9), []Read(nil))
	expect(t, "no table", p.g.Why("none", word("a"), 9), []Read(nil))
}

func TestIndexNames(t *testing.T) {
	g := New()
	in := Input[word, num](g, "in")
	for _, want := range []string{"in by inc.word", "in by inc.word (2)", "in by inc.word (3)"} {
		if x := IndexBy(in, func(word, num) []word { return nil }); x.name != want {
			t.Errorf("got %s, want %s", x.name, want)
		}
	}
}

// TestWatchSeesAll: watchers run when all tables are up to date, in the order
// of the tables, also if the program wrote them in another.
func TestWatchSeesAll(t *testing.T) {
	p := newSums()
	var order []string
	p.tens.Watch(func([]Change[word, num]) { order = append(order, "tens") })
	p.in.Watch(func([]Change[word, num]) {
		n, _ := p.tens.Get(nil, "a")
		order = append(order, fmt.Sprint("in sees ", n))
	})
	p.set("a", 70)
	expect(t, "order", order, []string{"in sees 7", "tens"})
}

type badWriter struct{}

var errFull = errors.New("full")

func (badWriter) Write([]byte) (int, error) { return 0, errFull }

func TestWriteTextFails(t *testing.T) {
	p := newSums()
	p.set("a", 1)
	if err := p.g.WriteText(badWriter{}, "in"); !errors.Is(err, errFull) {
		t.Error(err)
	}
	for _, name := range []string{"none", "in by inc.word"} {
		if p.g.WriteText(badWriter{}, name) == nil {
			t.Errorf("%q is no table", name)
		}
	}
}

// TestLoadIsForgotten: after a large first load a commit allocates what it
// would in a small program.
func TestLoadIsForgotten(t *testing.T) {
	bytes := func(rows int) uint64 {
		f := newFleet()
		f.load(rows)
		for i := range 100 { // what is kept for the next commit settles
			f.update(i, 1)
		}
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		for i := range 100 {
			f.update(i, 2)
		}
		runtime.ReadMemStats(&after)
		return after.TotalAlloc - before.TotalAlloc
	}
	if small, large := bytes(1000), bytes(50_000); large > small*3/2 {
		t.Errorf("%d bytes for 100 commits, after a large load %d", small, large)
	}
	f := newFleet()
	f.load(50_000)
	if n := cap(f.ready.dirty); n > keepDirty {
		t.Errorf("room for %d dirty rows is kept", n)
	}
}

// TestNumbersAreReused: rows and dependencies that come and go take no memory.
func TestNumbersAreReused(t *testing.T) {
	f := newFleet()
	f.load(1000)
	rows := len(f.slices.pages)
	edges := len(f.g.edges.pages)
	for i := range 6000 {
		k := f.keys[i%1000]
		if i/1000%2 == 0 {
			f.g.Commit(func(tx *Tx) { f.slices.Delete(tx, k) })
		} else {
			f.update(i%1000, i)
		}
	}
	if r, e := len(f.slices.pages), len(f.g.edges.pages); r != rows || e != edges {
		t.Errorf("rows and dependencies that need %d and %d pages took %d and %d", rows, edges, r, e)
	}
	if err := audit(f.g); err != nil {
		t.Error(err)
	}
}

// TestKeysOfUnion: a row whose key moves from one source to the other, and
// that read nothing that changed, is left alone.
func TestKeysOfUnion(t *testing.T) {
	g := New()
	a, b := Input[word, num](g, "a"), Input[word, num](g, "b")
	either := Derive(g, "either", func(*Reader, word) (num, bool) { return 1, true }, a, b)
	g.Commit(func(tx *Tx) { a.Set(tx, "k", 1) })
	expect(t, "moved", g.Commit(func(tx *Tx) {
		a.Delete(tx, "k")
		b.Set(tx, "k", 1)
	}).Evaluated, 0)
	g.Commit(func(tx *Tx) { b.Delete(tx, "k") })
	expect(t, "keys", slices.Clone(either.Keys()), []word{})
}

// TestMap: a program can be drawn from what was declared and what was read.
func TestMap(t *testing.T) {
	p := newSums()
	Shared(p.tens, p.sum)
	MayWait(p.tens, p.sum)
	p.set("a1", 1)
	expect(t, "map", p.g.Map(), []Node{
		{Name: "in", Key: "inc.word", Input: true},
		{Name: "in by inc.word", Key: "inc.word", Of: "in"},
		{Name: "sum", Key: "inc.word", From: []string{"in by inc.word"}, Reads: []string{"in by inc.word"}},
		{Name: "tens", Key: "inc.word", From: []string{"sum"}, Waits: []string{"sum"}, Shares: []string{"sum"}, Reads: []string{"sum"}},
	})
}
