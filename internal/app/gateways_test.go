package app

import (
	"fmt"
	"runtime"
	"strings"
	"testing"

	"github.com/spillway-dev/spillway/internal/envoy"
	"github.com/spillway-dev/spillway/internal/inc"
	"github.com/spillway-dev/spillway/internal/model"
)

// gatewaysOf is a world of an edge with many Gateways of ten HTTPRoutes each, every
// other with an address of its own, and the proxy of the edge.
type gatewaysOf struct{ *frontsOf }

func newGateways(t testing.TB, n int) gatewaysOf { return newGatewaysOf(t, n, perFront) }

func newGatewaysOf(t testing.TB, n, routes int) gatewaysOf {
	var g gatewaysOf
	newFrontsWith(t, n+2, func(f *frontsOf, tx *inc.Tx) {
		g.frontsOf = f
		for class, config := range map[model.GatewayClass]model.Config{"shared": "", "own": "own"} {
			f.prog.In.GatewayClasses.Set(tx, class, model.GatewayClassSpec{Generation: 1, Config: config})
		}
		for i := range n {
			g.gateway(tx, i)
			for h := range routes {
				g.route(tx, i, h, "/")
			}
		}
	})
	return g
}

func gatewayAt(i int) model.GatewayID {
	return model.GatewayID{Namespace: "shop", Name: fmt.Sprintf("gw-%04d", i)}
}

// gateway adds a Gateway with a listener, and more by their hosts.
func (g gatewaysOf) gateway(tx *inc.Tx, i int, more ...string) {
	spec := model.GatewaySpec{Created: int64(i + 2), Generation: 1, Class: "shared"}
	if i%2 == 1 {
		spec.Class = "own"
	}
	for j, host := range append([]string{"**." + domainOf(i)}, more...) {
		spec.Listeners = append(spec.Listeners, model.Listener{
			Name: fmt.Sprintf("l-%d", j), Port: 80, Protocol: model.HTTP, Host: model.Host(host), Routes: model.Attachable{Kinds: model.TextsOf([]string{"HTTPRoute"})},
		})
	}
	g.prog.In.Gateways.Set(tx, gatewayAt(i), spec)
}

func domainOf(gateway int) string { return fmt.Sprintf("g%04d.apps.example", gateway) }

func routeAt(gateway, h int) model.Object {
	return model.Object{Kind: "HTTPRoute", Namespace: "shop", Name: serviceOf(gateway*perFront + h).Name()}
}

// route adds one of the HTTPRoutes of a Gateway, with a Service of its own.
func (g gatewaysOf) route(tx *inc.Tx, gateway, h int, path string) {
	i, id := gateway*perFront+h, routeAt(gateway, h)
	host := model.Host(fmt.Sprintf("h%05d.%s", i, domainOf(gateway)))
	g.prog.In.Rules.Set(tx, model.RulesID{Root: id, Host: host}, model.Rules{{
		Matches: []model.Match{{Kind: model.PathPrefix, Path: path}}, Action: model.Action{Backends: []model.WeightedBackend{{Backend: backendOf(i), Weight: 1}}},
	}})
	g.prog.In.Roots.Set(tx, id, model.Root{Created: int64(i + 2), Route: &model.RouteSpec{Generation: 1, Parents: []model.Parent{
		{Group: model.GatewayGroup, Kind: model.GatewayKind, Name: gatewayAt(gateway).Name},
	}}})
	for m := range 2 {
		g.service(tx, i, m)
		g.slice(tx, i, m, 0)
	}
}

func (g gatewaysOf) withoutRoute(tx *inc.Tx, gateway, h int) {
	id := routeAt(gateway, h)
	g.prog.In.Roots.Delete(tx, id)
	g.prog.In.Rules.Delete(tx, model.RulesID{Root: id, Host: model.Host(fmt.Sprintf("h%05d.%s", gateway*perFront+h, domainOf(gateway)))})
}

