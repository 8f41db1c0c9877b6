package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"time"
)

// bare is what a control plane without a fleet takes.
type bare struct {
	cpu       time.Duration
	heap, rss float64
}

// measureBare starts a control plane with no hosts.
func measureBare(ctx context.Context) (bare, error) {
	var none figures
	w, err := newWorld(ctx, size{hosts: 0, endpoints: 10, members: 1}, 0, &none)
	if err != nil {
		return bare{}, err
	}
	defer w.close()
	b := bare{cpu: w.control.cpu()}
	b.heap, err = w.control.heap()
	b.rss = w.control.rss()
	return b, err
}

// loaded reports what the first list of a fleet took, until all of it is done,
// the checkpoint included, and what is kept.
func (w *world) loaded(ctx context.Context, empty bare) error {
	took := time.Since(w.control.began)
	if err := w.checkpointed(ctx); err != nil {
		return err
	}
	cpu := w.control.cpu()
	n := float64(w.hosts)
	w.listing = cpu - empty.cpu
	w.add("load.cpu_us_per_route", micro(w.listing)/n, "us")
	w.add("load.seconds", took.Seconds(), "s")
	heap, err := w.control.heap()
	if err != nil {
		return err
	}
	rss := w.control.rss()
	w.add("memory.heap_per_route", (heap-empty.heap)/n, "B")
	w.add("memory.rss_per_route", (rss-empty.rss)/n, "B")
	w.add("memory.rss_mib", rss/(1<<20), "MiB")
	return nil
}

// synced connects the real Envoy, and reports what the first list took until it
// has acknowledged everything, and what is kept then.
func (w *world) synced(ctx context.Context, empty bare) error {
	before := w.control.cpu()
	if err := w.connectEnvoy(ctx); err != nil {
		return err
	}
	n := float64(w.hosts)
	w.add("load.in_sync_cpu_us_per_route", micro(w.listing+w.control.cpu()-before)/n, "us")
	if err := w.checkpointed(ctx); err != nil { // what is acknowledged waits to be written
		return err
	}
	heap, err := w.control.heap()
	if err != nil {
		return err
	}
	w.add("memory.in_sync_heap_per_route", (heap-empty.heap)/n, "B")
	return nil
}

// connected reports what the fake proxies took to be filled, and keep. The
// real one is there before: what the first of an edge adds, which hosts it
// acknowledged, is not of a stream.
func (w *world) connected(ctx context.Context) error {
	heap, err := w.control.heap()
	if err != nil {
		return err
	}
	rss, cpu, start := w.control.rss(), w.control.cpu(), time.Now()
	if err := w.connect(ctx); err != nil {
		return err
	}
	n := float64(w.streams)
	w.add("stream.sync_cpu_ms", milli(w.control.cpu()-cpu)/n, "ms")
	w.add("stream.sync_seconds_all", time.Since(start).Seconds(), "s")
	w.add("stream.sync_bytes", float64(w.proxies.Bytes())/n, "B")
	if err := pause(ctx, time.Second); err != nil {
		return err
	}
	after, err := w.control.heap()
	if err != nil || w.streams == 1 { // one alone is lost in what else moves
		return err
	}
	w.add("stream.heap", (after-heap)/n, "B")
	w.add("stream.rss", (w.control.rss()-rss)/n, "B")
	return w.healthStreams(ctx, after)
}

// healthStreams reports what a stream of health discovery keeps beside each of
// the others. The heap is that without them.
func (w *world) healthStreams(ctx context.Context, heap float64) error {
	open, end := context.WithCancel(ctx)
	defer end()
	if err := w.proxies.Health(open); err != nil {
		return err
	}
	if err := pause(ctx, time.Second); err != nil {
		return err
	}
	after, err := w.control.heap()
	if err != nil {
		return err
	}
	w.add("health_stream.heap", (after-heap)/float64(w.streams), "B")
	return nil
}

// perEndpoint reports what an endpoint more takes: a second fleet has twice as
// many behind each host.
func perEndpoint(ctx context.Context, s size, out *figures) error {
	var none figures
	heap := make([]float64, 2)
	for i := range heap {
		w, err := newWorld(ctx, s, 0, &none)
		if err != nil {
			return err
		}
		if err = w.checkpointed(ctx); err == nil { // what is yet to be written is no endpoint
			heap[i], err = w.control.heap()
		}
		w.close()
		if err != nil {
			return err
		}
		s.endpoints *= 2
	}
	s.endpoints /= 4
	out.add("memory.heap_per_endpoint", params{"hosts": s.hosts, "members": s.members, "streams": 0}, (heap[1]-heap[0])/float64(s.hosts*s.endpoints), "B")
	return nil
}

// restart kills the control plane and starts it again beside an Envoy that
// goes on. It reports how long Envoy is without, and what it is sent.
func (w *world) restart(ctx context.Context) error {
	if err := w.checkpointed(ctx); err != nil {
		return err
	}
	_ = w.proxies.Close()
	w.proxies = nil
	w.api.prepare()
	w.control.kill()
	killed := time.Now()
	var err error
	if w.control, err = startControl(w.dir, w.api, w.env...); err != nil {
		return err
	}
	began := w.control.began
	err = w.control.until(ctx, "serve is ready", 2*time.Millisecond, func() bool {
		_, err := w.control.get(controlAdmin + "/readyz")
		return err == nil
	})
	if err != nil {
		return err
	}
	w.add("restart.ready_ms", milli(time.Since(began)), "ms")
	if err := inSync(ctx, w.control, w.hostsServed()); err != nil {
		return err
	}
	w.add("restart.envoy_in_sync_ms", milli(time.Since(killed)), "ms")
	if err := w.control.loaded(ctx, w.fleet); err != nil {
		return err
	}
	if err := pause(ctx, time.Second); err != nil {
		return err
	}
	w.add("restart.cpu_ms", milli(w.control.cpu()), "ms")
	all, err := w.control.streams()
	if err != nil {
		return err
	}
	resources := uint64(0)
	for _, t := range all[envoyNode].Types {
		resources += t.Resources
	}
	w.add("restart.resources_resent", float64(resources), "")
	w.add("restart.bytes_resent", float64(all[envoyNode].BytesSent), "B")
	return nil
}

// checkpointed waits until the checkpoint has not grown for longer than the
// control plane lets changes gather.
func (w *world) checkpointed(ctx context.Context) error {
	const quiet = 3 * time.Second
	path := filepath.Join(w.dir, "state", "checkpoint")
	var last time.Time
	return w.control.until(ctx, "the checkpoint is written", 100*time.Millisecond, func() bool {
		st, err := os.Stat(path)
		if err == nil && st.ModTime() != last {
			last = st.ModTime()
			return false
		}
		return err == nil && time.Since(last) > quiet
	})
}

// sanity checks that nobody refused anything, which would make figures of
// something else.
func (w *world) sanity() error {
	all, err := w.control.streams()
	if err != nil {
		return err
	}
	for node, s := range all {
		for _, t := range s.Types {
			if t.NACKs > 0 {
				return fmt.Errorf("%s refused %d responses of %s: %+v", node, t.NACKs, t.Type, t.Quarantined)
			}
		}
	}
	return nil
}
