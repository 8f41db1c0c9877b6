package app

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"

	"github.com/spillway-dev/spillway/internal/cluster"
	"github.com/spillway-dev/spillway/internal/hub"
	"github.com/spillway-dev/spillway/internal/inc"
	"github.com/spillway-dev/spillway/internal/leaf"
	"github.com/spillway-dev/spillway/internal/model"
	"github.com/spillway-dev/spillway/internal/syncer"
)

// TestBecame: what a syncer tells becomes the state of a leaf, and what it does not know
// leaves that as it was.
func TestBecame(t *testing.T) {
	at := func(a ...string) model.Texts { return model.TextsOf(a) }
	there := model.LeafState{Reason: "Applied", There: true, Addresses: at("192.0.2.1")}
	status := []byte(`{"loadBalancer": {"ingress": [{"ip": "192.0.2.2"}, {"hostname": "LB.example"}]}}`)
	for _, c := range []struct {
		name string
		old  *model.LeafState
		told syncer.State
		want *model.LeafState
	}{
		{"nothing is known yet", nil, syncer.State{Reason: syncer.Pending, Unknown: true}, nil},
		{"nothing is known after a restart", &there, syncer.State{Reason: syncer.Pending, Unknown: true}, &there},
		{"the API fails after a restart", &there, syncer.State{Reason: syncer.Failing, Unknown: true, Message: "no route"},
			&model.LeafState{Reason: "Failing", Message: "no route", There: true, Addresses: at("192.0.2.1")}},
		{"it is there", nil, syncer.State{Reason: syncer.Applied, UID: "x", Status: status},
			&model.LeafState{Reason: "Applied", There: true, Addresses: at("192.0.2.2", "lb.example")}},
		{"it is edited", &there, syncer.State{Reason: syncer.Pending, UID: "x", Status: status},
			&model.LeafState{Reason: "Applied", There: true, Addresses: at("192.0.2.2", "lb.example")}},
		{"it is there, and what is new is refused", &there, syncer.State{Reason: syncer.Refused, UID: "x", Message: "quota"},
			&model.LeafState{Reason: "Refused", Message: "quota", There: true}},
		{"somebody deleted it, and it is refused", &there, syncer.State{Reason: syncer.Refused, Message: "quota"},
			&model.LeafState{Reason: "Refused", Message: "quota"}},
		{"it is gone", &there, syncer.State{Reason: syncer.Gone}, nil},
		{"a status that can't be read", &there, syncer.State{Reason: syncer.Applied, UID: "x", Status: []byte(`{"loadBalancer": 7}`)},
			&model.LeafState{Reason: "Applied", There: true}},
		{"others ask for its host", &there, syncer.State{Reason: syncer.Applied, UID: "x", Claimed: []model.LeafClaim{{Host: "a", Kind: "Ingress", Namespace: "n", Name: "x"}}},
			&model.LeafState{Reason: "Applied", There: true, Claimed: at("a Ingress n/x")}},
		{"it is not known whether others do", &model.LeafState{There: true, Claimed: at("a Ingress n/x")}, syncer.State{Reason: syncer.Applied, UID: "x", Unclear: true},
			&model.LeafState{Reason: "Applied", There: true, Claimed: at("a Ingress n/x")}},
	} {
		var old model.LeafState
		if c.old != nil {
			old = *c.old
		}
		got, is := became("Ingress", old, c.old != nil, c.told)
		if is != (c.want != nil) || is && got != *c.want {
			t.Errorf("%s: %v %+v, want %+v", c.name, is, got, c.want)
		}
	}
}

// leafRig is the program with its leaves, without connections.
type leafRig struct {
	*server
	hub     string
	guarded *guarded
}

// guarded is what is asked for of MemberClusters.
type guarded struct{ asked []string }

func (g *guarded) note(what ...any) {
	g.asked = append(g.asked, strings.TrimSpace(fmt.Sprintln(what...)))
}

func (g *guarded) GuardLeaves(m model.Member)   { g.note("guard", m) }
func (g *guarded) ReleaseLeaves(m model.Member) { g.note("release", m) }
func (g *guarded) Bury(m model.Member, at hub.Grave) {
	g.note("bury", m, at.Cluster, at.Hub, at.Leaves)
}
func (g *guarded) ForgetLeaves(model.Member)  {}
func (g *guarded) Unbury(k model.TombstoneID) { g.note("unbury", k) }

