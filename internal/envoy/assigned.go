package envoy

import (
	"slices"
	"strings"

	"github.com/spillway-dev/spillway/internal/fleet"
	"github.com/spillway-dev/spillway/internal/inc"
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

// assignedOf makes the assignments of a backend, whichever views at the vantage
// have its clusters.
func (d *derivation) assignedOf(r *inc.Reader, use fleet.UseID) (assigned, bool) {
	n, ok := d.clusterNames.Get(r, use.Backend)
	if !ok || n.external {
		return assigned{}, false
	}
	plan, groups := d.planOf(r, use)
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

// Assignments are the assignments that each view has: those that its clusters
// lead to, as seen from its vantage. What is made once for a vantage has no rows
// by view.
type Assignments struct {
	d        *derivation
	clusters *inc.Table[Key, Resource]
}

// leads tells whether a cluster has an assignment, which has its name.
func leads(cluster Resource) bool {
	return slices.Contains(cluster.Refs, Ref{AssignmentType, cluster.Name})
}

// Get returns an assignment of a view, and records what it read.
func (a *Assignments) Get(r *inc.Reader, k Key) (Resource, bool) {
	if cluster, _ := a.clusters.Get(r, k); !leads(cluster) {
		return Resource{}, false
	}
	return a.d.assignmentOf(r, a.d.needOfKey, k)
}

// assignmentOf finds an assignment by an index of clusters.
func (d *derivation) assignmentOf(r *inc.Reader, of *inc.Index[Key, fleet.NeedID, clusterName], k Key) (Resource, bool) {
	needs := of.Keys(r, k)
	if len(needs) == 0 {
		return Resource{}, false
	}
	row, _ := d.assigned.Get(r, needs[0].Use())
	return row.find(k.Name)
}

// Keys returns those of all assignments of all views, in order.
func (a *Assignments) Keys() []Key {
	return slices.DeleteFunc(a.clusters.Keys(), func(k Key) bool { _, ok := a.Get(nil, k); return !ok })
}

// Watch calls f after each commit with what changed for each view that has it:
// perhaps twice, once for what became of an assignment and once for the views
// that got or lost its cluster. Of one that is gone, Old has but the name.
func (a *Assignments) Watch(f func([]inc.Change[Key, Resource])) {
	tell := func(changes []inc.Change[Key, Resource]) {
		if len(changes) > 0 {
			f(changes)
		}
	}
	a.clusters.Watch(func(changes []inc.Change[Key, Resource]) {
		var out []inc.Change[Key, Resource]
		for _, c := range changes {
			out = append(out, a.led(c)...)
		}
		tell(out)
	})
	a.d.assigned.Watch(func(changes []inc.Change[fleet.UseID, assigned]) {
		var out []inc.Change[Key, Resource]
		for _, c := range changes {
			out = append(out, a.spread(c)...)
		}
		tell(out)
	})
}

// led is what a cluster that comes or goes means for its assignment.
func (a *Assignments) led(c inc.Change[Key, Resource]) []inc.Change[Key, Resource] {
	switch {
	case c.New == nil && leads(*c.Old):
		return []inc.Change[Key, Resource]{{Key: c.Key, Old: &Resource{Name: c.Key.Name}}}
	case c.Old == nil && leads(*c.New):
		if now, ok := a.Get(nil, c.Key); ok {
			return []inc.Change[Key, Resource]{{Key: c.Key, New: &now}}
		}
	}
	return nil
}

// spread gives what changed at a vantage to the views there. An assignment that
// is gone has no cluster any more.
func (a *Assignments) spread(c inc.Change[fleet.UseID, assigned]) []inc.Change[Key, Resource] {
	if c.New == nil {
		return nil
	}
	views := a.d.p.ViewsAt.Keys(nil, c.Key.Vantage)
	var out []inc.Change[Key, Resource]
	for i := range c.New.parts {
		now := c.New.resource(i)
		var old *Resource
		if c.Old != nil {
			if was, ok := c.Old.find(now.Name); ok {
				old = &was
			}
		}
		if old != nil && old.Equal(now) {
			continue
		}
		for _, view := range views {
			key := Key{view, now.Name}
			if cluster, _ := a.clusters.Get(nil, key); leads(cluster) {
				out = append(out, inc.Change[Key, Resource]{Key: key, Old: old, New: &now})
			}
		}
	}
	return out
}
