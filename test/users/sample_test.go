package main

import (
	"testing"
	"time"
)

func at(ms int) time.Time { return time.UnixMilli(int64(ms)) }

func TestStepsGoForwardOnAConnection(t *testing.T) {
	for _, c := range []struct {
		what string
		all  []sample
		ok   bool
	}{
		{"one after another", []sample{{"a", at(0), at(1), 1, true}, {"a", at(2), at(3), 2, true}}, true},
		{"back", []sample{{"a", at(0), at(1), 2, true}, {"a", at(2), at(3), 1, true}}, false},
		{"back later", []sample{{"a", at(0), at(1), 2, true}, {"a", at(2), at(3), 3, true}, {"a", at(4), at(5), 2, true}}, false},
		{"back on another connection", []sample{{"a", at(0), at(1), 2, true}, {"b", at(2), at(3), 1, true}}, true},
		{"sent before the answer", []sample{{"a", at(0), at(3), 2, true}, {"a", at(2), at(4), 1, true}}, true},
	} {
		if err := backwards(c.all); (err == nil) != c.ok {
			t.Errorf("%s: %v", c.what, err)
		}
	}
}

func TestBehind(t *testing.T) {
	all := []sample{{"a", at(0), at(1), 1, true}, {"a", at(2), at(10), 2, true}, {"b", at(14), at(15), 1, true}, {"b", at(16), at(17), 2, true}}
	if got := behind(all); got != 4*time.Millisecond {
		t.Errorf("got %s", got)
	}
}
