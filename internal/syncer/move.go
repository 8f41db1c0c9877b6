package syncer

import (
	"slices"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"github.com/spillway-dev/spillway/api/v1alpha1"
)

// A root whose leaf should be in another namespace has two for a while: the old one is not
// deleted before the new one is there. What belongs to a root is known by its mark, so that
// it is so after a restart, too.

// rootOf names the leaves of a root: by the kind that they have, and its UID.
type rootOf struct {
	resource schema.GroupVersionResource
	uid      types.UID
}

// rooted notes which leaf is wanted of a root. The caller has the lock.
func (s *Syncer) rooted(key Key, e *leaf, l *Leaf) {
	var now rootOf
	if l != nil && l.Root.UID != "" {
		now = rootOf{key.Resource, l.Root.UID}
	}
	if e.root != now && e.root != (rootOf{}) && s.roots[e.root] == key {
		delete(s.roots, e.root)
		s.arrive(key)
	}
	if e.root = now; now != (rootOf{}) {
		s.roots[now] = key
	}
}

// arrived has those looked at that waited for a leaf which is there now. The caller has the
// lock.
func (s *Syncer) arrived(key Key, now State) {
	if now.Reason == Applied || now.Reason == Contested {
		s.arrive(key)
	}
}

func (s *Syncer) arrive(key Key) {
	for _, old := range s.movers[key] {
		s.queue.Add(old)
	}
	delete(s.movers, key)
}

// moves reports whether a leaf that is not wanted waits for another one of its root. One
// that need not wait any more is no loss, so nobody need consent that it goes.
func (t *task) moves(have *unstructured.Unstructured) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	e := t.leaves[t.key]
	to, is := t.roots[rootOf{t.key.Resource, types.UID(have.GetLabels()[v1alpha1.LabelRootUID])}]
	if !is || to == t.key || e == nil {
		return false
	}
	if next := t.leaves[to]; next != nil && (next.state.Reason == Applied || next.state.Reason == Contested) {
		e.consented = true
		t.count(t.key, e)
		return false
	}
	if !slices.Contains(t.movers[to], t.key) {
		t.movers[to] = append(t.movers[to], t.key)
	}
	t.Syncer.say(t.key, e, State{Reason: Pending, Message: "it goes when the root's leaf in namespace " + to.Namespace + " is there"})
	return true
}
