package main

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/spillway-dev/spillway/internal/xds"
)

// paced calls f rate times a second until ctx ends, as evenly as a clock of
// a millisecond allows. It returns how often it did.
func paced(ctx context.Context, rate int, f func(n int)) int {
	start, n := time.Now(), 0
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return n
		case <-tick.C:
			for due := int(time.Since(start).Seconds() * float64(rate)); n < due; n++ {
				f(n)
			}
		}
	}
}

// during runs f while other endpoints change at a rate. It returns how many did.
func (w *world) during(ctx context.Context, rate int, f func() error) (int, error) {
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	var others sync.WaitGroup
	var n int
	others.Go(func() {
		n = paced(ctx, rate, func(n int) { w.api.tell(w.fleet.flipEndpoint(n * 7919 % w.hosts)) })
	})
	err := f()
	stop()
	others.Wait()
	return n, err
}

// besides measures endpoint changes of one host while others change: how long
// until Envoy serves them.
func (w *world) besides(ctx context.Context, rate, n int) error {
	c := w.changes()[0]
	var took []time.Duration
	_, err := w.during(ctx, rate, func() error {
		for range n {
			d, err := served(ctx, func() { w.api.tell(c.probe(0)) }, c.served)
			if err != nil {
				return err
			}
			took = append(took, d)
			if err := pause(ctx, 2*apart); err != nil {
				return err
			}
		}
		return nil
	})
	name := fmt.Sprintf("endpoint_change_beside_%d_a_second", rate)
	w.quantiles(name+".served_ms", took)
	return err
}

// histogram is quantiles with the longest.
func (w *world) histogram(name string, took []time.Duration) {
	w.quantiles(name, took)
	w.add(name+"_most", quantile(took, 1), "ms")
}

func (w *world) quantiles(name string, took []time.Duration) {
	w.add(name+"_p50", quantile(took, 0.5), "ms")
	w.add(name+"_p90", quantile(took, 0.9), "ms")
	w.add(name+"_p99", quantile(took, 0.99), "ms")
}

// replay sends a watch stream of many endpoint changes a second, and follows
// one of the hosts in it: how old its news is when the fake proxy has it, and
// when Envoy serves it.
func (w *world) replay(ctx context.Context, rate int, lasting time.Duration) error {
	ctx, cancel := context.WithTimeout(ctx, lasting+time.Minute)
	defer cancel()
	c := w.changes()[0]
	var told, took []time.Duration
	upserts := w.proxies.Upserts(xds.ClusterLoadAssignment)
	before, start := w.usage(), time.Now()
	n, err := w.during(ctx, rate, func() error {
		for time.Since(start) < lasting {
			w.drainSeen()
			var at time.Time
			d, err := served(ctx, func() { at = time.Now(); w.api.tell(c.probe(0)) }, c.served)
			if err != nil {
				return err
			}
			select {
			case seen := <-w.seen:
				told = append(told, seen.Sub(at))
			case <-ctx.Done():
				return ctx.Err()
			}
			took = append(took, d)
			if err := pause(ctx, 2*apart); err != nil {
				return err
			}
		}
		return nil
	})
	used, lasted := w.usage().since(before), time.Since(start).Seconds()
	if err != nil {
		return err
	}
	name := fmt.Sprintf("replay_%d_a_second", rate)
	w.add(name+".rate", float64(n)/lasted, "/s")
	w.add(name+".cpu_us", micro(used.control)/float64(n), "us")
	w.add(name+".cores", used.control.Seconds()/lasted, "")
	w.add(name+".envoy_main_us", micro(used.envoyMain)/float64(n), "us")
	w.add(name+".sent_share", float64(w.proxies.Upserts(xds.ClusterLoadAssignment)-upserts)/float64(n*w.streams), "")
	w.quantiles(name+".told_ms", told)
	w.quantiles(name+".served_ms", took)
	return nil
}

func (w *world) drainSeen() {
	for {
		select {
		case <-w.seen:
		default:
			return
		}
	}
}

// large has events that change assignments of many hosts: the large member, of
// which every host has endpoints, is taken out of service and back, and the
// edge moves to another region and back, which is another view each time.
// Meanwhile the endpoints of one host change in another member.
func (w *world) large(ctx context.Context) error {
	for _, event := range []struct {
		name  string
		hosts int // whose assignments change
		edit  func() edit
	}{
		{"member_loss", w.hosts, func() edit { return w.fleet.drainLarge(true) }},
		{"member_return", w.hosts, func() edit { return w.fleet.drainLarge(false) }},
		{"edge_move", w.fleet.across(), func() edit { return w.fleet.moveEdge(true) }},
		{"edge_return", w.fleet.across(), func() edit { return w.fleet.moveEdge(false) }},
	} {
		if err := w.event(ctx, event.name, event.hosts, event.edit); err != nil {
			return fmt.Errorf("%s: %w", event.name, err)
		}
	}
	return nil
}

