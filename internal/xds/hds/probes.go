package hds

import (
	"net/netip"
	"slices"
	"time"

	core "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	endpoint "github.com/envoyproxy/go-control-plane/envoy/config/endpoint/v3"
	health "github.com/envoyproxy/go-control-plane/envoy/service/health/v3"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/wrapperspb"
)

// probes is the state machine of one health stream, pure: what was asked of
// the proxy, and what of its reports can be believed.
type probes struct {
	probing Probing
	asked   map[Canary]*probe
}

type probe struct {
	since   time.Time
	settled bool // it was healthy once, or had the time to be
}

// ask replaces the canaries and how they are probed. It returns what to send,
// nil if nothing changed.
func (p *probes) ask(now time.Time, canaries []Canary, how Probing) *health.HealthCheckSpecifier {
	canaries = slices.Clone(canaries)
	slices.SortFunc(canaries, Canary.compare)
	canaries = slices.Compact(canaries)
	next := make(map[Canary]*probe, len(canaries))
	changed := p.asked == nil || len(canaries) != len(p.asked) || how != p.probing && len(canaries) > 0
	p.probing = how
	for _, c := range canaries {
		old, ok := p.asked[c]
		if !ok {
			old, changed = &probe{since: now}, true
		}
		next[c] = old
	}
	p.asked = next
	if !changed {
		return nil
	}
	return p.specifier(canaries)
}

// specifier groups sorted canaries by member, one HDS cluster each.
func (p *probes) specifier(canaries []Canary) *health.HealthCheckSpecifier {
	spec := &health.HealthCheckSpecifier{Interval: durationpb.New(p.probing.Report)}
	if len(canaries) == 0 {
		spec.Interval = durationpb.New(time.Minute) // of empty reports
	}
	for i, c := range canaries {
		if i == 0 || canaries[i-1].Member != c.Member {
			spec.ClusterHealthChecks = append(spec.ClusterHealthChecks, &health.ClusterHealthCheck{
				ClusterName: c.Member, HealthChecks: []*core.HealthCheck{p.check()},
				LocalityEndpoints: []*health.LocalityEndpoints{{Locality: &core.Locality{Region: c.Member}}},
			})
		}
		in := spec.ClusterHealthChecks[len(spec.ClusterHealthChecks)-1].LocalityEndpoints[0]
		in.Endpoints = append(in.Endpoints, &endpoint.Endpoint{Address: &core.Address{Address: &core.Address_SocketAddress{
			SocketAddress: &core.SocketAddress{
				Address:       c.Addr.Addr().String(),
				PortSpecifier: &core.SocketAddress_PortValue{PortValue: uint32(c.Addr.Port())},
			},
		}}})
	}
	return spec
}

// check probes at the same pace whatever the state: without the no-traffic
// intervals Envoy probes these clusters, which never have traffic, once a
// minute.
func (p *probes) check() *core.HealthCheck {
	every := durationpb.New(p.probing.Interval)
	return &core.HealthCheck{
		Timeout: durationpb.New(p.probing.Timeout), Interval: every,
		NoTrafficInterval: every, NoTrafficHealthyInterval: every,
		UnhealthyInterval: every, UnhealthyEdgeInterval: every, HealthyEdgeInterval: every,
		UnhealthyThreshold: wrapperspb.UInt32(p.probing.Unhealthy),
		HealthyThreshold:   wrapperspb.UInt32(p.probing.Healthy),
		HealthChecker:      &core.HealthCheck_TcpHealthCheck_{TcpHealthCheck: &core.HealthCheck_TcpHealthCheck{}},
	}
}

// heard returns what a report says of the canaries asked for, sorted, and whether
// the same report would say the same later.
func (p *probes) heard(now time.Time, r *health.EndpointHealthResponse) (out []CanaryHealth, final bool) {
	final = true
	for _, cl := range r.GetClusterEndpointsHealth() {
		for _, loc := range cl.GetLocalityEndpointsHealth() {
			for _, e := range loc.GetEndpointsHealth() {
				c, ok := canaryOf(cl.GetClusterName(), e.GetEndpoint())
				if !ok {
					continue
				}
				healthy, known, later := p.believe(now, c, e.GetHealthStatus())
				if known {
					out = append(out, CanaryHealth{c, healthy})
				}
				final = final && !later
			}
		}
	}
	slices.SortFunc(out, func(a, b CanaryHealth) int { return a.compare(b.Canary) })
	return out, final
}

// believe judges one status. Before the first probe is done nothing is known;
// later: the same status will be believed after a while.
func (p *probes) believe(now time.Time, c Canary, status core.HealthStatus) (healthy, known, later bool) {
	asked, ok := p.asked[c]
	if !ok {
		return false, false, false
	}
	switch status {
	case core.HealthStatus_HEALTHY:
		asked.settled = true
		return true, true, false
	case core.HealthStatus_UNHEALTHY, core.HealthStatus_TIMEOUT:
		asked.settled = asked.settled || now.Sub(asked.since) >= p.probing.Detection()
		return false, asked.settled, !asked.settled
	default:
		return false, false, false
	}
}

func canaryOf(member string, e *endpoint.Endpoint) (Canary, bool) {
	sa := e.GetAddress().GetSocketAddress()
	ip, err := netip.ParseAddr(sa.GetAddress())
	if err != nil {
		return Canary{}, false
	}
	return Canary{Member: member, Addr: netip.AddrPortFrom(ip, uint16(sa.GetPortValue()))}, true
}
