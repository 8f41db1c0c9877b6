package main

import (
	"fmt"
	"net/netip"
	"reflect"
	"testing"

	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/apimachinery/pkg/runtime"

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
					host := id.Service.Name()
					count[host] += row.Endpoints.Len()
					if m == 0 {
						large[host] = row.Endpoints.Len()
					}
					for e := range row.Endpoints.All() {
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

// TestGrownFleetIsAnyFleet: what is told of a host that comes is what the lists
// say then, of one that was there from the start.
func TestGrownFleetIsAnyFleet(t *testing.T) {
	for _, members := range []int{1, 3} {
		grown := newFleet(size{endpoints: 10, members: members}, [2]certificate{})
		all := newFleet(size{hosts: 7, endpoints: 10, members: members}, [2]certificate{})
		grown.spares, all.spares = 0, 0
		got := map[place][]runtime.Object{}
		for range all.hosts {
			for _, e := range grown.grow() {
				got[e.at] = append(got[e.at], e.object)
			}
		}
		check := func(p place, list []runtime.Object) {
			t.Helper()
			if mine := list[len(list)-len(got[p]):]; len(got[p]) == 0 || !reflect.DeepEqual(got[p], mine) {
				t.Errorf("%d members: %v lists %v, told %v", members, p, mine, got[p])
			}
		}
		for _, f := range []*fleet{all, grown} {
			check(place{member: hub, plural: "ingresses"}, f.hub("ingresses", "", nil))
			for m := range members {
				check(place{member: m, plural: "services"}, f.member(m, "services"))
				check(place{member: m, plural: "endpointslices"}, f.member(m, "endpointslices"))
			}
		}
	}
}
