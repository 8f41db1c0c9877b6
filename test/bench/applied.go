package main

import (
	"cmp"
	"context"
	"fmt"
	"net/http"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/spillway-dev/spillway/internal/xds"
)

// applied are HTTPRoutes that are all applied at once beside as many Ingresses as other
// HTTPRoutes, and then edits of one of them.
type applied struct {
	hosts  int // before
	routes int // that come
	edits  int
}

func (c applied) String() string {
	return fmt.Sprintf("%d hosts, half of them of HTTPRoutes and half of Ingresses, and %d HTTPRoutes applied at once", c.hosts, c.routes)
}

// askers ask at a time, each for hosts of its own, on a connection that is kept.
const askers = 4

func (c applied) measure(ctx context.Context, out *figures) error {
	ctx, cancel := context.WithTimeout(ctx, 15*time.Minute) // for what is broken, not for what is slow
	defer cancel()
	w, err := newWorldOf(ctx, size{hosts: c.hosts, endpoints: 2, members: 2, mixed: true}, c.routes, 1, out)
	if err != nil {
		return err
	}
	defer w.close()
	var seen names
	w.resource = seen.add
	if err := w.bothConnected(ctx); err != nil {
		return err
	}
	if err := w.rest(ctx, 2*time.Second); err != nil {
		return err
	}
	w.prefix = "beside."
	for _, k := range []struct {
		name string
		odd  int
	}{{"ingress_change", 0}, {"httproute_change", 1}} {
		edit := func(r int) edit { return w.fleet.changePath(r*7919%w.hosts/2*2 + k.odd) }
		if err := w.cost(ctx, change{name: k.name, typ: xds.RouteConfiguration, edit: edit}, c.edits); err != nil {
			return err
		}
	}
	w.prefix = ""
	if err := c.atOnce(ctx, w); err != nil {
		return err
	}
	if err := w.quiet(ctx, 10*time.Millisecond, 10+2*c.routes/statuses); err != nil {
		return err
	}
	if err := c.underLoad(ctx, w, &seen); err != nil {
		return err
	}
	return w.sanity()
}

// atOnce applies all, and asks for each host until it is served. Any answer but 404 and
// then 200 is wrong.
func (c applied) atOnce(ctx context.Context, w *world) error {
	sent := make([]atomic.Int64, c.routes) // when, since start
	took := make([]time.Duration, c.routes)
	var wrong, asked atomic.Int64
	start, before, bytes := time.Now(), w.usage(), w.proxies.Bytes()
	all, inner := errgroup.WithContext(ctx)
	for a := range askers {
		all.Go(func() error {
			p := newProber(httpPort)
			var left []int
			for i := a; i < c.routes; i += askers {
				left = append(left, i)
			}
			for len(left) > 0 {
				rest := left[:0]
				for _, i := range left {
					got, err := p.ask(hostOf(c.hosts+i), "/v0")
					asked.Add(1)
					switch at := sent[i].Load(); {
					case err != nil || inner.Err() != nil:
						return fmt.Errorf("%d HTTPRoutes are not served: %w", len(left), cmp.Or(err, inner.Err()))
					case got.status == http.StatusOK && at > 0:
						took[i] = time.Since(start) - time.Duration(at)
						continue
					case got.status != http.StatusNotFound:
						wrong.Add(1)
					}
					rest = append(rest, i)
				}
				left = rest
			}
			return nil
		})
	}
	for i := range c.routes {
		sent[i].Store(max(1, int64(time.Since(start))))
		w.api.tell(w.fleet.addHost(c.hosts + i))
	}
	if err := all.Wait(); err != nil {
		return err
	}
	lasted, used := time.Since(start), w.usage().since(before)
	n := float64(c.routes)
	w.histogram("httproutes.served_ms", took)
	w.add("httproutes.all_served_ms", milli(lasted), "ms")
	w.add("httproutes.asked", float64(asked.Load()), "")
	w.add("httproutes.wrong", float64(wrong.Load()), "")
	w.add("httproutes.cpu_us_per_route", micro(used.control)/n, "us")
	w.add("httproutes.bytes_per_route", float64(w.proxies.Bytes()-bytes)/n, "B")
	w.add("httproutes.envoy_main_ms_per_route", milli(used.envoyMain)/n, "ms")
	return nil
}

