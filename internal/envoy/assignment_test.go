package envoy

import (
	"cmp"
	"fmt"
	"net/netip"
	"slices"
	"testing"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	endpointv3 "github.com/envoyproxy/go-control-plane/envoy/config/endpoint/v3"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/wrapperspb"
	"pgregory.net/rapid"

	"github.com/spillway-dev/spillway/internal/fleet"
	"github.com/spillway-dev/spillway/internal/model"
	"github.com/spillway-dev/spillway/internal/steer"
)

// slowAssignment is the dumb twin of assignment: a message, made in the plainest way.
func slowAssignment(name string, plan steer.Plan, groups map[model.Member]fleet.Group) *endpointv3.ClusterLoadAssignment {
	out := &endpointv3.ClusterLoadAssignment{ClusterName: name}
	for _, l := range localities(plan, groups) {
		ll := &endpointv3.LocalityLbEndpoints{
			Locality:            &corev3.Locality{Region: l.place.Region, Zone: l.place.Zone, SubZone: string(l.member)},
			Priority:            l.priority,
			LoadBalancingWeight: wrapperspb.UInt32(l.weight),
		}
		for _, e := range l.endpoints {
			host := e.name
			if host == "" {
				host = e.addr.String()
			}
			ll.LbEndpoints = append(ll.LbEndpoints, &endpointv3.LbEndpoint{
				HostIdentifier: &endpointv3.LbEndpoint_Endpoint{Endpoint: &endpointv3.Endpoint{Address: socket(host, e.port)}},
			})
		}
		out.Endpoints = append(out.Endpoints, ll)
	}
	return out
}

// somePlan draws a plan over three members with two zones, and their groups.
func somePlan(t *rapid.T) (steer.Plan, map[model.Member]fleet.Group) {
	var plan steer.Plan
	groups := map[model.Member]fleet.Group{}
	zones := []string{"", "eu-a", "eu-b"}
	tier := 0
	for i := range rapid.IntRange(0, 5).Draw(t, "shares") {
		tier += rapid.IntRange(0, 1).Draw(t, "next")
		s := steer.Share{
			Member: model.Member(fmt.Sprintf("m-%d", i%3)), Place: model.Place{Region: "eu", Zone: rapid.SampledFrom(zones).Draw(t, "zone")}.Spot(),
			Tier: tier, State: rapid.SampledFrom([]steer.State{steer.Serving, steer.Serving, steer.Failed, steer.Drained}).Draw(t, "state"),
			Terminating: rapid.Bool().Draw(t, "terminating"),
		}
		if s.State == steer.Serving {
			s.Weight = rapid.Uint32Range(1, 100_000).Draw(t, "weight")
		}
		plan.Shares = append(plan.Shares, s)
		if _, ok := groups[s.Member]; ok {
			continue
		}
		var g fleet.Group
		if rapid.IntRange(0, 9).Draw(t, "external") == 0 {
			g = fleet.Group{Rare: &fleet.RareGroup{External: "out.example", Port: 443}}
		}
		var all []model.Endpoint
		for range rapid.IntRange(0, 12).Draw(t, "endpoints") {
			addr := netip.AddrFrom4([4]byte{10, byte(i), 0, rapid.Byte().Draw(t, "ip")})
			if rapid.Bool().Draw(t, "six") {
				addr = netip.AddrFrom16([16]byte{0xfd, 15: rapid.Byte().Draw(t, "ip")})
			}
			all = append(all, model.Endpoint{
				Addr: addr, Port: rapid.Uint16Min(1).Draw(t, "port"), Zone: model.ZoneOf(rapid.SampledFrom(zones).Draw(t, "zone")),
				State: rapid.SampledFrom([]model.EndpointState{model.EndpointReady, model.EndpointDraining}).Draw(t, "state"),
			})
		}
		g.Endpoints = model.EndpointsOf(all...)
		groups[s.Member] = g
	}
	return plan, groups
}

func TestAssignmentIsItsTwin(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		plan, groups := somePlan(t)
		name := "shop/web/http"
		want := slowAssignment(name, plan, groups)
		got := decode(t, kept(name, assignment(nil, name, localities(plan, groups))))
		if !proto.Equal(got, want) {
			t.Fatalf("%v\nwant\n%v", got, want)
		}
		if err := want.ValidateAll(); err != nil {
			t.Fatal(err)
		}
		laws(t, plan, want)
	})
}

// laws are what every assignment obeys.
func laws(t *rapid.T, plan steer.Plan, a *endpointv3.ClusterLoadAssignment) {
	next := uint32(0)
	for _, l := range a.Endpoints {
		if l.Priority > next {
			t.Fatalf("priority %d, and none of %d", l.Priority, next)
		}
		next = max(next, l.Priority+1)
		if alone := next - l.Priority; len(l.LbEndpoints) == 0 && (alone != 1 || l == a.Endpoints[len(a.Endpoints)-1]) {
			t.Fatal("a locality without endpoints that keeps no number free")
		}
		for _, e := range l.LbEndpoints {
			serves := slices.ContainsFunc(plan.Shares, func(s steer.Share) bool {
				return s.State == steer.Serving && string(s.Member) == l.Locality.SubZone
			})
			if !serves {
				t.Fatalf("%v gets requests, and the plan gives none to %s", e, l.Locality.SubZone)
			}
		}
	}
}

// TestNoNumberPassesOn: when a member leaves, the nearest of those that stay do
// not get a priority that it had: a retry would pass them by.
func TestNoNumberPassesOn(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var plan steer.Plan
		for i := range rapid.IntRange(2, 1+mostLeft).Draw(t, "shares") {
			s := share(model.Member(fmt.Sprintf("m-%d", i)), rapid.IntRange(0, 3).Draw(t, "tier"))
			s.State = rapid.SampledFrom([]steer.State{steer.Serving, steer.Serving, steer.Failed}).Draw(t, "state")
			plan.Shares = append(plan.Shares, s)
		}
		slices.SortFunc(plan.Shares, func(a, b steer.Share) int { return cmp.Or(cmp.Compare(a.State, b.State), cmp.Compare(a.Tier, b.Tier)) })
		before := priorityOfMembers(plan)
		leaves := &plan.Shares[rapid.IntRange(0, len(plan.Shares)-1).Draw(t, "leaves")]
		leaves.State = steer.Drained
		tried, served := before[leaves.Member]
		if !served {
			return
		}
		for m, p := range priorityOfMembers(plan) {
			if p == tried {
				t.Fatalf("%s gets priority %d of %s, which left: %v", m, p, leaves.Member, plan)
			}
		}
	})
}

// priorityOfMembers are the priorities of the members that serve, which have
// an endpoint each.
func priorityOfMembers(plan steer.Plan) map[model.Member]uint32 {
	groups := map[model.Member]fleet.Group{}
	for i, s := range plan.Shares {
		groups[s.Member] = fleet.Group{Endpoints: model.EndpointsOf(endpointAt("10.0.0.1", uint16(8000+i)))}
	}
	out := map[model.Member]uint32{}
	for _, l := range localities(plan, groups) {
		if len(l.endpoints) > 0 {
			out[l.member] = l.priority
		}
	}
	return out
}
