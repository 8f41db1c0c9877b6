package main

import (
	"context"
	"fmt"
	"time"
)

// leafWorlds are hosts whose roots are leaves in two members each, in few members and in
// many, of which each has as many endpoints.
type leafWorlds struct {
	hosts     int
	few, many int           // members
	endpoints int           // that a member has
	rounds    int           // of a set
	rest      time.Duration // in which nothing is written
}

func (c leafWorlds) String() string {
	return fmt.Sprintf("%d hosts, each a leaf in two members, of %d and of %d with %d endpoints each", c.hosts, c.few, c.many, c.endpoints)
}

// measure reports what a member takes, and what changes cost, times those in few members.
func (c leafWorlds) measure(ctx context.Context, out *figures) error {
	var all [2]leafCosts
	for i, members := range []int{c.few, c.many} {
		var err error
		if all[i], err = c.among(ctx, members, out); err != nil {
			return fmt.Errorf("%d members: %w", members, err)
		}
	}
	few, many := all[0], all[1]
	more, at := float64(c.many-c.few), params{"members": c.many, "hosts": c.hosts}
	out.add("leaves.heap_per_member", at, (many.heap-few.heap)/more, "B")
	out.add("leaves.stacks_per_member", at, (many.stacks-few.stacks)/more, "B")
	out.add("leaf_edit.growth_of_cpu_us", params{}, many.edit/few.edit, "")
	out.add("leaf_status.growth_of_cpu_us", params{}, many.status/few.status, "")
	return nil
}

// leafCosts are what is compared: heap, and stacks apart from it, in bytes; CPU in
// microseconds a change.
type leafCosts struct{ heap, stacks, edit, status float64 }

func (c leafWorlds) among(ctx context.Context, members int, out *figures) (of leafCosts, err error) {
	ctx, cancel := context.WithTimeout(ctx, 15*time.Minute) // for what is broken, not for what is slow
	defer cancel()
	w, err := newWorldOf(ctx, size{hosts: c.hosts, endpoints: c.endpoints * members / c.hosts, members: members, leaves: true}, 0, 1, out)
	if err != nil {
		return of, err
	}
	defer w.close()
	if err := w.leavesThere(ctx); err != nil {
		return of, err
	}
	if err := w.checkpointed(ctx); err != nil {
		return of, err
	}
	both, err := w.control.heap()
	if err != nil {
		return of, err
	}
	if of.stacks, err = w.control.stacks(); err != nil {
		return of, err
	}
	of.heap = both - of.stacks
	if err := w.rest(ctx, c.rest); err != nil {
		return of, err
	}
	idle, err := w.leafRest(ctx, c.rest)
	if err != nil {
		return of, err
	}
	if of.edit, err = w.leafCost(ctx, "leaf_edit", asked{leaves: 2}, c.rounds, idle, func(i int) { w.api.tell(w.fleet.changePath(i)) }); err != nil {
		return of, err
	}
	of.status, err = w.leafCost(ctx, "leaf_status", asked{statuses: 1}, c.rounds, idle, func(i int) { w.api.leaves.address(w.fleet.first(i), namespaceOf(i)+"/"+nameOf(i)) })
	return of, err
}

// leavesThere waits until all leaves are written, and the statuses of their roots.
func (w *world) leavesThere(ctx context.Context) error {
	want := 0
	for m := range w.members {
		w.fleet.inMember(m, func(int) { want++ })
	}
	return w.control.until(ctx, "all leaves are there", 50*time.Millisecond, func() bool {
		leaves, statuses := w.api.leaves.there()
		return leaves == want && statuses == w.hosts
	})
}

// leafRest reports what is asked and spent while nothing changes.
func (w *world) leafRest(ctx context.Context, lasting time.Duration) (usage, error) {
	before := w.api.leaves.counts()
	used, err := w.window(ctx, lasting)
	now := w.api.leaves.counts()
	w.add("leaves.writes_at_rest", float64(now.leaves-before.leaves+now.statuses-before.statuses), "")
	used = used.per(lasting.Seconds())
	w.add("leaves.idle_cpu_ms_per_s", milli(used.control), "ms/s")
	return used, err
}

// leafSets is how often a cost is measured. The median counts: a collection of garbage
// costs as much as ten changes and more, and falls into some sets only.
const leafSets = 5

// leafCost makes sets of n changes one at a time, each when what follows from the one before
// is written (each), and returns the CPU time of one.
func (w *world) leafCost(ctx context.Context, name string, each asked, n int, idle usage, change func(host int)) (float64, error) {
	first, took := w.api.leaves.counts(), make([]time.Duration, leafSets)
	for set := range took {
		before, start := w.usage(), time.Now()
		for i := range n {
			round := set*n + i
			change(round * 7919 % w.hosts)
			err := w.control.until(ctx, name, time.Millisecond, func() bool {
				now := w.api.leaves.counts()
				return now.leaves-first.leaves >= (round+1)*each.leaves && now.statuses-first.statuses >= (round+1)*each.statuses
			})
			if err != nil {
				return 0, err
			}
		}
		if err := pause(ctx, time.Second); err != nil { // what follows late is counted
			return 0, err
		}
		resting := time.Duration(float64(idle.control) * time.Since(start).Seconds())
		took[set] = (w.usage().since(before).control - resting) / time.Duration(n)
	}
	now, changes := w.api.leaves.counts(), float64(leafSets*n)
	cpu := micro(median(took))
	w.add(name+".cpu_us", cpu, "us")
	w.add(name+".writes_in_members", float64(now.leaves-first.leaves)/changes, "")
	w.add(name+".writes_on_the_hub", float64(now.statuses-first.statuses)/changes, "")
	w.add(name+".reads_in_members", float64(now.reads-first.reads)/changes, "")
	return cpu, nil
}
