package hds

import (
	"net/netip"
	"slices"
	"testing"
	"time"

	core "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	endpoint "github.com/envoyproxy/go-control-plane/envoy/config/endpoint/v3"
	health "github.com/envoyproxy/go-control-plane/envoy/service/health/v3"
)

func canary(member, addr string) Canary { return Canary{member, netip.MustParseAddrPort(addr)} }

func saw(status core.HealthStatus, canaries ...Canary) *health.EndpointHealthResponse {
	r := &health.EndpointHealthResponse{}
	for _, c := range canaries {
		r.ClusterEndpointsHealth = append(r.ClusterEndpointsHealth, &health.ClusterEndpointsHealth{
			ClusterName: c.Member,
			LocalityEndpointsHealth: []*health.LocalityEndpointsHealth{{EndpointsHealth: []*health.EndpointHealth{{
				HealthStatus: status,
				Endpoint: &endpoint.Endpoint{Address: &core.Address{Address: &core.Address_SocketAddress{SocketAddress: &core.SocketAddress{
					Address: c.Addr.Addr().String(), PortSpecifier: &core.SocketAddress_PortValue{PortValue: uint32(c.Addr.Port())},
				}}}},
			}}}},
		})
	}
	return r
}

func TestProbesAsk(t *testing.T) {
	now := time.Unix(0, 0)
	p := &probes{probing: Probing{}.withDefaults()}
	a, b, c := canary("eu-1", "10.1.0.1:80"), canary("eu-1", "10.1.0.2:80"), canary("us-1", "[fd00::1]:80")
	spec := p.ask(now, []Canary{c, b, a, a}, p.probing)
	if spec == nil || len(spec.ClusterHealthChecks) != 2 || len(spec.ClusterHealthChecks[0].LocalityEndpoints[0].Endpoints) != 2 {
		t.Fatalf("asked %v", spec)
	}
	if err := spec.ValidateAll(); err != nil {
		t.Error(err)
	}
	if again := p.ask(now, []Canary{a, b, c}, p.probing); again != nil {
		t.Errorf("asked the same again: %v", again)
	}
	slower := p.probing
	slower.Interval *= 2
	if again := p.ask(now, []Canary{a, b, c}, slower); again == nil || again.ClusterHealthChecks[0].HealthChecks[0].Interval.AsDuration() != slower.Interval {
		t.Error("a changed interval was not sent")
	}
	if fewer := p.ask(now, nil, p.probing); fewer == nil || len(fewer.ClusterHealthChecks) != 0 {
		t.Errorf("asked %v", fewer)
	}
}

func TestProbesBelieve(t *testing.T) {
	start := time.Unix(0, 0)
	p := &probes{probing: Probing{}.withDefaults()}
	a, other := canary("eu-1", "10.1.0.1:80"), canary("eu-1", "10.1.0.9:80")
	p.ask(start, []Canary{a}, p.probing)
	settled := start.Add(p.probing.Detection())
	for _, step := range []struct {
		at     time.Time
		status core.HealthStatus
		want   string
	}{
		{start, core.HealthStatus_UNHEALTHY, "nothing"}, // Envoy says so before the first probe
		{start, core.HealthStatus_UNKNOWN, "nothing"},
		{settled, core.HealthStatus_TIMEOUT, "down"},
		{settled, core.HealthStatus_HEALTHY, "up"},
		{settled, core.HealthStatus_UNHEALTHY, "down"},
	} {
		got := "nothing"
		seen, final := p.heard(step.at, saw(step.status, a, other))
		for _, r := range seen {
			got = map[bool]string{true: "up", false: "down"}[r.Healthy]
		}
		if later := step.status == core.HealthStatus_UNHEALTHY && got == "nothing"; final == later {
			t.Errorf("%v at %v: final %t", step.status, step.at, final)
		}
		if got != step.want {
			t.Errorf("%v at %v: %s, want %s", step.status, step.at, got, step.want)
		}
	}
}

func joined(s *Server, edge string) *stream {
	st := &stream{edge: edge, wake: make(chan struct{}, 1)}
	s.join(st)
	return st
}

// TestFewProbe: only some proxies of an edge probe, whoever leaves is replaced.
func TestFewProbe(t *testing.T) {
	c := []Canary{canary("eu-1", "10.1.0.1:80")}
	s := New(Config{Canaries: func(string) []Canary { return c }, Probing: func(string) Probing { return Probing{Proxies: 2} }})
	var streams []*stream
	for _, edge := range []string{"fra", "fra", "fra", "par"} {
		streams = append(streams, joined(s, edge))
	}
	probing := func() (which []int) {
		for i, st := range streams {
			if len(s.canaries(st)) > 0 {
				which = append(which, i)
			}
		}
		return which
	}
	if got, want := probing(), []int{0, 1, 3}; !slices.Equal(got, want) {
		t.Errorf("%v probe, want %v", got, want)
	}
	first := streams[0]
	s.leave(first)
	streams[0] = joined(s, "fra") // back, it is the last
	for i, st := range streams {
		if anew := len(st.wake) > 0; anew != (i == 1 || i == 2) {
			t.Errorf("stream %d is asked anew: %t", i, anew)
		}
	}
	if got, want := probing(), []int{1, 2, 3}; !slices.Equal(got, want) {
		t.Errorf("%v probe, want %v", got, want)
	}
}

func TestInterval(t *testing.T) {
	quick, second := steps[0], time.Second
	for _, c := range []struct {
		was    time.Duration
		weight int
		want   time.Duration
	}{
		{quick, 0, quick},
		{quick, perSecond / 10, quick},
		{quick, perSecond/10 + 1, 2 * quick},
		{quick, perSecond/5 + 1, 5 * quick},
		{quick, 100 * perSecond, Slowest},
		{Slowest, 100 * perSecond, Slowest},
		{second, perSecond / 2, second},
		{second, perSecond/4 + 1, second}, // no shorter while more than a quarter is needed
		{second, perSecond / 4, second / 2},
		{Slowest, 0, quick},
	} {
		if got := interval(c.was, c.weight); got != c.want {
			t.Errorf("weight %d after %v: %v, want %v", c.weight, c.was, got, c.want)
		}
	}
	if every := interval(quick, 600*weight(900)); every != Slowest {
		t.Errorf("600 proxies and 300 members report every %v: docs/design/hds.md says otherwise", every)
	}
	if every := interval(quick, 60*weight(300)); every != quick {
		t.Errorf("60 proxies and 100 members report every %v: docs/design/hds.md says otherwise", every)
	}
}

// TestReportsGetRarerWhereThereAreMore: and all streams are told, also that they
// may report more often again.
func TestReportsGetRarerWhereThereAreMore(t *testing.T) {
	const half = perSecond/10 - 60 // of what two may say most often, with what is theirs
	quick := steps[0]
	s := New(Config{Canaries: func(string) []Canary { return nil }})
	a, b := joined(s, "fra"), joined(s, "par")
	told := func(st *stream) bool {
		select {
		case <-st.wake:
			return true
		default:
			return false
		}
	}
	if every := s.pace(a, half); every != quick || told(b) {
		t.Errorf("every %v", every)
	}
	if every := s.pace(b, half); every != 2*quick || !told(a) || !told(b) {
		t.Errorf("with more, every %v", every)
	}
	if every := s.pace(a, half); every != 2*quick || told(b) {
		t.Errorf("the same again: every %v", every)
	}
	s.leave(b)
	if told(a) {
		t.Error("asked anew though half of it would do")
	}
	if every := s.pace(a, 3); every != quick || !told(a) {
		t.Errorf("with few, every %v", every)
	}
}
