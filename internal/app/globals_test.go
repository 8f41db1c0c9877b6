package app

import (
	"testing"
	"time"

	"github.com/spillway-dev/spillway/internal/inc"
	"github.com/spillway-dev/spillway/internal/model"
)

// TestGlobalsOverdue: ten minutes after a GlobalIngress was deleted it is overdue, and no
// more when it is gone, or another one of the name is there.
func TestGlobalsOverdue(t *testing.T) {
	w := newWorld()
	now := time.Date(2026, 11, 27, 0, 0, 0, 0, time.UTC)
	g := newGlobals(w.p, func() time.Time { return now }, w.put)
	k := model.Object{Kind: model.GlobalKind, Namespace: "shop", Name: "ingress.web"}
	set := func(seen *model.GlobalSeen) {
		w.g.Commit(func(tx *inc.Tx) {
			if seen == nil {
				w.p.In.Globals.Delete(tx, k)
			} else {
				w.p.In.Globals.Set(tx, k, *seen)
			}
		})
		w.turn()
	}
	expect := func(when string, after time.Duration, overdue bool) {
		t.Helper()
		now = now.Add(after)
		writes, _ := g.due(now)
		w.g.Commit(func(tx *inc.Tx) {
			for _, write := range writes {
				write(tx)
			}
		})
		if _, is := w.p.In.GlobalsOverdue.Get(nil, k); is != overdue {
			t.Errorf("%s: overdue %t", when, is)
		}
	}
	set(&model.GlobalSeen{UID: "1", Ours: true})
	expect("it stays", time.Hour, false)
	left := model.GlobalSeen{UID: "1", Ours: true, Leaving: now.Unix(), Held: model.TextsOf([]string{"a", "b"})}
	set(&left)
	expect("just before", globalHold-time.Second, false)
	left.Held = model.TextsOf([]string{"a"})
	set(&left)
	expect("ten minutes after, though somebody let go", time.Second, true)
	set(nil)
	expect("it is gone", time.Second, false)
	set(&model.GlobalSeen{UID: "2", Ours: true, Leaving: now.Add(time.Hour).Unix()})
	expect("by a clock that is ahead", globalHold, true)
}
