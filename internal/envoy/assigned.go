package envoy

import (
	"slices"
	"strings"

	"github.com/spillway-dev/spillway/internal/fleet"
	"github.com/spillway-dev/spillway/internal/inc"
	"github.com/spillway-dev/spillway/internal/model"
)

// assigned is the assignments of a backend as seen from a vantage: one, or that
// of each part. All are made when one of them changes, since they are found by
// one way through the endpoints.
type assigned struct{ parts []Resource }

func (a assigned) Equal(b assigned) bool { return slices.EqualFunc(a.parts, b.parts, Resource.Equal) }

// String is the names and the versions.
func (a assigned) String() string {
	out := make([]string, len(a.parts))
	for i, p := range a.parts {
		out[i] = p.String()
	}
	return strings.Join(out, ", ")
}

// find is the assignment of a cluster.
func (a assigned) find(name string) (Resource, bool) {
	for _, p := range a.parts {
		if p.Name == name {
			return p, true
		}
	}
	return Resource{}, false
}

// assignedOf makes the assignments of a backend, whichever fronts have its
// clusters.
func (d *derivation) assignedOf(r *inc.Reader, use fleet.UseID) (assigned, bool) {
	n, ok := d.clusterNames.Get(r, use.Backend)
	if !ok || n.external {
		return assigned{}, false
	}
	plan, groups, _ := d.planOf(r, use)
	each := [][]locality{localities(plan, groups)}
	if n.parts > 1 {
		each = deal(each[0], n.parts, d.sizes.dealtFrom)
	}
	out := assigned{make([]Resource, len(each))}
	for i, all := range each {
		d.scratch = assignment(d.scratch[:0], n.part(i), all)
		out.parts[i] = versioned(n.part(i), d.scratch, doubted(model.BodyOf(d.scratch), plan, use.Backend))
	}
	return out, true
}

// Assignments are those of each vantage, by the name of the cluster that leads
// there. What is made once for a backend has one row, of all its parts.
type Assignments struct{ d *derivation }

// Get returns an assignment, and records what it read.
func (a *Assignments) Get(r *inc.Reader, k Key) (Resource, bool) {
	if k.Collection.Kind() != model.Pools {
		return Resource{}, false
	}
	b, ok := a.d.backendOf(r, k.Name)
	if !ok {
		return Resource{}, false
	}
	row, _ := a.d.assigned.Get(r, fleet.UseID{Vantage: k.Collection.Vantage(), Backend: b})
	return row.find(k.Name)
}

// Keys returns those of all assignments, in order.
func (a *Assignments) Keys() []Key {
	var out []Key
	for _, use := range a.d.assigned.Keys() {
		row, _ := a.d.assigned.Get(nil, use)
		for _, p := range row.parts {
			out = append(out, Key{use.Vantage.Pools(), p.Name})
		}
	}
	slices.SortFunc(out, Key.Compare)
	return out
}

// Watch calls f after each commit with the assignments that changed.
func (a *Assignments) Watch(f func([]inc.Change[Key, Resource])) {
	a.d.assigned.Watch(func(changes []inc.Change[fleet.UseID, assigned]) {
		var out []inc.Change[Key, Resource]
		for _, c := range changes {
			out = append(out, apart(c)...)
		}
		if len(out) > 0 {
			f(out)
		}
	})
}

// apart is a change of a backend's assignments, one by one.
func apart(c inc.Change[fleet.UseID, assigned]) (out []inc.Change[Key, Resource]) {
	in := c.Key.Vantage.Pools()
	of := func(row *assigned, name string) *Resource {
		if row == nil {
			return nil
		}
		if res, ok := row.find(name); ok {
			return &res
		}
		return nil
	}
	if c.Old != nil {
		for _, p := range c.Old.parts {
			if of(c.New, p.Name) == nil {
				out = append(out, inc.Change[Key, Resource]{Key: Key{in, p.Name}, Old: &p})
			}
		}
	}
	if c.New != nil {
		for _, p := range c.New.parts {
			if old := of(c.Old, p.Name); old == nil || !old.Equal(p) {
				out = append(out, inc.Change[Key, Resource]{Key: Key{in, p.Name}, Old: old, New: &p})
			}
		}
	}
	return out
}
