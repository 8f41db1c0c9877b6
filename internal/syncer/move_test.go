package syncer

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// in is a leaf in another namespace.
func (l *Leaf) in(namespace string, key Key) (Key, *Leaf) {
	o := l.Object.DeepCopy()
	o.SetNamespace(namespace)
	key.Namespace = namespace
	return key, &Leaf{Object: o, Root: l.Root}
}

// TestAMove: a leaf that moves to another namespace is there before the old one goes,
// whatever the member says, also over a restart; and nobody need consent, however many.
func TestAMove(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m, f := fakeMember(t)
		refuses := func(is bool) {
			f.Mu.Lock()
			defer f.Mu.Unlock()
			f.Answer = func(r *http.Request) int {
				if is && r.Method == http.MethodPatch && strings.Contains(r.URL.Path, "/other/") {
					return http.StatusForbidden
				}
				return 0
			}
		}
		has := func(k Key) bool {
			f.Mu.Lock()
			defer f.Mu.Unlock()
			return f.Store[k.Namespace+"/"+k.Name] != nil
		}
		var here, there []Key
		var old, next []*Leaf
		for i := range 16 {
			key, leaf := m.configMap(fmt.Sprintf("a-%02d", i), map[string]any{"x": "1"})
			to, moved := leaf.in("other", key)
			here, old, there, next = append(here, key), append(old, leaf), append(there, to), append(next, moved)
		}
		r := m.run(nil, configMaps)
		r.Complete()
		for i, k := range here {
			r.Want(k, old[i])
		}
		time.Sleep(time.Minute)
		r.writes()

		refuses(true)
		for i, k := range here {
			r.Want(there[i], next[i])
			r.Want(k, nil)
		}
		time.Sleep(10 * time.Minute)
		if w := r.writes(); len(w) > 0 || !has(here[0]) {
			t.Errorf("while the new ones are refused: %v", w)
		}
		if s := r.state(here[0]); s.UID == "" || !strings.Contains(s.Message, "namespace other") {
			t.Errorf("of the old one is told: %+v", s)
		}
		refuses(false)
		time.Sleep(5 * time.Minute)
		for i, k := range here {
			if has(k) || !has(there[i]) || r.state(k).Reason != Gone {
				t.Fatalf("%v: there is the old one: %v, and the new one: %v; told %+v", k, has(k), has(there[i]), r.state(k))
			}
			r.mu.Lock()
			all := slices.Clone(r.all[k])
			r.mu.Unlock()
			for _, s := range all {
				if s.Reason == Waiting {
					t.Fatalf("%v: told %+v", k, s)
				}
			}
		}
		asked := r.writes()
		for i, k := range here {
			made := slices.IndexFunc(asked, func(w string) bool { return strings.HasSuffix(w, there[i].Namespace+"/configmaps/"+k.Name) })
			gone := slices.IndexFunc(asked, func(w string) bool { return strings.HasSuffix(w, k.Namespace+"/configmaps/"+k.Name) })
			if made < 0 || gone < made || len(asked) != 2*len(here) {
				t.Errorf("%v: asked for %v", k, asked)
			}
		}
		r.end()

		// Back, and nobody knows where they were.
		r = m.run(func(r *run) {
			for i, k := range here {
				r.Want(k, old[i])
			}
		}, configMaps)
		r.Complete()
		time.Sleep(5 * time.Minute)
		for i, k := range here {
			if !has(k) || has(there[i]) {
				t.Errorf("%v is back: %v, and not where it was: %v", k, has(k), !has(there[i]))
			}
		}
		r.end()
	})
}
