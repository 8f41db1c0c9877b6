package envoy

import (
	"slices"

	"github.com/spillway-dev/spillway/internal/fleet"
	"github.com/spillway-dev/spillway/internal/inc"
)

// byHost is the scopes of each collection, or its route configurations, by name.
// Both are made together.
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
	ids := t.d.served.Keys()
	out := make([]Key, len(ids))
	for i, id := range ids {
		out[i] = Key{id.In, scopeName(id)}
	}
	slices.SortFunc(out, Key.Compare)
	return out
}

// Watch calls f after each commit with those that changed, in order.
func (t *byHost) Watch(f func([]inc.Change[Key, Resource])) {
	pointer := func(row *served) *Resource {
		if row == nil {
			return nil
		}
		res := t.of(*row)
		return &res
	}
	t.d.served.Watch(func(changes []inc.Change[fleet.HostIn, served]) {
		var out []inc.Change[Key, Resource]
		for _, c := range changes {
			old, now := pointer(c.Old), pointer(c.New)
			if old == nil || now == nil || !old.Equal(*now) {
				out = append(out, inc.Change[Key, Resource]{Key: Key{c.Key.In, scopeName(c.Key)}, Old: old, New: now})
			}
		}
		slices.SortFunc(out, func(a, b inc.Change[Key, Resource]) int { return a.Key.Compare(b.Key) })
		if len(out) > 0 {
			f(out)
		}
	})
}
