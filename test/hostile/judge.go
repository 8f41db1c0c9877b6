package main

import (
	"fmt"
	"slices"
	"time"
)

// figures are what a run measured: the last line of its output.
type figures struct {
	OK       bool     `json:"ok"`
	Failed   []string `json:"failed,omitempty"` // what did not hold
	Cage     string   `json:"cage"`
	CPUs     int      `json:"cpus"`
	Seconds  float64  `json:"seconds"` // of the attack
	Baseline phase    `json:"baseline"`
	Attack   phase    `json:"attack"`
	// What attackers did, by name.
	Done map[string]deeds `json:"done"`
	Soak soakReport       `json:"soak"`
	// Untimed: times are not judged.
	Untimed bool `json:"untimed,omitempty"`
}

// phase is what was measured in a part of a run.
type phase struct {
	Changes  int     `json:"changes"` // of endpoints
	P50      float64 `json:"p50_ms"`
	P99      float64 `json:"p99_ms"`
	Max      float64 `json:"max_ms"`
	Write    float64 `json:"write_p99_ms"` // of these, what the member's API server took for the write
	ServeCPU float64 `json:"serve_cpu_s"`  // seconds of CPU for each second
	ServeRSS int64   `json:"serve_rss_mb"`
	DNSDrops int64   `json:"dns_drops"` // UDP packets to serve that the kernel had no room for
}

// soakReport is what is needed of the soak's.
type soakReport struct {
	OK       bool   `json:"ok"`
	Error    string `json:"error,omitempty"`
	Requests struct {
		Sent   int     `json:"sent"`
		Failed int     `json:"failed"`
		P50    float64 `json:"p50_ms"`
		P99    float64 `json:"p99_ms"`
	} `json:"requests"`
	Lasting struct {
		Statuses   int `json:"statuses"`
		Lost       int `json:"statuses_lost"`
		Asked      int `json:"dns_asked"`
		Wrong      int `json:"dns_wrong"`
		Unanswered int `json:"dns_unanswered"`
		SilenceMS  int `json:"dns_silence_ms"`
	} `json:"lasting"`
	MemoryMost map[string]int64 `json:"memory_most_mb"`
}

// Bounds.
const (
	// slower is how much slower endpoint changes of others may be.
	slower = 2
	// floor, in milliseconds: a baseline below is taken for this. One pause of
	// the kernel's scheduler is a p99 of three hundred changes.
	floor = 25
	// fewest changes make a p99.
	fewest = 300
	// mostMemory of serve, in MB.
	mostMemory = 1024
)

// check is something that must hold.
type check struct {
	ok   bool
	what string
}

func (c check) String() string {
	return fmt.Sprintf("%-6s  %s", map[bool]string{true: "ok", false: "FAILED"}[c.ok], c.what)
}

// judge lists what must hold.
func (f figures) judge() []check {
	l, q := f.Soak.Lasting, f.Soak.Requests
	memory := max(f.Attack.ServeRSS, f.Soak.MemoryMost["serve"]) // what an attack leaves behind counts, too
	out := []check{
		{q.Sent > 0 && q.Failed == 0, fmt.Sprintf("%d of %d requests failed", q.Failed, q.Sent)},
		{l.Asked > 0 && l.Wrong+l.Unanswered == 0, fmt.Sprintf("%d DNS questions of an honest client: %d answered wrong, %d not", l.Asked, l.Wrong, l.Unanswered)},
		{l.Statuses > 0 && l.Lost == 0, fmt.Sprintf("%d statuses, %d lost", l.Statuses, l.Lost)},
		{f.Baseline.Changes >= fewest && f.Attack.Changes >= fewest, fmt.Sprintf("%d endpoint changes before, %d in the attack; %d are needed", f.Baseline.Changes, f.Attack.Changes, fewest)},
		f.slowness(),
		{memory > 0 && memory <= mostMemory, fmt.Sprintf("memory of serve: at most %d MB, the bound is %d", memory, mostMemory)},
		{f.Soak.OK, "the soak: every edit came, everything is in sync afterwards, no process ended: " + f.Soak.Error},
	}
	for _, a := range attacks {
		if d, part := f.Done[a.name]; part {
			out = append(out, check{d.Done > 0, fmt.Sprintf("%s: %d done, %d of them refused, %d left out", a.name, d.Done, d.Refused, d.Late)})
		}
	}
	return out
}

// slowness is how much slower endpoint changes of others were.
func (f figures) slowness() check {
	most, judged := slower*max(f.Baseline.P99, floor), ""
	if f.Untimed {
		judged = ", not judged"
	}
	return check{f.Untimed || f.Attack.P99 <= most, fmt.Sprintf("endpoint changes of others: p99 %.1f ms, at most %.1f%s (before: %.1f)", f.Attack.P99, most, judged, f.Baseline.P99)}
}

// times sums up how long changes took.
func times(took, wrote []time.Duration) phase {
	slices.Sort(took)
	slices.Sort(wrote)
	return phase{Changes: len(took), P50: quantile(took, 0.5), P99: quantile(took, 0.99), Max: quantile(took, 1), Write: quantile(wrote, 0.99)}
}

// quantile of sorted times, in milliseconds; 0 without any.
func quantile(sorted []time.Duration, q float64) float64 {
	if len(sorted) == 0 {
		return 0
	}
	at := sorted[min(int(q*float64(len(sorted))), len(sorted)-1)]
	return float64(at.Microseconds()) / 1000
}
