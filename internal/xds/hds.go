package xds

import (
	"context"
	"net/netip"
	"slices"
	"strings"
	"time"

	core "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	endpoint "github.com/envoyproxy/go-control-plane/envoy/config/endpoint/v3"
	health "github.com/envoyproxy/go-control-plane/envoy/service/health/v3"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/wrapperspb"
)

// Canary is an endpoint of a member that an edge's proxies probe, to tell
// whether the path from the edge to the member works.
type Canary struct {
	Member string
	Addr   netip.AddrPort
}

func (c Canary) compare(d Canary) int {
	if n := strings.Compare(c.Member, d.Member); n != 0 {
		return n
	}
	return c.Addr.Compare(d.Addr)
}

// HealthReport is what a proxy sees of the canaries that it knows something of.
type HealthReport struct {
	Proxy
	Canaries []CanaryHealth
	At       time.Time
}

// CanaryHealth says whether a canary answers.
type CanaryHealth struct {
	Canary
	Healthy bool
}

// Probing is how canaries are probed: by opening TCP connections.
type Probing struct {
	Interval  time.Duration // from the end of a probe to the next; 100 ms
	Timeout   time.Duration // of a connection, above the longest round trip to a member; 300 ms
	Report    time.Duration // between reports; 100 ms
	Unhealthy uint32        // failures in a row until unhealthy; 2
	Healthy   uint32        // successes in a row until healthy again; 2
	Proxies   int           // of each edge that probe, so that a large edge drowns no pod; 3
}

// Detection is the longest time from a path's silent loss to the report of it.
func (p Probing) Detection() time.Duration {
	p = p.withDefaults()
	return time.Duration(p.Unhealthy)*(p.Interval+p.Timeout) + p.Report
}

func (p Probing) withDefaults() Probing {
	def := func(d *time.Duration, v time.Duration) {
		if *d == 0 {
			*d = v
		}
	}
	def(&p.Interval, 100*time.Millisecond)
	def(&p.Timeout, 300*time.Millisecond)
	def(&p.Report, 100*time.Millisecond)
	if p.Proxies == 0 {
		p.Proxies = 3
	}
	if p.Unhealthy == 0 {
		p.Unhealthy = 2
	}
	if p.Healthy == 0 {
		p.Healthy = 2
	}
	return p
}

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
	changed := p.asked == nil || len(canaries) != len(p.asked) || how != p.probing
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

// heard returns what a report says of the canaries asked for, sorted.
func (p *probes) heard(now time.Time, r *health.EndpointHealthResponse) []CanaryHealth {
	var out []CanaryHealth
	for _, cl := range r.GetClusterEndpointsHealth() {
		for _, loc := range cl.GetLocalityEndpointsHealth() {
			for _, e := range loc.GetEndpointsHealth() {
				c, ok := canaryOf(cl.GetClusterName(), e.GetEndpoint())
				if !ok {
					continue
				}
				if healthy, known := p.believe(now, c, e.GetHealthStatus()); known {
					out = append(out, CanaryHealth{c, healthy})
				}
			}
		}
	}
	slices.SortFunc(out, func(a, b CanaryHealth) int { return a.compare(b.Canary) })
	return out
}

// believe judges one status. Before the first probe is done nothing is known.
func (p *probes) believe(now time.Time, c Canary, status core.HealthStatus) (healthy, known bool) {
	asked, ok := p.asked[c]
	if !ok {
		return false, false
	}
	switch status {
	case core.HealthStatus_HEALTHY:
		asked.settled = true
		return true, true
	case core.HealthStatus_UNHEALTHY, core.HealthStatus_TIMEOUT:
		asked.settled = asked.settled || now.Sub(asked.since) >= p.probing.Detection()
		return false, asked.settled
	default:
		return false, false
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

// hds is the gRPC face of health discovery.
type hds struct {
	health.UnimplementedHealthDiscoveryServiceServer
	server *Server
	at     *Endpoint
}

// healthStream is one proxy's health stream.
type healthStream struct {
	id   uint64
	edge string
	wake chan struct{}
}

// StreamHealthCheck asks one proxy to probe its edge's canaries, and passes
// on what it reports.
func (h *hds) StreamHealthCheck(str health.HealthDiscoveryService_StreamHealthCheckServer) error {
	s := h.server
	recv := reader[health.HealthCheckRequestOrEndpointHealthResponse](str, atMost(healthReportBytes, "a health report"))
	first, err := await(str.Context(), recv)
	if err != nil {
		return err
	}
	proxy, cred, err := s.identify(str.Context(), h.at, first.GetHealthCheckRequest().GetNode(), Envoy)
	if err != nil {
		return err
	}
	g, err := s.guard(proxy, cred)
	defer g.stop()
	if err != nil {
		return err
	}
	hs := &healthStream{id: s.last.Add(1), edge: proxy.Edge, wake: make(chan struct{}, 1)}
	s.mu.Lock()
	s.checks[hs.id] = hs
	s.mu.Unlock()
	defer func() {
		s.mu.Lock()
		delete(s.checks, hs.id)
		s.mu.Unlock()
		s.CanariesChanged() // another proxy of the edge may have to probe now
	}()
	return s.check(str.Context(), str.Send, hs, receive(str.Context(), recv), g)
}

// canaries returns what a proxy is to probe: only the oldest streams of its
// edge do.
func (s *Server) canaries(hs *healthStream) []Canary {
	older := 0
	s.mu.Lock()
	for _, o := range s.checks {
		if o.edge == hs.edge && o.id < hs.id {
			older++
		}
	}
	s.mu.Unlock()
	if older >= s.probing(hs.edge).Proxies {
		return nil
	}
	return s.cfg.Canaries(hs.edge)
}

func (s *Server) probing(edge string) Probing {
	if s.cfg.Probing == nil {
		return Probing{}.withDefaults()
	}
	return s.cfg.Probing(edge).withDefaults()
}

func (s *Server) check(ctx context.Context, send func(*health.HealthCheckSpecifier) error, hs *healthStream,
	box *inbox[*health.HealthCheckRequestOrEndpointHealthResponse], g *guard) error {
	p := &probes{}
	ask := func() error {
		if err := g.check(); err != nil {
			return err
		}
		if spec := p.ask(s.cfg.Now(), s.canaries(hs), s.probing(hs.edge)); spec != nil {
			return send(spec)
		}
		return nil
	}
	if err := ask(); err != nil {
		return err
	}
	for {
		select {
		case m, ok := <-box.in:
			if !ok {
				_, err := ended(box.err)
				return err
			}
			now := s.cfg.Now()
			if seen := p.heard(now, m.GetEndpointHealthResponse()); len(seen) > 0 && s.cfg.Health != nil {
				s.cfg.Health(HealthReport{Proxy: g.proxy, Canaries: seen, At: now})
			}
		case <-hs.wake:
			if err := ask(); err != nil {
				return err
			}
		case <-g.changed:
			if err := g.check(); err != nil {
				return err
			}
		case <-g.timer.C:
			if err := g.check(); err != nil {
				return err
			}
		case <-ctx.Done():
			return nil
		}
	}
}

// CanariesChanged asks Canaries again for every proxy.
func (s *Server) CanariesChanged() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, c := range s.checks {
		select {
		case c.wake <- struct{}{}:
		default:
		}
	}
}
