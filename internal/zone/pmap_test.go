package zone

import (
	"maps"
	"testing"

	"pgregory.net/rapid"
)

// TestMapIsAMap compares with a map of the language, on hashes so short that
// keys collide fully or share long paths.
func TestMapIsAMap(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		hashes := []uint64{0, 1, 1 << 63, 33, 1 << 5}
		hashOf := func(k Name) uint64 { return hashes[int(k[0])%len(hashes)] }
		var root *branch[int]
		twin := map[Name]int{}
		keys := rapid.StringMatching("[a-m]")
		for range rapid.IntRange(0, 40).Draw(t, "steps") {
			k, old, before := Name(keys.Draw(t, "key")), root, maps.Clone(twin)
			if _, had := twin[k]; had && rapid.Bool().Draw(t, "delete") {
				root = root.without(hashOf(k), k, 0)
				delete(twin, k)
			} else {
				v := rapid.Int().Draw(t, "value")
				next, added := root.with(&leaf[int]{hash: hashOf(k), key: k, val: v}, 0)
				if (added == 1) == had {
					t.Fatalf("added %d, had %v", added, had)
				}
				root, twin[k] = next, v
			}
			sameMap(t, old, before, hashOf)
			sameMap(t, root, twin, hashOf)
		}
	})
}

func sameMap(t *rapid.T, root *branch[int], want map[Name]int, hashOf func(Name) uint64) {
	got := map[Name]int{}
	root.walk(func(k Name, v int) bool { got[k] = v; return true })
	if !maps.Equal(got, want) {
		t.Fatalf("holds %v, want %v", got, want)
	}
	for k := Name("a"); k <= "m"; k = Name(k[0] + 1) {
		v, ok := root.find(hashOf(k), []byte(k))
		if w, had := want[k]; ok != had || v != w {
			t.Fatalf("find %s: %d %v, want %d %v", k, v, ok, w, had)
		}
	}
	if len(want) == 0 && root != nil {
		t.Fatal("an empty map keeps branches")
	}
}

func TestMapCountsItsKeys(t *testing.T) {
	var m pmap[int]
	names := make([]Name, 3000)
	for i := range names {
		names[i] = hostName(i)
		m = m.with(names[i], i)
		m = m.with(names[i], i)
	}
	for i, n := range names {
		if v, ok := m.get([]byte(n)); !ok || v != i {
			t.Fatalf("%s: %d %v", n, v, ok)
		}
	}
	if m.size != len(names) {
		t.Fatalf("size %d", m.size)
	}
	for _, n := range names {
		m = m.without(n)
	}
	if m = m.without(names[0]); m.size != 0 || m.root != nil {
		t.Fatalf("left %d", m.size)
	}
}
