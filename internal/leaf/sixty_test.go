package leaf_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/spillway-dev/spillway/internal/fleet/fleettest"
)

// TestSixtyMembers: a Gateway with leaves in 60 members has a status with all of them, in an
// order that does not move (package hub writes the first that the API has room for), and its
// route a GlobalIngress.
func TestSixtyMembers(t *testing.T) {
	const members = 60
	w := fleettest.New(declare)
	do := func(lines ...string) string {
		t.Helper()
		out, err := w.Do(lines...)
		if err != nil {
			t.Fatal(err)
		}
		w.Commit()
		return out
	}
	name := func(i int) string { return fmt.Sprintf("m-%02d", i) }
	fine := "says=Accepted:True:Accepted,Programmed:True:Programmed,Accepted:True:Accepted@http,Programmed:True:Programmed@http,ResolvedRefs:True:ResolvedRefs@http"
	lines := []string{"config leaves leaf=nginx gateways=contour global", "gatewayclass members config=leaves"}
	for i := range members {
		lines = append(lines, fmt.Sprintf("member %s region=r%d leaves=192.0.2.%d/32", name(i), i%3, i+1), fmt.Sprintf("pods %s shop/web 10.1.%d.1", name(i), i))
	}
	lines = append(lines, "gateway shop/gw class=members full http:HTTP:80:*.shop.example", "httproute shop/web full to=shop/gw hosts=a.shop.example /->web:80")
	for i := range members {
		lines = append(lines,
			fmt.Sprintf("leafstate %s shop/gw Applied of=Gateway at=192.0.2.%d %s", name(i), i+1, fine),
			fmt.Sprintf("leafstate %s shop/web Applied of=HTTPRoute says=Accepted:True:Accepted@shop/gw,ResolvedRefs:True:ResolvedRefs@shop/gw", name(i)))
	}
	do(lines...)
	if n := strings.Count(do("status leaves Gateway"), "Gateway shop/gw in m-"); n != members {
		t.Errorf("%d leaves of the Gateway", n)
	}
	addresses := func() []string {
		for line := range strings.Lines(do("status gateways shop/gw")) {
			if list, is := strings.CutPrefix(strings.TrimSpace(line), "shop/gw: ["); is {
				return strings.Fields(strings.TrimSuffix(list, "]"))
			}
		}
		return nil
	}
	first := addresses()
	if len(first) != members {
		t.Fatalf("the status has %d addresses: %v", len(first), first)
	}
	status := do("status gateways shop/gw")
	if !strings.Contains(status, "shop/gw: Programmed=True Programmed 60 of 60 members") {
		t.Errorf("status:\n%s", status)
	}
	if routes := do("status routes"); !strings.Contains(routes, "Accepted=True Accepted 60 of 60 members") {
		t.Errorf("routes:\n%s", routes)
	}
	if n := strings.Count(do("status globals"), "serving=true"); n != members {
		t.Errorf("the GlobalIngress has %d sites that serve", n)
	}

	// A member says no; its address stays among those that were told, which do not move.
	do(fmt.Sprintf("leafstate %s shop/gw Applied of=Gateway at=192.0.2.8 says=Accepted:True:Accepted,Programmed:False:AddressNotUsable:none", name(7)))
	status = do("status gateways shop/gw")
	if !strings.Contains(status, "shop/gw: Programmed=False AddressNotUsable 1 of 60 members: m-07: none") {
		t.Errorf("status:\n%s", status)
	}
	if now := addresses(); strings.Join(now, " ") != strings.Join(first, " ") {
		t.Errorf("addresses moved: %v, were %v", now, first)
	}

	// One has no address any more: that one goes, and the others stay as they were.
	do(fmt.Sprintf("leafstate %s shop/gw Applied of=Gateway", name(30)))
	var rest []string
	for _, a := range first {
		if a != "192.0.2.31" {
			rest = append(rest, a)
		}
	}
	if now := addresses(); strings.Join(now, " ") != strings.Join(rest, " ") {
		t.Errorf("addresses are %v, want %v", now, rest)
	}
}
