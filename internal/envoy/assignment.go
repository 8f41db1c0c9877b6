package envoy

import (
	"net/netip"
	"slices"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"

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
	addr   netip.Addr
	name   string // DNS name of an external endpoint, which has no address
	port   uint16
	health corev3.HealthStatus
}

// localities lists the shares that have endpoints, by priority, without gaps
// between priorities. Who gets nothing has a tier after all that serve, by the
// plan: there it takes no part in how much of a tier is healthy. In the tier it
// came from, Envoy would take its loss for a loss of the tier and spill to the
// next, although the plan has counted it out already.
func localities(plan steer.Plan, groups map[model.Member]fleet.Group) []locality {
	var out []locality
	for i, s := range plan.Shares {
		l := locality{place: s.Place, member: s.Member, priority: uint32(s.Tier), weight: max(s.Weight, 1)}
		group := groups[s.Member]
		if group.External != "" {
			l.endpoints = externalOf(group, s.State)
		} else {
			l.endpoints = endpointsOf(group, plan.Shares, i)
		}
		if len(l.endpoints) > 0 {
			out = append(out, l)
		}
	}
	slices.SortStableFunc(out, func(a, b locality) int { return int(a.priority) - int(b.priority) })
	for i, tier, last := 0, uint32(0), uint32(0); i < len(out); i++ {
		if i > 0 && out[i].priority != last {
			tier++
		}
		last, out[i].priority = out[i].priority, tier
	}
	return out
}

// endpointsOf lists the endpoints of shares[i]: those of its zone, and those
// whose zone no share of the member has, if it is the member's first.
func endpointsOf(group fleet.Group, shares []steer.Share, i int) []endpoint {
	out := make([]endpoint, 0, len(group.Endpoints))
	for _, e := range group.Endpoints {
		if shareOf(shares, shares[i].Member, e.Zone) != i {
			continue
		}
		if health, in := healthOf(shares[i], e.State); in {
			out = append(out, endpoint{addr: e.Addr, port: e.Port, health: health})
		}
	}
	return out
}

// shareOf returns the index of the share that an endpoint of a zone belongs to, -1 for none.
func shareOf(shares []steer.Share, m model.Member, zone model.Zone) int {
	first := -1
	for i, s := range shares {
		if s.Member != m {
			continue
		}
		if s.Place.Zone == zone.String() {
			return i
		}
		if first < 0 {
			first = i
		}
	}
	return first
}

// healthOf is what a proxy is told of an endpoint, and false if nothing. One
// that terminates is left out of a share that has ready ones: leaving ends what
// is in flight in peace, as DRAINING would, and does not make the tier look
// smaller than it is.
func healthOf(s steer.Share, e model.EndpointState) (corev3.HealthStatus, bool) {
	switch {
	case s.State == steer.Failed:
		return corev3.HealthStatus_UNHEALTHY, true
	case s.State == steer.Drained:
		return corev3.HealthStatus_DRAINING, true
	case e == model.EndpointDraining && !s.Terminating:
		return 0, false
	}
	return corev3.HealthStatus_UNKNOWN, true // Envoy takes it for healthy, and it costs no byte
}

// externalOf is the one endpoint of an ExternalName Service.
func externalOf(g fleet.Group, s steer.State) []endpoint {
	if s != steer.Serving {
		return nil
	}
	return []endpoint{{name: g.External, port: g.Port}}
}

// assignment serializes a plan as a ClusterLoadAssignment in an Any: a locality
// per share, its tier as priority, its weight, and the endpoints of the share's
// member and zone. The groups are those of the plan's members.
//
// It writes the wire format itself: an endpoint change is the most frequent
// change there is, and messages in between would be most of its cost. The
// numbers are those of envoy/config/endpoint/v3 and envoy/config/core/v3.
func assignment(name string, plan steer.Plan, groups map[model.Member]fleet.Group) sealed {
	all := localities(plan, groups)
	n := len(name) + 80
	for _, l := range all {
		n += 80 + 32*len(l.endpoints)
	}
	b := appendText(make([]byte, 0, n), 1, AssignmentType)
	return hashed(nest(b, 2, func(b []byte) []byte {
		b = appendText(b, 1, name) // cluster_name
		for i := range all {
			b = nest(b, 2, all[i].append) // endpoints
		}
		return b
	}))
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
	b = nest(b, 1, func(b []byte) []byte { // endpoint
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
	return appendNumber(b, 2, uint64(e.health)) // health_status
}
