package fleet_test

import (
	"fmt"
	"maps"
	"testing"

	"github.com/spillway-dev/spillway/internal/fleet/fleettest"
)

// TestAListenerSetCostsItself: an edit of one evaluates nothing of other Gateways, and
// of the others of its Gateway only what is cut off at once.
func TestAListenerSetCostsItself(t *testing.T) {
	edit := func(gateways, sets int) map[string]int {
		w := fleettest.New(nil)
		lines := []string{"edge fra region=eu", "gatewayclass spillway", "member m1", "pods m1 ns/a 10.0.0.1", "secret ns/t s0.example"}
		for i := range gateways {
			lines = append(lines, fmt.Sprintf("gateway ns/g%d sets=All l:HTTP:80:g%d.example", i, i), fmt.Sprintf("httproute ns/g%d to=ns/g%d /->a:80", i, i))
		}
		for i := range sets {
			lines = append(lines, fmt.Sprintf("listenerset ns/s%d to=ns/g0 l:HTTP:80:s%d.example t:HTTPS:443:s%d.example,secret=t", i, i, i), fmt.Sprintf("httproute ns/s%d sets=ns/s%d /->a:80", i, i))
		}
		if _, err := w.Do(lines...); err != nil {
			t.Fatal(err)
		}
		w.Commit()
		before := fleettest.Evaluations(w.Graph)
		if _, err := w.Do("listenerset ns/s1 to=ns/g0 l:HTTP:80:other.example t:HTTPS:443:s1.example,secret=t"); err != nil {
			t.Fatal(err)
		}
		w.Commit()
		out := map[string]int{}
		for name, n := range fleettest.Evaluations(w.Graph) {
			if n > before[name] {
				out[name] = n - before[name]
			}
		}
		return out
	}
	few := edit(2, 5)
	if many := edit(40, 5); !maps.Equal(few, many) {
		t.Errorf("with 40 Gateways %v, with 2 %v", many, few)
	}
	few["parts of gateways"] += 35
	if many := edit(2, 40); !maps.Equal(few, many) {
		t.Errorf("with 40 ListenerSets %v, with 5 %v", many, few)
	}
}
