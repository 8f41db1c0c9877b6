package envoy

import (
	"maps"
	"testing"
	"time"

	clusterv3 "github.com/envoyproxy/go-control-plane/envoy/config/cluster/v3"

	"github.com/spillway-dev/spillway/internal/fleet/fleettest"
	"github.com/spillway-dev/spillway/internal/inc"
)

// timed is a world of two classes on one edge, each with a host and a Service of
// its own, a Service that both use, and a class that has no host.
type timed struct {
	*fleettest.World
	t *testing.T
	*Tables
}

func newTimed(t *testing.T) timed {
	fw, made := newProgram()
	w := timed{fw, t, made.t}
	w.do("member eu-1 region=eu", "edge fra region=eu",
		"config calm connect=800", "class calm config=calm",
		"config hasty connect=200", "class hasty config=hasty",
		"config idle connect=50", "class idle config=idle",
		"pods eu-1 shop/a 10.1.0.1", "pods eu-1 shop/b 10.1.0.2", "pods eu-1 shop/both 10.1.0.3",
		"ingress shop/a class=calm a.example/->a:http a.example/both->both:http",
		"ingress shop/b class=hasty b.example/->b:http b.example/both->both:http")
	return w
}

// do commits commands and returns how often functions of tables were called.
func (w timed) do(lines ...string) func(table string) int {
	w.t.Helper()
	before := fleettest.Evaluations(w.Graph)
	if _, err := w.Do(lines...); err != nil {
		w.t.Fatal(err)
	}
	w.Commit()
	for w.Graph.Backlog() > 0 {
		w.Graph.Commit(func(*inc.Tx) {})
	}
	after := fleettest.Evaluations(w.Graph)
	return func(table string) int { return after[table] - before[table] }
}

// expect compares the connect timeouts of clusters, by name.
func (w timed) expect(when string, want map[string]time.Duration) {
	w.t.Helper()
	got := map[string]time.Duration{}
	for _, key := range w.Clusters.Keys() {
		res, _ := w.Clusters.Get(nil, key)
		c := decode(w.t, res).(*clusterv3.Cluster)
		got[key.Name] = c.ConnectTimeout.AsDuration()
		if to := c.EdsClusterConfig.ServiceName; to != assignmentOf(key.Name) || to == key.Name {
			w.t.Errorf("%s: %s leads to %q", when, key.Name, to)
		}
	}
	if !maps.Equal(got, want) {
		w.t.Errorf("%s: connect timeouts %v, want %v", when, got, want)
	}
}

// TestTimingIsOfTheClass: a class connects as it says, to what others use too;
// all lead to the same endpoints.
func TestTimingIsOfTheClass(t *testing.T) {
	const ms = time.Millisecond
	w := newTimed(t)
	calm := map[string]time.Duration{"shop/a/http/connect-800ms": 800 * ms, "shop/both/http/connect-800ms": 800 * ms}
	with := func(more map[string]time.Duration) map[string]time.Duration {
		out := maps.Clone(calm)
		maps.Copy(out, more)
		return out
	}
	w.expect("at first", with(map[string]time.Duration{"shop/b/http/connect-200ms": 200 * ms, "shop/both/http/connect-200ms": 200 * ms}))
	w.do("config hasty connect=100", "config idle connect=10")
	w.expect("a class is edited", with(map[string]time.Duration{"shop/b/http/connect-100ms": 100 * ms, "shop/both/http/connect-100ms": 100 * ms}))
	w.do("ingress shop/b class=hasty b.example/->b:http")
	w.expect("it uses one Service no more", with(map[string]time.Duration{"shop/b/http/connect-100ms": 100 * ms}))
	w.do("ingress shop/idle class=idle idle.example/->a:http")
	w.expect("the idle class gets a host", with(map[string]time.Duration{"shop/b/http/connect-100ms": 100 * ms, "shop/a/http/connect-10ms": 10 * ms}))
	if n := len(w.Assignments.Keys()); n != 3 {
		t.Errorf("%d assignments, want 3: %v", n, w.Assignments.Keys())
	}
}

// TestTimingCosts: a timing evaluates the clusters that have it, and an endpoint or another path of a host none.
func TestTimingCosts(t *testing.T) {
	w := newTimed(t)
	for _, c := range []struct {
		line     string
		clusters int
	}{
		{"config calm connect=700", 2},
		{"config hasty connect=150", 2},
		{"config idle connect=20", 0},
		{"pods eu-1 shop/both 10.1.0.3 10.1.0.4", 0},
		{"ingress shop/a class=calm a.example/->a:http a.example/both->both:http a.example/more->both:http", 0},
	} {
		count := w.do(c.line)
		if got := count("envoy.Clusters"); got != c.clusters {
			t.Errorf("%s: %d clusters evaluated, want %d", c.line, got, c.clusters)
		}
	}
}
