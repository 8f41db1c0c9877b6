package fleet

import (
	"slices"

	"github.com/spillway-dev/spillway/internal/inc"
	"github.com/spillway-dev/spillway/internal/model"
	"github.com/spillway-dev/spillway/internal/steer"
)

// spread is what a host touches: it gives reaches and uses their keys.
type spread struct {
	views    []model.View
	backends []model.Backend
}

func (a spread) Equal(b spread) bool {
	return slices.Equal(a.views, b.views) && slices.Equal(a.backends, b.backends)
}

func (d *program) declarePlans(g *inc.Graph) {
	d.spreads = inc.Derive(g, "spreads", d.spread, d.Hosts)
	d.useKeys = inc.IndexBy(d.spreads, func(_ model.HostKey, s spread) []UseID {
		out := make([]UseID, 0, len(s.views)*len(s.backends))
		for _, v := range s.views {
			for _, b := range s.backends {
				out = append(out, UseID{v, b})
			}
		}
		return out
	})
	reachKeys := inc.IndexBy(d.spreads, func(k model.HostKey, s spread) []ReachID {
		out := make([]ReachID, len(s.views))
		for i, v := range s.views {
			out[i] = ReachID{k, v}
		}
		return out
	})
	d.Uses = inc.Derive(g, "uses", func(*inc.Reader, UseID) (model.There, bool) { return model.There{}, true }, d.useKeys)
	d.Plans = inc.Derive(g, "plans", d.plan, d.Uses)
	inc.MayWait(d.Plans, d.sights)
	d.outcomes = inc.Derive(g, "outcomes", func(r *inc.Reader, use UseID) (Reach, bool) {
		plan, ok := d.Plans.Get(r, use)
		return Reach{Room: plan.Room, Unsure: plan.Unsure}, ok
	}, d.Plans)
	d.Reaches = inc.Derive(g, "reaches", d.reach, reachKeys)
}

func (d *program) spread(r *inc.Reader, k model.HostKey) (spread, bool) {
	host, ok := d.Hosts.Get(r, k)
	if !ok {
		return spread{}, false
	}
	out := spread{backends: host.backends()}
	out.views, _ = d.viewsOfRoom.Get(r, d.Room(k))
	return out, true
}

// plan asks steer about the members that the view's edges can dial.
func (d *program) plan(r *inc.Reader, use UseID) (steer.Plan, bool) {
	backend, ok := d.Backends.Get(r, use.Backend)
	if !ok {
		return steer.Plan{}, false
	}
	candidates := make([]steer.Candidate, 0, len(backend.Members))
	var old []model.Member
	for _, m := range backend.Members {
		at, ok := d.sights.Get(r, sightID{use.View, m})
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
	plan := steer.Tiers(use.View.Place(), candidates)
	unread, _ := d.unread.Get(r, use.View)
	plan.Unsure = unread.Changes(plan, old)
	return plan, true
}

// reach is the best of what the plans of the host's backends come to. Only a
// plan that is worse than the best there can be may turn out better.
func (d *program) reach(r *inc.Reader, k ReachID) (Reach, bool) {
	spread, ok := d.spreads.Get(r, k.Host)
	if !ok {
		return Reach{}, false
	}
	out := Reach{Room: steer.NoRoom}
	for _, b := range spread.backends {
		if plan, ok := d.outcomes.Get(r, UseID{k.View, b}); ok {
			out.Room = min(out.Room, plan.Room)
			out.Unsure = out.Unsure || plan.Unsure
		}
	}
	out.Unsure = out.Unsure && out.Room != steer.Best
	return out, true
}
