package envoy

import (
	"slices"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	endpointv3 "github.com/envoyproxy/go-control-plane/envoy/config/endpoint/v3"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/spillway-dev/spillway/internal/fleet"
	"github.com/spillway-dev/spillway/internal/model"
	"github.com/spillway-dev/spillway/internal/steer"
)

// assignment writes down a plan: a locality per share, its tier as priority,
// its weight, and the endpoints of the share's member and zone. The groups are
// those of the plan's members.
func assignment(name string, plan steer.Plan, groups map[model.Member]fleet.Group) *endpointv3.ClusterLoadAssignment {
	out := &endpointv3.ClusterLoadAssignment{ClusterName: name}
	for _, l := range localities(plan, groups) {
		out.Endpoints = append(out.Endpoints, l.proto())
	}
	return out
}

// locality is a share with its endpoints.
type locality struct {
	place     model.Place
	member    model.Member
	priority  uint32
	weight    uint32
	endpoints []endpoint
}

type endpoint struct {
	host   string // an IP address, or a DNS name
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
	var out []endpoint
	for _, e := range group.Endpoints {
		if shareOf(shares, shares[i].Member, e.Zone) != i {
			continue
		}
		if health, in := healthOf(shares[i], e.State); in {
			out = append(out, endpoint{e.Addr.String(), e.Port, health})
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
	return []endpoint{{g.External, g.Port, corev3.HealthStatus_UNKNOWN}}
}

func (l locality) proto() *endpointv3.LocalityLbEndpoints {
	out := &endpointv3.LocalityLbEndpoints{
		Locality:            &corev3.Locality{Region: l.place.Region, Zone: l.place.Zone, SubZone: string(l.member)},
		Priority:            l.priority,
		LoadBalancingWeight: wrapperspb.UInt32(l.weight),
		LbEndpoints:         make([]*endpointv3.LbEndpoint, 0, len(l.endpoints)),
	}
	for _, e := range l.endpoints {
		out.LbEndpoints = append(out.LbEndpoints, &endpointv3.LbEndpoint{
			HealthStatus:   e.health,
			HostIdentifier: &endpointv3.LbEndpoint_Endpoint{Endpoint: &endpointv3.Endpoint{Address: socket(e.host, e.port)}},
		})
	}
	return out
}
