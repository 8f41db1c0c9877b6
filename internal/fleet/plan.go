package fleet

import (
	"fmt"
	"slices"

	"github.com/spillway-dev/spillway/internal/inc"
	"github.com/spillway-dev/spillway/internal/model"
	"github.com/spillway-dev/spillway/internal/steer"
)

// spread is what a host touches: it gives reaches, uses and needs their keys.
type spread struct {
	*room
	backends []model.Backend
}

// nobody has the hosts of a class that no edge serves.
var nobody = new(room)

func (a spread) Equal(b spread) bool {
	return a.room.Equal(b.room) && slices.Equal(a.backends, b.backends)
}

// String is the views and the backends.
func (a spread) String() string { return fmt.Sprint(a.views, a.backends) }

func (d *program) declarePlans(g *inc.Graph) {
	d.spreads = inc.Derive(g, "spreads", d.spread, d.Hosts)
	d.Needs = inc.IndexBy(d.spreads, func(_ model.HostKey, s spread) []NeedID {
		return pairs(s.views, s.backends, func(v model.View, b model.Backend) NeedID { return NeedID{v, b} })
	})
	d.Uses = inc.IndexBy(d.spreads, func(_ model.HostKey, s spread) []UseID {
		return pairs(s.vantages, s.backends, func(v model.Vantage, b model.Backend) UseID { return UseID{v, b} })
	})
	reachKeys := inc.IndexBy(d.spreads, func(k model.HostKey, s spread) []ReachID {
		out := make([]ReachID, len(s.vantages))
		for i, v := range s.vantages {
			out[i] = ReachID{k, v}
		}
		return out
	})
	d.Plans = inc.Derive(g, "plans", d.plan, d.Uses)
	inc.MayWait(d.Plans, d.sights)
	d.outcomes = inc.Derive(g, "outcomes", func(r *inc.Reader, use UseID) (Reach, bool) {
		plan, ok := d.Plans.Get(r, use)
		return Reach{Room: plan.Room, Unsure: plan.Unsure}, ok
	}, d.Plans)
	d.Reaches = inc.Derive(g, "reaches", d.reach, reachKeys)
}

// pairs are all pairs of two lists.
func pairs[A, B, C any](as []A, bs []B, pair func(A, B) C) []C {
	out := make([]C, 0, len(as)*len(bs))
	for _, a := range as {
		for _, b := range bs {
			out = append(out, pair(a, b))
		}
	}
	return out
}

func (d *program) spread(r *inc.Reader, k model.HostKey) (spread, bool) {
	host, ok := d.Hosts.Get(r, k)
	if !ok {
		return spread{}, false
	}
	out := spread{nobody, host.backends()}
	if has, ok := d.rooms.Get(r, d.Room(k)); ok {
		out.room = has
	}
	return out, true
}

// plan asks steer about the members that can be dialled from the vantage.
func (d *program) plan(r *inc.Reader, use UseID) (steer.Plan, bool) {
	backend, ok := d.Backends.Get(r, use.Backend)
	if !ok {
		return steer.Plan{}, false
	}
	candidates := make([]steer.Candidate, 0, len(backend.Members))
	var old []model.Member
	for _, m := range backend.Members {
		at, ok := d.sights.Get(r, sightID{use.Vantage, m})
		if !ok {
			continue
		}
		if at.old {
			old = append(old, m)
		}
		shape, _ := d.Shapes.Get(r, GroupID{use.Backend, m})
		for _, z := range shape.Zones {
			place := at.place
			if z.Zone != (model.Zone{}) { // an ExternalName is where its member is
				place.Zone = z.Zone.String()
			}
			candidates = append(candidates, steer.Candidate{Member: m, Place: place, Ready: z.Ready, Draining: z.Draining,
				Health: at.health, Serves: at.serves, Barred: at.barred})
		}
	}
	plan := steer.Tiers(use.Vantage.Place(), candidates)
	unread, _ := d.unread.Get(r, use.Vantage)
	plan.Unsure = unread.Changes(plan, old)
	return plan, true
}

// reach is the best of what the plans of the host's backends come to. Only a
// plan that is worse than the best there can be may turn out better.
func (d *program) reach(r *inc.Reader, k ReachID) (Reach, bool) {
	host, ok := d.Hosts.Get(r, k.Host) // its spread changes when a view comes, which is no news here
	if !ok {
		return Reach{}, false
	}
	out := Reach{Room: steer.NoRoom}
	for _, b := range host.backends() {
		if plan, ok := d.outcomes.Get(r, UseID{k.Vantage, b}); ok {
			out.Room = min(out.Room, plan.Room)
			out.Unsure = out.Unsure || plan.Unsure
		}
	}
	out.Unsure = out.Unsure && out.Room != steer.Best
	return out, true
}
