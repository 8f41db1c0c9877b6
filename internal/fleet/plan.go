package fleet

import (
	"slices"

	"github.com/spillway-dev/spillway/internal/inc"
	"github.com/spillway-dev/spillway/internal/model"
	"github.com/spillway-dev/spillway/internal/steer"
)

// spread is what a host touches: it gives sites, reaches and uses their keys.
type spread struct {
	views    []model.View
	members  []model.Member
	backends []model.Backend
}

func (a spread) Equal(b spread) bool {
	return slices.Equal(a.views, b.views) && slices.Equal(a.members, b.members) && slices.Equal(a.backends, b.backends)
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
	siteKeys := inc.IndexBy(d.spreads, func(k model.HostKey, s spread) []SiteID {
		out := make([]SiteID, len(s.members))
		for i, m := range s.members {
			out[i] = SiteID{k, m}
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
	d.Uses = inc.Derive(g, "uses", func(*inc.Reader, UseID) (Use, bool) { return Use{}, true }, d.useKeys)
	d.Plans = inc.Derive(g, "plans", d.plan, d.Uses)
	inc.MayWait(d.Plans, func(use UseID) float64 { return d.LoadOf(use.Backend) }, d.sights)
	d.Sites = inc.Derive(g, "sites", d.site, siteKeys)
	inc.MayWait(d.Sites, func(k SiteID) float64 { return d.LoadOfHost(k.Host) }, d.stands)
	d.Reaches = inc.Derive(g, "reaches", d.reach, reachKeys)
	inc.MayWait(d.Reaches, func(k ReachID) float64 { return d.LoadOfHost(k.Host) }, d.sights)
}

func (d *program) spread(r *inc.Reader, k model.HostKey) (spread, bool) {
	host, ok := d.Hosts.Get(r, k)
	if !ok {
		return spread{}, false
	}
	out := spread{backends: host.backends()}
	out.views, _ = d.viewsOfRoom.Get(r, d.Room(k))
	for _, b := range out.backends {
		row, _ := d.Backends.Get(r, b)
		out.members = append(out.members, row.Members...)
	}
	slices.Sort(out.members)
	out.members = slices.Compact(out.members)
	return out, true
}

// plan asks steer about the members that the view's edges can dial.
func (d *program) plan(r *inc.Reader, use UseID) (steer.Plan, bool) {
	backend, ok := d.Backends.Get(r, use.Backend)
	if !ok {
		return steer.Plan{}, false
	}
	candidates := make([]steer.Candidate, 0, len(backend.Members))
	for _, m := range backend.Members {
		at, ok := d.sights.Get(r, sightID{use.View, m})
		if !ok {
			continue
		}
		shape, _ := d.Shapes.Get(r, GroupID{use.Backend, m})
		for _, z := range shape.Zones {
			place := at.place
			place.Zone = z.Zone.String()
			candidates = append(candidates, steer.Candidate{Member: m, Place: place, Ready: z.Ready, Draining: z.Draining,
				Health: at.health, Serves: at.serves, Barred: at.barred})
		}
	}
	return steer.Tiers(use.View.Place(), candidates), true
}

func (d *program) site(r *inc.Reader, k SiteID) (Site, bool) {
	spread, ok := d.spreads.Get(r, k.Host)
	if !ok {
		return Site{}, false
	}
	var out Site
	for _, b := range spread.backends {
		if _, out.Ready = d.alive.Get(r, GroupID{b, k.Member}); out.Ready {
			at, _ := d.stands.Get(r, k.Member)
			out.Serves = at.serves
			break
		}
	}
	return out, true
}

// reach looks for one member that serves the host, can be dialled, and whose
// path is not known to be down.
func (d *program) reach(r *inc.Reader, k ReachID) (Reach, bool) {
	spread, ok := d.spreads.Get(r, k.Host)
	if !ok {
		return Reach{}, false
	}
	for _, m := range spread.members {
		if site, _ := d.Sites.Get(r, SiteID{k.Host, m}); !site.Serves {
			continue
		}
		if at, dialled := d.sights.Get(r, sightID{k.View, m}); dialled && at.health != model.Down {
			return Reach{Reached: true}, true
		}
	}
	for _, m := range d.missing.Keys(r, all{}) {
		if _, dialled := d.sights.Get(r, sightID{k.View, m}); dialled {
			return Reach{Unsure: true}, true
		}
	}
	return Reach{}, true
}
