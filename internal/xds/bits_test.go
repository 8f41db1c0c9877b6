package xds

import (
	"maps"
	"slices"
	"testing"

	"pgregory.net/rapid"
)

// TestBitset: a bitset is what a map would be, and keeps no memory when empty.
func TestBitset(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var a, b bitset
		twin, other := map[uint32]bool{}, map[uint32]bool{}
		id := rapid.Uint32Range(0, 700)
		t.Repeat(map[string]func(*rapid.T){
			"set": func(t *rapid.T) {
				i := id.Draw(t, "i")
				if a.set(i) == twin[i] {
					t.Fatalf("set %d", i)
				}
				twin[i] = true
			},
			"set the other": func(t *rapid.T) {
				i := id.Draw(t, "i")
				b.set(i)
				other[i] = true
			},
			"clear": func(t *rapid.T) {
				i := id.Draw(t, "i")
				if a.clear(i) != twin[i] {
					t.Fatalf("clear %d", i)
				}
				delete(twin, i)
			},
			"add": func(*rapid.T) {
				a.add(&b)
				maps.Copy(twin, other)
			},
			"move": func(t *rapid.T) {
				ids, both := bitset{}, false
				for range rapid.IntRange(0, 20).Draw(t, "n") {
					i := id.Draw(t, "i")
					ids.set(i)
					if twin[i] {
						both, other[i] = true, true
						delete(twin, i)
					}
				}
				if a.move(&ids, &b) != both {
					t.Fatal("move")
				}
			},
			"each from": func(t *rapid.T) {
				start := id.Draw(t, "start")
				var got []uint32
				a.eachFrom(start, b.word, func(i uint32) bool { got = append(got, i); return true })
				want := slices.DeleteFunc(slices.Sorted(maps.Keys(twin)), func(i uint32) bool { return !other[i] })
				at, _ := slices.BinarySearch(want, start)
				if !slices.Equal(got, slices.Concat(want[at:], want[:at])) {
					t.Fatalf("from %d: %v of %v", start, got, want)
				}
			},
			"clear what is even, and set it again": func(*rapid.T) {
				a.each(func(i uint32) bool {
					if i%2 == 0 {
						a.clear(i)
						if i%4 == 0 {
							a.set(i)
						} else {
							delete(twin, i)
						}
					}
					return true
				})
			},
			"": func(t *rapid.T) { same(t, &a, twin); same(t, &b, other) },
		})
	})
}

func same(t *rapid.T, b *bitset, twin map[uint32]bool) {
	var got []uint32
	b.each(func(i uint32) bool { got = append(got, i); return true })
	if want := slices.Sorted(maps.Keys(twin)); !slices.Equal(got, want) || b.count() != len(want) || b.any() != (len(want) > 0) {
		t.Fatalf("%v, want %v", got, want)
	}
	for i := range uint32(720) {
		if b.has(i) != twin[i] {
			t.Fatalf("has %d", i)
		}
	}
	if len(twin) == 0 && b.words != nil {
		t.Fatal("empty, and keeps memory")
	}
}