func (w *world) event(ctx context.Context, name string, hosts int, edit func() edit) error {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Minute)
	defer cancel()
	all := int64(hosts * w.streams)
	base := w.proxies.Upserts(xds.ClusterLoadAssignment)
	before, start := w.usage(), time.Now()
	w.api.tell(edit())
	var moved [3]atomic.Int64 // first, half, all
	var waits sync.WaitGroup
	var waitErr error
	waits.Go(func() {
		for i, n := range []int64{1, all / 2, all} {
			if waitErr = w.proxies.AwaitUpserts(ctx, xds.ClusterLoadAssignment, base+n); waitErr != nil {
				return
			}
			moved[i].Store(int64(time.Since(start)))
		}
	})
	took, err := w.meanwhile(ctx, func() bool { return moved[2].Load() != 0 })
	waits.Wait()
	if err = errors.Join(err, waitErr); err != nil {
		return err
	}
	if err := inSync(ctx, w.control, w.hostsServed()); err != nil {
		return err
	}
	used := w.usage().since(before)
	for i, what := range []string{"first", "half", "last"} {
		w.add(name+".moved_"+what+"_ms", milli(time.Duration(moved[i].Load())), "ms")
	}
	w.add(name+".cpu_ms", milli(used.control), "ms")
	w.add(name+".envoy_main_ms", milli(used.envoyMain), "ms")
	w.add(name+".others_ms_p50", quantile(took, 0.5), "ms")
	w.add(name+".others_ms_p99", quantile(took, 0.99), "ms")
	w.add(name+".others_n", float64(len(took)), "")
	return nil
}

// meanwhile changes the endpoints of a host in another member until it is over.
func (w *world) meanwhile(ctx context.Context, over func() bool) ([]time.Duration, error) {
	c := w.changes()[0]
	var took []time.Duration
	for !over() {
		d, err := served(ctx, func() { w.api.tell(c.probe(0)) }, c.served)
		if err != nil {
			return took, err
		}
		took = append(took, d)
	}
	return took, nil
}

// flood sends requests as fast as they are answered and compares what one
// costs Envoy: for hosts that nobody serves, and for hosts that are served, on
// a path that they don't have. Both are answered 404 by Envoy itself.
func (w *world) flood(ctx context.Context, each time.Duration) error {
	kinds := []struct {
		name string
		host func(n int) string
		path string
		want int
	}{
		{"known_host", func(n int) string { return hostOf(n * 7919 % w.hosts) }, "/none", 404},
		{"unknown_host", func(n int) string { return fmt.Sprintf("x%06d.unknown.example", n*7919%w.hosts) }, "/none", 404},
		{"proxied", func(int) string { return hostOf(probeHost) }, w.fleet.path(probeHost), 200},
	}
	cpu := map[string]time.Duration{}
	requests := map[string]int64{}
	const turns = 9
	for range turns {
		for _, k := range kinds {
			before := w.envoy.cpu()
			n, err := hammer(ctx, each/turns, k.host, k.path, k.want)
			if err != nil {
				return fmt.Errorf("%s: %w", k.name, err)
			}
			cpu[k.name] += w.envoy.cpu() - before
			requests[k.name] += n
		}
	}
	per := func(name string) float64 { return micro(cpu[name]) / float64(requests[name]) }
	for _, k := range kinds {
		w.add("request."+k.name+"_us", per(k.name), "us")
	}
	w.add("request.unknown_to_known", per("unknown_host")/per("known_host"), "times")
	return nil
}

// hammer sends requests over a few connections for some time and counts them.
func hammer(ctx context.Context, lasting time.Duration, host func(int) string, path string, want int) (int64, error) {
	const connections = 8
	end := time.Now().Add(lasting)
	var n atomic.Int64
	var all sync.WaitGroup
	errs := make(chan error, connections)
	for range connections {
		all.Go(func() {
			p := newProber(httpPort)
			defer p.client.CloseIdleConnections()
			for time.Now().Before(end) && ctx.Err() == nil {
				a, err := p.ask(host(int(n.Add(1))), path)
				if err == nil && a.status != want {
					err = fmt.Errorf("status %d, want %d", a.status, want)
				}
				if err != nil {
					errs <- err
					return
				}
			}
		})
	}
	all.Wait()
	select {
	case err := <-errs:
		return 0, err
	default:
		return n.Load(), ctx.Err()
	}
}
