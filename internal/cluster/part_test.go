package cluster

import (
	"errors"
	"log/slog"
	"slices"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/runtime"

	"github.com/spillway-dev/spillway/api/v1alpha1"
	"github.com/spillway-dev/spillway/internal/fleet"
	"github.com/spillway-dev/spillway/internal/inc"
	"github.com/spillway-dev/spillway/internal/model"
)

func serviceIn(namespace string) runtime.Object {
	s := service("web")
	s.Namespace = namespace
	return s
}

func sliceIn(namespace string) runtime.Object {
	s := slice("web", "10.1.0.1")
	s.Namespace = namespace
	return s
}

func readsOnly(namespaces ...v1alpha1.NamespaceName) *v1alpha1.MemberCluster {
	m := memberCluster("eu-1", "eu-1")
	m.Spec.ReadNamespaces = namespaces
	return m
}

// hasOf reports whether Services and EndpointSlices are those of some namespaces.
func (r *rig) hasOf(want ...string) func() bool {
	return func() bool {
		var services, of []string
		for _, k := range r.in.Services.Keys() {
			services = append(services, k.Service.Namespace())
		}
		for _, k := range r.in.Slices.Keys() {
			of = append(of, k.Service.Namespace())
		}
		slices.Sort(services)
		slices.Sort(of)
		return slices.Equal(services, want) && slices.Equal(of, want)
	}
}

// TestReadNamespaces: with rights in some namespaces only a member is read there. What a
// checkpoint has of others goes. Where the right is missing in one, that is told, what was
// known of it stays, and the others are followed on; in all, the member is not connected.
// When the list changes, rows of those that stay are never gone.
func TestReadNamespaces(t *testing.T) {
	hub, api := fleetOf(t)
	hides := map[string]bool{}
	for _, group := range []string{"/api/v1%s/services", "/apis/discovery.k8s.io/v1%s/endpointslices"} {
		for _, n := range []string{"", "/namespaces/other", "/namespaces/web"} {
			hides[strings.Replace(group, "%s", n, 1)] = true
		}
	}
	api.do(func() { api.hides = hides })
	for _, n := range []string{"web", "other"} {
		api.apply(serviceIn(n), sliceIn(n))
	}
	hub.apply(readsOnly("web", "shop"))
	r := newRig(t, func(tx *inc.Tx, in *fleet.Inputs, _ *Tables) {
		for _, n := range []string{"other", "shop", "web"} {
			s := model.MemberService{Service: model.ServiceOf(n, "web"), Member: "eu-1"}
			in.Services.Set(tx, s, model.ServiceSpec{})
			in.Slices.Set(tx, model.SliceID{MemberService: s, Name: "web-1"}, model.Slice{})
		}
	}).watch(hub).hasty().start()

	hidden := func() string { return get(r.in.Contacts, "eu-1").Hidden }
	r.await("that of shop, and what was known of web", func() bool { return r.connected("eu-1")() && r.hasOf("shop", "web")() })
	r.await("the missing right", func() bool {
		return hidden() == "it does not allow to list and watch services in namespace web, endpointslices.discovery.k8s.io in namespace web: what is there is not known; grant it"
	})
	api.apply(slice("web", "10.1.0.1", "10.1.0.2", "10.1.0.3"))
	r.await("shop to be followed on", func() bool { return webSlice(r).Endpoints.Len() == 3 })
	hub.apply(readsOnly("web", "other"))
	r.await("no right at all", func() bool {
		c := get(r.in.Contacts, "eu-1")
		return c.Reason == v1alpha1.ReasonUnauthorized && strings.Contains(c.Message, "in any namespace of spec.readNamespaces") && r.hasOf("web")()
	})
	api.do(func() {
		for path := range hides {
			if strings.Contains(path, "/web/") {
				delete(hides, path)
			}
		}
	})
	hub.apply(readsOnly("web", "shop"))
	r.await("connected", func() bool { return r.connected("eu-1")() && hidden() == "" && r.hasOf("shop", "web")() })

	gone := 0
	r.ask(func() {
		r.in.Slices.Watch(func(cs []inc.Change[model.SliceID, model.Slice]) {
			for _, c := range cs {
				if c.New == nil && c.Key.Service.Namespace() == "shop" {
					gone++
				}
			}
		})
	})
	hub.apply(readsOnly("shop"))
	r.await("without web", func() bool { return r.connected("eu-1")() && r.hasOf("shop")() })
	api.do(func() { clear(hides) })
	hub.apply(readsOnly("other", "shop"))
	r.await("with other", r.hasOf("other", "shop"))
	hub.apply(readsOnly())
	r.await("all", r.hasOf("other", "shop", "web"))
	hub.apply(readsOnly("shop"))
	r.await("shop again", r.hasOf("shop"))
	r.ask(func() {
		if gone > 0 {
			t.Errorf("rows of shop went %d times", gone)
		}
	})
}

