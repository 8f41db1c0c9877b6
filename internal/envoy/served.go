package envoy

import (
	"slices"

	"github.com/spillway-dev/spillway/internal/inc"
)

// byHost is the scopes of each front, or its route configurations, by name. What
// is made once for a host of a table has one row.
type byHost struct {
	d  *derivation
	of func(served) Resource
}

// Get returns the one of a front under a name, and records what it read.
func (t *byHost) Get(r *inc.Reader, k Key) (Resource, bool) {
	row, ok := t.d.servedUnder(r, k)
	if !ok {
		return Resource{}, false
	}
	return t.of(row), true
}

// Keys returns those of all, in order.
func (t *byHost) Keys() []Key {
	var out []Key
	for _, id := range t.d.served.Keys() {
		row, _ := t.d.served.Get(nil, id)
		for _, front := range row.fronts {
			out = append(out, Key{front, id.name()})
		}
	}
	slices.SortFunc(out, Key.Compare)
	return out
}

// Watch calls f after each commit with those that changed, in order.
func (t *byHost) Watch(f func([]inc.Change[Key, Resource])) {
	t.d.served.Watch(func(changes []inc.Change[scopeID, served]) {
		var out []inc.Change[Key, Resource]
		for _, c := range changes {
			out = append(out, t.apart(c)...)
		}
		slices.SortFunc(out, func(a, b inc.Change[Key, Resource]) int { return a.Key.Compare(b.Key) })
		if len(out) > 0 {
			f(out)
		}
	})
}

// apart is a change of a host, front by front.
func (t *byHost) apart(c inc.Change[scopeID, served]) (out []inc.Change[Key, Resource]) {
	var old, now served
	if c.Old != nil {
		old = *c.Old
	}
	if c.New != nil {
		now = *c.New
	}
	name := c.Key.name()
	for _, front := range old.fronts {
		if !slices.Contains(now.fronts, front) {
			was := t.of(old)
			out = append(out, inc.Change[Key, Resource]{Key: Key{front, name}, Old: &was})
		}
	}
	for _, front := range now.fronts {
		is := t.of(now)
		change := inc.Change[Key, Resource]{Key: Key{front, name}, New: &is}
		if slices.Contains(old.fronts, front) {
			was := t.of(old)
			if was.Equal(is) {
				continue
			}
			change.Old = &was
		}
		out = append(out, change)
	}
	return out
}