// TestAGatewayCostsItself: among many Gateways at an edge as among few, one of them, one
// of its listeners and one of its HTTPRoutes come, are edited and go with the same rows
// and bytes, whether it has an address of its own or shares that of the edge. There all
// wildcards are in one index, which is sent as a whole when one comes or goes
// (docs/design/scopes.md).
func TestAGatewayCostsItself(t *testing.T) {
	const fewest, most, indexed = 10, 200, 100 // bytes of a wildcard
	type cost struct{ bytes, rows int }
	for own, kind := range []string{"shared", "own"} {
		of := map[int]map[string]cost{}
		for _, among := range []int{fewest, most} {
			g, n := newGateways(t, among), among+own
			g.commit(func(tx *inc.Tx) {
				for h := range perFront {
					g.route(tx, n, h, "/")
				}
			})
			changes := []struct {
				name string
				edit func(*inc.Tx)
			}{
				{"a Gateway comes", func(tx *inc.Tx) { g.gateway(tx, n) }},
				{"a listener comes", func(tx *inc.Tx) { g.gateway(tx, n, "other.example") }},
				{"a listener is edited", func(tx *inc.Tx) { g.gateway(tx, n, "another.example") }},
				{"a listener goes", func(tx *inc.Tx) { g.gateway(tx, n) }},
				{"a route goes", func(tx *inc.Tx) { g.withoutRoute(tx, n, 3) }},
				{"a route comes", func(tx *inc.Tx) { g.route(tx, n, 3, "/") }},
				{"a route is edited", func(tx *inc.Tx) { g.route(tx, n, 3, "/a") }},
				{"a route is as before", func(tx *inc.Tx) { g.route(tx, n, 3, "/") }},
				{"a Gateway goes", func(tx *inc.Tx) { g.prog.In.Gateways.Delete(tx, gatewayAt(n)) }},
			}
			costs := map[string]cost{}
			for range 2 { // the first time, clusters that proxies drop later are sent
				for _, c := range changes {
					bytes, rows := g.change(c.edit)
					costs[c.name] = cost{bytes, rows}
				}
			}
			of[among] = costs
		}
		for name, few := range of[fewest] {
			many, more := of[most][name], few.bytes/20
			if own == 0 && strings.HasPrefix(name, "a Gateway") {
				more += (most - fewest) * indexed
			}
			if few.rows == 0 || many.rows != few.rows || many.bytes > few.bytes+more {
				t.Errorf("%s, %s: among %d Gateways %+v, among %d %+v", kind, name, fewest, few, most, many)
			}
		}
	}
}

// TestAnIndexIsFoundAtOnce: the index of wildcards of a table, which proxies acknowledge
// anew with each Gateway that comes, is found without a look at what all Gateways have.
func TestAnIndexIsFoundAtOnce(t *testing.T) {
	const n, most = 200, 20 // allocations
	g := newGateways(t, n)
	view, _ := g.prog.Views.Get(nil, "fra")
	own := model.OwnTable(gatewayAt(1).Front(model.HTTP, 80)) + "|**"
	for what, name := range map[string]string{"of the shared table": "**", "of a table of its own": own} {
		if _, ok := g.envoy.Find(nil, view.Key, envoy.RouteType, name, false); !ok {
			t.Errorf("the index %s, %s, is not found", what, name)
		}
		allocs := testing.AllocsPerRun(10, func() { g.envoy.Find(nil, view.Key, envoy.RouteType, name, false) })
		if allocs > most {
			t.Errorf("the index %s is found with %v allocations among %d Gateways", what, allocs, n)
		}
	}
}

// BenchmarkGatewayChange is a Gateway of ten HTTPRoutes that comes and goes, a listener
// of it, and an edit of a route, among others: every second world has one more, so that
// the Gateway has an address of its own.
func BenchmarkGatewayChange(b *testing.B) {
	for _, n := range []int{10, 1000, 11, 1001} {
		g := newGateways(b, n)
		g.commit(func(tx *inc.Tx) {
			for h := range perFront {
				g.route(tx, n, h, "/")
			}
		})
		for name, edits := range map[string][2]func(*inc.Tx){
			"gateway":  {func(tx *inc.Tx) { g.gateway(tx, n) }, func(tx *inc.Tx) { g.prog.In.Gateways.Delete(tx, gatewayAt(n)) }},
			"listener": {func(tx *inc.Tx) { g.gateway(tx, 0, "other.example") }, func(tx *inc.Tx) { g.gateway(tx, 0) }},
			"route":    {func(tx *inc.Tx) { g.route(tx, 0, 3, "/a") }, func(tx *inc.Tx) { g.route(tx, 0, 3, "/") }},
		} {
			b.Run(fmt.Sprintf("%s/gateways=%d", name, n), func(b *testing.B) {
				sent := 0
				for b.Loop() {
					for _, edit := range edits {
						g.bytes = 0
						g.commit(edit)
						g.settle()
						sent += g.bytes
						if name == "gateway" { // whose address is remembered
							b.StopTimer()
							g.remember()
							g.settle()
							b.StartTimer()
						}
					}
				}
				b.ReportMetric(float64(sent)/float64(b.N), "sent-B/op")
			})
		}
	}
}

// BenchmarkGateways is 10,000 HTTPRoutes of 1,000 Gateways, or of one, from nothing to a
// proxy that has all.
func BenchmarkGateways(b *testing.B) {
	for _, n := range []int{1, 1000} {
		b.Run(fmt.Sprintf("gateways=%d", n), func(b *testing.B) {
			for b.Loop() {
				g := newGatewaysOf(b, n, 10_000/n)
				b.ReportMetric(float64(heapOf(g)), "heap-B")
			}
		})
	}
}

// heapOf is what lives while a world does.
func heapOf(g gatewaysOf) uint64 {
	var m runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&m)
	runtime.KeepAlive(g)
	return m.HeapAlloc
}
