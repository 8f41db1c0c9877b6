package xds

import (
	"fmt"
	"testing"

	"pgregory.net/rapid"
)

// TestRequestIsTakenInParts: whatever a client asks for, the view is given back
// after so many names, a publish comes between, and nothing is sent to the
// client before all of its request was taken.
func TestRequestIsTakenInParts(t *testing.T) {
	const n = 5*namesAtOnce + 1
	s := NewStore()
	s.Publish("v", []Change{makeAssignment(t, "a", 1)})
	hostile, _ := newMember(NewSession(Limits{}))
	other, _ := newMember(NewSession(Limits{}))
	for _, m := range []*member{hostile, other} {
		s.follow(m, "v", "")
	}
	sent := func(m *member, to string) (n int) {
		m.step(func(x *Session) {
			for _, r := range x.Ready(s.now()) {
				for _, res := range r.Resources {
					if res.Name == to {
						n++
					}
				}
				_ = x.Request(s.now(), Request{Type: r.Type, Nonce: r.Nonce})
			}
		})
		return n
	}
	if err := other.say(s.now(), other.session, Request{Type: ClusterLoadAssignment, Subscribe: []string{"a"}}); err != nil || sent(other, "a") != 1 {
		t.Fatal("the other client was not served", err)
	}
	version := 1
	sub := &hostile.session.topics[assignment].sub
	for _, r := range []Request{{Subscribe: madeUp(n)}, {Unsubscribe: madeUp(n)}} {
		r.Type = ClusterLoadAssignment
		hostile.session.Put(r)
		parts := 0
		for more := true; more; parts++ {
			before := sub.count()
			hostile.step(func(x *Session) {
				var err error
				if more, err = x.Take(s.now(), namesAtOnce); err != nil {
					t.Fatal(err)
				}
			})
			if took := max(sub.count()-before, before-sub.count()); took > namesAtOnce {
				t.Fatalf("took %d names at once", took)
			}
			version++
			s.Publish("v", []Change{makeAssignment(t, "a", version)})
			if sent(other, "a") != 1 {
				t.Fatal("a change did not come between two parts")
			}
		}
		if want := (n + namesAtOnce - 1) / namesAtOnce; parts != want {
			t.Errorf("%d names in %d parts, want %d", n, parts, want)
		}
		hostile.step(func(x *Session) { x.Ready(s.now()) }) // never answered
	}
	if f := hostile.session.topics[assignment].flight; len(f.items) == 0 || len(f.items) > looksAtOnce {
		t.Errorf("a response of %d names", len(f.items))
	}
	s.leave(hostile)
	if rows := len(s.names.of[assignment].ids); rows != 1 {
		t.Errorf("the view knows %d names after the client left", rows)
	}
}

// TestReadyLooksAtFew: what a client has is compared in parts, too.
func TestReadyLooksAtFew(t *testing.T) {
	const n = 3 * looksAtOnce
	s := NewStore()
	changes, has := make([]Change, n), map[string]string{}
	for i := range changes {
		name := fmt.Sprint("svc-", i)
		changes[i], has[name] = Change{Cluster, name, &Resource{Name: name, Version: "1"}}, "1"
	}
	s.Publish("v", changes)
	m, _ := newMember(NewSession(Limits{}))
	s.follow(m, "v", "")
	if err := m.say(s.now(), m.session, Request{Type: Cluster, Initial: has}); err != nil {
		t.Fatal(err)
	}
	looks := 0
	for more := true; more; looks++ {
		before := m.session.topics[cluster].dirty.count()
		m.step(func(x *Session) {
			if out := x.Ready(s.now()); len(out) > 0 {
				t.Fatalf("sent %d responses to a client that has everything", len(out))
			}
			more = x.More()
		})
		if looked := before - m.session.topics[cluster].dirty.count(); looked > looksAtOnce {
			t.Fatalf("looked at %d names at once", looked)
		}
	}
	if looks != 3 || !m.session.Quiet() {
		t.Errorf("done after %d, quiet %v", looks, m.session.Quiet())
	}
}

// TestFlightFind: a response knows its items, and a long one without looking at
// each: who drops 200,000 names must not have us look at 200,000 times as many.
func TestFlightFind(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		ids := rapid.SliceOfNDistinct(rapid.Uint32Range(0, 99), 0, 4*shortFlight, rapid.ID).Draw(t, "ids")
		f := &flight{}
		for _, id := range ids {
			f.items = append(f.items, item{id: id})
		}
		for id := range uint32(100) {
			var want *item
			for i := range f.items {
				if f.items[i].id == id {
					want = &f.items[i]
				}
			}
			if got := f.find(id); got != want {
				t.Fatalf("%d in %v: found %v, want %v", id, ids, got, want)
			}
		}
		if long := len(ids) > shortFlight; long != (f.index != nil) {
			t.Fatalf("%d items, index %v", len(ids), f.index)
		}
	})
	if (*flight)(nil).find(0) != nil {
		t.Error("found something in no response")
	}
}
