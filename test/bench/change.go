package main

import (
	"context"
	"slices"
	"time"

	"github.com/spillway-dev/spillway/internal/xds"
)

// apart is the least time from one measured change to the next: so long that
// Envoy has taken the one before, which it would otherwise take together.
const apart = 10 * time.Millisecond

// rounds say how often something is done.
type rounds struct {
	cost   int // changes whose CPU time and bytes are counted
	served int // changes that are waited for
}

// change is a kind of change.
type change struct {
	name   string
	typ    xds.TypeURL          // every proxy is told in a resource of this type
	gone   bool                 // it is removed
	each   int                  // resources of that type; 0: one
	lone   int                  // scopes that go with it of which no cluster does
	kinds  int                  // of rounds, one after the other, as many of each; 0: all are alike
	first  func(round int) told // what says that a round is done, where that is something else; the rest is waited for in the end
	after  time.Duration        // that what follows from it takes beside, such as statuses: it is counted
	edit   func(round int) edit // one of the made-up hosts
	probe  func(round int) edit // one of a host that answers
	served func() (bool, error) // whether that is seen
	rounds func(rounds) (cost, served int)
}

// told is how many resources of a type every proxy is told of.
type told struct {
	typ  xds.TypeURL
	each int
}

// changes are the kinds that are measured.
func (w *world) changes() []change {
	p := newProber(httpPort)
	f := w.fleet
	status := func(i int, path string, want int) (bool, error) {
		a, err := p.ask(hostOf(i), path)
		return a.status == want, err
	}
	all := func(r rounds) (int, int) { return r.cost, r.served }
	few := func(r rounds) (int, int) { return min(r.cost, spares/2), min(r.served, spares/2) }
	spare := func(r int) int { return w.hosts + r }
	last := 0
	return []change{
		{
			name: "endpoint_change", typ: xds.ClusterLoadAssignment, rounds: all,
			edit:  func(r int) edit { return f.flipEndpoint(r * 7919 % w.hosts) },
			probe: func(int) edit { return f.flipEndpoint(probeHost) },
			served: func() (bool, error) {
				a, err := p.ask(hostOf(probeHost), f.path(probeHost))
				return f.answersNow(a.at), err
			},
		},
		{
			name: "route_change", typ: xds.RouteConfiguration, rounds: all,
			edit:   func(r int) edit { return f.changePath(r * 7919 % w.hosts) },
			probe:  func(int) edit { return f.changePath(probeHost) },
			served: func() (bool, error) { return status(probeHost, f.path(probeHost), 200) },
		},
		{
			name: "certificate_change", typ: xds.Secret, rounds: all,
			edit:  func(r int) edit { return f.rotate(r % max(f.certs, 1)) },
			probe: func(int) edit { return f.rotate(tlsHost) },
			served: func() (bool, error) {
				n, err := serial(hostOf(tlsHost))
				return n == f.serial(tlsHost), err
			},
		},
		{
			name: "host_change", typ: xds.RouteConfiguration, rounds: few,
			edit:   func(r int) edit { return f.addHost(spare(r)) },
			probe:  func(r int) edit { last = spare(spares/2 + r); return f.addHost(last) },
			served: func() (bool, error) { return status(last, "/v0", 200) },
		},
		{
			name: "host_removal", typ: xds.ScopedRoute, gone: true, rounds: few,
			edit:   func(r int) edit { return f.removeHost(spare(r)) },
			probe:  func(r int) edit { last = spare(spares/2 + r); return f.removeHost(last) },
			served: func() (bool, error) { return status(last, "/v0", 404) },
		},
	}
}

// measure reports what a kind of change costs and how long it takes.
func (w *world) measure(ctx context.Context, c change, r rounds) error {
	cost, servedRounds := c.rounds(r)
	if err := w.cost(ctx, c, cost); err != nil {
		return err
	}
	took := make([]time.Duration, 0, servedRounds)
	for round := range servedRounds {
		d, err := served(ctx, func() { w.api.tell(c.probe(round)) }, c.served)
		if err != nil {
			return err
		}
		took = append(took, d)
	}
	w.add(c.name+".served_ms_p50", quantile(took, 0.5), "ms")
	w.add(c.name+".served_ms_p99", quantile(took, 0.99), "ms")
	return nil
}