// TestUnseenNamespaces: a member that is new, and lets us see one of two namespaces, serves
// from that one. An object that refers to a Service in the other does not wait for it.
func TestUnseenNamespaces(t *testing.T) {
	hub, api := fleetOf(t)
	hides := map[string]bool{"/api/v1/namespaces/web/services": true, "/apis/discovery.k8s.io/v1/namespaces/web/endpointslices": true}
	api.do(func() { api.hides = hides })
	api.apply(serviceIn("web"), sliceIn("web"))
	hub.apply(readsOnly("web", "shop"))
	r := newRig(t, nil).watch(hub).hasty().start()
	r.await("that of shop", func() bool { return r.connected("eu-1")() && r.hasOf("shop")() })

	m := r.members.at("eu-1")
	if open, _ := m.ask(model.ServiceOf("web", "late"), 1, false); open {
		t.Error("it is asked about what it does not let us see")
	}
	if open, here := m.ask(model.ServiceOf("shop", "late"), 1, false); open && !here {
		t.Error("what it lets us see can't be asked about")
	}
	api.do(func() { clear(hides) })
	r.await("the other, when it may", r.hasOf("shop", "web"))
}

func namedIn(namespace, n string) any {
	s := service(n)
	s.Namespace = namespace
	return s
}

// TestLimitsOfParts: namespaces share the limits of the member, in first lists and after.
func TestLimitsOfParts(t *testing.T) {
	in := inputs(inc.New())
	m := newMember("eu-1", in, NewMailbox(), slog.New(slog.DiscardHandler), usual)
	m.services.limits = limits{objects: 2}
	m.restrict("a,b")
	var over []string
	of := func(part string) share {
		return share{m.services, part, func(error) { over = append(over, part) }}
	}
	a, b := of("a"), of("b")
	m.services.begin("a")
	if err := a.Replace([]any{namedIn("a", "1"), namedIn("a", "2")}, "1"); err != nil || len(over) > 0 || !m.services.complete("a") {
		t.Fatal(err, over)
	}
	m.services.begin("b")
	for range 2 { // what is too much is left
		_ = b.Replace([]any{namedIn("b", "1")}, "1")
		if over[0] != "b" || m.services.complete("b") || m.services.known.load.objects != 2 {
			t.Fatal(over, m.services.known.load)
		}
	}
	over = nil
	_ = a.Add(namedIn("a", "3"))
	if !slices.Equal(over, []string{"a"}) {
		t.Fatal(over)
	}
	_ = a.Replace([]any{namedIn("a", "1")}, "2")
	m.services.begin("b")
	if err := b.Replace([]any{namedIn("b", "1")}, "2"); err != nil || !m.services.complete("b") || m.services.known.load.objects != 2 {
		t.Fatal(err, m.services.known.load)
	}
	m.restrict("b")
	if m.services.known.load.objects != 1 || !m.services.complete("b") {
		t.Fatal(m.services.known.load)
	}
}

