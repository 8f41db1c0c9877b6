package xds

import (
	"maps"
	"slices"
	"testing"

	"pgregory.net/rapid"
)

// TestSparse: it is what a map would be, and keeps no page that has nothing.
func TestSparse(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var s sparse[string]
		twin := map[uint32]string{}
		id := rapid.Uint32Range(0, 700)
		t.Repeat(map[string]func(*rapid.T){
			"put": func(t *rapid.T) {
				i, v := id.Draw(t, "i"), rapid.SampledFrom([]string{"", "a", "b"}).Draw(t, "v")
				s.put(i, v)
				twin[i] = v
			},
			"drop": func(t *rapid.T) {
				i := id.Draw(t, "i")
				s.drop(i)
				delete(twin, i)
			},
			"": func(t *rapid.T) {
				i := id.Draw(t, "i")
				if v, ok := twin[i]; s.ids.has(i) != ok || s.at(i) != v {
					t.Fatalf("%d is %q, %t; want %q, %t", i, s.at(i), s.ids.has(i), v, ok)
				}
				want := map[uint32]bool{}
				for i := range twin {
					want[i>>6] = true
				}
				var pages []uint32
				for i, page := range s.pages {
					if page != nil {
						pages = append(pages, s.first+uint32(i))
					}
				}
				if !slices.Equal(pages, slices.Sorted(maps.Keys(want))) || len(twin) == 0 && s.pages != nil {
					t.Fatalf("pages %v for %v", pages, twin)
				}
			},
		})
	})
}
