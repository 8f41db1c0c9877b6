package main

import (
	"fmt"
	"runtime"
	"time"

	"github.com/spillway-dev/spillway/internal/app"
)

// crowd is a fleet without hosts: edges, members, and proxies of each edge that
// report all members.
type crowd struct{ edges, members, proxies int }

func (c crowd) String() string {
	return fmt.Sprintf("%d_edges_%d_members_%d_proxies", c.edges, c.members, c.proxies)
}

// The loop of both has the same to do: nothing.
var fewMany = [2]crowd{{2, 3, 3}, {200, 300, 3}}

// measureRest adds what a turn of the loop costs that has nothing to do, in CPU
// time, and how much more in the larger fleet. The loops run in this process:
// 600 proxies and 300 members are more than this machine can play.
func measureRest(out *figures) {
	var took [2]time.Duration
	for i, c := range fewMany {
		took[i] = restingTurn(c)
		out.add("turn.at_rest_us_"+c.String(), params{}, micro(took[i]), "us")
	}
	out.add("turn.more_at_rest_us", params{}, max(0, micro(took[1]-took[0])), "us")
}

// restingTurn is the median of batches of turns. A batch is long, since a thread's
// CPU time is counted in ticks of some milliseconds.
func restingTurn(c crowd) time.Duration {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	const batches, turns = 9, 10_000
	r := app.NewRest(c.edges, c.members, c.proxies)
	runtime.GC() // of what it took to make it
	r.Report()
	var took []time.Duration
	for range batches {
		start := ownCPU()
		r.Turns(turns)
		took = append(took, (ownCPU()-start)/turns)
	}
	return median(took)
}