// TestListsOfParts: first lists that are under way together are within the limits together,
// also where each lists anew what is known; of a list that broke, or is over a limit,
// nothing counts.
func TestListsOfParts(t *testing.T) {
	in := inputs(inc.New())
	m := newMember("eu-1", in, NewMailbox(), slog.New(slog.DiscardHandler), usual)
	s := m.services
	s.limits = limits{objects: 4}
	m.restrict("a,b")
	a, b := share{store: s, part: "a"}, share{store: s, part: "b"}
	list := func(of share, names ...string) (out []any, err error) {
		for _, n := range names {
			d, err := of.digest(namedIn(of.part, n))
			if err != nil {
				return nil, err
			}
			out = append(out, d)
		}
		return out, nil
	}
	come := func(of share, names ...string) error {
		_, err := list(of, names...)
		return err
	}
	s.begin("a")
	s.begin("b")
	if err := errors.Join(come(a, "1", "2"), come(b, "1", "2")); err != nil {
		t.Fatal(err)
	}
	if err := come(b, "3"); limitOf(err) == nil || !s.spoiled("b") || s.spoiled("a") {
		t.Fatalf("two lists pass the limit together: %v", err)
	}
	if err := come(a, "3", "4"); err != nil {
		t.Fatalf("what is not taken counts: %v", err)
	}
	s.broke("a")
	s.begin("a")
	s.begin("b")
	for _, of := range []share{a, b} {
		objects, err := list(of, "1", "2")
		if err != nil {
			t.Fatalf("a list that broke counts: %v", err)
		}
		if err := of.Replace(objects, "1"); err != nil || !s.complete(of.part) {
			t.Fatal(err)
		}
	}
	s.begin("a")
	s.begin("b")
	if err := errors.Join(come(a, "1", "2"), come(b, "1", "2")); err != nil {
		t.Fatalf("what is listed anew counts twice: %v", err)
	}
	if err := come(b, "3"); limitOf(err) == nil {
		t.Fatal("no limit")
	}
	if err := s.took("a", listLimit); err != nil {
		t.Fatal(err)
	}
	if err := s.took("b", 1); limitOf(err) == nil {
		t.Fatal("no limit of bytes of two lists together")
	}
	s.broke("a")
	if err := s.took("b", listLimit-1); err != nil {
		t.Fatal(err)
	}
	s.end("b")
	if s.add(&seen{n: name{"b", "3"}}) == nil {
		t.Fatal("an object passes the limit by itself")
	}
}

// TestListOfALeftPart: what a connection still brings of a namespace that is read no more,
// or of all while some are read, is not taken.
func TestListOfALeftPart(t *testing.T) {
	in := inputs(inc.New())
	m := newMember("eu-1", in, NewMailbox(), slog.New(slog.DiscardHandler), usual)
	s := m.services
	all, b := s.all(), share{store: s, part: "b"}
	m.restrict("a,b")
	m.restrict("a")
	s.begin("b")
	if err := errors.Join(b.Replace([]any{namedIn("b", "1")}, "1"), b.Add(namedIn("b", "2"))); err != nil || s.known.load.objects != 0 || s.complete("b") {
		t.Errorf("%v, %+v", err, s.known.load)
	}
	if err := errors.Join(all.Replace([]any{namedIn("a", "1"), namedIn("b", "1")}, "2"), all.Add(namedIn("b", "2"))); err != nil || s.known.load.objects != 1 || s.complete("") || s.complete("a") {
		t.Errorf("%v, %+v", err, s.known.load)
	}
	a := share{store: s, part: "a"}
	if err := errors.Join(a.Add(namedIn("c", "1")), a.Replace([]any{namedIn("a", "1"), namedIn("c", "1")}, "3")); err != nil || s.known.load.objects != 1 {
		t.Errorf("%v, %+v", err, s.known.load)
	}
	m.slices.veil("a", true)
	m.slices.veil("b", true)
	if web := model.ServiceOf("a", "web"); m.slices.ask(web, 1, false) || !m.slices.ask(model.ServiceOf("b", "web"), 1, false) {
		t.Error("what is veiled is that of a")
	}
	m.restrict("")
	if s.complete("") || !m.slices.ask(model.ServiceOf("a", "web"), 1, false) {
		t.Error("that one was read says something of all")
	}
}
