package app

import (
	"testing"
	"time"

	"github.com/spillway-dev/spillway/internal/cluster"
	"github.com/spillway-dev/spillway/internal/inc"
	"github.com/spillway-dev/spillway/internal/model"
)

// TestSpares: a Secret is over some time after the last that named it, and not while
// something names it, or names it again.
func TestSpares(t *testing.T) {
	now := time.Unix(0, 0)
	s := &server{now: func() time.Time { return now }}
	s.declare()
	p := newSpares(s.prog, s.leaf, s.now)
	id := model.SecretID{Namespace: "shop", Name: "cert"}
	root := func(name string, named bool) {
		s.graph.Commit(func(tx *inc.Tx) {
			k := model.Object{Kind: "Ingress", Namespace: "shop", Name: name}
			if named {
				s.prog.In.Roots.Set(tx, k, model.Root{TLS: []model.TLS{{Secret: id}}})
			} else {
				s.prog.In.Roots.Delete(tx, k)
			}
		})
	}
	over := func(after time.Duration, want int) {
		t.Helper()
		now = now.Add(after)
		if got := p.secrets.due(now); len(got) != want {
			t.Errorf("%v are over, want %d", got, want)
		}
	}
	root("a", true)
	root("b", true)
	root("a", false)
	over(cluster.SpareAfter, 0)
	root("b", false)
	over(cluster.SpareAfter/2, 0)
	root("a", true)
	over(cluster.SpareAfter, 0)
	root("a", false)
	over(cluster.SpareAfter, 1)

	root("a", true)
	p.secrets.spare([]model.SecretID{id}, func(model.SecretID) bool { t.Error("dropped while something names it"); return true })
	root("a", false)
	p.secrets.due(now.Add(cluster.SpareAfter))
	p.secrets.spare([]model.SecretID{id}, func(model.SecretID) bool { return false })
	over(cluster.SpareAfter, 1) // it was wanted just then: later again
}
