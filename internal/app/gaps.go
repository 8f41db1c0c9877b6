package app

import (
	"slices"

	"github.com/spillway-dev/spillway/internal/fleet"
	"github.com/spillway-dev/spillway/internal/inc"
	"github.com/spillway-dev/spillway/internal/model"
)

// gaps knows which fronts and vantages still lack hosts: those that a class got
// while rows of Spreads wait, until none waits. It belongs to the loop's
// goroutine.
type gaps struct {
	p       *fleet.Program
	got     []model.Collection // since the last look
	lists   []fleet.ClassList  // the same
	open    map[model.Collection]bool
	busy    map[model.Class]bool     // that have an open front
	chained map[fleet.ClassList]bool // whose listeners may lack certificates
	wait    bool                     // some spread does
}

func newGaps(p *fleet.Program) *gaps {
	g := &gaps{p: p}
	g.close()
	p.Outlets.Watch(func(changes []inc.Change[model.Class, *fleet.Outlets]) {
		for _, c := range changes {
			if c.Old != nil && c.New != nil { // the hosts of a class that is new come with it
				g.gain(*c.Old, *c.New)
			}
		}
	})
	p.Chained.Watch(func(changes []inc.Change[model.Class, inc.List[fleet.ClassList]]) {
		for _, c := range changes {
			if c.New != nil {
				g.lists = append(g.lists, *c.New...)
			}
		}
	})
	return g
}

func (g *gaps) close() {
	g.open, g.busy, g.chained = map[model.Collection]bool{}, map[model.Class]bool{}, map[fleet.ClassList]bool{}
}

func (g *gaps) gain(had, has *fleet.Outlets) {
	for _, front := range has.Fronts {
		if !slices.Contains(had.Fronts, front) {
			g.got = append(g.got, front)
		}
	}
	for _, at := range has.Vantages {
		if !slices.Contains(had.Vantages, at) {
			g.got = append(g.got, at.Pools())
		}
	}
}

// look is called after each commit, before it is published.
func (g *gaps) look() {
	for _, c := range g.got {
		g.open[c] = true
		if c.Kind() == model.Front {
			g.busy[c.Class()] = true
		}
	}
	for _, list := range g.lists {
		g.chained[list] = true
	}
	g.got, g.lists, g.wait = nil, nil, g.p.Spreads.Waiting() > 0
	if !g.wait {
		g.close()
	}
}

// any tells whether some collection may not be whole.
func (g *gaps) any() bool { return len(g.open)+len(g.chained) > 0 }

// whole tells whether a collection has all that it will have of present hosts.
func (g *gaps) whole(c model.Collection) bool {
	if !g.any() {
		return true
	}
	k := c.Key()
	if k.Kind == model.Front || k.Kind == model.Pools {
		return !g.open[c]
	}
	busy := slices.ContainsFunc(fleet.ClassesOf(k.Classes), func(class model.Class) bool { return g.busy[class] })
	at := k.VantageKey != (model.VantageKey{}) && g.open[c.Vantage().Pools()]
	return !busy && !at && (k.Kind != model.Sockets || !g.chained[fleet.ClassList(k.Classes)])
}
