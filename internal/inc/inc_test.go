package inc

import (
	"cmp"
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

func TestSumPerGroup(t *testing.T) {
	g := New()
	in := Input[word, num](g, "in")
	by := IndexBy(in, func(k word, _ num) []word { return []word{k[:1]} })
	sums := Derive(g, "sums", func(r *Reader, k word) (num, bool) {
		var s num
		for _, n := range by.Get(r, k) {
			s += n
		}
		return s, s != 0
	}, by)
	top := Derive(g, "top", func(r *Reader, k word) (num, bool) {
		n, ok := sums.Get(r, k)
		if n > 100 {
			panic("too much")
		}
		return n / 10, ok
	}, sums)
	var told []Change[word, num]
	top.Watch(func(cs []Change[word, num]) { told = append(told, cs...) })
	s := g.Commit(func(tx *Tx) {
		in.Set(tx, "a1", 10)
		in.Set(tx, "a2", 11)
		in.Set(tx, "b1", 30)
	})
	if s != (Stats{Evaluated: 4, Changed: 7}) {
		t.Error(s)
	}
	if s := g.Commit(func(tx *Tx) { in.Set(tx, "a2", 12) }); s != (Stats{Evaluated: 2, Changed: 2}) {
		t.Error(s)
	}
	if s := g.Commit(func(tx *Tx) { in.Set(tx, "a2", 999) }); s != (Stats{Evaluated: 2, Changed: 2}) {
		t.Error(s)
	}
	if n, ok := top.Get(nil, "a"); n != 2 || !ok {
		t.Error(n, ok)
	}
	fs := g.Faults()
	if len(fs) != 1 || fs[0].Panic != "too much" || !strings.HasPrefix(fs[0].At, "inc_test.go:") || !slices.Equal(fs[0].Reads, []Read{{"sums", "a"}}) {
		t.Error(fs)
	}
	g.Commit(func(tx *Tx) { in.Delete(tx, "a2") })
	if n, ok := top.Get(nil, "a"); n != 1 || !ok || len(g.Faults()) != 0 {
		t.Error(n, ok)
	}
	if len(told) != 3 {
		t.Error(told)
	}
}
