package main

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"sync/atomic"
	"time"

	"k8s.io/apimachinery/pkg/watch"

	"github.com/spillway-dev/spillway/internal/xds"
)

// perGateway is how many HTTPRoutes a Gateway of a fleet of many has, each of a host of
// its own.
const perGateway = 10

// gateways are Gateways at one edge, among few and among many others, and how many come
// and go, with their routes there all the time: even numbers. What is brief does not wait
// for rest and for statuses, so that CPU times say nothing.
type gateways struct {
	few, many, spare int
	brief            bool
}

func (c gateways) String() string {
	return fmt.Sprintf("%d and %d Gateways of %d HTTPRoutes at one edge, half of them with addresses of their own", c.few, c.many, perGateway)
}

// gatewayCosts are what a change costs.
var gatewayCosts = [...]string{"bytes", "cpu_us", "allocs", "envoy_main_ms"}

// bytesOfIt is the place of the bytes in gatewayCosts.
const bytesOfIt = 0

// costs are those that are told: of what is brief, the bytes.
func (c gateways) costs() []string {
	if c.brief {
		return gatewayCosts[:bytesOfIt+1]
	}
	return gatewayCosts[:]
}

// gatewayChanges are groups of kinds of changes: a figure of the group is the mean.
var gatewayChanges = []struct {
	name  string
	kinds []string
}{
	{"gateway_change", []string{"gateway_added", "gateway_edited", "gateway_removed"}},
	{"listener_change", []string{"listener_added", "listener_edited", "listener_removed"}},
	{"gateway_route_change", []string{"gateway_route_added", "gateway_route_edited", "gateway_route_removed"}},
}

// measure reports what a Gateway, a listener and a route cost that come, are edited and
// go, how much that grows with the Gateways there, and what all of them take that one
// Gateway with as many routes does not. What is brief tells bytes of changes alone.
func (c gateways) measure(ctx context.Context, out *figures) error {
	var all [2]gatewayWorld
	for i, n := range []int{c.few, c.many} {
		var err error
		if all[i], err = c.among(ctx, n, out); err != nil {
			return fmt.Errorf("%d Gateways: %w", n, err)
		}
	}
	for _, g := range gatewayChanges {
		for _, what := range c.costs() {
			out.add(g.name+".growth_of_"+what, params{}, all[1].costs[g.name+"."+what]/all[0].costs[g.name+"."+what], "")
		}
	}
	one, err := c.one(ctx, out)
	if err != nil {
		return fmt.Errorf("one Gateway: %w", err)
	}
	many := all[1]
	out.add("gateways.heap_per_gateway", params{"gateways": c.many, "hosts": c.many * perGateway}, (many.heap-one.heap)/float64(c.many), "B")
	out.add("gateways.restart_in_sync_times_one", params{}, many.inSync/one.inSync, "times")
	out.add("gateways.restart_cpu_times_one", params{}, many.restart/one.restart, "times")
	return nil
}

// gatewayWorld is what is compared of two worlds.
type gatewayWorld struct {
	costs           map[string]float64 // by group and cost
	heap            float64            // without proxies
	inSync, restart float64            // a restart: until Envoy is in sync, CPU
}

// world is one of so many Gateways.
func (c gateways) world(ctx context.Context, n, spare int, out *figures) (*world, float64, error) {
	w, err := newWorldOf(ctx, size{hosts: c.many * perGateway, endpoints: 2, members: 2, gateways: n}, spare, 1, out, probeEnv+"="+seldom)
	if err != nil {
		return nil, 0, err
	}
	if err := w.checkpointed(ctx); err != nil {
		return nil, 0, w.fail(err)
	}
	heap, err := w.control.heap()
	if err != nil {
		return nil, 0, w.fail(err)
	}
	return w, heap, nil
}

// one is a world with all the routes of many, and one Gateway.
func (c gateways) one(ctx context.Context, out *figures) (of gatewayWorld, err error) {
	ctx, cancel := context.WithTimeout(ctx, 15*time.Minute) // for what is broken, not for what is slow
	defer cancel()
	w, heap, err := c.world(ctx, 1, 0, out)
	if err != nil {
		return of, err
	}
	defer w.close()
	if err := w.bothConnected(ctx); err != nil {
		return of, err
	}
	of.heap = heap
	return of, w.restarts(ctx, "one_gateway.", &of)
}

