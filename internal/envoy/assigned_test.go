package envoy

import (
	"fmt"
	"maps"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/spillway-dev/spillway/internal/fleet"
	"github.com/spillway-dev/spillway/internal/fleet/fleettest"
	"github.com/spillway-dev/spillway/internal/inc"
	"github.com/spillway-dev/spillway/internal/model"
	"github.com/spillway-dev/spillway/internal/steer"
)

var (
	here  = model.VantageKey{Networks: "default", Place: fra}
	there = model.VantageKey{Networks: "default", Place: model.Place{Region: "us"}}

	// threeAt are views at one vantage.
	threeAt = []model.View{
		testView,
		model.ViewKey{Classes: "spillway", VantageKey: here, IPv6: true}.View(),
		model.ViewKey{Classes: "other,spillway", VantageKey: here}.View(),
	}
	elsewhere = model.ViewKey{Classes: "spillway", VantageKey: there}.View()
)

// withViews is a world with an edge for each view.
func withViews(s sizes, views ...model.View) *world {
	w := newWorldOf(s)
	w.g.Commit(func(tx *inc.Tx) {
		w.class(tx, testClass, 1, httpPort, httpsPort)
		w.class(tx, "other", 2, httpPort, httpsPort)
		for i, v := range views {
			w.edge(tx, model.Edge(fmt.Sprint("edge-", i)), v)
		}
	})
	return w
}

// TestAssignmentsAreMadeOnceAVantage: however many views are there, they share
// the assignments, made and told once; so with the parts of a backend, and with
// what changes.
func TestAssignmentsAreMadeOnceAVantage(t *testing.T) {
	for name, s := range map[string]sizes{"one part": usual, "parts": {treeFrom: treeFrom, part: 2, dealtFrom: 1}} {
		t.Run(name, func(t *testing.T) {
			for n := 1; n <= len(threeAt); n++ {
				w := withViews(s, append([]model.View{elsewhere}, threeAt[:n]...)...)
				const b = "shop/web/http"
				told := map[model.Collection]int{}
				w.t.Assignments.Watch(func(changes []inc.Change[Key, Resource]) {
					for _, c := range changes {
						told[c.Key.Collection]++
					}
				})
				w.g.Commit(func(tx *inc.Tx) {
					for _, v := range append([]model.View{elsewhere}, threeAt[:n]...) {
						w.use(tx, v, b, "")
						w.plan(tx, v, b, share("eu-1", 0))
					}
					w.group(tx, b, "eu-1", endpointAt("10.0.0.1", 80), endpointAt("10.0.0.2", 80), endpointAt("10.0.0.3", 80))
				})
				if got := fleettest.Evaluations(w.g)["envoy.Assignments"]; got != 2 {
					t.Errorf("%d views at one vantage, one at another: %d evaluations for a backend", n, got)
				}
				clear(told)
				w.g.Commit(func(tx *inc.Tx) {
					w.plan(tx, testView, b, share("eu-1", 1))
				})
				if got := fleettest.Evaluations(w.g)["envoy.Assignments"]; got != 3 {
					t.Errorf("%d views: %d evaluations more for another plan of theirs", n, got-2)
				}
				if len(told) != 1 || told[testView.Vantage().Pools()] == 0 {
					t.Errorf("%d views: told %v", n, told)
				}
			}
		})
	}
}

// TestWhoWatchesAssignmentsKnowsThem: what Watch tells adds up to what Keys and
// Get say, whatever views get and lose, and each cluster of endpoints has its
// assignment in each view.
func TestWhoWatchesAssignmentsKnowsThem(t *testing.T) {
	views := append([]model.View{elsewhere}, threeAt...)
	rapid.Check(t, func(rt *rapid.T) {
		w := withViews(sizes{treeFrom: treeFrom, part: 2, dealtFrom: 1}, views...)
		known := map[Key]string{}
		w.t.Assignments.Watch(func(changes []inc.Change[Key, Resource]) {
			for _, c := range changes {
				delete(known, c.Key)
				if c.New != nil {
					known[c.Key] = c.New.String() + string(c.New.Bytes())
				}
			}
		})
		for range rapid.IntRange(1, 10).Draw(rt, "commits") {
			w.g.Commit(func(tx *inc.Tx) {
				for range rapid.IntRange(1, 4).Draw(rt, "batch") {
					w.disturb(rt, tx, views, rapid.SampledFrom([]string{"ns/x/http", "ns/y/http"}).Draw(rt, "backend"))
				}
			})
			if faults := w.g.Faults(); len(faults) > 0 {
				rt.Fatalf("at fault: %+v", faults)
			}
			now := map[Key]string{}
			for _, k := range w.t.Assignments.Keys() {
				res, ok := w.t.Assignments.Get(nil, k)
				if !ok {
					rt.Fatalf("%s is among the keys and not there", k)
				}
				now[k] = res.String() + string(res.Bytes())
			}
			if !maps.Equal(known, now) {
				rt.Fatalf("told %v, there is %v", slices.SortedFunc(maps.Keys(known), Key.Compare), slices.SortedFunc(maps.Keys(now), Key.Compare))
			}
			unions(rt, w, false)
		}
	})
}

// disturb changes something about a backend in all views, or at the vantage of one.
func (w *world) disturb(rt *rapid.T, tx *inc.Tx, views []model.View, b string) {
	view := rapid.SampledFrom(views).Draw(rt, "view")
	n := rapid.IntRange(0, 5).Draw(rt, "n")
	switch rapid.IntRange(0, 5).Draw(rt, "kind") {
	case 0:
		for _, view := range views {
			w.use(tx, view, b, []string{"", "h2c"}[n%2])
		}
	case 1:
		for _, view := range views {
			w.needs.Delete(tx, need{view: view, backend: backend(b)})
		}
	case 2:
		w.p.Backends.Set(tx, backend(b), fleet.Backend{External: n%2 == 0})
	case 3:
		var eps []model.Endpoint
		for i := range n {
			eps = append(eps, endpointAt(fmt.Sprintf("10.0.0.%d", 1+i), 80))
		}
		w.group(tx, b, "eu-1", eps...)
	case 4:
		w.p.Plans.Set(tx, need{view: view, backend: backend(b)}.use(), steer.Plan{Shares: []steer.Share{share("eu-1", n%3)}, Unsure: n > 3})
	case 5:
		for _, view := range views {
			w.use(tx, view, b, "")
			w.plan(tx, view, b, share("eu-1", 0))
		}
	}
}
