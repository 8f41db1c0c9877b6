package main

import (
	"context"
	"fmt"
	"io"
	"slices"
	"time"

	"github.com/spillway-dev/spillway/internal/xds"
)

// scenario is one world, and what is done in it.
type scenario struct {
	hosts, members, streams int
	rounds                  rounds
	idle                    time.Duration // without changes, before them
	beside                  int           // endpoint changes measured while 50 others a second change; 0: none
	replay                  time.Duration // of 5,000 changes a second; 0: none
	flood                   time.Duration // of requests of each kind; 0: none
	scopes, large, restart  bool
	tls                     bool // every host has a certificate, and only those change
}

func (s scenario) String() string {
	text := fmt.Sprintf("%d hosts in %d members, %d fake proxies", s.hosts, s.members, s.streams)
	if s.tls {
		text += ", every host with a certificate"
	}
	return text
}

// plan is everything that is measured.
type plan struct {
	scenarios   []scenario
	perEndpoint int // hosts; 0: not measured
	profile     int // hosts; 0: none
	nodes       crews
	places      places
	wide        wide
	fronts      fronts
	gateways    gateways
	applied     applied
	leaves      leafWorlds
	reading     reading
	oneByOne    []int // hosts of a fleet when the last of its routes were created one by one
}

const (
	besideRate = 50
	replayRate = 5000
	baseHosts  = 1000
	base       = 10 // members
)

// fullPlan sweeps one dimension at a time, from 1,000 hosts in 10 members with
// one fake proxy beside the real one.
func fullPlan() plan {
	fewest, few, many := rounds{40, 20}, rounds{100, 30}, rounds{200, 50}
	const long = 12 * time.Second // of this the control plane counts its objects anew, and Envoy judges ejected endpoints twice
	return plan{
		scenarios: []scenario{
			{hosts: 100, members: base, streams: 1, rounds: many, idle: long, beside: 100, scopes: true},
			{hosts: baseHosts, members: base, streams: 1, rounds: many, idle: long, beside: 100},
			{hosts: 10_000, members: base, streams: 1, rounds: many, idle: long, beside: 200, replay: 10 * time.Second, flood: 9 * time.Second, scopes: true, large: true, restart: true},
			{hosts: baseHosts, members: 1, streams: 1, rounds: few, idle: long},
			{hosts: baseHosts, members: 50, streams: 1, rounds: few, idle: long},
			{hosts: baseHosts, members: base, streams: 200, rounds: few, idle: long},
			{hosts: baseHosts, members: base, streams: 1000, rounds: fewest, idle: long},
			{hosts: 10_000, members: base, streams: 200, rounds: fewest, idle: long, large: true},
			{hosts: 100, members: base, streams: 1, rounds: few, idle: long, tls: true},
			{hosts: 10_000, members: base, streams: 1, rounds: few, idle: long, tls: true},
		},
		perEndpoint: 10_000, profile: 10_000, nodes: crews{pools: 20_000, each: 10, few: 500, many: 5000, rounds: 100},
		places: places{hosts: 10_000, beside: 5, alike: 5, others: 49}, oneByOne: []int{1000, 10_000}, wide: wide{4000, 50}, fronts: fronts{10, 1000},
		gateways: gateways{few: 100, many: 1000, spare: 20}, applied: applied{hosts: 10_000, routes: 1000, edits: 200},
		leaves:  leafWorlds{hosts: 3000, few: base, many: 200, endpoints: 3000, rounds: 100, rest: 10 * time.Second},
		reading: reading{hosts: 1000, members: base, unnamed: 5000},
	}
}

// shortPlan is for every check: the corners, few rounds.
func shortPlan() plan {
	few := rounds{30, 10}
	const brief = 6 * time.Second // Envoy judges ejected endpoints once: its outlier detection's interval
	return plan{scenarios: []scenario{
		{hosts: 100, members: base, streams: 20, rounds: few, idle: brief},
		{hosts: 100, members: base, streams: 1, rounds: few, idle: brief, scopes: true},
		{hosts: 10_000, members: base, streams: 1, rounds: few, idle: brief, beside: 20, replay: 2 * time.Second, flood: 3 * time.Second, scopes: true, restart: true},
	}, nodes: crews{pools: 1000, each: 10, few: 100, many: 500, rounds: 20}, places: places{hosts: 10_000, beside: 10, alike: 10, others: 5}, wide: wide{4000, 20},
		gateways: gateways{few: 10, many: 100, spare: 8, brief: true}, applied: applied{hosts: 1000, routes: 300, edits: 50},
		leaves:  leafWorlds{hosts: 300, few: 10, many: 40, endpoints: 300, rounds: 50, rest: 2 * time.Second},
		reading: reading{hosts: 300, members: base, unnamed: 500}}
}

// part is one thing of a plan that can be measured alone.
type part struct {
	name, text string
	on         bool
	measure    func(context.Context, *figures) error
}

