package xds

import (
	"slices"
	"strings"
	"testing"

	discovery "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
)

// TestColdStart: a server that knows nothing yet takes nothing from a client
// that reconnects; what it learns goes out; what stays away leaves only when
// nothing is held any more, and only after the grace.
func TestColdStart(t *testing.T) {
	r := newRig(t, Config{Limits: Limits{Grace: 1, Resume: 1}})
	store := r.cfg.Store
	c := r.client("fra", "a")
	c.send(&discovery.DeltaDiscoveryRequest{TypeUrl: string(Cluster), InitialResourceVersions: map[string]string{"one": "1", "two": "1", "gone": "1"}})
	c.send(&discovery.DeltaDiscoveryRequest{TypeUrl: string(Listener)})

	store.PublishHeld("fra", []Change{makeCluster(t, "one", 1), makeCluster(t, "two", 2)}, func(u TypeURL, name string) bool { return u == Cluster })
	// Listeners are not held: an empty answer. Clusters are: only the change.
	first, second := c.receive(), c.receive()
	got := map[string]string{first.TypeUrl: text(first), second.TypeUrl: text(second)}
	if got[string(Cluster)] != "two@2" || got[string(Listener)] != "" {
		t.Fatalf("got %v", got)
	}
	c.ack(first)
	c.ack(second)
	store.PublishHeld("fra", nil, nil)
	if got := text(c.receive()); got != "-gone" {
		t.Errorf("got %s", got)
	}
}

// TestReleaseWithContent: what was held and is there now is never said to be
// absent in between.
func TestReleaseWithContent(t *testing.T) {
	s := NewStore()
	s.PublishHeld("v", nil, func(TypeURL, string) bool { return true })
	m, woken := newMember(NewSession(Limits{}))
	s.follow(m, "v", "")
	var out []Response
	m.step(func(x *Session) {
		if err := x.Request(s.now(), Request{Type: Listener, Initial: map[string]string{"kept": "1", "gone": "1"}}); err != nil {
			t.Fatal(err)
		}
		out = x.Ready(s.now())
	})
	if len(out) != 0 {
		t.Fatalf("sent %v while held", out)
	}
	s.PublishHeld("v", []Change{{Listener, "kept", &Resource{Name: "kept", Version: "1"}}}, nil)
	if !woken.rang() {
		t.Error("not woken")
	}
	m.step(func(x *Session) { out = x.Ready(s.now()) })
	if len(out) != 1 || len(out[0].Resources) != 0 || strings.Join(out[0].Removed, " ") != "gone" {
		t.Errorf("sent %+v", out)
	}
}

// TestPublishIsExact: what does not change is not sent, versions decide, and
// a view's content can be read back.
func TestPublishIsExact(t *testing.T) {
	s := NewStore()
	s.Publish("v", []Change{makeCluster(t, "a", 1), makeCluster(t, "b", 1)})
	m, woken := newMember(NewSession(Limits{}))
	s.follow(m, "v", "")
	ask := func(r Request) {
		m.step(func(x *Session) {
			if err := x.Request(s.now(), r); err != nil {
				t.Fatal(err)
			}
		})
	}
	ready := func() (out []Response) {
		m.step(func(x *Session) { out = x.Ready(s.now()) })
		return out
	}
	ask(Request{Type: Cluster})
	out := ready()
	ask(Request{Type: Cluster, Nonce: out[0].Nonce})
	s.Publish("v", []Change{makeCluster(t, "a", 1), {Type: Cluster, Name: "never"}})
	if woken.rang() {
		t.Error("woken though nothing changed")
	}
	s.Publish("v", []Change{makeEndpoint(t, "a", 1, 1)})
	if woken.rang() {
		t.Error("woken by a type it does not follow")
	}
	if out := ready(); len(out) != 0 {
		t.Errorf("sent %v", out)
	}
	var names []string
	s.Each("v", func(u TypeURL, r *Resource) { names = append(names, u.Short()+"/"+r.Name+"@"+r.Version) })
	if got := strings.Join(names, " "); got != "Cluster/a@1 Cluster/b@1 ClusterLoadAssignment/a@1" {
		t.Errorf("got %s", got)
	}
	s.leave(m)
	s.Remove("v")
	if got := s.Views(); len(got) != 0 {
		t.Errorf("views %v", got)
	}
}

// TestNamesAreGivenBack: ids of names that come and go do not pile up.
func TestNamesAreGivenBack(t *testing.T) {
	s := NewStore()
	m, _ := newMember(NewSession(Limits{Grace: 1}))
	s.follow(m, "v", "")
	turn := func(r Request) {
		m.step(func(x *Session) {
			if err := x.Request(s.now(), r); err != nil {
				t.Fatal(err)
			}
			for out := x.Ready(s.now()); len(out) > 0; out = x.Ready(s.now()) {
				for _, o := range out {
					if err := x.Request(s.now(), Request{Type: o.Type, Nonce: o.Nonce}); err != nil {
						t.Fatal(err)
					}
				}
			}
		})
	}
	s.Publish("v", nil)
	turn(Request{Type: Cluster})
	for i := range 1000 {
		name := strings.Repeat("x", 1+i%7) + string(rune('a'+i%26))
		s.Publish("v", []Change{makeCluster(t, name, i), makeEndpoint(t, name, 1, i)})
		turn(Request{Type: ClusterLoadAssignment, Subscribe: []string{name, "absent-" + name}})
		s.Publish("v", []Change{{Type: Cluster, Name: name}, {Type: ClusterLoadAssignment, Name: name}})
		turn(Request{Type: ClusterLoadAssignment, Unsubscribe: []string{name, "absent-" + name}})
	}
	turn(Request{Type: Cluster})
	for k := range kinds {
		if n := s.names.size(k); n > 10 {
			t.Errorf("%s has %d rows for nothing", k.url().Short(), n)
		}
	}
}

// TestOnlyTheFirstIsWoken: a change on trial wakes the stream that is asked
// first, its answer the others.
func TestOnlyTheFirstIsWoken(t *testing.T) {
	s := NewStore()
	var all []*member
	var bells []bell
	turn := func(m *member, r Request) (out []Response) {
		m.step(func(x *Session) {
			if err := x.Request(s.now(), r); err != nil {
				t.Fatal(err)
			}
			out = x.Ready(s.now())
		})
		return out
	}
	woken := func() (out []int) {
		for i, b := range bells {
			if b.rang() {
				out = append(out, i)
			}
		}
		return out
	}
	s.Publish("v", nil)
	for range 3 {
		m, b := newMember(NewSession(Limits{}))
		s.follow(m, "v", "")
		first := turn(m, Request{Type: Cluster})
		turn(m, Request{Type: Cluster, Nonce: first[0].Nonce})
		all, bells = append(all, m), append(bells, b)
	}
	s.Publish("v", []Change{makeCluster(t, "a", 1), makeCluster(t, "b", 1)})
	if got := woken(); !slices.Equal(got, []int{0}) {
		t.Fatalf("the publish woke %v", got)
	}
	out := turn(all[0], Request{Type: Listener})
	turn(all[0], Request{Type: Cluster, Nonce: out[0].Nonce})
	if got := woken(); !slices.Equal(got, []int{1, 2}) {
		t.Errorf("the answer woke %v", got)
	}
}
