package main

import (
	"slices"
	"testing"
	"time"
)

func TestRightAnswers(t *testing.T) {
	at := func(s float64) time.Time { return time.Unix(1000, 0).Add(time.Duration(s * float64(time.Second))) }
	x := newTarget("a.example", "/", false, "404")
	x.allow(at(10), "200 web")
	x.only(at(20), "200 web")
	end := 20 + lag.Seconds()
	for _, c := range []struct {
		sent, done float64
		want       []string
	}{
		{1, 2, []string{"404"}},
		{9, 11, []string{"200 web", "404"}}, // on its way while the object was written
		{15, 16, []string{"200 web", "404"}},
		{end, end + 1, []string{"200 web", "404"}},
		{end + 1, end + 2, []string{"200 web"}},
	} {
		if got := x.right(at(c.sent), at(c.done)); !slices.Equal(got, c.want) {
			t.Errorf("from %v to %v: %q, want %q", c.sent, c.done, got, c.want)
		}
	}
	if got := x.now(); !slices.Equal(got, []string{"200 web"}) {
		t.Errorf("now %q", got)
	}
	x.allow(at(end).Add(2*kept), "404")
	if got := x.right(at(0), at(1)); len(got) != 0 || len(x.spans) != 2 {
		t.Errorf("the past is kept: %+v", x.spans)
	}
}

// TestChangedBack: what was right, became wrong and is right again.
func TestChangedBack(t *testing.T) {
	at := time.Unix(1000, 0)
	x := newTarget("a.example", "/", false, "404")
	x.only(at, "200 web")
	x.allow(at.Add(time.Second), "404")
	x.only(at.Add(2*time.Second), "404")
	late := at.Add(time.Minute / 2)
	if got := x.right(late, late); !slices.Equal(got, []string{"404"}) {
		t.Errorf("%q", got)
	}
}

func TestChoose(t *testing.T) {
	a, b := newTarget("a", "/", false), newTarget("b", "/", false)
	groups := []group{{"one", 1, []*target{a}}, {"two", 3, []*target{a, b}}}
	seen := map[*target]int{}
	for n := range 4 {
		for m := range 2 {
			seen[choose(groups, n, m)]++
		}
	}
	if seen[a] != 5 || seen[b] != 3 {
		t.Errorf("a %d, b %d", seen[a], seen[b])
	}
}
