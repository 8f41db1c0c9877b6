package cluster

import (
	"testing"

	networkingv1 "k8s.io/api/networking/v1"

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
