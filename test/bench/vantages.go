package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"k8s.io/apimachinery/pkg/watch"

	"github.com/spillway-dev/spillway/api/v1alpha1"
	"github.com/spillway-dev/spillway/internal/xds"
	"github.com/spillway-dev/spillway/internal/xds/fanout"
)

// places are edges that come one after the other, each with a proxy that
// acknowledges everything: first some at the place of the first one, then one at
// each of many other places. What the streams of their proxies take is not counted; it is
// that of some at the first edge. What an edge takes by itself is: up to some 30 KB, with
// what its goroutines take. Among 10,000 hosts that is little a host; among 1,000 it would
// hide what a host takes.
type places struct {
	hosts, beside, alike, others int
}

func (p places) String() string {
	return fmt.Sprintf("%d hosts, %d edges more at one place and %d at other places", p.hosts, p.alike, p.others)
}

// addEdge adds an edge: at the place of the first one, or one that no other has.
func (f *fleet) addEdge(i int, alike bool) edit {
	f.mu.Lock()
	defer f.mu.Unlock()
	o := f.edge()
	o.Name = edgeNamed(i)
	if !alike {
		o.Spec.Locality = v1alpha1.Locality{Region: v1alpha1.PlaceName(regionOf(i)), Zone: v1alpha1.PlaceName(fmt.Sprintf("zone-%d", i))}
	}
	f.edges = append(f.edges, o)
	return edit{place{member: hub, plural: "edges"}, watch.Added, o}
}

func edgeNamed(i int) string { return fmt.Sprintf("edge-%03d", i) }

func (p places) measure(ctx context.Context, out *figures) (err error) {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Minute) // for what is broken, not for what is slow
	defer cancel()
	w, err := newWorld(ctx, size{hosts: p.hosts, endpoints: perHost, members: base}, 0, out)
	if err != nil {
		return err
	}
	defer w.close()
	if err := w.checkpointed(ctx); err != nil {
		return err
	}
	var all []*fanout.Proxies
	defer func() {
		for _, each := range all {
			err = errors.Join(err, each.Close())
		}
	}()
	connect := func(name string, first, n int) error {
		some, err := w.dial(ctx, name, first, n)
		if err != nil {
			return err
		}
		all = append(all, some)
		return some.AwaitUpserts(ctx, xds.RouteConfiguration, int64(n*w.hostsServed()))
	}
	if err := connect(edge, 0, 1); err != nil {
		return err
	}
	alone, _, err := w.settled(ctx)
	if err != nil {
		return err
	}
	if err := connect(edge, 1, p.beside); err != nil {
		return err
	}
	heap, cpu, err := w.settled(ctx)
	if err != nil {
		return err
	}
	stream := (heap - alone) / float64(p.beside)
	out.add("vantages.stream_heap", params{"hosts": p.hosts, "members": base, "streams": 1 + p.beside}, stream, "B")
	i := 0
	for _, part := range []struct {
		name  string
		alike bool
		n     int
	}{{"vantages.edge_more", true, p.alike}, {"vantages.further", false, p.others}} {
		for range part.n {
			i++
			w.api.tell(w.fleet.addEdge(i, part.alike))
			if err := connect(edgeNamed(i), 0, 1); err != nil {
				return fmt.Errorf("%s: %w", edgeNamed(i), err)
			}
		}
		after, spent, err := w.settled(ctx)
		if err != nil {
			return err
		}
		at := params{"hosts": p.hosts, "members": base, "streams": 1 + p.beside + i}
		rows := float64(part.n * w.hostsServed())
		out.add(part.name+"_heap_per_host", at, (after-heap-float64(part.n)*stream)/rows, "B")
		out.add(part.name+"_cpu_us_per_host", at, micro(spent-cpu)/rows, "us")
		heap, cpu = after, spent
	}
	return nil
}

// dial connects proxies, as often as it takes until their edge is known.
func (w *world) dial(ctx context.Context, name string, first, n int) (*fanout.Proxies, error) {
	for {
		one, err := fanout.Dial(ctx, fanout.Options{Socket: w.control.socket(), Edge: name, First: first, Count: n})
		if errors.Is(err, io.EOF) && pause(ctx, apart) == nil { // it was refused before it had said all
			continue
		}
		if err != nil {
			return nil, err
		}
		soon, cancel := context.WithTimeout(ctx, time.Second)
		err = one.AwaitUpserts(soon, xds.Cluster, 1)
		cancel()
		if err == nil || ctx.Err() != nil {
			return one, err
		}
		_ = one.Close() // it was refused
	}
}

// settled is the live heap and the CPU time of the control plane, when it comes
// to rest.
func (w *world) settled(ctx context.Context) (heap float64, cpu time.Duration, err error) {
	for quiet := 0; quiet < 2; quiet++ {
		spent, err := w.still(ctx)
		if err != nil {
			return 0, 0, err
		}
		if spent > 100*time.Millisecond {
			quiet = -1
		}
	}
	cpu = w.control.cpu()
	heap, err = w.control.heap()
	return heap, cpu, err
}
