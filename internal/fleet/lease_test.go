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
			for _, a := range l.Has {
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
			asked := askedOf(info)
			if most, _ := matched(asked, has.Has); most != len(has.Has) {
				t.Fatalf("%s has %s, and asks for %v", c, has, info.Requested)
			}
			for _, a := range free {
				if !wants || waitedFor(p, id, a.PoolAddress) {
					continue
				}
				if _, given := matched(asked, has.Has, a); given {
					t.Fatalf("%s has %s, asks for %v, and %s is free", id, has, info.Requested, a.Address)
				}
			}
			checkKept(t, spec.Pool, id, asked, wants, had, has)
		}
	}
}

// entry is an address that a class asks for: an entry of spec.addresses, or without any
// entry one of each family.
type entry struct {
	model.AddressRequest
	v4, v6 bool // the families that will do
}

func askedOf(info fleet.ClassInfo) (out []entry) {
	for _, r := range info.Requested {
		out = append(out, entry{r, true, true})
	}
	if len(out) == 0 {
		out = []entry{{v4: true}, {v6: true}}
	}
	return out
}

// right tells whether an address is what is asked for, and whether it may be given for
// that, by the words of GEP-5093 and of Edge.spec.addressPool.
func (q entry) right(a model.PoolEntry) (is, given bool) {
	family := a.Address.Is4() && q.v4 || a.Address.Is6() && q.v6
	scope := a.Scope == q.Scope || q.Address.IsValid() && q.Scope == "" && a.Scope == "Cluster"
	is = family && scope && (!q.Address.IsValid() || q.Address == a.Address)
	return is, is && (q.Address.IsValid() || !a.OnRequest)
}

// matched tells for how many of some addresses there is something of its own that is
// asked for, whichever is tried for which, and whether all of them, and another one that
// is given, have.
func matched(all []entry, has []model.PoolEntry, more ...model.PoolEntry) (most int, given bool) {
	var try func(i int, used map[int]bool, n int)
	list := append(slices.Clone(has), more...)
	try = func(i int, used map[int]bool, n int) {
		if i == len(list) {
			most = max(most, n)
			given = given || n == len(list)
			return
		}
		for j, q := range all {
			is, may := q.right(list[i])
			if used[j] || !is || i >= len(has) && !may {
				continue
			}
			used[j] = true
			try(i+1, used, n+1)
			delete(used, j)
		}
		try(i+1, used, n)
	}
	try(0, map[int]bool{}, 0)
	return most, given
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

// checkKept tells that a class has as many as before of those that it had and that are
// what it asks for. Which ones, is up to it where it asks for fewer than it had.
func checkKept(t *rapid.T, pool []model.PoolEntry, id model.LeaseID, of []entry, wants bool, had []model.Lease, has model.Lease) {
	for _, l := range had {
		if l.LeaseID != id || !wants {
			continue
		}
		still := slices.DeleteFunc(slices.Clone(pool), func(a model.PoolEntry) bool { return !slices.ContainsFunc(l.Has, samePlace(a)) })
		kept := slices.DeleteFunc(slices.Clone(still), func(a model.PoolEntry) bool { return !slices.Contains(has.Has, a) })
		if most, _ := matched(of, still); len(kept) < most {
			t.Fatalf("%s had %s, of which %v are in the pool and asked for, and has %s", id, l, still, has)
		}
	}
}

func samePlace(a model.PoolEntry) func(model.PoolEntry) bool {
	return func(b model.PoolEntry) bool { return a.PoolAddress == b.PoolAddress }
}