// parts are those of a plan, in their order.
func (p plan) parts(say func(string, ...any)) []part {
	var empty bare
	out := []part{{"scenarios", "an empty control plane", true, func(ctx context.Context, out *figures) (err error) {
		empty, err = measureBare(ctx)
		out.add("memory.empty_rss_mib", params{}, empty.rss/(1<<20), "MiB")
		return err
	}}}
	for _, s := range p.scenarios {
		out = append(out, part{"scenarios", s.String(), true, func(ctx context.Context, out *figures) error { return s.measure(ctx, empty, out, say) }})
	}
	out = append(out, []part{
		{"endpoint", "memory of an endpoint", p.perEndpoint > 0, func(ctx context.Context, out *figures) error {
			return perEndpoint(ctx, size{hosts: p.perEndpoint, endpoints: perHost, members: base}, out)
		}},
		{"nodes", p.nodes.String(), p.nodes.many > 0, p.nodes.measure},
		{"places", p.places.String(), p.places.hosts > 0, p.places.measure},
		{"wide", p.wide.String(), true, func(_ context.Context, out *figures) error { return p.wide.measure(out) }},
		{"fronts", p.fronts.String(), len(p.fronts) > 0, p.fronts.measure},
		{"gateways", p.gateways.String(), true, p.gateways.measure},
		{"httproutes", p.applied.String(), true, p.applied.measure},
		{"leaves", p.leaves.String(), true, p.leaves.measure},
		{"reading", p.reading.String(), true, p.reading.measure},
	}...)
	for _, hosts := range p.oneByOne {
		text := fmt.Sprintf("%d hosts, the last %d of them created one by one", hosts, lastOnes)
		out = append(out, part{"onebyone", text, true, func(ctx context.Context, out *figures) error { return oneByOne(ctx, hosts, lastOnes, out) }})
	}
	return append(out, []part{
		{"rest", "a turn of the loop at rest", true, func(_ context.Context, out *figures) error { measureRest(out); return nil }},
		{"profiles", "profiles", p.profile > 0, func(ctx context.Context, out *figures) error { return profiles(ctx, p.profile, out) }},
	}...)
}

// carryOut measures a plan, or one part of it, and says how it goes.
func (p plan) carryOut(ctx context.Context, only string, log io.Writer) (figures, error) {
	start := time.Now()
	say := func(format string, args ...any) {
		fmt.Fprintf(log, "%6.1f s  %s\n", time.Since(start).Seconds(), fmt.Sprintf(format, args...))
	}
	all := p.parts(say)
	if only != "" {
		if all = slices.DeleteFunc(all, func(t part) bool { return t.name != only }); len(all) == 0 {
			return nil, fmt.Errorf("there is no part %q", only)
		}
	}
	var out figures
	machine(&out)
	pace := newYardstick()
	pace.lay()
	for _, t := range all {
		if !t.on {
			continue
		}
		say("%s", t.text)
		if err := t.measure(ctx, &out); err != nil {
			return nil, fmt.Errorf("%s: %w", t.text, err)
		}
		pace.lay()
	}
	out.growth()
	pace.report(&out)
	say("done")
	return out, nil
}

// perHost is how many endpoints a host has, and certificates how many hosts
// have one.
const (
	perHost      = 10
	certificates = 100
)

func (s scenario) measure(ctx context.Context, empty bare, out *figures, say func(string, ...any)) error {
	ctx, cancel := context.WithTimeout(ctx, 15*time.Minute) // for what is broken, not for what is slow
	defer cancel()
	certs := certificates
	if s.tls {
		certs = s.hosts
	}
	w, err := newWorld(ctx, size{hosts: s.hosts, endpoints: perHost, members: s.members, certs: certs}, s.streams, out)
	if err != nil {
		return err
	}
	defer w.close()
	if s.tls {
		w.prefix = "all_tls."
	}
	if err := w.loaded(ctx, empty); err != nil {
		return err
	}
	say("  the fleet is read")
	if err := w.synced(ctx, empty); err != nil {
		return err
	}
	if err := w.connected(ctx); err != nil {
		return err
	}
	say("  the proxies are in sync")
	if err := w.rest(ctx, s.idle); err != nil {
		return err
	}
	w.add("idle.cpu_ms_per_s", milli(w.idle.control), "ms/s")
	w.add("idle.envoy_cpu_ms_per_s", milli(w.idle.envoy), "ms/s")
	for _, c := range w.changes() {
		if s.tls && c.typ != xds.Secret {
			continue
		}
		if err := w.measure(ctx, c, s.rounds); err != nil {
			return fmt.Errorf("%s: %w", c.name, err)
		}
	}
	return s.more(ctx, w, say)
}

// more is what is not done in every world.
func (s scenario) more(ctx context.Context, w *world, say func(string, ...any)) error {
	again := func() error { return w.again(ctx, w.changes()[0], s.rounds) }
	for _, step := range []struct {
		name string
		on   bool
		do   func() error
	}{
		{"beside a plain Envoy", s.scopes, func() error { return w.scopeMap(ctx) }},
		{"changes beside others", s.beside > 0, func() error { return w.besides(ctx, besideRate, s.beside) }},
		{"endpoint changes again", s.restart, again},
		{"a replayed watch stream", s.replay > 0, func() error { return w.replay(ctx, replayRate, s.replay) }},
		{"requests", s.flood > 0, func() error { return w.flood(ctx, s.flood) }},
		{"endpoint changes again", s.restart, again},
		{"large events", s.large, func() error { return w.large(ctx) }},
		{"endpoint changes again", s.restart, again},
		{"nothing was refused", true, w.sanity},
		{"the control plane restarts", s.restart, func() error { return w.restart(ctx) }},
	} {
		if !step.on {
			continue
		}
		say("  %s", step.name)
		if err := step.do(); err != nil {
			return fmt.Errorf("%s: %w", step.name, err)
		}
	}
	return nil
}
