package main

import (
	"testing"
	"time"
)

// What is at rest costs nothing, however long the wait is; what is beside a span in
// which proxies were told belongs to it.
func TestAboveRest(t *testing.T) {
	const ms = time.Millisecond
	quiet, told, after := span{10 * ms, 100 * ms, false}, span{50 * ms, 100 * ms, true}, span{12 * ms, 100 * ms, false}
	for _, c := range []struct {
		name  string
		spans []span
		want  time.Duration
	}{
		{"nothing", nil, 0},
		{"only rest", []span{quiet, quiet, quiet}, 0},
		{"all told", []span{told, told}, 100 * ms},
		{"told in the middle", []span{quiet, quiet, quiet, told, after, quiet, quiet}, 42 * ms},
		{"told at the end", []span{quiet, quiet, told}, 40 * ms},
	} {
		if got := aboveRest(c.spans); got != c.want {
			t.Errorf("%s: %v, want %v", c.name, got, c.want)
		}
	}
}
