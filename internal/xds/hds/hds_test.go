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
		for _, r := range p.heard(step.at, saw(step.status, a, other)) {
			got = map[bool]string{true: "up", false: "down"}[r.Healthy]
		}
		if got != step.want {
			t.Errorf("%v at %v: %s, want %s", step.status, step.at, got, step.want)
		}
	}
}

// TestFewProbe: only some proxies of an edge probe, whoever leaves is replaced.
func TestFewProbe(t *testing.T) {
	c := []Canary{canary("eu-1", "10.1.0.1:80")}
	s := New(Config{Canaries: func(string) []Canary { return c }, Probing: func(string) Probing { return Probing{Proxies: 2} }})
	var streams []*stream
	for _, edge := range []string{"fra", "fra", "fra", "par"} {
		streams = append(streams, s.join(edge))
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
	streams[0] = s.join("fra") // back, it is the last
	for i, st := range streams {
		if anew := len(st.wake) > 0; anew != (i == 1 || i == 2) {
			t.Errorf("stream %d is asked anew: %t", i, anew)
		}
	}
	if got, want := probing(), []int{1, 2, 3}; !slices.Equal(got, want) {
		t.Errorf("%v probe, want %v", got, want)
	}
}
