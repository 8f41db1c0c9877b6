package main

import (
	"maps"
	"slices"
	"testing"
)

// The lowest of what was measured several times is the figure, and all stay.
func TestLower(t *testing.T) {
	var f figures
	f.add("x", at(1, 1, 1), 1, "us") // another world
	f.add("x", at(2, 1, 1), 9, "us")
	for _, v := range []float64{7, 8, 5} {
		f.add("again.x", at(2, 1, 1), v, "us")
		f.lower("x", "again.x", at(2, 1, 1))
	}
	var got []float64
	for _, one := range f {
		got = append(got, one.Value)
	}
	if want := []float64{1, 5, 9, 8, 7}; !slices.Equal(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
}

// Medians are figure by figure; the rounds stay as they are.
func TestMedians(t *testing.T) {
	rounds := make([]figures, 3)
	for i, v := range []float64{3, 1, 2} {
		rounds[i].add("a", params{}, v, "us")
		rounds[i].add("b", params{"fronts": 10}, 10-v, "B")
	}
	got := medians(rounds)
	if len(got) != 2 || got[0].Value != 2 || got[1].Value != 8 || got[1].Unit != "B" || !maps.Equal(got[1].Params, params{"fronts": 10}) {
		t.Errorf("%+v", got)
	}
	if all := valuesOf(rounds, "a"); !slices.Equal(all, []float64{3, 1, 2}) {
		t.Errorf("%v", all)
	}
}
