package cluster

import (
	"log/slog"
	"testing"
	"testing/synctest"
	"time"

	certificatesv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"
	"sigs.k8s.io/gateway-api/pkg/consts"

	"github.com/spillway-dev/spillway/api/v1alpha1"
	"github.com/spillway-dev/spillway/internal/fleet"
	"github.com/spillway-dev/spillway/internal/inc"
	"github.com/spillway-dev/spillway/internal/model"
)

func gatewayClass(name string, controller gatewayv1.GatewayController) *gatewayv1.GatewayClass {
	return &gatewayv1.GatewayClass{ObjectMeta: at("", name), Spec: gatewayv1.GatewayClassSpec{ControllerName: controller}}
}

func gateway(name string) *gatewayv1.Gateway {
	return &gatewayv1.Gateway{ObjectMeta: at("shop", name), Spec: gatewayv1.GatewaySpec{
		GatewayClassName: "spillway", Listeners: []gatewayv1.Listener{{Name: "http", Port: 80, Protocol: gatewayv1.HTTPProtocolType}},
	}}
}

func httpRoute(name, host, service string) *gatewayv1.HTTPRoute {
	port := int32(80)
	o := &gatewayv1.HTTPRoute{ObjectMeta: at("shop", name)}
	o.Spec.ParentRefs = []gatewayv1.ParentReference{{Name: "web"}}
	o.Spec.Hostnames = []gatewayv1.Hostname{gatewayv1.Hostname(host)}
	to := gatewayv1.BackendRef{BackendObjectReference: gatewayv1.BackendObjectReference{Name: gatewayv1.ObjectName(service), Port: &port}}
	o.Spec.Rules = []gatewayv1.HTTPRouteRule{{BackendRefs: []gatewayv1.HTTPBackendRef{{BackendRef: to}}}}
	return o
}

func listenerSet(name string) *gatewayv1.ListenerSet {
	return &gatewayv1.ListenerSet{ObjectMeta: at("shop", name), Spec: gatewayv1.ListenerSetSpec{
		ParentRef: gatewayv1.ParentGatewayReference{Name: "web"}, Listeners: []gatewayv1.ListenerEntry{{Name: "http", Port: 80, Protocol: gatewayv1.HTTPProtocolType}},
	}}
}

var routeID = model.Object{Kind: "HTTPRoute", Namespace: "shop", Name: "web"}

func namespace(name, team string) *corev1.Namespace {
	o := &corev1.Namespace{ObjectMeta: at("", name)}
	o.Labels = map[string]string{"team": team}
	return o
}

// definition is the metadata of the definition of GatewayClasses.
func definition(version string) *metav1.PartialObjectMetadata {
	o := &metav1.PartialObjectMetadata{ObjectMeta: at("", model.GatewayDefinition("").Name)}
	o.Annotations = map[string]string{consts.BundleVersionAnnotation: version, consts.ChannelAnnotation: "standard"}
	return o
}

// absentKinds is how many kinds the hub does not have.
func absentKinds(h *Hub) int {
	n := 0
	for _, s := range h.sources {
		s.mu.Lock()
		if s.absent {
			n++
		}
		s.mu.Unlock()
	}
	return n
}

// TestGatewayKinds: the kinds of the Gateway API and namespaces reach their tables,
// edits and deletions follow, also where only parents or rules of a route change.
func TestGatewayKinds(t *testing.T) {
	api := newFakeAPI(t)
	bad := gateway("bad")
	bad.Spec.Listeners[0].Protocol = "example.org/quic"
	api.apply(
		gatewayClass("spillway", v1alpha1.ControllerGateway), gatewayClass("other", "example.org/other"), gateway("web"), bad, listenerSet("more"),
		httpRoute("web", "shop.example", "web"), ingress("web", "web"), namespace("shop", "web"),
		&corev1.ConfigMap{ObjectMeta: at("shop", "ca"), Data: map[string]string{"ca.crt": "none"}}, &corev1.ConfigMap{ObjectMeta: at("shop", "settings")},
		&certificatesv1.ClusterTrustBundle{ObjectMeta: at("", "roots"), Spec: certificatesv1.ClusterTrustBundleSpec{TrustBundle: "none"}},
		&gatewayv1.ReferenceGrant{ObjectMeta: at("shop", "grant"), Spec: gatewayv1.ReferenceGrantSpec{To: []gatewayv1.ReferenceGrantTo{{Kind: "Service"}}}},
	)
	r := newRig(t, nil).watch(api)
	seen := make(chan string, 100)
	r.hub.Seen = func(id model.Object, _ metav1.Object) { seen <- id.Kind }
	r.start()
	r.await("known", func() bool { return r.known })
	r.ask(func() {
		for table, n := range map[string][2]int{
			"classes": {r.in.GatewayClasses.Len(), 1}, "gateways": {r.in.Gateways.Len(), 2}, "sets": {r.in.ListenerSets.Len(), 1}, "roots": {r.in.Roots.Len(), 2}, "rules": {r.in.Rules.Len(), 1},
			"grants": {r.in.Grants.Len(), 1}, "namespaces": {r.in.Namespaces.Len(), 1}, "bundles": {r.in.Bundles.Len(), 2}, "problems": {r.in.Problems.Len(), 1},
		} {
			if n[0] != n[1] {
				t.Errorf("%s has %d rows, want %d", table, n[0], n[1])
			}
		}
	})
	kinds := map[string]int{}
	for len(seen) > 0 {
		kinds[<-seen]++
	}
	if kinds["GatewayClass"] != 2 || kinds["Gateway"] != 2 || kinds["ListenerSet"] != 1 || kinds["HTTPRoute"] != 1 || kinds["Ingress"] != 1 {
		t.Errorf("told of %v", kinds)
	}
	rule := func(host model.Host) model.Rules { return get(r.in.Rules, model.RulesID{Root: routeID, Host: host}) }
	route := httpRoute("web", "shop.example", "other")
	api.apply(route)
	r.await("another backend", func() bool { return rule("shop.example")[0].Backends[0].Backend.Service().Name() == "other" })
	route.Spec.ParentRefs[0].Name = "another"
	api.apply(route)
	r.await("another parent", func() bool { return get(r.in.Roots, routeID).Route.Parents[0].Name == "another" })
	route.Status.Parents = []gatewayv1.RouteParentStatus{{ParentRef: route.Spec.ParentRefs[0], ControllerName: v1alpha1.ControllerGateway}}
	api.apply(route)
	r.await("what we said", func() bool { return get(r.in.Roots, routeID).Ours })
	api.apply(namespace("shop", "all"))
	r.await("another label", func() bool { return get(r.in.Namespaces, model.NamespaceID{Name: "shop"})["team"] == "all" })
	api.remove(route)
	api.remove(gateway("web"))
	api.remove(listenerSet("more"))
	r.await("deletions", func() bool {
		return r.in.Roots.Len() == 1 && r.in.Rules.Len() == 0 && r.in.Gateways.Len() == 1 && r.in.ListenerSets.Len() == 0
	})
}

