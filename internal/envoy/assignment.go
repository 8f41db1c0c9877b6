package envoy

import (
	"net/netip"

	"github.com/spillway-dev/spillway/internal/fleet"
	"github.com/spillway-dev/spillway/internal/model"
	"github.com/spillway-dev/spillway/internal/steer"
)

// locality is a share with its endpoints.
type locality struct {
	place     model.Place
	member    model.Member
	priority  uint32
	weight    uint32
	endpoints []endpoint
}

type endpoint struct {
	addr netip.Addr
	name string // DNS name of an external endpoint, which has no address
	port uint16
}

// localities lists the shares that serve and have endpoints, by priority.
//
// Who gets no requests is left out, be it failed, drained or an endpoint that
// terminates: then Envoy closes the connections that nobody uses, and lets what
// is in flight end. Listed as UNHEALTHY or DRAINING, an endpoint would keep its
// idle connections (measured: until their idle timeout), and would count as a
// loss of its tier, so that Envoy spilled to the next one although the plan has
// counted it out already.
func localities(plan steer.Plan, groups map[model.Member]fleet.Group) []locality {
	var out []locality
	priorityOf := priorities(plan.Shares)
	own := sharesOf(plan.Shares)
	for i, s := range plan.Shares {
		if s.State != steer.Serving {
			continue
		}
		l := locality{place: s.Place.Place(), member: s.Member, priority: priorityOf[s.Tier], weight: max(s.Weight, 1)}
		if name, port := groups[s.Member].External(); name != "" {
			l.endpoints = []endpoint{{name: name, port: port}}
		} else {
			l.endpoints = endpointsOf(groups[s.Member], plan.Shares, i, own[s.Member])
		}
		if len(l.endpoints) > 0 {
			out = appendLocality(out, l)
		}
	}
	return out
}

// sharesOf lists the shares of each member, by their indexes.
func sharesOf(shares []steer.Share) map[model.Member][]int {
	own := make(map[model.Member][]int, len(shares))
	for i, s := range shares {
		own[s.Member] = append(own[s.Member], i)
	}
	return own
}

// mostLeft bounds the numbers that a tier takes: Envoy permits priorities up to
// 128, and there are 32 tiers.
const mostLeft = 3

// priorities numbers the tiers of a plan.
//
// A retry leaves out the priorities of the attempts before it, and of an
// endpoint that left the assignment Envoy goes by the last priority it had. So
// that the nearest member that is left gets the retry, no number passes from
// those who left to those who stay: a tier keeps its number when a nearer one
// is left by all, and gets the next one when some of its own shares leave it.
func priorities(shares []steer.Share) []uint32 {
	type tier struct{ shares, left uint32 }
	var tiers []tier
	for _, s := range shares {
		if s.Tier >= len(tiers) {
			tiers = append(tiers, make([]tier, s.Tier+1-len(tiers))...)
		}
		tiers[s.Tier].shares++
		if s.State != steer.Serving {
			tiers[s.Tier].left++
		}
	}
	out := make([]uint32, len(tiers))
	left := uint32(0)
	for i, t := range tiers {
		if t.shares > 1 {
			left += min(t.left, mostLeft)
		}
		out[i] = uint32(i) + left
	}
	return out
}

// appendLocality adds a locality, and before it an empty one for each priority that has
// none: gRPC refuses an assignment with gaps.
func appendLocality(all []locality, l locality) []locality {
	next := uint32(0)
	if n := len(all); n > 0 {
		next = all[n-1].priority + 1
	}
	for ; next < l.priority; next++ {
		all = append(all, locality{priority: next, weight: 1})
	}
	return append(all, l)
}

// endpointsOf lists the endpoints of shares[i]: those of its zone, and those
// whose zone no share of the member has, if it is the member's first of own.
// Those that terminate are used only if the plan says so.
func endpointsOf(group fleet.Group, shares []steer.Share, i int, own []int) []endpoint {
	out := make([]endpoint, 0, group.Endpoints.Len())
	for e := range group.Endpoints.All() {
		if shareOf(shares, own, e.Zone) == i && (e.State == model.EndpointReady || shares[i].Terminating) {
			out = append(out, endpoint{addr: e.Addr, port: e.Port})
		}
	}
	return out
}

// shareOf returns the index of the share that an endpoint of a zone belongs to,
// of its member's own.
func shareOf(shares []steer.Share, own []int, zone model.Zone) int {
	for _, i := range own {
		if shares[i].Place.Place().Zone == zone.String() {
			return i
		}
	}
	return own[0]
}

// assignment appends localities as a ClusterLoadAssignment in an Any: a
// locality per share, its tier as priority, its weight, and the endpoints of
// the share's member and zone.
//
// It writes the wire format itself: an endpoint change is the most frequent
// change there is, and messages in between would be most of its cost. The
// numbers are those of envoy/config/endpoint/v3 and envoy/config/core/v3.
func assignment(b []byte, name string, all []locality) []byte {
	b = appendText(b, 1, AssignmentType)
	return nest(b, 2, func(b []byte) []byte {
		b = appendText(b, 1, name) // cluster_name
		for i := range all {
			b = nest(b, 2, all[i].append) // endpoints
		}
		return b
	})
}

// append appends a LocalityLbEndpoints.
func (l *locality) append(b []byte) []byte {
	b = nest(b, 1, func(b []byte) []byte { // locality
		b = appendText(b, 1, l.place.Region)
		b = appendText(b, 2, l.place.Zone)
		return appendText(b, 3, string(l.member))
	})
	for i := range l.endpoints {
		b = nest(b, 2, l.endpoints[i].append) // lb_endpoints
	}
	b = nest(b, 3, func(b []byte) []byte { return appendNumber(b, 1, uint64(l.weight)) }) // load_balancing_weight
	return appendNumber(b, 5, uint64(l.priority))
}

// append appends an LbEndpoint.
func (e *endpoint) append(b []byte) []byte {
	return nest(b, 1, func(b []byte) []byte { // endpoint
		return nest(b, 1, func(b []byte) []byte { // address
			return nest(b, 1, func(b []byte) []byte { // socket_address
				if e.name != "" {
					b = appendText(b, 2, e.name)
				} else {
					b = nest(b, 2, e.addr.AppendTo)
				}
				return appendNumber(b, 3, uint64(e.port))
			})
		})
	})
}
