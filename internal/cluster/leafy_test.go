package cluster

import (
	"testing"

	networkingv1 "k8s.io/api/networking/v1"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"

	"github.com/spillway-dev/spillway/internal/fleet"
	"github.com/spillway-dev/spillway/internal/inc"
	"github.com/spillway-dev/spillway/internal/model"
)

// TestManifests: Ingresses of classes that members serve are kept in full, from when
// that is known until it is so no more, and others are not.
func TestManifests(t *testing.T) {
	of := func(name, class string) *networkingv1.Ingress {
		o := ingress(name, "web")
		if class != "" {
			o.Spec.IngressClassName = &class
		}
		return o
	}
	api := newFakeAPI(t)
	api.apply(of("web", "members"), of("plain", "edges"), of("any", ""))
	r := newRig(t, nil).watch(api).start()
	r.await("known", func() bool { return r.known })
	full := func(name string) bool { _, ok := r.in.Manifests.Get(nil, rootID(name)); return ok }
	r.ask(func() {
		if r.in.Manifests.Len() > 0 || r.in.Roots.Len() != 3 {
			t.Error("something is kept that nobody needs")
		}
	})
	r.hub.Leafy(LeafyClasses{"members": false})
	r.await("one is read in full", func() bool { return full("web") && r.in.Manifests.Len() == 1 && r.in.Roots.Len() == 3 })
	r.hub.Leafy(LeafyClasses{"members": true})
	r.await("the default is, too", func() bool { return full("any") && r.in.Manifests.Len() == 2 })
	edited := of("web", "members")
	edited.Labels = map[string]string{"a": "b"}
	api.apply(edited, of("plain", "members"))
	r.await("edits are followed", func() bool {
		return full("plain") && get(r.in.Manifests, rootID("web")).Body != get(r.in.Manifests, rootID("any")).Body && r.in.Manifests.Len() == 3
	})
	api.remove(edited)
	r.await("and deletions", func() bool { return !full("web") && r.in.Roots.Len() == 2 })
	r.hub.Leafy(LeafyClasses{})
	r.await("none is kept", func() bool { return r.in.Manifests.Len() == 0 && r.in.Roots.Len() == 2 })
	if s := r.hub.State(); !s.Connected || !s.Known {
		t.Errorf("%+v", s)
	}
}

// TestManifestsOfACheckpoint: a start from one reads nothing twice, and forgets nothing
// on the way.
func TestManifestsOfACheckpoint(t *testing.T) {
	class := "members"
	o := ingress("web", "web")
	o.Spec.IngressClassName = &class
	api := newFakeAPI(t)
	api.apply(o)
	var was model.Manifest
	r := newRig(t, func(tx *inc.Tx, in *fleet.Inputs, _ *Tables) {
		in.Configs.Set(tx, "c", model.ConfigSpec{Leaf: &model.LeafSpec{}})
		in.Classes.Set(tx, "members", model.ClassSpec{Config: "c"})
		was = model.Manifest{UID: "old"}
		in.Manifests.Set(tx, rootID("web"), was)
		in.Roots.Set(tx, rootID("web"), model.Root{Classes: "members"})
	}).watch(api).start()
	lost := false
	r.await("the hub's is read", func() bool {
		now, ok := r.in.Manifests.Get(nil, rootID("web"))
		lost = lost || !ok
		return now != was && ok
	})
	if lost {
		t.Error("it was forgotten on the way")
	}
}

// TestManifestsOfGateways: Gateways of classes that members serve are kept in full, and
// routes that name one, from when that is known until it is so no more.
func TestManifestsOfGateways(t *testing.T) {
	api := newFakeAPI(t)
	other := httpRoute("other", "b.example", "web")
	other.Spec.ParentRefs[0].Name = "none"
	api.apply(gateway("web"), httpRoute("web", "a.example", "web"), other)
	r := newRig(t, nil).watch(api).start()
	r.await("known", func() bool { return r.known })
	full := func(o model.Object) bool { _, ok := r.in.Manifests.Get(nil, o); return ok }
	id := model.GatewayID{Namespace: "shop", Name: "web"}
	r.ask(func() {
		if r.in.Manifests.Len() > 0 {
			t.Error("something is kept that nobody needs")
		}
	})
	classes := map[model.GatewayClass]bool{"spillway": true}
	r.hub.LeafyGateways(LeafyGateways{Classes: classes})
	r.await("the Gateway is read in full", func() bool { return full(id.Object()) && r.in.Manifests.Len() == 1 })
	r.hub.LeafyGateways(LeafyGateways{Classes: classes, Gateways: map[model.GatewayID]bool{id: true}})
	r.await("and its route", func() bool { return full(routeID) && r.in.Manifests.Len() == 2 })
	r.hub.LeafyGateways(LeafyGateways{})
	r.await("none is kept", func() bool { return r.in.Manifests.Len() == 0 && r.in.Gateways.Len() == 1 })
}

