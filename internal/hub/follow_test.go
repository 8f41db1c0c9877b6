package hub

import (
	"fmt"
	"log/slog"
	"testing"

	"github.com/spillway-dev/spillway/internal/eventually"
	"github.com/spillway-dev/spillway/internal/fleet"
	"github.com/spillway-dev/spillway/internal/inc"
	"github.com/spillway-dev/spillway/internal/leaf"
	"github.com/spillway-dev/spillway/internal/model"
)

// TestFollow: rows of leaf become statuses and events; counts are written with
// them, and again when they are asked for.
func TestFollow(t *testing.T) {
	f := newFakeHub()
	const edgePath = "/apis/spillway.dev/v1alpha1/edges/fra"
	f.add(euPath, object("spillway.dev/v1alpha1", "MemberCluster"))
	f.add(edgePath, object("spillway.dev/v1alpha1", "Edge"))
	f.add(webPath, object("networking.k8s.io/v1", "Ingress"))
	w := run(t, f)
	w.Open()
	g := inc.New()
	p := fleet.Declare(g)
	tables := leaf.Declare(g, p, leaf.Outputs{})
	follower := Follow(w, tables)
	g.Commit(func(tx *inc.Tx) {
		p.In.Members.Set(tx, "eu-1", model.MemberSpec{Generation: 2})
		p.In.Sources.Set(tx, "eu-1", model.Source{StaleSince: 1_000_000_000})
		p.In.Contacts.Set(tx, "eu-1", model.Contact{Reason: "Unreachable", Message: "no answer", Expiry: 2_000_000_000})
		p.In.Services.Set(tx, model.MemberService{Member: "eu-1"}, model.ServiceSpec{})
		p.In.Edges.Set(tx, "fra", model.EdgeSpec{Generation: 4, Hostnames: []string{"fra.example"}})
		p.In.Classes.Set(tx, "spillway", model.ClassSpec{})
		p.In.Roots.Set(tx, web, model.Root{Classes: "spillway"})
		p.In.Problems.Set(tx, web, model.Findings{{Object: web, Field: "spec", Reason: "Invalid", Message: "nothing"}})
	})
	eventually.True(t, "member", func() bool {
		s := at(f.get(euPath), "status")
		m, _ := s.(map[string]any)
		return m != nil && m["staleSince"] == "2001-09-09T01:46:40Z" && m["credentialExpiry"] == "2033-05-18T03:33:20Z" &&
			fmt.Sprint(m["services"], m["endpoints"], m["observedGeneration"]) == "1 0 2"
	})
	eventually.True(t, "edge", func() bool {
		return fmt.Sprint(at(f.get(edgePath), "status", "addresses")) == "[fra.example]"
	})
	eventually.True(t, "event", func() bool { return len(f.below(eventsDir)) == 1 })
	g.Commit(func(tx *inc.Tx) {
		p.In.Services.Set(tx, model.MemberService{Service: model.ServiceOf("", "b"), Member: "eu-1"}, model.ServiceSpec{})
	})
	follower.Recount()
	eventually.True(t, "counted again", func() bool { return fmt.Sprint(at(f.get(euPath), "status", "services")) == "2" })
	g.Commit(func(tx *inc.Tx) {
		p.In.Members.Delete(tx, "eu-1")
		p.In.Edges.Delete(tx, "fra")
		p.In.Roots.Delete(tx, web)
	})
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(w.statuses)+len(w.addresses) != 0 {
		t.Errorf("still wanted: %v %v", w.statuses, w.addresses)
	}
}

// TestSettled: a status that says what it should costs no request.
func TestSettled(t *testing.T) {
	w := newWriter(nil, nil, "test", budget(), slog.New(slog.DiscardHandler))
	defer w.state.queue.ShutDown()
	defer w.talk.queue.ShutDown()
	defer w.world.queue.ShutDown()
	g := inc.New()
	p := fleet.Declare(g)
	Follow(w, leaf.Declare(g, p, leaf.Outputs{}))
	publish := func(addresses ...string) {
		g.Commit(func(tx *inc.Tx) {
			p.In.Classes.Set(tx, "spillway", model.ClassSpec{})
			p.In.Roots.Set(tx, web, model.Root{Classes: "spillway", Published: model.TextsOf(addresses)})
		})
	}
	for _, c := range []struct {
		status []string
		work   bool
	}{{nil, false}, {[]string{"192.0.2.9"}, true}, {nil, false}} {
		publish(c.status...)
		if work := w.wanted(job{addresses, web}); (work != nil) != c.work {
			t.Errorf("status %v: work %t", c.status, work != nil)
		}
	}
}
