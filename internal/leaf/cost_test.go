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

// TestFindingsOfDNSAreForTheRefused: hosts that a zone allows, and Edges that
// DNS can name, have no row and are not looked at; and what endpoints do is
// nothing to the others.
func TestFindingsOfDNSAreForTheRefused(t *testing.T) {
	const allowed, refused = 200, 3
	w := fleettest.New(declare)
	lines := []string{
		"edge fra region=eu addresses=192.0.2.1", "edge nyc region=us addresses=nyc.example",
		"class spillway default", "member eu-1 region=eu", "zone dns/example example namespaces=shop",
	}
	for i := range allowed {
		lines = append(lines, fmt.Sprintf("ingress shop/r%d h%d.example/->web:http", i, i))
	}
	for i := range refused {
		lines = append(lines, fmt.Sprintf("ingress blog/r%d b%d.example/->web:http", i, i))
	}
	found := map[string]int{"dns-findings": refused + 1, "dns-findings of roots": refused, "dns-findings of edges": 1, "dns-findings of zones": 0}
	for _, c := range []struct {
		lines   []string
		records int            // evaluated
		more    map[string]int // findings evaluated
	}{
		{lines, allowed + refused, map[string]int{"dns-findings": refused + 1, "dns-findings of roots": refused, "dns-findings of edges": 1, "dns-findings of zones": 1}},
		{[]string{"pods eu-1 shop/web 10.1.0.1", "pods eu-1 blog/web 10.2.0.1"}, allowed, nil}, // edges reach a pod now
		{[]string{"pods eu-1 shop/web 10.1.0.2", "pods eu-1 blog/web 10.2.0.2"}, 0, nil},
		{[]string{"pods eu-1 blog/web"}, 0, nil},
		{[]string{"pods eu-1 shop/web"}, allowed, nil},
		{[]string{"streams fra 2"}, 0, nil},
	} {
		before := fleettest.Evaluations(w.Graph)
		if _, err := w.Do(c.lines...); err != nil {
			t.Fatal(err)
		}
		w.Commit()
		after := fleettest.Evaluations(w.Graph)
		if n := after["dns-records"] - before["dns-records"]; n != c.records {
			t.Errorf("after %s: %d records evaluated, not %d", c.lines[len(c.lines)-1], n, c.records)
		}
		for table := range found {
			if n := after[table] - before[table]; n != c.more[table] {
				t.Errorf("after %s: %d rows of %s evaluated, not %d", c.lines[len(c.lines)-1], n, table, c.more[table])
			}
		}
	}
	for _, table := range w.Graph.Tables() {
		if rows, ok := found[table.Name]; ok && table.Rows != rows {
			t.Errorf("%s has %d rows, not %d", table.Name, table.Rows, rows)
		}
	}
}
