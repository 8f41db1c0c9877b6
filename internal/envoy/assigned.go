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
type assigned struct {
	parts  []part
	unsure string // if not empty: a member whose rows are missing may be part of it, and this is its family
}

// part is the assignment of a cluster.
type part struct {
	name string
	sealed
}

func (a part) Equal(b part) bool { return a.name == b.name && a.sealed.Equal(b.sealed) }

func (a assigned) Equal(b assigned) bool {
	return a.unsure == b.unsure && slices.EqualFunc(a.parts, b.parts, part.Equal)
}

// String is the names and the versions.
func (a assigned) String() string {
	out := make([]string, len(a.parts))
	for i := range a.parts {
		out[i] = a.resource(i).String()
	}
	return strings.Join(out, ", ")
}

func (a assigned) resource(i int) Resource {
	p := a.parts[i]
	return Resource{Name: p.name, Version: p.version, Body: p.body, Unsure: a.unsure != "", Family: a.unsure}
}

// find is the assignment of a cluster.
func (a assigned) find(name string) (Resource, bool) {
	for i := range a.parts {
		if a.parts[i].name == name {
			return a.resource(i), true
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
	out := assigned{parts: make([]part, len(each))}
	for i, all := range each {
		out.parts[i] = part{n.part(i), assignment(n.part(i), all)}
	}
	if plan.Unsure {
		out.unsure = family(use.Backend)
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
			out = append(out, Key{use.Vantage.Pools(), p.name})
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
			if of(c.New, p.name) == nil {
				out = append(out, inc.Change[Key, Resource]{Key: Key{in, p.name}, Old: of(c.Old, p.name)})
			}
		}
	}
	if c.New != nil {
		for i, p := range c.New.parts {
			now, old := c.New.resource(i), of(c.Old, p.name)
			if old == nil || !old.Equal(now) {
				out = append(out, inc.Change[Key, Resource]{Key: Key{in, p.name}, Old: old, New: &now})
			}
		}
	}
	return out
}