// said checks what was asked for since the last time.
func (g *guarded) said(t *testing.T, want ...string) {
	t.Helper()
	if !slices.Equal(g.asked, want) {
		t.Errorf("asked for %q, want %q", g.asked, want)
	}
	g.asked = nil
}

func (g *guarded) none(t *testing.T) { t.Helper(); g.said(t) }

func newLeafRig(t *testing.T) *leafRig {
	s := &server{log: slog.New(slog.DiscardHandler), metrics: prometheus.NewRegistry(), now: time.Now}
	s.assemble()
	r := &leafRig{s, "hub", &guarded{}}
	l := s.leaves
	l.guards = r.guarded
	l.gates = func(cluster.LeafyGateways) {}
	l.leafy, l.hub = func(cluster.LeafyClasses) {}, func() string { return r.hub }
	l.start = func(_ model.Member, run *leafRun) {
		var err error
		o := syncer.Options{Hub: run.hub, Client: dynamic.NewForConfigOrDie(&rest.Config{}), Kinds: run.resources(), Report: run.report}
		if run.syncer, err = syncer.New(o); err != nil {
			t.Fatal(err)
		}
		over, end := context.WithCancel(context.Background())
		end()
		run.cancel = func() { run.syncer.Run(over) } // which ends what it holds
	}
	t.Cleanup(func() {
		for _, run := range l.runs {
			run.end()
		}
	})
	return r
}

// commit commits, and what was put meanwhile after it.
func (r *leafRig) commit(f func(*inc.Tx)) {
	r.graph.Commit(f)
	r.leaves.flush(true)
	for r.mail.Len() > 0 {
		r.graph.Commit(func(tx *inc.Tx) {
			for _, w := range r.mail.Take() {
				w(tx)
			}
		})
		r.leaves.flush(true)
	}
}

// TestWordsOfLeaves: what owners are told of is called as the syncer calls it.
func TestWordsOfLeaves(t *testing.T) {
	for word, says := range map[string]syncer.Reason{
		model.LeafRefused: syncer.Refused, model.LeafForeign: syncer.Foreign, model.LeafOfAnotherHub: syncer.OfAnotherHub,
		model.LeafContested: syncer.Contested, model.LeafNotServed: syncer.NotServed,
	} {
		if word != string(says) {
			t.Errorf("%s is called %s by the syncer", word, says)
		}
	}
}

// TestRunsOfLeaves: who has no class that members serve has no syncers. Others have one for
// each connection, and it knows all that is wanted once the hub and the member are read.
func TestRunsOfLeaves(t *testing.T) {
	r := newLeafRig(t)
	in := &r.prog.In
	id := model.LeafID{Member: "eu-1", Root: model.Object{Kind: "Ingress", Namespace: "shop", Name: "web"}}
	is := func(what string, runs int, complete bool) {
		t.Helper()
		run := r.leaves.runs["eu-1"]
		if len(r.leaves.runs) != runs || complete != (run != nil && run.complete) {
			t.Errorf("%s: %d runs, want %d; complete: want %v", what, len(r.leaves.runs), runs, complete)
		}
	}
	r.leaves.Engaged("eu-1", &cluster.Way{})
	r.leaves.listed = true
	r.commit(func(tx *inc.Tx) { in.Members.Set(tx, "eu-1", model.MemberSpec{}) })
	is("nobody needs it", 0, false)
	r.guarded.none(t)
	r.leaves.listed = false
	r.commit(func(tx *inc.Tx) {
		in.Configs.Set(tx, "c", model.ConfigSpec{Leaf: &model.LeafSpec{}})
		in.Classes.Set(tx, "members", model.ClassSpec{Config: "c"})
		in.Roots.Set(tx, id.Root, model.Root{Classes: "members"})
	})
	is("a class needs it, and the hub is not read", 0, false)
	r.leaves.listed = true
	r.commit(func(*inc.Tx) {})
	is("the hub is read, and would not remember that there are leaves", 0, false)
	r.guarded.said(t, "guard eu-1")
	r.commit(func(tx *inc.Tx) { in.Members.Set(tx, "eu-1", model.MemberSpec{Guarded: true}) })
	is("it does, and the member is not read", 1, false)
	r.commit(func(tx *inc.Tx) { in.Sources.Set(tx, "eu-1", model.Source{Connected: true}) })
	is("a root is not read in full", 1, false)
	r.commit(func(tx *inc.Tx) { in.Manifests.Set(tx, id.Root, model.Manifest{UID: "u", Body: "{}"}) })
	is("all is read", 1, true)
	r.hub = "another"
	r.leaves.Engaged("eu-1", &cluster.Way{})
	r.commit(func(tx *inc.Tx) { in.Sources.Set(tx, "eu-1", model.Source{StaleSince: 1}) })
	is("another hub, and the member is away", 1, false)
	run := r.leaves.runs["eu-1"]
	if run.hub != "another" {
		t.Errorf("the run is of hub %s", run.hub)
	}
	run.want(id, nil)
	run.report(keyIn(id, ""), syncer.State{Reason: syncer.Waiting, UID: "x"})
	r.commit(func(*inc.Tx) {})
	if in.LeafStates.Len() != 1 || in.LeavesWaiting.Len() != 1 {
		t.Errorf("%d states, %d members wait", in.LeafStates.Len(), in.LeavesWaiting.Len())
	}
	r.commit(func(tx *inc.Tx) { in.Configs.Delete(tx, "c") })
	is("leaves are left", 1, false)
	r.leaves.Ended("eu-1")
	r.leaves.Left("eu-1")
	r.commit(func(tx *inc.Tx) { in.Members.Delete(tx, "eu-1") })
	is("it has left", 0, false)
	if in.LeafStates.Len() != 0 || in.LeavesWaiting.Len() != 0 {
		t.Errorf("%d states, %d members wait, of none", in.LeafStates.Len(), in.LeavesWaiting.Len())
	}
	run.report(keyIn(id, ""), syncer.State{Reason: syncer.Applied, UID: "x"})
	r.commit(func(*inc.Tx) {})
	if in.LeafStates.Len() != 0 {
		t.Error("a run that is over was heard")
	}
}

