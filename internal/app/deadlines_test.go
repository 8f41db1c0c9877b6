package app

import (
	"maps"
	"math/rand/v2"
	"slices"
	"testing"
	"time"
)

// TestDeadlines: a heap says what a scan of all entries would.
func TestDeadlines(t *testing.T) {
	rnd := rand.New(rand.NewPCG(1, 2))
	var d deadlines[int]
	twin, now := map[int]time.Time{}, time.Unix(0, 0)
	for range 10_000 {
		switch key := rnd.IntN(30); rnd.IntN(4) {
		case 0, 1:
			at := now.Add(time.Duration(rnd.IntN(50)) * time.Second)
			d.set(key, at)
			twin[key] = at
		case 2:
			d.drop(key)
			delete(twin, key)
		default:
			now = now.Add(time.Duration(rnd.IntN(5)) * time.Second)
			var got, want []int
			for key, ok := d.pop(now); ok; key, ok = d.pop(now) {
				got = append(got, key)
			}
			for key, at := range twin {
				if !now.Before(at) {
					want = append(want, key)
					delete(twin, key)
				}
			}
			slices.Sort(got)
			slices.Sort(want)
			if !slices.Equal(got, want) {
				t.Fatalf("due %v, want %v", got, want)
			}
		}
		var first time.Time
		for at := range maps.Values(twin) {
			first = sooner(first, at)
		}
		if !d.next().Equal(first) || len(d.places) != len(twin) {
			t.Fatalf("next %v of %d, want %v of %d", d.next(), len(d.places), first, len(twin))
		}
	}
}
