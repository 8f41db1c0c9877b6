package main

import (
	"context"
	"fmt"
	"time"

	"github.com/spillway-dev/spillway/internal/xds"
	"github.com/spillway-dev/spillway/internal/xds/fanout"
)

// crews are nodes that each follow a few of many pools, first few of them and
// then many: what one node costs must not depend on the others.
type crews struct {
	pools, each int
	few, many   int
	rounds      int // of a pod that changes
}

func (c crews) String() string {
	return fmt.Sprintf("%d and %d nodes, each with %d of %d pools", c.few, c.many, c.each, c.pools)
}

// of are the pools of a node: all nodes together hold all of them in turn.
func (c crews) of(node int) []string {
	out := make([]string, c.each)
	for i := range out {
		out[i] = clusterOf((node*c.each + i) % c.pools)
	}
	return out
}

// holders counts the nodes that hold a pool.
func (c crews) holders(pool, nodes int) int {
	turn := c.pools / c.each // nodes after which the pools begin anew
	return (nodes + turn - 1 - pool/c.each) / turn
}

func (c crews) measure(ctx context.Context, out *figures) error {
	ctx, cancel := context.WithTimeout(ctx, 15*time.Minute) // for what is broken, not for what is slow
	defer cancel()
	w, err := newWorld(ctx, size{hosts: c.pools, endpoints: 2, members: 2}, 0, out)
	if err != nil {
		return err
	}
	defer w.close()
	if err := w.checkpointed(ctx); err != nil {
		return err
	}
	for _, n := range []int{c.few, c.many} {
		if err := c.crew(ctx, w, n); err != nil {
			return fmt.Errorf("%d nodes: %w", n, err)
		}
	}
	return nil
}

// crew connects nodes, changes pods and lets them go.
func (c crews) crew(ctx context.Context, w *world, n int) error {
	at := params{"hosts": c.pools, "members": w.members, "streams": n}
	heap, err := w.control.heap()
	if err != nil {
		return err
	}
	cpu := w.control.cpu()
	w.proxies, err = fanout.Dial(ctx, fanout.Options{Socket: w.control.socket(), Edge: edge, Count: n, Pools: c.of})
	if err != nil {
		return err
	}
	if err := w.proxies.AwaitUpserts(ctx, xds.ClusterLoadAssignment, int64(n*c.each)); err != nil {
		return err
	}
	w.out.add("nodes.connect_cpu_us", at, micro(w.control.cpu()-cpu)/float64(n), "us")
	if err := pause(ctx, time.Second); err != nil {
		return err
	}
	after, err := w.control.heap()
	if err != nil {
		return err
	}
	w.out.add("nodes.heap", at, (after-heap)/float64(n), "B")
	if err := c.pods(ctx, w, n, at); err != nil {
		return err
	}
	err = w.proxies.Close()
	w.proxies = nil
	return err
}

// pods measures changes of pools that some node holds, one after the other.
func (c crews) pods(ctx context.Context, w *world, n int, at params) error {
	idle, err := w.still(ctx)
	if err != nil {
		return err
	}
	cpu, start, told := w.control.cpu(), time.Now(), 0
	for round := range c.rounds {
		pool := round * 7919 % min(c.pools, n*c.each)
		told += c.holders(pool, n)
		want := w.proxies.Upserts(xds.ClusterLoadAssignment) + int64(c.holders(pool, n))
		w.api.tell(w.fleet.flipEndpoint(pool))
		if err := w.proxies.AwaitUpserts(ctx, xds.ClusterLoadAssignment, want); err != nil {
			return err
		}
		if err := pause(ctx, apart); err != nil {
			return err
		}
	}
	spent := w.control.cpu() - cpu - time.Duration(float64(idle)*time.Since(start).Seconds())
	w.out.add("nodes.pod_cpu_us", at, micro(spent)/float64(c.rounds), "us")
	w.out.add("nodes.pod_told", at, float64(told)/float64(c.rounds), "")
	return nil
}

// still is the CPU time in a second in which nothing happens.
func (w *world) still(ctx context.Context) (time.Duration, error) {
	cpu := w.control.cpu()
	err := pause(ctx, time.Second)
	return w.control.cpu() - cpu, err
}
