package model

import (
	"maps"
	"slices"
	"testing"

	"pgregory.net/rapid"
)

// TestEdgeSet: it is what a map would be, whatever order it was made in. Names
// are short, so that they begin with one another.
func TestEdgeSet(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		set, twin := EdgeSet{}, map[Edge]bool{}
		for range rapid.IntRange(0, 20).Draw(t, "steps") {
			e := Edge(rapid.StringMatching(`[a-c.-]{1,3}`).Draw(t, "edge"))
			if rapid.Bool().Draw(t, "with") {
				set, twin[e] = set.With(e), true
			} else {
				set = set.Without(e)
				delete(twin, e)
			}
			want := slices.SortedFunc(maps.Keys(twin), Edge.Compare)
			if got := set.Edges(); !slices.Equal(got, want) {
				t.Fatalf("%v, want %v", got, want)
			}
			if other := EdgesOf(slices.Concat(want, want)...); !set.Equal(other) {
				t.Fatalf("%v is not %v", set, other)
			}
			if set.Has(e) != twin[e] || len(set.Minus(EdgesOf(e)))+len(set.Minus(set.Without(e))) != len(twin) {
				t.Fatalf("%v in %v", e, set)
			}
		}
	})
}
