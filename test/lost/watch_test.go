package main

import "testing"

// What DNS may say instead of everything, and when.
func TestWhatDNSMaySay(t *testing.T) {
	const all, old = "192.0.2.1 192.0.2.2 192.0.2.3", "192.0.2.1 192.0.2.2"
	for answer, from := range map[string]phase{
		all: runs, old: joins, servfail: lacks, silence: ends, refused: ends,
		"NXDOMAIN": never, "": never, "192.0.2.1": never, "192.0.2.3": never, all + " 192.0.2.4": never,
	} {
		for p := runs; p <= ends; p++ {
			if got := p.may(answer, all, old); got != (p >= from) {
				t.Errorf("%q in phase %d: %t", answer, p, got)
			}
		}
	}
}

const never = ends + 1
