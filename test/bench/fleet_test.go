package main

import (
	"fmt"
	"net/netip"
	"testing"

	discoveryv1 "k8s.io/api/discovery/v1"

	"github.com/spillway-dev/spillway/internal/ingest"
)

// TestFleet: every host has all its endpoints, each address once, half of them
// in the large member; made-up addresses are of the range for benchmarks; what
// the fleet says can be read without a finding.
func TestFleet(t *testing.T) {
	for _, members := range []int{1, 2, 10} {
		t.Run(fmt.Sprint(members), func(t *testing.T) {
			f := newFleet(size{hosts: 30, endpoints: 10, members: members, certs: 3}, [2]certificate{})
			f.flipEndpoint(7)
			count, large := map[string]int{}, map[string]int{}
			for m := range members {
				for _, o := range f.member(m, "endpointslices") {
					s := o.(*discoveryv1.EndpointSlice)
					id, row, ok, findings := ingest.EndpointSlice("m", s)
					if !ok || len(findings) > 0 {
						t.Fatalf("%s: %v", s.Name, findings)
					}
					host := id.Service.Name
					count[host] += len(row.Endpoints)
					if m == 0 {
						large[host] = len(row.Endpoints)
					}
					for _, e := range row.Endpoints {
						if made := netip.MustParsePrefix("198.18.0.0/15").Contains(e.Addr); made == answers(f, host) {
							t.Errorf("%s has %s", host, e.Addr)
						}
					}
				}
			}
			if len(count) != 30+spares+2 {
				t.Errorf("%d hosts", len(count))
			}
			for host, n := range count {
				if n != 10 || members > 1 && !answersAlone(host) && large[host] != 5 {
					t.Errorf("%s has %d endpoints, %d in the large member", host, n, large[host])
				}
			}
		})
	}
}

func answersAlone(host string) bool { return host == "probe" || host == "tls" }

func answers(f *fleet, host string) bool {
	var i int
	_, err := fmt.Sscanf(host, "svc-%d", &i)
	return err != nil || i >= f.hosts
}
