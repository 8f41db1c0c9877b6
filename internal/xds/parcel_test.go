package xds

import (
	"fmt"
	"testing"
)

// TestParcels: streams of two edges that are sent the same large change share
// what is encoded of it, though one was told of another change meanwhile, and
// each is sent what it would be sent alone.
func TestParcels(t *testing.T) {
	const hosts = 4000
	s := NewStore()
	name := func(i int) string { return fmt.Sprintf("host-%05d", i) }
	publish := func(version int) {
		var all []Change
		for i := range hosts {
			all = append(all, makeEndpoint(t, name(i), 80, version))
		}
		s.Publish("view", all)
	}
	publish(1)
	var names []string
	for i := range hosts {
		names = append(names, name(i))
	}
	var members []*member
	for _, edge := range []string{"fra", "iad"} {
		m, _ := newMember(NewSession(Limits{}))
		s.follow(m, "view", edge)
		for _, r := range []Request{{Type: Cluster}, {Type: ClusterLoadAssignment, Subscribe: names}} {
			if err := m.say(s.now(), m.session, r); err != nil {
				t.Fatal(err)
			}
		}
		members = append(members, m)
	}
	// turn acknowledges what is in flight and returns what is sent then.
	turn := func(m *member) (out []Response) {
		m.step(func(x *Session) { out = x.Ready(s.now()) })
		for _, r := range out {
			if err := m.say(s.now(), m.session, Request{Type: r.Type, Nonce: r.Nonce}); err != nil {
				t.Fatal(err)
			}
		}
		return out
	}
	// together has all take turns until nothing is left to send.
	together := func(meanwhile func(round int)) (all []Response) {
		for round := 0; ; round++ {
			var out []Response
			for _, m := range members {
				out = append(out, turn(m)...)
			}
			if len(out) == 0 {
				return all
			}
			all = append(all, out...)
			meanwhile(round)
		}
	}
	together(func(int) {})
	publish(2)
	turn(members[0]) // it is ahead
	sharing := together(func(round int) {
		if round == 3 {
			s.Publish("view", []Change{makeEndpoint(t, name(7), 80, 3)})
		}
	})

	encoded := map[*parcel]bool{}
	sent := 0
	for _, r := range sharing {
		var twin []byte
		for _, p := range r.parcels {
			twin = append(twin, p.encoded()...)
			if p != nil {
				encoded[p] = true
			}
		}
		if got, want := string(r.appendRest(twin)), string(r.Append(nil)); got != want {
			t.Errorf("a response of %d resources in parts is not what it is in one", len(r.Resources))
		}
		sent += len(r.Resources)
	}
	if sent < 2*hosts-1024 || len(sharing) < 14 {
		t.Errorf("%d resources were sent in %d responses", sent, len(sharing))
	}
	if most := len(sharing)/2 + 3; len(encoded) > most {
		t.Errorf("%d parcels in %d responses, want at most %d", len(encoded), len(sharing), most)
	}
}