// TestManifestsOfSets: ListenerSets are kept in full while there are classes of Gateways
// that members serve; a route that names one, and no Gateway, while the set is of such a
// Gateway, and then nothing is refused that edges can't do.
func TestManifestsOfSets(t *testing.T) {
	api := newFakeAPI(t)
	of := func(name, set string) *gatewayv1.HTTPRoute {
		o, kind := httpRoute(name, name+".example", "web"), gatewayv1.Kind(model.ListenerSetKind)
		o.Spec.ParentRefs = []gatewayv1.ParentReference{{Kind: &kind, Name: gatewayv1.ObjectName(set)}}
		o.Spec.Rules[0].Filters = []gatewayv1.HTTPRouteFilter{{Type: "Future"}}
		return o
	}
	api.apply(gateway("web"), listenerSet("more"), of("web", "more"), of("other", "none"))
	r := newRig(t, nil).watch(api).start()
	r.await("known", func() bool { return r.known })
	set, id := model.Object{Kind: model.ListenerSetKind, Namespace: "shop", Name: "more"}, model.GatewayID{Namespace: "shop", Name: "web"}
	kept := func(want ...model.Object) func() bool {
		return func() bool {
			for _, o := range want {
				if _, is := r.in.Manifests.Get(nil, o); !is {
					return false
				}
			}
			return r.in.Manifests.Len() == len(want)
		}
	}
	told := func() bool { _, is := r.in.Problems.Get(nil, routeID); return is }
	r.ask(func() {
		if !kept()() || !told() {
			t.Error("nobody serves them in members yet")
		}
	})
	now := LeafyGateways{Classes: map[model.GatewayClass]bool{"spillway": true}}
	r.hub.LeafyGateways(now)
	r.await("a class", kept(id.Object(), set))
	now.Gateways = map[model.GatewayID]bool{id: true}
	r.hub.LeafyGateways(now)
	r.hub.LeafyGateways(LeafyGateways{Classes: now.Classes, Gateways: now.Gateways, Sets: map[model.Object]bool{set: true}})
	r.await("its set", func() bool { return kept(id.Object(), set, routeID)() && !told() })
	r.hub.LeafyGateways(now)
	r.await("the set is of another Gateway", func() bool { return kept(id.Object(), set)() && told() })
	r.hub.LeafyGateways(LeafyGateways{})
	r.await("no class", func() bool { return kept()() && r.in.ListenerSets.Len() == 1 })
}

// TestLeafySetsOfACheckpoint: which routes are of sets of such Gateways is known from the
// rows, before anything was read.
func TestLeafySetsOfACheckpoint(t *testing.T) {
	r := newRig(t, func(tx *inc.Tx, in *fleet.Inputs, _ *Tables) {
		in.Configs.Set(tx, "c", model.ConfigSpec{Leaf: &model.LeafSpec{}})
		in.GatewayClasses.Set(tx, "members", model.GatewayClassSpec{Config: "c"})
		in.GatewayClasses.Set(tx, "edges", model.GatewayClassSpec{})
		for _, name := range []string{"members", "edges"} {
			id := model.GatewayID{Namespace: "shop", Name: name}
			in.Gateways.Set(tx, id, model.GatewaySpec{Class: model.GatewayClass(name)})
			in.ListenerSets.Set(tx, model.Object{Kind: model.ListenerSetKind, Namespace: "team", Name: name}, model.ListenerSetSpec{Gateway: id})
		}
	})
	all := leafyGatewaysOf(r.past(), r.in)
	for name, want := range map[string]bool{"members": true, "edges": false} {
		for _, o := range []model.Object{{Kind: model.ListenerSetKind, Namespace: "team", Name: name}, {Kind: model.GatewayKind, Namespace: "shop", Name: name}} {
			if all.lead(o) != want {
				t.Errorf("%v: %v", o, !want)
			}
		}
	}
	if all.lead(model.Object{Kind: model.GatewayKind, Namespace: "team", Name: "members"}) {
		t.Error("a Gateway of the name of a set is one")
	}
}