// underLoad edits one route while it and others, of both kinds, are asked for.
func (c applied) underLoad(ctx context.Context, w *world, seen *names) error {
	edited := c.hosts
	l := &steadyLoad{w: w, edited: edited, hosts: []int{edited, probeHost}}
	for i := 1; i <= 8; i++ {
		l.hosts = append(l.hosts, edited+i)
	}
	asking, stop := context.WithCancel(ctx)
	defer stop()
	var load sync.WaitGroup
	for range askers {
		load.Go(func() { l.run(asking) })
	}
	p := newProber(httpPort)
	took := make([]time.Duration, 0, c.edits)
	seen.clear()
	bytes, responses := w.proxies.Bytes(), w.proxies.Responses()
	for n := 1; n <= c.edits; n++ {
		l.latest.Store(int64(n))
		d, err := served(ctx, func() { w.api.tell(w.fleet.mark(edited)) }, func() (bool, error) {
			a, err := p.ask(hostOf(edited), "/v0")
			return a.mark == strconv.Itoa(n), err
		})
		if err != nil {
			return err
		}
		l.least.Store(int64(n))
		took = append(took, d)
		if err := pause(ctx, apart); err != nil {
			return err
		}
	}
	stop()
	load.Wait()
	n := float64(c.edits)
	w.histogram("httproute_edit.served_ms", took)
	w.add("httproute_edit.requests", float64(l.sent.Load()), "")
	w.add("httproute_edit.failed", float64(l.failed.Load()), "")
	w.add("httproute_edit.others_touched", float64(seen.but(xds.RouteConfiguration, hostOf(edited))), "")
	w.add("httproute_edit.bytes", float64(w.proxies.Bytes()-bytes)/n, "B")
	w.add("httproute_edit.responses", float64(w.proxies.Responses()-responses)/n, "")
	if text := l.first.Load(); text != nil {
		return fmt.Errorf("%d of %d requests failed, the first: %s", l.failed.Load(), l.sent.Load(), *text)
	}
	return nil
}

// steadyLoad asks for hosts in turn. Each answer must be 200, that of the edited host
// with a mark that it may have by now, all others without.
type steadyLoad struct {
	w             *world
	edited        int
	hosts         []int
	latest, least atomic.Int64 // marks: written, seen by all
	sent, failed  atomic.Int64
	first         atomic.Pointer[string]
}

func (l *steadyLoad) run(ctx context.Context) {
	p := newProber(httpPort)
	for ctx.Err() == nil {
		for _, i := range l.hosts {
			if err := l.ask(p, i); err != nil {
				l.failed.Add(1)
				text := err.Error()
				l.first.CompareAndSwap(nil, &text)
			}
			if pause(ctx, probeEvery) != nil {
				return
			}
		}
	}
}

func (l *steadyLoad) ask(p *prober, i int) error {
	least, path := l.least.Load(), "/v0"
	if i < 0 {
		path = l.w.fleet.path(i)
	}
	got, err := p.ask(hostOf(i), path)
	l.sent.Add(1)
	mark, _ := strconv.ParseInt(got.mark, 10, 64)
	switch {
	case err != nil:
		return err
	case got.status != http.StatusOK:
		return fmt.Errorf("%s was answered %d", hostOf(i), got.status)
	case i != l.edited && got.mark != "":
		return fmt.Errorf("%s was answered with mark %s, which is another's", hostOf(i), got.mark)
	case i == l.edited && (mark < least || mark > l.latest.Load()):
		return fmt.Errorf("%s was answered with mark %q, expected was %d to %d", hostOf(i), got.mark, least, l.latest.Load())
	}
	return nil
}

// names are the resources that came or went.
type names struct {
	mu  sync.Mutex
	all map[string]int // by type and name
}

func (n *names) add(t xds.TypeURL, name string, _ int) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.all == nil {
		n.all = map[string]int{}
	}
	n.all[string(t)+" "+name]++
}

func (n *names) clear() {
	n.mu.Lock()
	defer n.mu.Unlock()
	clear(n.all)
}

// but counts all that are not of a type and name.
func (n *names) but(t xds.TypeURL, name string) (others int) {
	n.mu.Lock()
	defer n.mu.Unlock()
	for one := range n.all {
		if one != string(t)+" "+name {
			others++
		}
	}
	return others
}