// TestKindsOfLeaves: a member is asked for the kinds of which there is a class, and for
// further ones once it should have a leaf of them; then a run begins anew.
func TestKindsOfLeaves(t *testing.T) {
	r := newLeafRig(t)
	in := &r.prog.In
	r.leaves.Engaged("eu-1", &cluster.Way{})
	r.leaves.listed = true
	is := func(what, want string) {
		t.Helper()
		got := "none"
		if run := r.leaves.runs["eu-1"]; run != nil {
			got = fmt.Sprint(run.kinds)
		}
		if got != want {
			t.Errorf("%s: %s, want %s", what, got, want)
		}
	}
	r.commit(func(tx *inc.Tx) { in.Members.Set(tx, "eu-1", model.MemberSpec{}) })
	is("no class", "none")
	r.commit(func(tx *inc.Tx) {
		in.Members.Set(tx, "eu-1", model.MemberSpec{Guarded: true})
		in.Configs.Set(tx, "c", model.ConfigSpec{Leaf: &model.LeafSpec{Gateways: "x"}})
		in.Classes.Set(tx, "members", model.ClassSpec{Config: "c"})
	})
	is("an IngressClass", "[Ingress]")
	before := r.leaves.runs["eu-1"]
	r.commit(func(tx *inc.Tx) { in.GatewayClasses.Set(tx, "members", model.GatewayClassSpec{Config: "c"}) })
	is("a GatewayClass", "[GRPCRoute Gateway HTTPRoute Ingress ListenerSet]")
	if r.leaves.runs["eu-1"] == before {
		t.Error("the run is the one before")
	}
	before = r.leaves.runs["eu-1"]
	r.commit(func(tx *inc.Tx) {
		in.Gateways.Set(tx, model.GatewayID{Namespace: "a", Name: "b"}, model.GatewaySpec{Class: "members"})
	})
	if r.leaves.runs["eu-1"] != before {
		t.Error("a Gateway more began a run")
	}
	if !r.leaves.gateway.Gateways[model.GatewayID{Namespace: "a", Name: "b"}] {
		t.Error("the Gateway is not read in full")
	}
	id := model.LeafID{Member: "eu-1", Root: model.Object{Kind: "TCPRoute", Namespace: "a", Name: "b"}}
	r.commit(func(tx *inc.Tx) { in.LeafStates.Set(tx, id, model.LeafState{There: true}) })
	is("a leaf of a TCPRoute", "[GRPCRoute Gateway HTTPRoute Ingress ListenerSet TCPRoute]")
	r.commit(func(tx *inc.Tx) { in.Classes.Delete(tx, "members") })
	is("no IngressClass", "[GRPCRoute Gateway HTTPRoute Ingress ListenerSet TCPRoute]")
	if got, want := fmt.Sprint(r.leaves.unlooked(r.leaves.runs["eu-1"])), "[BackendTLSPolicy ReferenceGrant Route TLSRoute UDPRoute]"; got != want {
		t.Errorf("the member is to be asked for %s, want %s", got, want)
	}
	r.leaves.lookedAt(searched{"eu-1", "hub", "UDPRoute"}, true)
	r.leaves.lookedAt(searched{"eu-1", "hub", "TLSRoute"}, false)
	r.commit(func(*inc.Tx) {})
	is("a UDPRoute that a lost checkpoint left", "[GRPCRoute Gateway HTTPRoute Ingress ListenerSet TCPRoute UDPRoute]")
	if got, want := fmt.Sprint(r.leaves.unlooked(r.leaves.runs["eu-1"])), "[BackendTLSPolicy ReferenceGrant Route]"; got != want {
		t.Errorf("the member is to be asked for %s, want %s", got, want)
	}
}

