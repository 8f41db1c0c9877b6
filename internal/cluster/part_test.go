package cluster

import (
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
// checkpoint has of others goes. Where the right is missing in one, that is told, and the
// others are followed on. When the list changes, rows of those that stay are never gone.
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
		for _, n := range []string{"other", "shop"} {
			s := model.MemberService{Service: model.ServiceOf(n, "web"), Member: "eu-1"}
			in.Services.Set(tx, s, model.ServiceSpec{})
			in.Slices.Set(tx, model.SliceID{MemberService: s, Name: "web-1"}, model.Slice{})
		}
	}).watch(hub).hasty().start()

	r.await("that of shop, and of no other", r.hasOf("shop"))
	r.await("the missing right", func() bool {
		c := get(r.in.Contacts, "eu-1")
		return c.Reason == v1alpha1.ReasonUnauthorized && strings.Contains(c.Message, "in namespace web, which spec.readNamespaces names")
	})
	api.apply(slice("web", "10.1.0.1", "10.1.0.2", "10.1.0.3"))
	r.await("shop to be followed on", func() bool { return webSlice(r).Endpoints.Len() == 3 })
	api.do(func() {
		for path := range hides {
			if strings.Contains(path, "/web/") {
				delete(hides, path)
			}
		}
	})
	r.await("connected", func() bool { return r.connected("eu-1")() && r.hasOf("shop", "web")() })

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

// TestLimitsOfParts: namespaces share the limits of the member, in first lists and after.
func TestLimitsOfParts(t *testing.T) {
	in := inputs(inc.New())
	m := newMember("eu-1", in, NewMailbox(), slog.New(slog.DiscardHandler), usual)
	m.services.limits = limits{objects: 2}
	m.restrict("a,b")
	var over []string
	m.services.overs = map[string]func(error){
		"a": func(error) { over = append(over, "a") },
		"b": func(error) { over = append(over, "b") },
	}
	named := func(namespace, n string) any {
		s := service(n)
		s.Namespace = namespace
		return s
	}
	a, b := share{m.services, "a"}, share{m.services, "b"}
	m.services.begin("a")
	if err := a.Replace([]any{named("a", "1"), named("a", "2")}, "1"); err != nil || len(over) > 0 || !m.services.complete("a") {
		t.Fatal(err, over)
	}
	m.services.begin("b")
	for range 2 { // what is too much is left
		_ = b.Replace([]any{named("b", "1")}, "1")
		if !slices.Equal(over, []string{"b"}) || m.services.complete("b") || m.services.known.load.objects != 2 {
			t.Fatal(over, m.services.known.load)
		}
	}
	_ = a.Add(named("a", "3"))
	if !slices.Equal(over, []string{"b", "a"}) {
		t.Fatal(over)
	}
	_ = a.Replace([]any{named("a", "1")}, "2")
	m.services.begin("b")
	if err := b.Replace([]any{named("b", "1"), named("c", "1")}, "2"); err != nil || !m.services.complete("b") || m.services.known.load.objects != 2 {
		t.Fatal(err, m.services.known.load)
	}
	m.restrict("b")
	if m.services.known.load.objects != 1 || !m.services.complete("b") {
		t.Fatal(m.services.known.load)
	}
}
