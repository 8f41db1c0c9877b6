package fleet_test

import (
	"net/netip"
	"slices"
	"testing"

	"github.com/spillway-dev/spillway/internal/fleet"
	"github.com/spillway-dev/spillway/internal/fleet/fleettest"
	"github.com/spillway-dev/spillway/internal/inc"
	"github.com/spillway-dev/spillway/internal/model"
)

// TestCostOfAnEdgesAddress: an Edge that says where it is concerns the groups
// with endpoints near there, and no others; which are refused, is a group's row.
func TestCostOfAnEdgesAddress(t *testing.T) {
	const hosts, at = 1000, 300 // whose endpoints in member-1 are 11.1.44.0 and on
	l := newLarge(hosts, 10, 3, 2)
	evaluated := func() int { return fleettest.Evaluations(l.g)["groups"] }
	say := func(address string) int {
		before := evaluated()
		l.g.Commit(func(tx *inc.Tx) {
			spec, _ := l.p.In.Edges.Get(nil, "edge-0")
			spec.Addresses = []netip.Addr{netip.MustParseAddr(address)}
			l.p.In.Edges.Set(tx, "edge-0", spec)
		})
		return evaluated() - before
	}
	group := func() fleet.Group {
		g, _ := l.p.Groups.Get(nil, fleet.GroupID{Backend: l.backend(at), Member: member(1)})
		return g
	}
	if n := say("192.0.2.1"); n != 0 {
		t.Errorf("an address near no endpoint: %d groups evaluated", n)
	}
	whole := group().Endpoints.Len()
	near := 0 // groups in 11.1.0.0/16
	for i := range hosts {
		if i>>8 == at>>8 {
			near++
		}
	}
	if n := say("11.1.44.0"); n != near {
		t.Errorf("the address of an endpoint: %d groups evaluated, not the %d near it", n, near)
	}
	if g := group(); g.Endpoints.Len() != whole-1 || len(g.Refused()) != 1 {
		t.Errorf("%+v", g)
	}
	// The next change of that group costs what it always did.
	if s := l.g.Commit(func(tx *inc.Tx) { l.moveEndpoint(tx, at, 1, 1) }); s.Evaluated != 3 {
		t.Errorf("%d rows are evaluated for an address: its group, what it refuses, its shape", s.Evaluated)
	}
	if n := say("192.0.2.1"); n != near {
		t.Errorf("the address goes: %d groups evaluated, not %d", n, near)
	}
	if g := group(); g.Endpoints.Len() != whole || len(g.Refused()) != 0 {
		t.Errorf("%+v", g)
	}
	if all := l.p.Findings.Keys(); slices.ContainsFunc(all, func(o model.Object) bool { return o.Kind == "EndpointSlice" }) {
		t.Errorf("findings of nothing: %v", all)
	}
}
