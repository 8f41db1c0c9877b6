package xds

import (
	"net/netip"
	"time"

	health "github.com/envoyproxy/go-control-plane/envoy/service/health/v3"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// Canary is an endpoint of a member that an edge's proxies probe, to tell
// whether the path from the edge to the member works.
type Canary struct {
	Member string
	Addr   netip.AddrPort
}

// CanaryReport is what one proxy saw of one canary.
type CanaryReport struct {
	Proxy
	Canary
	Healthy bool
	At      time.Time
}

// Probing is how canaries are probed: by TCP connections.
type Probing struct {
	Interval  time.Duration // between probes, and between reports; 250 ms
	Timeout   time.Duration // of a connection; 250 ms
	Unhealthy int           // failures in a row until unhealthy; 2
	Healthy   int           // successes in a row until healthy again; 2
}

func (p Probing) withDefaults() Probing {
	if p.Interval == 0 {
		p.Interval = 250 * time.Millisecond
	}
	if p.Timeout == 0 {
		p.Timeout = 250 * time.Millisecond
	}
	if p.Unhealthy == 0 {
		p.Unhealthy = 2
	}
	if p.Healthy == 0 {
		p.Healthy = 2
	}
	return p
}

type healthStream struct {
	wake chan struct{}
}

type hds struct {
	health.UnimplementedHealthDiscoveryServiceServer
	server *Server
}

// StreamHealthCheck serves one proxy.
func (h *hds) StreamHealthCheck(health.HealthDiscoveryService_StreamHealthCheckServer) error {
	return status.Error(codes.Unimplemented, "not yet")
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
