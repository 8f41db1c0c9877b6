package inc

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
)

// TestAgenda: it is a set, in order.
func TestAgenda(t *testing.T) {
	rnd := rand.New(rand.NewPCG(1, 2))
	var a agenda
	twin := map[int]bool{}
	for range 2000 {
		if at := rnd.IntN(200); rnd.IntN(3) > 0 || !twin[at] {
			a.add(at)
			twin[at] = true
		} else {
			a.remove(at)
			delete(twin, at)
		}
		from := rnd.IntN(200)
		var got, want []int
		for at := a.next(from); at < 200; at = a.next(at + 1) {
			got = append(got, at)
		}
		for at := from; at < 200; at++ {
			if twin[at] {
				want = append(want, at)
			}
		}
		if !slices.Equal(got, want) {
			t.Fatalf("from %d: %v, want %v", from, got, want)
		}
	}
}

// TestOnlyTablesWithWorkAreStepped, however many there are: it is what makes an
// empty commit free.
func TestOnlyTablesWithWorkAreStepped(t *testing.T) {
	g := New()
	in := Input[num, num](g, "in")
	var last *Table[num, num]
	for i := range 100 {
		half := Derive(g, fmt.Sprint("half ", i), func(r *Reader, k num) (num, bool) {
			v, ok := in.Get(r, k)
			return v / 2, ok
		}, in)
		last = Derive(g, fmt.Sprint("same ", i), func(r *Reader, k num) (num, bool) { return half.Get(r, k) }, half)
	}
	const tables = 201
	for _, c := range []struct {
		what string
		f    func(*Tx)
		want int
	}{
		{"a first row", func(tx *Tx) { in.Set(tx, 1, 4) }, tables},
		{"nothing", func(*Tx) {}, 0},
		{"the same value", func(tx *Tx) { in.Set(tx, 1, 4) }, 1},
		{"one that only the first tables see", func(tx *Tx) { in.Set(tx, 1, 5) }, 101},
		{"one that all see", func(tx *Tx) { in.Set(tx, 1, 7) }, tables},
	} {
		before := g.steps
		g.Commit(c.f)
		if got := g.steps - before; got != c.want {
			t.Errorf("%s: %d tables were stepped, want %d", c.what, got, c.want)
		}
	}
	if v, _ := last.Get(nil, 1); v != 3 {
		t.Errorf("the last table has %d", v)
	}
}
