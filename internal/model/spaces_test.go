package model

import (
	"testing"

	"pgregory.net/rapid"
)

// TestSpaces: in a member no two namespaces have the same name, whatever its map says, and
// the way back is the way there.
func TestSpaces(t *testing.T) {
	names := rapid.SampledFrom([]string{"a", "b", "c", "d", "e"})
	rapid.Check(t, func(t *rapid.T) {
		var all Spaces
		given := map[string]bool{}
		for _, of := range []string{"a", "b", "c", "d"} {
			as := rapid.SampledFrom([]string{"", "a", "b", "c", "d", "e", "-"}).Draw(t, of)
			if as == "-" || given[as] { // ingest refuses the second
				continue
			}
			given[as] = as != ""
			all = append(all, Space{of, as})
		}
		by := map[string]string{}
		for _, of := range []string{"a", "b", "c", "d", "e"} {
			as, ok := all.In(of)
			if !ok {
				continue
			}
			if other, taken := by[as]; taken {
				t.Fatalf("%v: %s and %s are both %s", all, other, of, as)
			}
			by[as] = of
			if back, ok := all.Back(as); !ok || back != of {
				t.Fatalf("%v: %s is %s, and back %s %v", all, of, as, back, ok)
			}
		}
		as := names.Draw(t, "as")
		if of, ok := all.Back(as); ok && by[as] != of {
			t.Fatalf("%v: %s is of %s, and nobody's", all, as, of)
		}
	})
}
