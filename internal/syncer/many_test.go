package syncer

import (
	"fmt"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"github.com/spillway-dev/spillway/api/v1alpha1"
)

// marked makes an object with our mark that nobody wanted.
func (m *member) marked(name string) {
	_, leaf := m.configMap(name, map[string]any{"of": "somebody"})
	o := leaf.Object.DeepCopy()
	o.SetLabels(map[string]string{v1alpha1.LabelHub: m.hub})
	m.create(configMaps, o)
}

// TestCount: what is there is counted, also what nobody knew of; a member is clear when
// nothing is there and nothing can come any more.
func TestCount(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m, f := fakeMember(t)
		m.marked("old")
		f.Answer = func(q *http.Request) int {
			if q.URL.Query().Get("labelSelector") != "" {
				return http.StatusForbidden
			}
			return 0
		}
		r := m.run(nil, configMaps)
		count := func() Count {
			time.Sleep(3 * time.Minute)
			r.Syncer.mu.Lock()
			defer r.Syncer.mu.Unlock()
			return r.counted
		}
		key, leaf := m.configMap("a", map[string]any{"of": "us"})
		r.Want(key, leaf)
		if c := count(); c.Known || c.Clear {
			t.Errorf("not listed: %+v", c)
		}
		f.Mu.Lock()
		f.Answer = nil
		f.Mu.Unlock()
		if c := count(); c != (Count{Leaves: 2, Known: true}) {
			t.Errorf("listed: %+v", c)
		}
		r.Want(key, nil)
		if c := count(); c != (Count{Leaves: 2, Known: true}) {
			t.Errorf("not all is known that is wanted: %+v", c)
		}
		r.Complete()
		if c := count(); c != (Count{Known: true, Clear: true}) {
			t.Errorf("all is gone: %+v", c)
		}
	})
}

// TestTooMany: a member that lists more objects with our mark than were ever wanted costs
// what is kept of so many, what is wanted is kept up meanwhile, and with consent all the
// others go.
func TestTooMany(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m, f := fakeMember(t)
		const extra = most + most/2
		for i := range extra {
			m.marked(fmt.Sprintf("x-%05d", i))
		}
		key, leaf := m.configMap("a", map[string]any{"of": "us"})
		r := m.run(func(r *run) {
			r.Want(key, leaf)
			r.Complete()
		}, configMaps)
		r.there(key)
		time.Sleep(time.Minute)
		s := r.Syncer
		s.mu.Lock()
		kept, c := len(s.leaves), s.counted
		s.mu.Unlock()
		if kept > most+1 || c.Leaves != extra+1 || c.Over != extra-most {
			t.Errorf("%d are kept; counted %+v", kept, c)
		}
		m.patch(key, `{"data":{"of":"them"}}`)
		time.Sleep(time.Minute)
		if got := at(m.get(key), "data", "of"); got != "us" {
			t.Errorf("what is wanted is %v", got)
		}
		for range 60 {
			r.Consent()
			time.Sleep(time.Minute)
		}
		f.Mu.Lock()
		left := len(f.Store)
		f.Mu.Unlock()
		s.mu.Lock()
		c = s.counted
		s.mu.Unlock()
		if left != 1 || c != (Count{Leaves: 1, Known: true}) {
			t.Errorf("%d are left; counted %+v", left, c)
		}
	})
}

// TestReleaseAll: what is there stays as it is, and is ours no more, also what nobody
// knew of.
func TestReleaseAll(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m, f := fakeMember(t)
		m.marked("old")
		r := m.run(nil, configMaps)
		key, leaf := m.configMap("a", map[string]any{"of": "us"})
		r.Want(key, leaf)
		r.there(key)
		r.ReleaseAll()
		r.Want(key, leaf)
		r.Complete()
		time.Sleep(time.Minute)
		synctest.Wait()
		f.Mu.Lock()
		left := len(f.Store)
		f.Mu.Unlock()
		if left != 2 {
			t.Errorf("%d are there", left)
		}
		if have := m.get(m.key(configMaps, "old")); ownerOf(have, m.hub) != foreign {
			t.Errorf("released: %v", have)
		}
		if have := m.get(key); ownerOf(have, m.hub) != foreign || at(have, "data", "of") != "us" {
			t.Errorf("released: %v", have)
		}
		r.Syncer.mu.Lock()
		defer r.Syncer.mu.Unlock()
		if r.counted != (Count{Known: true, Clear: true}) {
			t.Errorf("counted %+v", r.counted)
		}
	})
}

// TestAnOrphanedLeaf: a leaf whose root's owner wanted it to stay is released when it is
// wanted no more, also by a syncer that never knew its root, and not before all that is
// wanted is known.
func TestAnOrphanedLeaf(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m, _ := fakeMember(t)
		key, leaf := m.configMap("a", map[string]any{"of": "us"})
		leaf.Object.SetAnnotations(map[string]string{v1alpha1.AnnotationLeafDeletion: "Orphan"})
		r := m.run(func(r *run) { r.Want(key, leaf) }, configMaps)
		r.there(key)
		r.end()
		r = m.run(nil, configMaps)
		time.Sleep(time.Minute)
		if ownerOf(m.get(key), m.hub) != ours {
			t.Error("released before it is known what is wanted")
		}
		r.Complete()
		time.Sleep(time.Minute)
		have := m.get(key)
		if ownerOf(have, m.hub) != foreign || at(have, "data", "of") != "us" || len(have.GetAnnotations()) > 0 {
			t.Errorf("left as %v", have)
		}
	})
}
