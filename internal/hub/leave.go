package hub

import (
	"fmt"
	"slices"
	"strings"

	"github.com/spillway-dev/spillway/internal/fleet"
	"github.com/spillway-dev/spillway/internal/model"
	"github.com/spillway-dev/spillway/internal/steer"
)

// maxNamed is how many backends a message names.
const maxNamed = 3

// departures holds members back that are being deleted, until nothing is sent
// to them any more.
type departures struct {
	p       *fleet.Program
	leaving map[model.Member]model.MemberSpec
}

// Leave makes the follower put our finalizer on every member, and take it off
// one that is deleted when no plan sends traffic to it, or when it is forced.
// A leaving member drains, and a drain never takes a hostname's last site: one
// that is the last is held back, and a finding says so.
func (f *Follower) Leave(p *fleet.Program) {
	f.departures = &departures{p: p, leaving: map[model.Member]model.MemberSpec{}}
	watch(p.In.Members, func(m model.Member, s *model.MemberSpec) {
		switch {
		case s == nil:
			delete(f.departures.leaving, m)
			f.w.forget(finalizer, memberObject(m))
			f.hold(m, nil)
		case s.Leaving:
			f.departures.leaving[m] = *s
		default:
			f.w.Guard(m)
		}
	})
}

func memberObject(m model.Member) model.Object {
	return model.Object{Kind: "MemberCluster", Name: string(m)}
}

// depart lets go of members that may go. It looks at all plans, but only while
// somebody leaves.
func (f *Follower) depart() {
	if f.departures == nil || len(f.departures.leaving) == 0 || !f.w.isOpen() || f.departures.ignorant() {
		return
	}
	needed := f.departures.needed()
	for m, spec := range f.departures.leaving {
		if _, read := f.departures.p.In.Sources.Get(nil, m); spec.Seen && !read && !spec.Forced {
			continue
		}
		backends := needed[m]
		if len(backends) == 0 || spec.Forced {
			f.hold(m, nil)
			f.w.Release(m)
			continue
		}
		o := memberObject(m)
		f.hold(m, model.Findings{model.ErrorOf(o, "metadata.deletionTimestamp", model.ReasonLastSite, "%s", lastSite(backends))})
	}
}

// ignorant tells whether rows are missing of a member that stays: what it has is
// not known, and a leaving one may be the last place of what seems to be there.
func (d *departures) ignorant() bool {
	return slices.ContainsFunc(d.p.Missing.Keys(), func(m model.Member) bool {
		row, _ := d.p.Missing.Get(nil, m)
		_, leaves := d.leaving[m]
		return !leaves && !row.Barred
	})
}

// needed lists, per leaving member, the backends that are still sent to it.
func (d *departures) needed() map[model.Member][]model.Backend {
	out := map[model.Member][]model.Backend{}
	for _, id := range d.p.Plans.Keys() {
		plan, _ := d.p.Plans.Get(nil, id)
		for _, s := range plan.Shares {
			if _, leaving := d.leaving[s.Member]; leaving && s.State == steer.Serving {
				out[s.Member] = append(out[s.Member], id.Backend)
			}
		}
	}
	for m, backends := range out {
		slices.SortFunc(backends, model.Backend.Compare)
		out[m] = slices.Compact(backends)
	}
	return out
}

func lastSite(backends []model.Backend) string {
	var names []string
	for i, b := range backends {
		if i == maxNamed {
			names = append(names, "…")
			break
		}
		names = append(names, b.String())
	}
	return fmt.Sprintf("it is the last that serves %s, so it stays: serve them elsewhere, or let it go with the annotation spillway.dev/force-delete=true",
		strings.Join(names, ", "))
}

// hold adds findings of our own to those of the tables.
func (f *Follower) hold(m model.Member, own model.Findings) {
	o := memberObject(m)
	if len(own) == 0 && len(f.own[o]) == 0 {
		return
	}
	if len(own) == 0 {
		delete(f.own, o)
	} else {
		f.own[o] = own
	}
	f.tell(o)
}
