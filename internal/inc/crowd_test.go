package inc

import (
	"fmt"
	"testing"
)

// TestShared: rows that read alike keep that once, a change finds those that
// read it and no others, and what does not fit into the sets costs an edge each.
func TestShared(t *testing.T) {
	const n = 1000
	for _, c := range []struct {
		limit int
		edges int // n edges to rows of their own, and those of sets or of all rows
	}{{mostSets, n + 2*10}, {3, n + 2*3 + 2*(n-3*n/10)}, {0, n + 2*n}} {
		t.Run(fmt.Sprint(c.limit), func(t *testing.T) {
			g := New()
			members, class, own := Input[num, num](g, "members"), Input[num, num](g, "class"), Input[num, num](g, "own")
			rows := Derive(g, "rows", func(r *Reader, k num) (num, bool) {
				a, _ := members.Get(r, k%10)
				b, _ := class.Get(r, 0) // no row
				o, _ := own.Get(r, k)
				return a + b + o, true
			}, own)
			Shared(rows, members, class)
			rows.crowd.limit = c.limit
			g.Commit(func(tx *Tx) {
				for k := range num(n) {
					own.Set(tx, k, k)
				}
			})
			expect(t, "edges", g.edges.given, c.edges)
			expect(t, "of a member", g.Commit(func(tx *Tx) { members.Set(tx, 3, 1) }).Evaluated, n/10)
			expect(t, "of another one", g.Commit(func(tx *Tx) { members.Set(tx, 11, 1) }).Evaluated, 0)
			expect(t, "of all", g.Commit(func(tx *Tx) { class.Set(tx, 0, 1) }).Evaluated, n)
			steps := g.steps
			g.Commit(func(*Tx) {})
			expect(t, "steps without work", g.steps, steps)
			expect(t, "of one", g.Commit(func(tx *Tx) { own.Set(tx, 7, 0) }).Evaluated, 1)
			expect(t, "edges after it", g.edges.given, c.edges)
			if err := audit(g); err != nil {
				t.Fatal(err)
			}
		})
	}
}
