package inc

import (
	"fmt"
	"math"
	"strings"
	"testing"
)

// TestMisuse: what no program can do right panics, and says what it was.
func TestMisuse(t *testing.T) {
	other := Input[word, num](New(), "other")
	var kept *Reader
	var late *Tx
	write := func(p sums, f func(*Tx)) { p.g.Commit(f) }
	// inside runs f in a derivation.
	inside := func(p sums, f func(*Reader)) {
		Derive(p.g, "inside", func(r *Reader, _ word) (num, bool) { f(r); return 0, true }, p.sum)
		p.set("a", 1)
	}
	for _, c := range []struct {
		want string
		do   func(p sums)
	}{
		{"tens is derived", func(p sums) { write(p, func(tx *Tx) { p.tens.Set(tx, "a", 1) }) }},
		{"in is written outside its commit", func(p sums) { p.in.Set(nil, "a", 1) }},
		{"in is written outside its commit", func(p sums) {
			write(p, func(tx *Tx) { late = tx })
			p.in.Delete(late, "a")
		}},
		{"other is written outside its commit", func(p sums) { write(p, func(tx *Tx) { other.Set(tx, "a", 1) }) }},
		{"in can't share reads", func(p sums) { Shared(p.in) }},
		{"sum shares reads of tens, which is not declared before it", func(p sums) { Shared(p.sum, p.tens) }},
		{"tens can't share reads", func(p sums) { Shared(p.tens, p.sum); Shared(p.tens, p.in) }},
		{"Commit inside Commit", func(p sums) { write(p, func(*Tx) { p.set("a", 1) }) }},
		{"Commit inside Commit", func(p sums) {
			p.in.Watch(func([]Change[word, num]) { p.set("b", 1) })
			p.set("a", 1)
		}},
		{"after one that panicked", func(p sums) {
			func() {
				defer func() { _ = recover() }()
				write(p, func(*Tx) { panic("no") })
			}()
			p.set("a", 1)
		}},
		{"sum is declared twice", func(p sums) { Input[word, num](p.g, "sum") }},
		{"late is declared after the first commit", func(p sums) {
			p.set("a", 1)
			Input[word, num](p.g, "late")
		}},
		{"none has no source", func(p sums) { Derive(p.g, "none", func(*Reader, word) (num, bool) { return 0, true }) }},
		{"far takes its keys from another graph", func(p sums) {
			Derive(p.g, "far", func(*Reader, word) (num, bool) { return 0, true }, p.in, other)
		}},
		{"early reads later, which is not declared before it", func(p sums) {
			var later *Table[word, num]
			Derive(p.g, "early", func(r *Reader, k word) (num, bool) { return later.Get(r, k) }, p.in)
			later = Input[word, num](p.g, "later")
			p.set("a", 1)
		}},
		{"early reads later, which is not declared before it", func(p sums) {
			var by *Index[num, word, num]
			Derive(p.g, "early", func(r *Reader, _ word) (num, bool) { return num(len(by.Get(r, 1))), true }, p.in)
			by = IndexBy(Input[word, num](p.g, "later"), func(word, num) []num { return nil })
			p.set("a", 1)
		}},
		{"self reads self", func(p sums) {
			var self *Table[word, num]
			self = Derive(p.g, "self", func(r *Reader, k word) (num, bool) { return self.Get(r, k) }, p.in)
			p.set("a", 1)
		}},
		{"inside reads in without its Reader", func(p sums) { inside(p, func(*Reader) { p.in.Get(nil, "a") }) }},
		{"inside reads in without its Reader", func(p sums) { inside(p, func(*Reader) { p.by.Keys(nil, "a") }) }},
		{"inside reads in without its Reader", func(p sums) { inside(p, func(*Reader) { p.in.Keys() }) }},
		{"inside reads in without its Reader", func(p sums) { inside(p, func(*Reader) { p.in.Len() }) }},
		{"inside reads in without its Reader", func(p sums) { inside(p, func(*Reader) { p.by.Groups() }) }},
		{"read of in through a Reader of another graph or past evaluation", func(p sums) {
			inside(p, func(r *Reader) { kept = r })
			p.in.Get(kept, "a")
		}},
		{"read of other through a Reader of another graph", func(p sums) { inside(p, func(r *Reader) { other.Get(r, "a") }) }},
		{"does not equal itself", func(p sums) {
			in := Input[odd, num](p.g, "odd")
			for range 3 {
				write(p, func(tx *Tx) { in.Delete(tx, odd(math.NaN())) })
			}
		}},
		{"was changed in place", func(p sums) {
			g := New()
			in := Input[word, list](g, "in")
			IndexBy(in, func(_ word, l list) []num { return l })
			v := list{1}
			g.Commit(func(tx *Tx) { in.Set(tx, "a", v) })
			v[0] = 2
			g.Commit(func(tx *Tx) { in.Delete(tx, "a") })
		}},
	} {
		t.Run(c.want, func(t *testing.T) {
			defer func() {
				p := recover()
				if _, ok := p.(misuse); !ok || !strings.HasPrefix(fmt.Sprint(p), "inc: ") || !strings.Contains(fmt.Sprint(p), c.want) {
					t.Errorf("got %v", p)
				}
			}()
			c.do(newSums())
		})
	}
}

type odd float64

func (o odd) Compare(odd) int { return 0 }

type list []num

func (l list) Equal(list) bool { return false }