// TestALeafThatMoves: what was told of a leaf stays while there is none where it moves to.
func TestALeafThatMoves(t *testing.T) {
	k := model.LeafID{Member: "eu-1", Root: model.Object{Kind: "Ingress", Namespace: "shop", Name: "web"}}
	was := model.LeafState{Reason: "Applied", There: true, Addresses: model.TextsOf([]string{"192.0.2.1"})}
	now, is := becameIn(k, "team-shop", was, true, syncer.State{Reason: syncer.Refused, Message: "no"})
	if !is || !now.There || now.In != "" || now.Addresses != was.Addresses || now.Reason != "Refused" {
		t.Errorf("refused: %+v", now)
	}
	now, _ = becameIn(k, "team-shop", now, true, syncer.State{Reason: syncer.Applied, UID: "x", Status: []byte(`{"loadBalancer": {"ingress": [{"ip": "192.0.2.2"}]}}`)})
	if !now.There || now.In != "team-shop" || now.Addresses != model.TextsOf([]string{"192.0.2.2"}) || now.Reason != "Applied" {
		t.Errorf("applied: %+v", now)
	}
	if now, _ = becameIn(k, "shop", now, true, syncer.State{Reason: syncer.Pending}); !now.There || now.In != "team-shop" {
		t.Errorf("back: %+v", now)
	}
	if now, _ = becameIn(k, "shop", now, true, syncer.State{Reason: syncer.Applied, UID: "y"}); now.In != "" || now.Addresses.Len() > 0 {
		t.Errorf("it is back: %+v", now)
	}
	if _, is = becameIn(k, "shop", now, true, syncer.State{Reason: syncer.Gone}); is {
		t.Error("it is there after it has gone")
	}
}

// TestPlacesOfLeaves: a leaf is wanted where its row says, and the one that it was is not;
// what nobody wants after a restart is where it was told of.
func TestPlacesOfLeaves(t *testing.T) {
	r := newKeyRig(t)
	run := r.run()
	run.want(r.id, &leaf.Leaf{Namespace: "team-shop", UID: "u", Body: "{}"})
	there, here := keyIn(r.id, "team-shop"), keyIn(r.id, "")
	if run.at[r.id] != there || run.ids[there] != r.id || run.ids[here] != (model.LeafID{}) || !run.key.moving["shop"][here] {
		t.Errorf("it moves: %v, %v, %v", run.at, run.ids, run.key.moving)
	}
	run.report(here, syncer.State{Reason: syncer.Gone})
	if run.key.moving["shop"][here] || run.at[r.id] != there {
		t.Errorf("the old one is gone: %v, %v", run.at, run.key.moving)
	}
	gone := model.LeafID{Member: "eu-1", Root: model.Object{Kind: "Ingress", Namespace: "shop", Name: "gone"}}
	r.commit(func(tx *inc.Tx) { r.prog.In.LeafStates.Set(tx, gone, model.LeafState{There: true, In: "team-shop"}) })
	run.want(gone, nil)
	if run.ids[keyIn(gone, "team-shop")] != gone {
		t.Errorf("after a restart: %v", run.ids)
	}
}
