package main

import (
	"fmt"
	"slices"
	"time"
)

// sample is one answer of the route whose weights are stepped.
type sample struct {
	conn       any // the client's
	sent, done time.Time
	step       int
	blue       bool
}

// backwards names the first answer of an older step than one that had been received on
// the same connection when it was asked for.
//
// A connection of a client is of one thread of Envoy as long as it is open; a thread
// gets tables of routes in their order, and a request has the one that its thread has
// when it comes. So on one connection steps never go back. Of several connections
// nothing is promised: threads are told one by one.
func backwards(all []sample) error {
	by := map[any][]sample{}
	for _, s := range all {
		by[s.conn] = append(by[s.conn], s)
	}
	for _, list := range by {
		slices.SortFunc(list, func(a, b sample) int { return a.done.Compare(b.done) })
		newest := make([]int, len(list)) // step of all that were done by then
		for i, s := range list {
			if newest[i] = s.step; i > 0 {
				newest[i] = max(newest[i-1], s.step)
			}
			// An answer that is no older than the request is not before it.
			n, _ := slices.BinarySearchFunc(list[:i], s.sent, func(o sample, t time.Time) int { return o.done.Compare(t) })
			if n > 0 && newest[n-1] > s.step {
				return fmt.Errorf("a request of %s was answered by step %d; expected was %d or later, of which an answer was there on the same connection when it was sent", s.sent.UTC().Format("15:04:05.000"), s.step, newest[n-1])
			}
		}
	}
	return nil
}

// behind is how long at most after the first answer of a step a request was sent, on any
// connection, that an older one answered.
func behind(all []sample) (most time.Duration) {
	sorted := slices.SortedFunc(slices.Values(all), func(a, b sample) int { return a.done.Compare(b.done) })
	var first []sample // of each step that was newer than all before, by step and time
	for _, s := range sorted {
		if len(first) == 0 || s.step > first[len(first)-1].step {
			first = append(first, s)
		}
	}
	for _, s := range all {
		if i, _ := slices.BinarySearchFunc(first, s.step+1, func(f sample, step int) int { return f.step - step }); i < len(first) {
			most = max(most, s.sent.Sub(first[i].done))
		}
	}
	return most
}