// cost makes changes one at a time, each when all fake proxies have the one
// before, and counts CPU time and bytes of all of them together.
func (w *world) cost(ctx context.Context, c change, n int) error {
	count, await := w.proxies.Upserts, w.proxies.AwaitUpserts
	if c.gone {
		count, await = w.proxies.Removed, w.proxies.AwaitRemoved
	}
	all := told{c.typ, max(c.each, 1)}
	if c.first == nil {
		c.first = func(int) told { return all }
	}
	want := func(t told, times int) int64 { return count(t.typ) + int64(times*w.streams*t.each) }
	total := want(all, n)
	bytes, responses := w.proxies.Bytes(), w.proxies.Responses()
	before, start := w.usage(), time.Now()
	var took, main []time.Duration
	for round := range n {
		next, mainBefore := time.Now().Add(apart), w.usage().envoyMain
		first := c.first(round)
		until := want(first, 1)
		e := c.edit(round)
		at := time.Now()
		w.api.tell(e)
		if err := await(ctx, first.typ, until); err != nil {
			return err
		}
		took = append(took, time.Since(at))
		if err := pause(ctx, time.Until(next)); err != nil {
			return err
		}
		main = append(main, w.usage().envoyMain-mainBefore)
	}
	if err := pause(ctx, c.after); err != nil {
		return err
	}
	control := w.usage().control - before.control - time.Duration(float64(w.idle.control)*time.Since(start).Seconds())
	w.lone += int64(n * w.streams * c.lone)
	late, err := w.late(ctx, func(ctx context.Context) error {
		if err := await(ctx, c.typ, total); err != nil {
			return err
		}
		return w.settle(ctx, c.gone)
	})
	if err != nil {
		return err
	}
	control += late
	proxies := float64(n * w.streams)
	w.add(c.name+".cpu_us", micro(control)/float64(n), "us")
	w.add(c.name+".told_ms_p50", quantile(took, 0.5), "ms")
	w.add(c.name+".bytes", float64(w.proxies.Bytes()-bytes)/proxies, "B")
	w.add(c.name+".responses", float64(w.proxies.Responses()-responses)/proxies, "")
	w.add(c.name+".envoy_main_ms", milli(medianOf(main, max(c.kinds, 1))-w.idle.envoyMain), "ms")
	return nil
}

// again makes the changes once more, minutes after the last time. The figure is the
// lowest of all: what else the host of this machine does only adds to it, by up to
// as much again, and for minutes. All are in the report.
func (w *world) again(ctx context.Context, c change, r rounds) error {
	name := c.name + ".cpu_us"
	c.name = "again." + c.name
	if err := w.cost(ctx, c, r.cost); err != nil {
		return err
	}
	w.out.lower(name, "again."+name, w.params())
	return nil
}

// settle waits for what comes late: clusters that nobody uses any more leave
// after a grace, if something is gone.
func (w *world) settle(ctx context.Context, gone bool) error {
	if !gone {
		return pause(ctx, 5*apart)
	}
	const grace = 15 * time.Second
	late, cancel := context.WithTimeout(ctx, grace)
	defer cancel()
	return w.proxies.AwaitRemoved(late, xds.Cluster, w.proxies.Removed(xds.ScopedRoute)-w.lone)
}

// quantile is in milliseconds. It sorts.
func quantile(took []time.Duration, q float64) float64 {
	if len(took) == 0 {
		return 0
	}
	slices.Sort(took)
	return milli(took[min(int(q*float64(len(took))), len(took)-1)])
}

// medianOf is the mean of the medians of each kind of rounds.
func medianOf(d []time.Duration, kinds int) (sum time.Duration) {
	for one := range slices.Chunk(d, max(len(d)/kinds, 1)) {
		sum += median(one)
	}
	return sum / time.Duration(kinds)
}

// median sorts, too.
func median(d []time.Duration) time.Duration {
	if len(d) == 0 {
		return 0
	}
	slices.Sort(d)
	return d[len(d)/2]
}

func milli(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }
func micro(d time.Duration) float64 { return float64(d) / float64(time.Microsecond) }
