package app

import (
	"maps"
	"slices"
	"time"

	"github.com/spillway-dev/spillway/internal/fleet"
	"github.com/spillway-dev/spillway/internal/inc"
	"github.com/spillway-dev/spillway/internal/model"
	"github.com/spillway-dev/spillway/internal/steer"
)

// How often it is looked whether a MemberCluster that is deleted may go: soon, then less
// often for one that stays.
const (
	departFirst = time.Second
	departLast  = 16 * time.Second
)

// holds keeps MemberClusters from going when they are deleted: hub.Writer.
type holds interface {
	Guard(model.Member)
	Release(model.Member)
	ForgetMember(model.Member)
}

// departures holds MemberClusters back that are deleted, until no plan sends traffic to
// them or they are forced. A leaving member drains, and a drain never takes a hostname's
// last site: one that is the last stays, and says so. What is not known is waited for as
// long as plans wait for it, so nobody waits for a member that is away.
//
// It belongs to the loop's goroutine.
type departures struct {
	p       *fleet.Program
	hub     holds
	known   func() bool // all that there is was read once
	leaving map[model.Member]model.MemberSpec
	next    time.Time // when to look again; zero: at once
	wait    time.Duration
}

func newDepartures(p *fleet.Program, hub holds, known func() bool) *departures {
	d := &departures{p: p, hub: hub, known: known, leaving: map[model.Member]model.MemberSpec{}}
	p.In.Members.Watch(func(changes []inc.Change[model.Member, model.MemberSpec]) {
		for _, c := range changes {
			d.follow(c.Key, c.New)
		}
	})
	return d
}

// follow takes what a MemberCluster says now; nil: it is gone.
func (d *departures) follow(m model.Member, spec *model.MemberSpec) {
	_, left := d.leaving[m]
	delete(d.leaving, m)
	switch {
	case spec == nil:
		d.hub.ForgetMember(m)
	case spec.Leaving:
		d.leaving[m] = *spec
	case !spec.Stays:
		d.hub.Guard(m)
	}
	if _, leaves := d.leaving[m]; left || leaves {
		d.next, d.wait = time.Time{}, departFirst
	}
}

// due lets those go that may, and returns what is to be said of the others, and when to
// look again. It looks at all plans, but only while somebody leaves.
func (d *departures) due(now time.Time) (writes []func(*inc.Tx), next time.Time) {
	if d == nil { // nobody writes to the hub
		return nil, time.Time{}
	}
	table := d.p.In.LastSites
	if len(d.leaving)+table.Len() == 0 {
		return nil, time.Time{}
	}
	if now.Before(d.next) {
		return nil, d.next
	}
	d.next, d.wait = now.Add(d.wait), min(2*d.wait, departLast)
	last := map[model.Member]model.Texts{}
	if len(d.leaving) > 0 {
		if !d.known() || d.ignorant() {
			return nil, d.next
		}
		last = d.look()
	}
	for _, m := range table.Keys() {
		if last[m].Len() == 0 {
			writes = append(writes, func(tx *inc.Tx) { table.Delete(tx, m) })
		}
	}
	for m, of := range last {
		if row, _ := table.Get(nil, m); row.V != of {
			writes = append(writes, func(tx *inc.Tx) { table.Set(tx, m, inc.ValOf(of)) })
		}
	}
	if len(d.leaving) == 0 {
		return writes, time.Time{}
	}
	return writes, d.next
}

// look lets those go that may, and returns what the others are the last site of.
func (d *departures) look() map[model.Member]model.Texts {
	last := map[model.Member]model.Texts{}
	needed := d.needed()
	for m, spec := range d.leaving {
		switch row, missing := d.p.Missing.Get(nil, m); {
		case missing && !row.Overdue && !spec.Forced: // what it has is not known
		case len(needed[m]) == 0, spec.Forced:
			d.hub.Release(m)
		default:
			last[m] = model.TextsOf(slices.Sorted(maps.Keys(needed[m])))
		}
	}
	return last
}

// ignorant reports whether rows are missing of a member that stays, and are waited for: a
// leaving one may be the last place of what seems to be there.
func (d *departures) ignorant() bool {
	return slices.ContainsFunc(d.p.Missing.Keys(), func(m model.Member) bool {
		row, _ := d.p.Missing.Get(nil, m)
		_, leaves := d.leaving[m]
		return !leaves && !row.Barred && !row.Overdue
	})
}

// needed are, for each leaving member, the backends whose requests are still sent to it.
func (d *departures) needed() map[model.Member]map[string]bool {
	out := map[model.Member]map[string]bool{}
	for _, id := range d.p.Plans.Keys() {
		plan, _ := d.p.Plans.Get(nil, id)
		for _, s := range plan.Shares {
			if _, leaves := d.leaving[s.Member]; !leaves || s.State != steer.Serving {
				continue
			}
			if out[s.Member] == nil {
				out[s.Member] = map[string]bool{}
			}
			if of := out[s.Member]; len(of) < 2*model.MostNamed {
				of[id.Backend.String()] = true
			}
		}
	}
	return out
}
