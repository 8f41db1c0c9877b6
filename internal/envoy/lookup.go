package envoy

import (
	"github.com/spillway-dev/spillway/internal/inc"
	"github.com/spillway-dev/spillway/internal/model"
)

// Resource returns the current version of a resource, for use between commits.
func (t *Tables) Resource(typeURL string, k Key) (Resource, bool) {
	table := t.table(typeURL)
	if table == nil {
		return Resource{}, false
	}
	return table.Get(nil, k)
}

// WatchCounted tells which clusters count the requests to a backend, after each
// commit that changed it: none for one that is gone. An entry to parts counts
// nothing, since each request is counted for the part that it went to.
func (t *Tables) WatchCounted(f func(b model.Backend, before, now []string)) {
	of := func(n *clusterName) []string {
		if n == nil {
			return nil
		}
		return n.counted()
	}
	t.d.clusterNames.Watch(func(changes []inc.Change[model.Backend, clusterName]) {
		for _, c := range changes {
			f(c.Key, of(c.Old), of(c.New))
		}
	})
}
