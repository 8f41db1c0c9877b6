package app

import (
	"time"

	"github.com/spillway-dev/spillway/internal/fleet"
	"github.com/spillway-dev/spillway/internal/inc"
	"github.com/spillway-dev/spillway/internal/model"
)

// globalHold is how long consumers may hold a GlobalIngress that is deleted, to take
// back what they made of it, until somebody is told.
const globalHold = 10 * time.Minute

// globals times which GlobalIngresses have been leaving for too long. It belongs to the
// loop's goroutine.
type globals struct {
	p    *fleet.Program
	now  func() time.Time
	put  func(key any, write func(*inc.Tx)) // has a write done in the next commit
	ends deadlines[model.Object]
}

func newGlobals(p *fleet.Program, now func() time.Time, put func(key any, write func(*inc.Tx))) *globals {
	g := &globals{p: p, now: now, put: put}
	p.In.Globals.Watch(func(changes []inc.Change[model.Object, model.GlobalSeen]) {
		for _, c := range changes {
			g.look(c)
		}
	})
	return g
}

// look has a deadline follow an object that leaves. It stays the same as long as that
// does, so that a change of it, or of the clock, holds it no longer.
func (g *globals) look(c inc.Change[model.Object, model.GlobalSeen]) {
	leaving := c.New != nil && c.New.Leaving != 0
	if leaving && c.Old != nil && c.Old.Leaving == c.New.Leaving && c.Old.UID == c.New.UID {
		return
	}
	if leaving {
		// A clock that was set back holds nobody for longer than it would be from now.
		g.ends.set(c.Key, time.Unix(min(c.New.Leaving, g.now().Unix()), 0).Add(globalHold))
	} else {
		g.ends.drop(c.Key)
	}
	if _, over := g.p.In.GlobalsOverdue.Get(nil, c.Key); !over {
		return
	}
	type goneKey struct{ of model.Object }
	g.put(goneKey{c.Key}, func(tx *inc.Tx) { g.p.In.GlobalsOverdue.Delete(tx, c.Key) })
}

// due returns what follows from time alone, and when the next of it is.
func (g *globals) due(now time.Time) (writes []func(*inc.Tx), next time.Time) {
	for k, ok := g.ends.pop(now); ok; k, ok = g.ends.pop(now) {
		writes = append(writes, func(tx *inc.Tx) { g.p.In.GlobalsOverdue.Set(tx, k, model.There{}) })
	}
	return writes, g.ends.next()
}
