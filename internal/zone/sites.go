package zone

import (
	"slices"

	"github.com/spillway-dev/spillway/internal/fleet"
	"github.com/spillway-dev/spillway/internal/inc"
	"github.com/spillway-dev/spillway/internal/model"
	"github.com/spillway-dev/spillway/internal/steer"
)

// Reasons of sites beside those of Standing.
const (
	Worse Reason = "Worse" // it would do, but others serve the host better
	Kept  Reason = "Kept"  // it would not do, but it was named: nobody else is there, or nobody is sure of it
)

// Sites says how the edges of some classes stand that have one host, for those who
// choose among them as DNS does: was reports which they were told of last. refused: the
// zone that the host lies in does not admit who asks for it.
//
// It does not matter whether a zone of ours answers for the host.
func (t *Tables) Sites(p *fleet.Program) model.SitesOf[*inc.Reader] {
	return func(r *inc.Reader, keys []model.HostKey, was func(model.SiteState) bool) (out []model.SiteState, refused bool) {
		var states []EdgeState
		refused = true
		for _, key := range keys {
			if refusal(r, p, t.zoneOf(r, key.Host), key) != nil {
				continue
			}
			refused = false
			states = append(states, t.statesOf(r, p, key)...)
			states = append(states, t.reached(r, p, key)...)
		}
		states = merged(states)
		var prev []model.Edge
		for _, s := range states {
			if was(s.site(false)) {
				prev = append(prev, s.Edge)
			}
		}
		named := Step(prev, states)
		for _, s := range states {
			out = append(out, s.site(slices.Contains(named, s.Edge)))
		}
		return out, refused
	}
}

// reached are the sites of members that have a host of a class. A host name need not lead
// anywhere that we know: who is told of the site looks it up.
func (t *Tables) reached(r *inc.Reader, p *fleet.Program, key model.HostKey) []EdgeState {
	row, leafy := p.LeafReaches.Get(r, key)
	if !leafy {
		return nil
	}
	out := t.siteStates(r, p, key)
	for i, at := range row.At {
		if site, _ := at.Site.Site(); len(site.Names()) > 0 {
			out[i].Room, out[i].Unsure = at.Room, at.Unsure
		}
	}
	return out
}

func (e EdgeState) site(named bool) model.SiteState {
	in, why := e.Standing()
	switch {
	case named && !in:
		why = Kept
	case in && !named:
		why = Worse
	}
	site, _ := e.Edge.Site()
	return model.SiteState{
		Edge: e.Edge, Member: site.Member, Named: named, Health: e.health(), Unsure: e.Unsure, Drain: e.Drain, Reason: string(why),
		Silent: e.Stream.Health == model.Unknown && e.Probe.Health == model.Unknown,
	}
}

// health is what the witnesses say of the edge, whatever it serves.
func (e EdgeState) health() model.Health {
	e.Room, e.Drain = steer.Best, false
	switch in, why := e.Standing(); {
	case !in:
		return model.Down
	case why == Serving && (e.Stream.Health == model.Up || e.Probe.Health == model.Up):
		return model.Up
	}
	return model.Unknown
}

// Fails reports whether our probe fails at a site.
func (t *Tables) Fails(r *inc.Reader, site model.Edge) bool {
	is, _ := t.Witnesses.Get(r, site)
	return is.Probe.Health == model.Down
}
