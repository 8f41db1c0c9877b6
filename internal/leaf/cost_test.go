package leaf_test

import (
	"fmt"
	"testing"

	"github.com/spillway-dev/spillway/internal/fleet/fleettest"
)

// TestProxiesComeAndGoCheaply: no root is looked at when an edge that serves it
// gains or loses a proxy.
func TestProxiesComeAndGoCheaply(t *testing.T) {
	w := fleettest.New(declare)
	lines := []string{"edge fra region=eu addresses=192.0.2.1", "class spillway default", "member eu-1 region=eu", "streams fra 1"}
	for i := range 200 {
		lines = append(lines, fmt.Sprintf("ingress shop/r%d h%d.example/->web:80", i, i), fmt.Sprintf("ack fra h%d.example", i))
	}
	for _, c := range []struct {
		lines []string
		rows  int // evaluated
	}{
		{[]string{"streams fra 2"}, 2},             // whether it is heard, its status
		{[]string{"streams fra 0"}, 2},             // the same
		{[]string{"report fra/a eu-1 0/1"}, 4},     // the report, its path, a view's sight, the member's status
		{[]string{"report fra/b eu-1 0/1"}, 4},     // the same: the path counts proxies
		{[]string{"pods eu-1 shop/x 10.0.0.1"}, 0}, // nobody asked for it
	} {
		if _, err := w.Do(lines...); err != nil {
			t.Fatal(err)
		}
		w.Commit()
		if _, err := w.Do(c.lines...); err != nil {
			t.Fatal(err)
		}
		w.Commit()
		if w.Stats.Evaluated != c.rows {
			t.Errorf("%v: %d rows evaluated, not %d", c.lines, w.Stats.Evaluated, c.rows)
		}
		lines = nil
	}
}