// bothConnected returns when the real proxy and the fake one have everything.
func (w *world) bothConnected(ctx context.Context) error {
	if err := w.connect(ctx); err != nil {
		return err
	}
	return w.connectEnvoy(ctx)
}

// restarts reports a restart.
func (w *world) restarts(ctx context.Context, prefix string, of *gatewayWorld) error {
	w.prefix = prefix
	err := w.restart(ctx)
	w.prefix = ""
	inSync, _ := w.out.find(prefix+"restart.envoy_in_sync_ms", w.params())
	cpu, _ := w.out.find(prefix+"restart.cpu_ms", w.params())
	of.inSync, of.restart = inSync.Value, cpu.Value
	return err
}

// among returns what is measured among n Gateways.
func (c gateways) among(ctx context.Context, n int, out *figures) (of gatewayWorld, err error) {
	ctx, cancel := context.WithTimeout(ctx, 30*time.Minute) // for what is broken, not for what is slow
	defer cancel()
	few := c
	few.many = n
	w, heap, err := few.world(ctx, n, c.spare*perGateway, out)
	if err != nil {
		return of, err
	}
	defer w.close()
	of.heap = heap
	var index atomic.Int64 // bytes
	w.resource = func(t xds.TypeURL, name string, bytes int) {
		if t == xds.RouteConfiguration && strings.HasSuffix(name, "**") {
			index.Add(int64(bytes))
		}
	}
	if err := w.bothConnected(ctx); err != nil {
		return of, err
	}
	if !c.brief {
		if err := w.quiet(ctx, 10*time.Millisecond, 10+2*n*(perGateway+1)/statuses); err != nil {
			return of, err
		}
	}
	costs := map[string]float64{}
	for _, kind := range w.gatewayKinds(n, c.spare) {
		if kind.kinds = 2; !c.brief {
			kind.after = time.Duration(2+c.spare*(perGateway+1)/statuses) * time.Second
			if err := w.rest(ctx, 3*time.Second); err != nil {
				return of, err
			}
			w.add(kind.name+".idle_cpu_ms_per_s", milli(w.idle.control), "ms/s")
		}
		if err := w.gatewayCost(ctx, kind, c.spare, &index, costs); err != nil {
			return of, fmt.Errorf("%s: %w", kind.name, err)
		}
	}
	of.costs = map[string]float64{}
	for _, g := range gatewayChanges {
		for i, what := range c.costs() {
			name := g.name + "." + what
			for _, kind := range g.kinds {
				of.costs[name] += costs[kind+"."+what] / float64(len(g.kinds))
			}
			w.add(name, of.costs[name], [...]string{"B", "us", "", "ms"}[i])
		}
	}
	if err := w.sanity(); err != nil {
		return of, err
	}
	if err := w.restarts(ctx, "gateways.", &of); err != nil {
		return of, err
	}
	return of, w.listenerMemory(ctx)
}

// gatewayCost is cost with allocations, and what of the bytes is the index of all
// wildcards there (docs/design/scopes.md), of which there is one below each Gateway that
// shares the edge's address: it is sent as a whole when one comes or goes.
func (w *world) gatewayCost(ctx context.Context, kind change, rounds int, index *atomic.Int64, costs map[string]float64) error {
	idle, err := w.allocated(func() error { return pause(ctx, time.Second) })
	if err != nil {
		return err
	}
	began, before := time.Now(), index.Load()
	all, err := w.allocated(func() error { return w.cost(ctx, kind, rounds) })
	if err != nil {
		return err
	}
	n := float64(rounds)
	w.add(kind.name+".allocs", (all-idle*time.Since(began).Seconds())/n, "")
	ofIndex := float64(index.Load()-before) / n
	w.add(kind.name+".index_bytes", ofIndex, "B")
	for i, what := range gatewayCosts {
		v, _ := w.out.find(kind.name+"."+what, w.params())
		costs[kind.name+"."+what] = v.Value
		if i == bytesOfIt {
			costs[kind.name+"."+what] -= ofIndex
		}
	}
	return nil
}

// allocated is how many objects the control plane allocates meanwhile.
func (w *world) allocated(do func() error) (float64, error) {
	before, err := w.control.allocs()
	if err != nil {
		return 0, err
	}
	if err := do(); err != nil {
		return 0, err
	}
	after, err := w.control.allocs()
	return after - before, err
}

