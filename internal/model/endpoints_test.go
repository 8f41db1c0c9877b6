package model

import (
	"fmt"
	"net/netip"
	"slices"
	"testing"

	"github.com/fxamacker/cbor/v2"
	"pgregory.net/rapid"
)

// someEndpoints draws lists that often have something in common.
func someEndpoints(t *rapid.T, what string) []Endpoint {
	zones := rapid.SampledFrom([]int{1, 3, 40}).Draw(t, "zones")
	six := rapid.Bool().Draw(t, "six")
	var out []Endpoint
	for range rapid.IntRange(0, 30).Draw(t, what) {
		e := Endpoint{
			Addr: netip.AddrFrom4([4]byte{10, 3: byte(rapid.IntRange(0, 3).Draw(t, "ip"))}), Port: uint16(rapid.SampledFrom([]int{0, 80, 65535}).Draw(t, "port")),
			State: EndpointState(rapid.IntRange(0, 1).Draw(t, "state")),
		}
		if six && rapid.Bool().Draw(t, "this one") {
			e.Addr = netip.AddrFrom16([16]byte{0xfd, 15: byte(rapid.IntRange(0, 3).Draw(t, "ip"))})
		}
		if zone := rapid.IntRange(0, zones).Draw(t, "zone"); zone > 0 {
			e.Zone = ZoneOf(fmt.Sprint("zone-", zone))
		}
		out = append(out, e)
	}
	return out
}

// TestEndpoints: a list is what it was made of, packed and in a checkpoint; and two are
// equal if what they were made of is.
func TestEndpoints(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		a, b := someEndpoints(t, "a"), someEndpoints(t, "b")
		if i := len(a) - 1; i >= 0 && rapid.Bool().Draw(t, "alike") {
			b = slices.Clone(a)
			b[i].Zone = rapid.SampledFrom([]Zone{a[i].Zone, {}, ZoneOf("zone-1"), ZoneOf("other")}).Draw(t, "zone")
		}
		x, y := EndpointsOf(a...), EndpointsOf(b...)
		if got := x.List(); !slices.Equal(got, a) || x.Len() != len(a) {
			t.Fatalf("%d: %v\nwant %d: %v", x.Len(), got, len(a), a)
		}
		if x.String() != fmt.Sprint(a) {
			t.Fatalf("%v is written as %v", a, x)
		}
		if x.Equal(y) != slices.Equal(a, b) {
			t.Fatalf("%v and %v: equal: %v", a, b, x.Equal(y))
		}
		drains := func(e Endpoint) bool { return e.State == EndpointDraining }
		if left := x.Without(drains).List(); !slices.Equal(left, slices.DeleteFunc(slices.Clone(a), drains)) || x.Has(drains) != slices.ContainsFunc(a, drains) {
			t.Fatalf("%v: left %v", a, left)
		}
		kept, err := cbor.Marshal(x)
		if err != nil {
			t.Fatal(err)
		}
		var again Endpoints
		if err := cbor.Unmarshal(kept, &again); err != nil || !again.Equal(x) {
			t.Fatalf("%v: %v", again.List(), err)
		}
	})
}

// TestEndpointsAreSmall: a fleet has many.
func TestEndpointsAreSmall(t *testing.T) {
	for first, most := range map[netip.Addr]int{netip.MustParseAddr("10.0.0.1"): 7, netip.MustParseAddr("fd00::1"): 19} {
		const n = 100
		var all []Endpoint
		for i := range n {
			all = append(all, Endpoint{Addr: first, Zone: ZoneOf(fmt.Sprint("zone-", i%15)), Port: 8080})
		}
		if size := len(EndpointsOf(all...).text); size > n*most+3 {
			t.Errorf("%d endpoints like %v take %d bytes", n, first, size)
		}
	}
}

// TestNoEndpoints: what is none in a checkpoint is an error, not another one.
func TestNoEndpoints(t *testing.T) {
	for _, e := range []keptEndpoint{{}, {Addr: netip.MustParseAddr("10.0.0.1"), State: states}} {
		data, err := cbor.Marshal([]keptEndpoint{e})
		if err != nil {
			t.Fatal(err)
		}
		var got Endpoints
		if err := cbor.Unmarshal(data, &got); err == nil {
			t.Errorf("%v is taken for %v", e, got.List())
		}
	}
}