// TestGatewayCheckpoint: rows of a checkpoint go with the list of their own kind,
// and no other.
func TestGatewayCheckpoint(t *testing.T) {
	gone := model.Object{Kind: "HTTPRoute", Namespace: "shop", Name: "gone"}
	load := func(tx *inc.Tx, in *fleet.Inputs, _ *Tables) {
		in.Roots.Set(tx, gone, model.Root{Route: &model.RouteSpec{}})
		in.Rules.Set(tx, model.RulesID{Root: gone, Host: "shop.example"}, model.Rules{{Name: "a"}})
		in.Roots.Set(tx, rootID("gone"), model.Root{Created: 1})
		in.Gateways.Set(tx, model.GatewayID{Namespace: "shop", Name: "gone"}, model.GatewaySpec{})
		in.ListenerSets.Set(tx, model.Object{Kind: model.ListenerSetKind, Namespace: "shop", Name: "gone"}, model.ListenerSetSpec{})
		in.GatewayClasses.Set(tx, "gone", model.GatewayClassSpec{})
		in.Grants.Set(tx, model.Object{Kind: "ReferenceGrant", Namespace: "shop", Name: "gone"}, model.Grant{})
		in.Namespaces.Set(tx, model.NamespaceID{Name: "gone"}, nil)
		in.Problems.Set(tx, gone, model.Findings{{Object: gone}})
	}
	left := func(r *rig) [7]int {
		return [7]int{r.in.ListenerSets.Len(), r.in.Roots.Len(), r.in.Rules.Len(), r.in.Gateways.Len(), r.in.GatewayClasses.Len(), r.in.Grants.Len(), r.in.Problems.Len()}
	}
	for lacks, want := range map[string][7]int{"": {}, model.GatewayGroup: {1, 1, 1, 1, 1, 1, 1}} {
		api := newFakeAPI(t)
		api.lacks = lacks
		r := newRig(t, load).watch(api).start()
		r.await("known", func() bool { return r.known })
		r.ask(func() {
			if got := left(r); got != want || r.in.Namespaces.Len() != 0 {
				t.Errorf("lacks %q: %v are left, want %v; namespaces %v", lacks, got, want, r.in.Namespaces.Keys())
			}
		})
		r.stop()
	}
}

// TestHubWithoutGateways: kinds that the hub does not have hold nothing up, are
// asked for now and then, are watched when they come, and leave their rows when
// they go.
func TestHubWithoutGateways(t *testing.T) { synctest.Test(t, testHubWithoutGateways) }

func testHubWithoutGateways(t *testing.T) {
	h := overScript(t, "no gateways", slog.New(slog.DiscardHandler))
	rows, server, in := h.rows, h.server, h.rows.in
	time.Sleep(10 * time.Second)
	well := func(when string, gateways int) {
		t.Helper()
		rows.take()
		if s := h.State(); !s.Connected || !s.Known || s.Problem != "" || in.Gateways.Len() != gateways {
			t.Errorf("%s: %+v, %d gateways", when, s, in.Gateways.Len())
		}
	}
	well("not there", 0)
	rows.listed(t, 0, 0, 1)
	server.set("no gateways")
	rows.minute(t, "not there")
	server.set("no gateways") // which ends all watches
	rows.minute(t, "not there, again")
	// All kinds that are not there are of one group: of which the hub is asked at most
	// every 10 s, a third of the pause of each.
	asked(t, server, "not there, again", 60/10+1+atFirst*(len(h.sources)-absentKinds(h.Hub)))
	server.set("well")
	rows.minute(t, "they come")
	well("they come", 1)
	server.set("no gateways")
	rows.minute(t, "they go")
	well("they go", 1)
	server.set("answers 500")
	rows.minute(t, "it fails")
	asked(t, server, "it fails", mostAsked+atFirst*len(h.sources))
	if s := h.State(); s.Connected || !s.Known {
		t.Errorf("it fails: %+v", s)
	}
	server.set("well")
	rows.minute(t, "it is over")
	well("it is over", 1)
	h.stop()
}
