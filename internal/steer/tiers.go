package steer

import (
	"cmp"
	"math"
	"slices"
	"strings"

	"github.com/spillway-dev/spillway/internal/model"
)

// Room is what a candidate can offer, the best first. All candidates with the
// best room there is serve, and no others: a site that is worse gets nothing
// while a better one is there, and nothing is off that could be on. DNS chooses
// among edges by the rooms of their plans, by the same rule.
//
//	wanted  path  endpoints    when it serves, if fresh
//	yes     up    ready        always
//	yes     up    terminating  nobody has ready ones: Kubernetes' rule for a Service, applied to the fleet
//	drained up    ready        a drain of the last place is refused, and beats a path that is down
//	drained up    terminating  likewise
//	yes     down  ready        all paths down: more likely we see wrong than all is lost
//	yes     down  terminating  likewise
//	drained down  …            likewise, the last resort
//
// Stale endpoints come behind all fresh ones whose path is up, in the same order,
// since nobody knows whether they are still there; so do those whose path is down
// behind fresh ones of that kind. A path of unknown health counts as up. A barred candidate has no room.
type Room uint8

const (
	terminating Room = 1 << iota
	drained
	stale
	down
	// Partial is said of a leaf (package fleet) that lacks a part of what another one
	// has of a host.
	Partial
	// Claimed is said of a leaf of which somebody else in its member claims the host.
	Claimed
	// Best is the room of a candidate with nothing wrong.
	Best Room = 0
	// NoRoom is the room of one that gets nothing.
	NoRoom Room = math.MaxUint8
)

// String names what is wrong with the best there is: "terminating,drained".
func (r Room) String() string {
	switch r {
	case Best:
		return "best"
	case NoRoom:
		return "none"
	}
	var out []string
	for i, name := range []string{"terminating", "drained", "stale", "down", "partial", "claimed"} {
		if r&(1<<i) != 0 {
			out = append(out, name)
		}
	}
	return strings.Join(out, ",")
}

// Room is what the candidate can offer.
func (c Candidate) Room() Room { return roomOf(c) }

// Behind is a room of which what is known is old.
func (r Room) Behind() Room {
	if r == NoRoom {
		return r
	}
	return r | stale
}

// Lacking is a room in which a part is missing.
func (r Room) Lacking() Room {
	if r == NoRoom {
		return r
	}
	return r | Partial
}

// Disputed is a room that somebody else may have.
func (r Room) Disputed() Room {
	if r == NoRoom {
		return r
	}
	return r | Claimed
}

func roomOf(c Candidate) Room {
	if c.Barred || c.Ready+c.Draining == 0 {
		return NoRoom
	}
	var r Room
	if c.Ready == 0 {
		r |= terminating
	}
	if !c.Serves {
		r |= drained
	}
	if c.Stale {
		r |= stale
	}
	if c.Health == model.Down {
		r |= down
	}
	return r
}

// maxTiers bounds the tiers: what is farther shares the last one.
const maxTiers = 32

// Tiers plans a backend as seen from a place. Candidates with the best room
// serve, in tiers: those of the same zone, of the same region, then by
// great-circle distance in whole kilometres, last those without coordinates.
// Equal distances share a tier; inside one, weights are in proportion to the
// endpoints. Who does not serve keeps the tier of its distance, so that nobody
// else changes tiers when it fails and comes back. Candidates without endpoints
// get no share. The order of the candidates does not matter, and those with one
// member and place are one.
func Tiers(from model.Place, candidates []Candidate) Plan {
	sites := merge(candidates)
	best := NoRoom
	for _, s := range sites {
		best = min(best, s.room)
	}
	for i := range sites {
		sites[i].judge(from, best)
	}
	slices.SortFunc(sites, site.compare)
	shares := make([]Share, len(sites))
	distances := distancesOf(sites)
	for i, s := range sites {
		tier, _ := slices.BinarySearchFunc(distances, s.near, distance.compare)
		shares[i] = Share{Member: s.Member, Place: s.Place.Spot(), Tier: min(tier, maxTiers-1), Weight: s.weight(), State: s.state,
			Terminating: s.state == Serving && s.Ready == 0}
	}
	return Plan{Shares: shares, Room: best}
}

// site is a candidate with what was found out about it.
type site struct {
	Candidate
	room  Room
	state State
	near  distance
}

// merge joins candidates of one member and place, and drops those without endpoints.
func merge(candidates []Candidate) []site {
	type key struct {
		member model.Member
		place  model.Place
	}
	out := make([]site, 0, len(candidates))
	at := make(map[key]int, len(candidates))
	for _, c := range candidates {
		if c.Ready+c.Draining == 0 {
			continue
		}
		if i, ok := at[key{c.Member, c.Place}]; ok {
			s := &out[i]
			s.Ready += c.Ready
			s.Draining += c.Draining
			s.room = roomOf(s.Candidate)
			continue
		}
		at[key{c.Member, c.Place}] = len(out)
		out = append(out, site{Candidate: c, room: roomOf(c)})
	}
	return out
}

func (s *site) judge(from model.Place, best Room) {
	s.near = distanceOf(from, s.Place)
	switch {
	case s.room == best && best != NoRoom:
		s.state = Serving
	case s.Health == model.Down:
		s.state = Failed
	default:
		s.state = Drained
	}
}

// weight is the endpoints that would be used: those that terminate only where there are no others.
func (s site) weight() uint32 {
	if s.state != Serving {
		return 0
	}
	n := s.Ready
	if n == 0 {
		n = s.Draining
	}
	return uint32(min(n, math.MaxUint16)) // Envoy wants the sum over a tier below 2³²
}

func (s site) compare(o site) int {
	return cmp.Or(cmp.Compare(s.state, o.state), s.near.compare(o.near), s.Member.Compare(o.Member), s.Place.Compare(o.Place))
}

// distancesOf are the distances there are, each once, the nearest first.
func distancesOf(sites []site) []distance {
	out := make([]distance, len(sites))
	for i, s := range sites {
		out[i] = s.near
	}
	slices.SortFunc(out, distance.compare)
	return slices.Compact(out)
}

// distance says how far a place is: by locality if that tells, else by coordinates.
type distance struct {
	rank rank
	km   int // where rank is away
}

type rank uint8

const (
	sameZone rank = iota
	sameRegion
	away
	unknown
)

func (a distance) compare(b distance) int {
	return cmp.Or(cmp.Compare(a.rank, b.rank), cmp.Compare(a.km, b.km))
}

func distanceOf(a, b model.Place) distance {
	if a.Region != "" && a.Region == b.Region {
		if a.Zone != "" && a.Zone == b.Zone {
			return distance{rank: sameZone}
		}
		return distance{rank: sameRegion}
	}
	km, ok := model.Kilometres(a, b)
	if !ok {
		return distance{rank: unknown}
	}
	return distance{rank: away, km: int(math.Round(km))}
}
