package main

import (
	"context"
	"time"

	"github.com/spillway-dev/spillway/internal/xds"
)

// writers create routes one by one: each begins the next when the client has
// been told of one.
const writers = 8

// lastOnes is how many routes are measured, the last of a fleet.
const lastOnes = 1000

// oneByOne reports what a route costs the control plane that is created while
// a fake proxy is connected, the last of a number of hosts. Those before are
// there from the start.
func oneByOne(ctx context.Context, hosts, last int, out *figures) error {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Minute)
	defer cancel()
	w, err := newWorldOf(ctx, size{hosts: hosts - last, endpoints: perHost, members: base}, 0, 1, out)
	if err != nil {
		return err
	}
	defer w.close()
	if err := w.connect(ctx); err != nil {
		return err
	}
	if err := w.checkpointed(ctx); err != nil {
		return err
	}
	routes, places := w.proxies.Upserts(xds.RouteConfiguration), w.proxies.Upserts(xds.ClusterLoadAssignment)
	before, start := w.control.cpu(), time.Now()
	for n := range last {
		if err := w.proxies.AwaitUpserts(ctx, xds.RouteConfiguration, routes+int64(n-writers+1)); err != nil {
			return err
		}
		for _, e := range w.fleet.grow() {
			w.api.tell(e)
		}
	}
	if err := w.proxies.AwaitUpserts(ctx, xds.RouteConfiguration, routes+int64(last)); err != nil {
		return err
	}
	if err := w.proxies.AwaitUpserts(ctx, xds.ClusterLoadAssignment, places+int64(last)); err != nil {
		return err
	}
	used, took := w.control.cpu()-before, time.Since(start)
	at := params{"hosts": hosts}
	out.add("load_one_by_one.cpu_us_per_route", at, micro(used)/float64(last), "us")
	out.add("load_one_by_one.per_second", at, float64(last)/took.Seconds(), "/s")
	return w.sanity()
}
