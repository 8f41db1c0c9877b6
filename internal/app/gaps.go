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
	p    *fleet.Program
	got  []model.Collection // since the last look
	open map[model.Collection]bool
	wait bool // some spread does
}

func newGaps(p *fleet.Program) *gaps {
	g := &gaps{p: p, open: map[model.Collection]bool{}}
	p.Outlets.Watch(func(changes []inc.Change[model.Class, *fleet.Outlets]) {
		for _, c := range changes {
			if c.New == nil {
				continue
			}
			had := new(fleet.Outlets)
			if c.Old != nil {
				had = *c.Old
			}
			g.gain(had, *c.New)
		}
	})
	return g
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
	}
	g.got, g.wait = nil, g.p.Spreads.Waiting() > 0
	if !g.wait {
		clear(g.open)
	}
}

// whole tells whether a collection has all that it will have of present hosts.
func (g *gaps) whole(c model.Collection) bool {
	return len(g.open) == 0 || !slices.ContainsFunc(c.Needs(), func(of model.Collection) bool { return g.open[of] })
}
