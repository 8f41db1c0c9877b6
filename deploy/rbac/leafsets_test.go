package rbac_test

import (
	"fmt"
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/spillway-dev/spillway/internal/eventually"
)

const leafSetYAML = `
apiVersion: gateway.networking.k8s.io/v1
kind: ListenerSet
metadata: {name: more, namespace: default}
spec:
  parentRef: {name: gw}
  listeners: [{name: team, port: 80, protocol: HTTP, hostname: "*.team.example"}]
---
apiVersion: gateway.networking.k8s.io/v1
kind: HTTPRoute
metadata: {name: team, namespace: default}
spec:
  parentRefs: [{kind: ListenerSet, name: more}]
  hostnames: [a.team.example]
  rules:
  - backendRefs: [{name: web, port: 80}]`

var (
	listenerSets = gatewayGroup.WithResource("listenersets")
	definitions  = schema.GroupVersionResource{Group: "apiextensions.k8s.io", Version: "v1", Resource: "customresourcedefinitions"}
)

// leafSets: a ListenerSet of a Gateway in members is there with it, and so is a route that
// attaches to it; what controllers say of both is merged; the set goes where it is deleted.
// What others ask for by a set of theirs is told.
func leafSets(t *testing.T, f *leafFleet) {
	t.Helper()
	f.hub.apply(strings.TrimPrefix(leafSetYAML, "\n"))
	for m, a := range f.members {
		eventually.True(t, "the set and its route are in "+m, func() bool {
			set, route := object(t, a.dynamic, listenerSets, "more"), object(t, a.dynamic, httpRoutes, "team")
			return set != nil && route != nil
		})
		patch(t, a.dynamic, listenerSets, "more", fmt.Sprintf(`{"status": {"conditions": [%s, %s], "listeners": [{"name": "team", "attachedRoutes": 1, "supportedKinds": [], "conditions": [%s, %s, %s]}]}}`,
			condition("Accepted", 1), condition("Programmed", 1), condition("Accepted", 1), condition("Programmed", 1), condition("ResolvedRefs", 1)), "status")
		patch(t, a.dynamic, httpRoutes, "team", fmt.Sprintf(`{"status": {"parents": [{"controllerName": "example.com/c", "parentRef": {"kind": "ListenerSet", "name": "more"}, "conditions": [%s, %s]}]}}`,
			condition("Accepted", 1), condition("ResolvedRefs", 1)), "status")
	}
	eventually.True(t, "the set's status is merged", func() bool {
		o := object(t, f.hub.dynamic, listenerSets, "more")
		list, _, _ := unstructured.NestedSlice(o.Object, "status", "listeners")
		return len(list) == 1 && strings.Join(conditionsIn(o.Object, "status", "conditions"), " ") == "Accepted=True Programmed=True" &&
			strings.Join(conditionsIn(list[0].(map[string]any), "conditions"), " ") == "Accepted=True Conflicted=False Programmed=True ResolvedRefs=True"
	})
	eventually.True(t, "the status of its route is merged", func() bool {
		parents, _, _ := unstructured.NestedSlice(object(t, f.hub.dynamic, httpRoutes, "team").Object, "status", "parents")
		return len(parents) == 1 && strings.Join(conditionsIn(parents[0].(map[string]any), "conditions"), " ") == "Accepted=True ResolvedRefs=True"
	})
	later(t, f)
	theirs(t, f)
	for _, r := range []struct {
		of   schema.GroupVersionResource
		name string
	}{{httpRoutes, "team"}, {listenerSets, "more"}} {
		if err := f.hub.dynamic.Resource(r.of).Namespace("default").Delete(t.Context(), r.name, metav1.DeleteOptions{}); err != nil {
			t.Fatal(err)
		}
		for m, a := range f.members {
			eventually.True(t, r.of.Resource+" is not in "+m, func() bool { return object(t, a.dynamic, r.of, r.name) == nil })
		}
	}
	for m, a := range f.members {
		if object(t, a.dynamic, gatewayObjects, "gw") == nil {
			t.Errorf("%s: the Gateway went, too", m)
		}
	}
}

// theirs: somebody else in a member asks for the host of a leaf by a ListenerSet of the same
// Gateway, which is told with the roles that we ship.
func theirs(t *testing.T, f *leafFleet) {
	t.Helper()
	a := f.members["eu-1"]
	text := strings.NewReplacer("name: more", "name: theirs", "name: team, namespace", "name: theirs, namespace").Replace(leafSetYAML)
	a.apply(strings.TrimPrefix(text, "\n"))
	patch(t, a.dynamic, listenerSets, "theirs", fmt.Sprintf(`{"status": {"conditions": [%s]}}`, condition("Accepted", 1)), "status")
	f.toldOf("HTTPRoute", "team", "LeafHostClaimed", "a.team.example by HTTPRoute default/theirs")
}

// later: a field that came after this version of Spillway is in the leaf of a member whose
// kind has it; of another one it is told that it has not.
func later(t *testing.T, f *leafFleet) {
	t.Helper()
	f.hub.extend("httproutes")
	f.members["eu-1"].extend("httproutes")
	has := func(a *admin) bool {
		_, there, _ := unstructured.NestedMap(object(t, a.dynamic, httpRoutes, "team").Object, "spec", "future")
		return there
	}
	for _, dry := range []*admin{f.members["eu-1"], f.hub} { // a definition that changed takes a moment
		eventually.True(t, "the field is served", func() bool {
			o := object(t, dry.dynamic, httpRoutes, "team")
			_ = unstructured.SetNestedMap(o.Object, map[string]any{"a": int64(1)}, "spec", "future")
			in := dry.dynamic.Resource(httpRoutes).Namespace("default")
			got, err := in.Update(t.Context(), o, metav1.UpdateOptions{DryRun: []string{metav1.DryRunAll}})
			if err != nil {
				return false
			}
			_, there, _ := unstructured.NestedMap(got.Object, "spec", "future")
			return there
		})
	}
	patch(t, f.hub.dynamic, httpRoutes, "team", `{"spec": {"future": {"a": 1}}}`)
	eventually.True(t, "the field is in eu-1", func() bool { return has(f.members["eu-1"]) })
	f.toldOf("HTTPRoute", "team", "LeafAltered", "member eu-2 does not have these fields of the leaf: .spec.future")
	if has(f.members["eu-2"]) {
		t.Error("eu-2 has the field")
	}
}

// extend has a kind of the Gateway API have one more field.
func (a *admin) extend(plural string) {
	a.t.Helper()
	eventually.True(a.t, plural+" are extended", func() bool {
		in := a.dynamic.Resource(definitions)
		o, err := in.Get(a.t.Context(), plural+"."+gatewayGroup.Group, metav1.GetOptions{})
		if err != nil {
			a.t.Fatal(err)
		}
		versions, _, _ := unstructured.NestedSlice(o.Object, "spec", "versions")
		for _, v := range versions {
			_ = unstructured.SetNestedMap(v.(map[string]any), map[string]any{"type": "object", "x-kubernetes-preserve-unknown-fields": true}, "schema", "openAPIV3Schema", "properties", "spec", "properties", "future")
		}
		_ = unstructured.SetNestedSlice(o.Object, versions, "spec", "versions")
		_, err = in.Update(a.t.Context(), o, metav1.UpdateOptions{})
		if err != nil && !apierrors.IsConflict(err) {
			a.t.Fatal(err)
		}
		return err == nil
	})
}
