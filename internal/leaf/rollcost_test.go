package leaf_test

import (
	"fmt"
	"testing"

	"github.com/spillway-dev/spillway/internal/fleet/fleettest"
)

// TestAnEditIsOfItsRootAlone: while others rest, nothing of them is looked at when a root
// is edited, or when a member tells of its leaf.
func TestAnEditIsOfItsRootAlone(t *testing.T) {
	const roots, members = 50, 10
	w := fleettest.New(declare)
	lines := []string{"config leaves leaf=nginx", "class members config=leaves", "placement shop/waves for=namespace waves=wave~one"}
	for m := range members {
		lines = append(lines, fmt.Sprintf("member m%d region=eu leaves=192.0.2.0/24 labels=wave:%s", m, map[bool]string{true: "one", false: "two"}[m == 0]), fmt.Sprintf("pods m%d shop/web 10.%d.0.1", m, m))
	}
	root := func(i int, label string) string {
		return fmt.Sprintf("ingress shop/r%d class=members full labels=v:%s h%d.example/->web:80", i, label, i)
	}
	for i := range roots {
		lines = append(lines, root(i, "a"))
	}
	lines = append(lines, "apply at=192.0.2.1", "roll", "roll")
	for _, c := range []struct {
		lines  []string
		tables map[string]int // evaluated, at most
	}{
		{lines, nil},
		{[]string{root(7, "b")}, map[string]int{"leaf.editions": 1, "leaf.Rollouts": 1, "leaf.stairs": 1, "leaf.elders": 1, "leaf.Leaves": members, "leaf.waves": 0, "leaf.casts": 1}},
		{[]string{"roll"}, map[string]int{"leaf.editions": 0, "leaf.Rollouts": 2, "leaf.stairs": 2, "leaf.elders": 1, "leaf.Leaves": members}},
		{[]string{"apply m0"}, map[string]int{"leaf.editions": 0, "leaf.Rollouts": 2, "leaf.stairs": 2, "leaf.elders": 0, "leaf.Leaves": 0}},
		{[]string{"cut m5"}, map[string]int{"leaf.editions": 0, "leaf.Rollouts": 1, "leaf.Leaves": 0}},
		{[]string{"heal m5", "member m5 region=eu leaves=192.0.2.0/24 labels=wave:one"}, map[string]int{"leaf.editions": 0, "leaf.waves": 1, "leaf.Rollouts": 2, "leaf.wave of members": members, "leaf.Leaves": 1}},
	} {
		before := fleettest.Evaluations(w.Graph)
		if _, err := w.Do(c.lines...); err != nil {
			t.Fatal(err)
		}
		w.Commit()
		after := fleettest.Evaluations(w.Graph)
		for table, most := range c.tables {
			if n := after[table] - before[table]; n > most {
				t.Errorf("after %v: %d rows of %s evaluated, not %d", c.lines, n, table, most)
			}
		}
	}
	if n := w.Program.In.Rollouts.Len(); n != roots {
		t.Errorf("%d roots are remembered, not %d", n, roots)
	}
}
