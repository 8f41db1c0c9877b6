package main

import (
	"math/rand/v2"
	"os"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"time"
)

// yardstick is a calculation that never changes, done again and again during a
// run: its CPU time is a hint at how fast the machine was, when figures of two
// runs differ.
//
// It loads from memory, each time from where the load before said. Sorting told
// nothing: it took 79 to 80 ms while a route change took 0.58 to 0.87 ms. This
// goes along with that, but loosely (correlation 0.45 in 12 runs).
type yardstick struct {
	took  []time.Duration
	ticks []float64 // of /proc/stat at the start
	next  []uint32  // one cycle through all of it
	at    uint32    // where it is
}

const (
	yardstickMiB   = 16
	yardstickLoads = 1_000_000
)

func newYardstick() *yardstick {
	y := &yardstick{ticks: machineTicks(), next: make([]uint32, yardstickMiB<<20/4)}
	order := rand.New(rand.NewPCG(1, 2)).Perm(len(y.next))
	for i, at := range order {
		y.next[at] = uint32(order[(i+1)%len(order)])
	}
	return y
}

// lay adds the median of five.
func (y *yardstick) lay() {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	var took []time.Duration
	for range 5 {
		start := ownCPU()
		for range yardstickLoads {
			y.at = y.next[y.at]
		}
		took = append(took, ownCPU()-start)
	}
	y.took = append(y.took, median(took))
}

func (y *yardstick) report(out *figures) {
	if len(y.took) == 0 {
		return
	}
	out.add("yardstick.least_ms", params{}, milli(slices.Min(y.took)), "ms")
	out.add("yardstick.most_ms", params{}, milli(slices.Max(y.took)), "ms")
	if share, ok := stolen(y.ticks, machineTicks()); ok {
		out.add("yardstick.stolen_percent", params{}, share, "%")
	}
}

// stolen is the share, in percent, of the machine's CPU time that its host
// gave to others while somebody wanted it here.
func stolen(from, to []float64) (float64, bool) {
	const steal = 7 // proc_stat(5): user nice system idle iowait irq softirq steal
	if len(from) <= steal || len(to) <= steal {
		return 0, false
	}
	all := 0.0
	for i := range steal + 1 { // what guests took is in user and nice, too
		all += to[i] - from[i]
	}
	if all <= 0 {
		return 0, false
	}
	return 100 * (to[steal] - from[steal]) / all, true
}

// machineTicks are the numbers of the first line of /proc/stat.
func machineTicks() []float64 {
	body, _ := os.ReadFile("/proc/stat")
	line, _, _ := strings.Cut(string(body), "\n")
	var out []float64
	for _, word := range strings.Fields(strings.TrimPrefix(line, "cpu ")) {
		n, err := strconv.ParseFloat(word, 64)
		if err != nil {
			return nil
		}
		out = append(out, n)
	}
	return out
}
