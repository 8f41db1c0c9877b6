package fleet_test

import (
	"maps"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/spillway-dev/spillway/internal/fleet"
	"github.com/spillway-dev/spillway/internal/fleet/fleettest"
	"github.com/spillway-dev/spillway/internal/model"
)

// TestLeases: whatever is edited, an address of a pool is one class's, who has one
// keeps it while it is there, and nobody goes without while one is free. What a class
// has left it has for itself, too, until that is over. A Gateway that asks for addresses
// has no other.
func TestLeases(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := fleettest.New(nil)
		var had []model.Lease
		for _, line := range rapid.SliceOfN(rapid.OneOf(rapid.Custom(drawLine), rapid.Custom(drawGateways)), 1, 40).Draw(t, "lines") {
			do(t, w, line, "remember", "commit")
			now := slices.Collect(maps.Values(rowsOf(w.Program.Leases)))
			checkLeases(t, w.Program, had, now)
			checkLeft(t, w.Program, had, line)
			had = now
		}
	})
}

func checkLeases(t *rapid.T, p *fleet.Program, had, now []model.Lease) {
	for e, spec := range rowsOf(p.In.Edges) {
		free := slices.Clone(spec.Pool)
		for _, l := range now {
			if l.Edge != e {
				continue
			}
			for _, a := range l.List() {
				at := slices.Index(free, a)
				if at < 0 {
					t.Fatalf("%s has %s, which is not in the pool, or somebody else's: %v", l, a.Address, now)
				}
				free = slices.Delete(free, at, at+1)
			}
		}
		for c, info := range rowsOf(p.ClassInfo) {
			id := model.LeaseID{Edge: e, Class: c.Tenant()}
			wants := info.Config.Own && slices.Contains(info.Edges, e)
			has, ok := p.Lease(nil, id)
			if ok && !wants {
				t.Fatalf("%s has %s and does not want it", c, has)
			}
			for _, a := range has.Addresses() {
				if len(info.Requested) > 0 && !slices.Contains(info.Requested, a) {
					t.Fatalf("%s has %s, and asks for %v", c, a, info.Requested)
				}
			}
			for _, a := range free {
				if wants && isFor(spec, info, a) && !waitedFor(p, id, a) && (a.Address.Is4() && !has.IPv4.Address.IsValid() || a.Address.Is6() && !has.IPv6.Address.IsValid()) {
					t.Fatalf("%s has %s, and %s is free", id, has, a.Address)
				}
			}
			checkKept(t, spec.Pool, id, info, wants, had, has)
		}
	}
}

// isFor tells whether a class may be given an address of a pool.
func isFor(edge model.EdgeSpec, info fleet.ClassInfo, a model.PoolAddress) bool {
	if len(info.Requested) > 0 {
		return slices.Contains(info.Requested, a.Address)
	}
	return !slices.Contains(edge.OnRequest, a.Address)
}

// waitedFor tells whether clients may take an address for another class.
func waitedFor(p *fleet.Program, id model.LeaseID, a model.PoolAddress) bool {
	return slices.ContainsFunc(p.Tenures.Keys(), func(k model.TenureID) bool {
		return k.Edge == id.Edge && k.Class != id.Class && (k.Address == a.Address || k.Bind == a.Bind)
	})
}

func checkLeft(t *rapid.T, p *fleet.Program, had []model.Lease, line string) {
	holder := map[string]model.Class{}
	for _, k := range p.Tenures.Keys() {
		for _, at := range []string{"reached " + k.Address.String(), "bound " + k.Bind.String()} {
			at = string(k.Edge) + " " + at
			if other := holder[at]; other != "" && other != k.Class {
				t.Fatalf("%s is of %s and of %s: %v", at, other, k.Class, p.Tenures.Keys())
			}
			holder[at] = k.Class
		}
	}
	for _, l := range had {
		served := slices.ContainsFunc(p.ClassInfo.Keys(), func(c model.Class) bool { return c.Tenant() == l.Class })
		_, edge := p.In.Edges.Get(nil, l.Edge)
		for _, k := range l.Tenures() {
			if _, ok := p.Tenures.Get(nil, k); ok != (served && edge) && line != "remember over" {
				t.Fatalf("after %q: %s had %s, is served %v, and the edge is there %v: %v", line, l.Class, k, served, edge, p.Tenures.Keys())
			}
		}
	}
}

func checkKept(t *rapid.T, pool []model.PoolAddress, id model.LeaseID, info fleet.ClassInfo, wants bool, had []model.Lease, has model.Lease) {
	for _, l := range had {
		for _, a := range l.List() {
			if l.LeaseID == id && wants && (len(info.Requested) == 0 || slices.Contains(info.Requested, a.Address)) && slices.Contains(pool, a) && !slices.Contains(has.List(), a) {
				t.Fatalf("%s had %s, which is in the pool, and has %s", id, l, has)
			}
		}
	}
}