// gatewayKinds are what is done with Gateways that come, one after the other: those that
// share addresses first, as nothing that has been looked up leaves while a listener drains.
// With its routes' hosts a Gateway has the host of its listener, and a wildcard in the
// index of its table, which is one of its own where its address is.
func (w *world) gatewayKinds(n, spare int) []change {
	at := func(r int) int {
		if half := spare / 2; r >= half {
			return n + 2*(r-half) + 1
		}
		return n + 2*r
	}
	route := func(r int) int { return at(r) * perGateway }
	leaves := func(r int) told { // at once: a listener drains, and its hosts stay until then
		if r >= spare/2 {
			return told{xds.Listener, 1}
		}
		return told{xds.ScopedRoute, perGateway + 1}
	}
	f := w.fleet
	gateway := func(typ watch.EventType, config string) func(int) edit {
		return func(r int) edit { return f.changeGateway(at(r), typ, config) }
	}
	return []change{
		{name: "gateway_added", typ: xds.RouteConfiguration, each: perGateway + 2, edit: gateway(watch.Added, class)},
		{name: "listener_added", typ: xds.RouteConfiguration, edit: func(r int) edit { return f.changeGateway(at(r), watch.Modified, class, "one."+moreOf(at(r))) }},
		{name: "listener_edited", typ: xds.RouteConfiguration, lone: 1, edit: func(r int) edit { return f.changeGateway(at(r), watch.Modified, class, "two."+moreOf(at(r))) }},
		{name: "listener_removed", typ: xds.ScopedRoute, gone: true, lone: 1, edit: gateway(watch.Modified, class)},
		{name: "gateway_route_removed", typ: xds.ScopedRoute, gone: true, edit: func(r int) edit { return f.removeHost(route(r)) }},
		{name: "gateway_route_added", typ: xds.RouteConfiguration, edit: func(r int) edit { return f.addHost(route(r)) }},
		{name: "gateway_route_edited", typ: xds.RouteConfiguration, edit: func(r int) edit { return f.changePath(route(r)) }},
		{name: "gateway_edited", typ: xds.RouteConfiguration, each: perGateway, edit: gateway(watch.Modified, otherConfig)},
		{name: "gateway_removed", typ: xds.ScopedRoute, each: perGateway + 1, lone: 2, gone: true, first: leaves, edit: gateway(watch.Deleted, otherConfig)},
	}
}

// moreOf is the domain of a Gateway's other listeners.
func moreOf(i int) string { return gatewayNamed(i) + ".more.example" }

// listenerMemory reports what a listener takes of the real proxy, with the scope and the
// routes of its host: every Gateway with an address of its own gets a second port.
func (w *world) listenerMemory(ctx context.Context) error {
	before, err := w.envoy.allocated(ctx)
	if err != nil {
		return err
	}
	rss := residentOf(w.envoy.cmd.Process.Pid)
	held, err := w.held("Listener")
	if err != nil {
		return err
	}
	n := 0
	for i := 1; i < w.gateways; i += 2 {
		w.api.tell(w.fleet.openPort(i))
		n++
	}
	if err := w.control.until(ctx, "Envoy has the listeners", 20*time.Millisecond, func() bool {
		now, err := w.held("Listener")
		return err == nil && now >= held+n
	}); err != nil {
		return err
	}
	if err := pause(ctx, time.Second); err != nil { // it answers first, and does the work
		return err
	}
	after, err := w.envoy.allocated(ctx)
	if err != nil {
		return err
	}
	w.add("gateways.envoy_heap_per_listener", (after-before)/float64(n), "B")
	w.add("gateways.envoy_rss_per_listener", (residentOf(w.envoy.cmd.Process.Pid)-rss)/float64(n), "B")
	return w.sanity()
}

// held is how many resources of a type the real proxy acknowledged.
func (w *world) held(typ string) (int, error) {
	all, err := w.control.streams()
	if err != nil {
		return 0, err
	}
	for _, t := range all[envoyNode].Types {
		if t.Type == typ {
			return t.Held, nil
		}
	}
	return 0, nil
}

// allocated is what of an Envoy's memory is in use, as it says itself.
func (e *envoy) allocated(ctx context.Context) (float64, error) {
	body, err := get(ctx, adminAddress+"/memory")
	if err != nil {
		return 0, err
	}
	var said struct {
		Allocated float64 `json:"allocated,string"`
	}
	return said.Allocated, json.Unmarshal(body, &said)
}
