package main

import (
	"math"
	"testing"
)

func TestByChance(t *testing.T) {
	for _, c := range []struct {
		k, n int
		p    float64
		want bool
	}{
		{0, 0, 0.5, true}, // nobody asked
		{0, 400, 0, true},
		{1, 400, 0, false}, // weight 0 gets none
		{400, 400, 1, true},
		{399, 400, 1, false},
		{200, 400, 0.5, true},
		{249, 400, 0.5, true},  // 4.9 standard deviations
		{252, 400, 0.5, false}, // 5.2
		{148, 400, 0.5, false},
		{1, 1, 0.1, true}, // few answers say little
		{6, 10, 0.1, true},
		{9, 10, 0.1, false},
	} {
		if got := byChance(c.k, c.n, c.p); got != c.want {
			t.Errorf("%d of %d with %v: got %v", c.k, c.n, c.p, got)
		}
	}
}

func TestProbabilitiesAddUp(t *testing.T) {
	if got := atMost(300, 300, 0.25); math.Abs(got-1) > 1e-9 {
		t.Errorf("all together are %v", got)
	}
}
