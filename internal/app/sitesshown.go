package app

import (
	"context"
	"slices"
	"strings"

	"github.com/spillway-dev/spillway/internal/fleet"
	"github.com/spillway-dev/spillway/internal/model"
	"github.com/spillway-dev/spillway/internal/steer"
	"github.com/spillway-dev/spillway/internal/ui"
	"github.com/spillway-dev/spillway/internal/zone"
)

// leafHost is a host that controllers of members serve, and what is said of it.
type leafHost struct {
	at      int // of the hosts that are shown
	host    fleet.Host
	reaches fleet.LeafReaches
	answer  zone.RecordRow
}

// leafShown is a leaf of such a host.
type leafShown struct {
	of  int // of the hosts that members serve
	id  model.LeafID
	row fleet.LeafAt
	is  zone.Witnesses
}

// sitesShown says of some hosts with which members they are answered, and why not with
// others, each in its place; nil for those that edges serve.
func (s *server) sitesShown(ctx context.Context, rows []picked[model.HostKey, fleet.Host]) ([][]ui.HostMember, error) {
	var hosts []leafHost
	for i, row := range rows {
		if row.val.Leaf {
			hosts = append(hosts, leafHost{at: i, host: row.val})
		}
	}
	if err := beside(ctx, s.loop, hosts, 2, func(i int, h leafHost) {
		key := rows[h.at].key
		hosts[i].reaches, _ = s.prog.LeafReaches.Get(nil, key)
		hosts[i].answer, _ = s.zones.Records.Get(nil, key.Host)
	}); err != nil {
		return nil, err
	}
	var roots, leaves []leafShown
	for i, h := range hosts {
		for _, root := range h.host.Roots {
			roots = append(roots, leafShown{of: i, id: model.LeafID{Root: root}})
		}
	}
	if err := beside(ctx, s.loop, roots, 1, func(_ int, l leafShown) {
		row, _ := s.prog.Leafed.Get(nil, l.id.Root)
		for _, m := range row.Members {
			leaves = append(leaves, leafShown{of: l.of, id: model.LeafID{Member: m, Root: l.id.Root}})
		}
	}); err != nil {
		return nil, err
	}
	if err := beside(ctx, s.loop, leaves, 2, func(i int, l leafShown) {
		row, _ := s.prog.LeafSites.Get(nil, l.id)
		leaves[i].row = row.In(rows[hosts[l.of].at].key.Class)
		leaves[i].is, _ = s.zones.Witnesses.Get(nil, leaves[i].row.Site)
	}); err != nil {
		return nil, err
	}
	out := make([][]ui.HostMember, len(rows))
	for _, l := range leaves {
		h := hosts[l.of]
		out[h.at] = append(out[h.at], h.member(l))
	}
	for _, list := range out {
		slices.SortStableFunc(list, func(a, b ui.HostMember) int { return strings.Compare(a.Name, b.Name) })
	}
	return out, nil
}

// member says what one leaf is to a host.
func (h leafHost) member(l leafShown) ui.HostMember {
	site, _ := l.row.Site.Site()
	out := ui.HostMember{Name: string(l.id.Member), Leaf: objectShown(l.id.Root), Addresses: filled(site.Addresses.List()), Answered: l.row.Site != "" && h.answer.Set.Has(l.row.Site)}
	state := zone.EdgeState{Edge: l.row.Site, Room: steer.NoRoom, Stream: l.is.Stream, Probe: l.is.Probe}
	for _, at := range h.reaches.At {
		if at.Site == l.row.Site {
			state.Room = at.Room
		}
	}
	if in, why := state.Standing(); l.row.Why != "" {
		out.Why = string(l.row.Why)
	} else {
		out.Why = whySite(in, why, state.Room, out.Answered)
	}
	return out
}

// whySite says in words why a site is answered, or is not.
func whySite(in bool, why zone.Reason, room steer.Room, answered bool) string {
	switch {
	case answered && in && room == steer.Best:
		return "it serves"
	case answered && in:
		return "nothing is better: " + room.String()
	case answered:
		return "nothing is left but what was answered last"
	case why == zone.NotServing:
		return "it has no pods for the host, or no address is known yet"
	case why == zone.Gone:
		return "its addresses do not answer, and edges do not reach it"
	case why == zone.GoneAlone:
		return "its addresses do not answer, or edges do not reach it, for long"
	case room != steer.Best:
		return "others are better: it is " + room.String()
	}
	return "DNS has no zone for the host, or does not answer it yet"
}
