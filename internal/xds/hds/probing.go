package hds

import (
	"net/netip"
	"strings"
	"time"

	"github.com/spillway-dev/spillway/internal/xds"
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

// Report is what a proxy sees of the canaries that it knows something of.
type Report struct {
	xds.Proxy
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
