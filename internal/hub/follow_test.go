package hub

import (
	"fmt"
	"log/slog"
	"net/netip"
	"strings"
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

// TestLeave: a member is held back while it is the last that serves, unless it
// is forced; one that nobody needs goes.
func TestLeave(t *testing.T) {
	f := newFakeHub()
	const usPath = "/apis/spillway.dev/v1alpha1/memberclusters/us-1"
	for _, p := range []string{euPath, usPath} {
		f.add(p, object("spillway.dev/v1alpha1", "MemberCluster"))
	}
	w := run(t, f)
	w.Open()
	g := inc.New()
	p := fleet.Declare(g)
	follower := Follow(w, leaf.Declare(g, p, leaf.Outputs{}))
	follower.Leave(p)
	guarded := func(path string) bool {
		return fmt.Sprint(at(f.get(path), "metadata", "finalizers")) == "[spillway.dev/member]"
	}
	service := model.ServiceOf("shop", "web")
	backend := model.BackendKey{Service: service, Port: model.PortRef{Number: 80}}.Backend()
	serve := func(tx *inc.Tx, m model.Member) {
		id := model.MemberService{Service: service, Member: m}
		p.In.Services.Set(tx, id, model.ServiceSpec{Ports: []model.ServicePort{{Number: 80, Protocol: "TCP"}}})
		p.In.Slices.Set(tx, model.SliceID{MemberService: id, Name: "web"}, model.Slice{
			Ports:     []model.SlicePort{{Number: 8080}},
			Endpoints: []model.Endpoint{{Addr: netip.MustParseAddr("10.1.0.1")}},
		})
		p.In.Sources.Set(tx, m, model.Source{Connected: true})
	}
	g.Commit(func(tx *inc.Tx) {
		p.In.Edges.Set(tx, "fra", model.EdgeSpec{Networks: []string{"default"}})
		p.In.Classes.Set(tx, "spillway", model.ClassSpec{})
		p.In.Roots.Set(tx, web, model.Root{Classes: "spillway", Default: &backend})
		p.In.Members.Set(tx, "eu-1", model.MemberSpec{Networks: []string{"default"}})
		p.In.Members.Set(tx, "us-1", model.MemberSpec{Networks: []string{"default"}})
		serve(tx, "eu-1")
	})
	eventually.True(t, "guarded", func() bool { return guarded(euPath) && guarded(usPath) })
	leave := func(m model.Member, forced bool) {
		g.Commit(func(tx *inc.Tx) {
			p.In.Members.Set(tx, m, model.MemberSpec{Networks: []string{"default"}, Leaving: true, Forced: forced})
		})
		follower.Recount()
	}
	// Nothing is decided while rows are missing.
	g.Commit(func(tx *inc.Tx) {
		p.In.Members.Set(tx, "ap-1", model.MemberSpec{Networks: []string{"default"}, Seen: true})
	})
	leave("us-1", false)
	w.mu.Lock()
	if !w.guards[memberObject("us-1")] {
		t.Error("let go while a member's rows are missing")
	}
	w.mu.Unlock()
	g.Commit(func(tx *inc.Tx) { p.In.Members.Delete(tx, "ap-1") })
	leave("us-1", false)
	eventually.True(t, "the idle one goes", func() bool { return !guarded(usPath) })
	leave("eu-1", false)
	eventually.True(t, "a finding", func() bool {
		for _, path := range f.below("/apis/events.k8s.io/v1/namespaces/default/events/") {
			if at(f.get(path), "reason") == "LastSite" && strings.Contains(at(f.get(path), "note").(string), "shop/web/80") {
				return true
			}
		}
		return false
	})
	if !guarded(euPath) {
		t.Error("the last site was let go")
	}
	leave("eu-1", true)
	eventually.True(t, "forced", func() bool { return !guarded(euPath) })
	// One whose rows are missing goes only where it is forced to, and then it does.
	const apPath = "/apis/spillway.dev/v1alpha1/memberclusters/ap-1"
	f.add(apPath, object("spillway.dev/v1alpha1", "MemberCluster"))
	unread := func(spec model.MemberSpec) {
		spec.Networks, spec.Seen = []string{"default"}, true
		g.Commit(func(tx *inc.Tx) { p.In.Members.Set(tx, "ap-1", spec) })
		follower.Recount()
	}
	unread(model.MemberSpec{})
	eventually.True(t, "guarded", func() bool { return guarded(apPath) })
	unread(model.MemberSpec{Leaving: true})
	w.mu.Lock()
	if !w.guards[memberObject("ap-1")] {
		t.Error("let go though nobody knows what it has")
	}
	w.mu.Unlock()
	unread(model.MemberSpec{Leaving: true, Forced: true})
	eventually.True(t, "forced", func() bool { return !guarded(apPath) })
}
