package rbac_test

import (
	"encoding/json"
	"strings"
	"testing"

	routev1 "github.com/openshift/api/route/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"

	"github.com/spillway-dev/spillway/api/openshift"
	"github.com/spillway-dev/spillway/internal/eventually"
	"github.com/spillway-dev/spillway/internal/hub"
	"github.com/spillway-dev/spillway/internal/model"
)

const routeYAML = `
apiVersion: networking.k8s.io/v1
kind: IngressClass
metadata: {name: spillway, annotations: {ingressclass.kubernetes.io/is-default-class: "true"}}
spec: {controller: spillway.dev/ingress}
---
apiVersion: route.openshift.io/v1
kind: Route
metadata: {name: web, namespace: default}
spec:
  host: shop.example
  to: {kind: Service, name: web, weight: 100}
  tls: {termination: edge, insecureEdgeTerminationPolicy: Redirect}
---
apiVersion: route.openshift.io/v1
kind: Route
metadata: {name: younger, namespace: default}
spec:
  host: shop.example
  to: {kind: Service, name: api, weight: 100}`

// TestRoutes: Routes of OpenShift on a real API server, with the role that we ship: they
// get our entry of their status beside those of others, which goes with the last class;
// and nobody writes what is there already.
func TestRoutes(t *testing.T) {
	t.Parallel()
	a := newAdmin(t, server(t))
	a.install()
	a.applyFile("hub.yaml")
	a.apply(string(openshift.Routes))
	group := routev1.GroupVersion.WithResource("routes")
	eventually.True(t, "routes are served", func() bool {
		_, err := a.dynamic.Resource(group).List(t.Context(), metav1.ListOptions{})
		return err == nil
	})
	serve := a.as("spillway-serve")
	w := writer(t, serve)
	c := start(t, serve, w.Seen)
	c.asks <- func() { hub.Follow(w, c.leaf) }
	a.apply(strings.TrimPrefix(routeYAML, "\n"))
	routes := a.dynamic.Resource(group).Namespace("default")
	shown := func(name, want string) {
		t.Helper()
		last := ""
		defer func() {
			if t.Failed() {
				t.Log(last)
			}
		}()
		eventually.True(t, name+": "+want, func() bool {
			o, err := routes.Get(t.Context(), name, metav1.GetOptions{})
			if err != nil {
				return false
			}
			last = routeShown(t, o)
			return last == want
		})
	}
	shown("web", "spillway shop.example True")

	// Another router takes the list for its own: our entry comes back beside its.
	const other = `{"status": {"ingress": [{"routerName": "default", "host": "shop.example", "conditions": [{"type": "Admitted", "status": "True"}]}]}}`
	if _, err := routes.Patch(t.Context(), "web", types.MergePatchType, []byte(other), metav1.PatchOptions{FieldManager: "other"}, "status"); err != nil {
		t.Fatal(err)
	}
	shown("web", "default shop.example True; spillway shop.example True")
	shown("younger", "spillway shop.example False HostAlreadyClaimed")

	// What changes beside it is written nowhere.
	before := version(t, routes, "web")
	label := `{"metadata": {"labels": {"a": "b"}}}`
	if _, err := routes.Patch(t.Context(), "younger", types.MergePatchType, []byte(`{"spec": {"path": "/api"}}`), metav1.PatchOptions{}); err != nil {
		t.Fatal(err)
	}
	shown("younger", "spillway shop.example True")
	if now := version(t, routes, "web"); now != before {
		t.Errorf("the other Route was written: %s, then %s", before, now)
	}
	labelled, err := routes.Patch(t.Context(), "web", types.MergePatchType, []byte(label), metav1.PatchOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := routes.Patch(t.Context(), "younger", types.MergePatchType, []byte(`{"spec": {"path": null}}`), metav1.PatchOptions{}); err != nil {
		t.Fatal(err)
	}
	shown("younger", "spillway shop.example False HostAlreadyClaimed")
	if now := version(t, routes, "web"); now != labelled.GetResourceVersion() {
		t.Errorf("a Route that says it already was written: %s, then %s", labelled.GetResourceVersion(), now)
	}

	if _, err := dynamic.NewForConfigOrDie(serve).Resource(group).Namespace("default").Patch(t.Context(), "web", types.MergePatchType, []byte(`{"spec": {"host": "x.example"}}`), metav1.PatchOptions{}); !apierrors.IsForbidden(err) {
		t.Errorf("may change a Route: %v", err)
	}
	if err := a.core.NetworkingV1().IngressClasses().Delete(t.Context(), "spillway", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	shown("web", "default shop.example True")
	shown("younger", "")
	root := model.Object{Kind: model.OpenShiftRoute, Namespace: "default", Name: "web"}
	if err := routes.Delete(t.Context(), "web", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	c.await(t, "it is gone", func() bool { _, ok := c.prog.In.Roots.Get(nil, root); return !ok })
}

func version(t *testing.T, in dynamic.ResourceInterface, name string) string {
	t.Helper()
	o, err := in.Get(t.Context(), name, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return o.GetResourceVersion()
}

// routeShown is the status of a Route in a line.
func routeShown(t *testing.T, o *unstructured.Unstructured) string {
	t.Helper()
	data, err := json.Marshal(o.Object["status"])
	var status routev1.RouteStatus
	if err != nil || json.Unmarshal(data, &status) != nil {
		t.Fatalf("%v: %s", err, data)
	}
	var out []string
	for _, entry := range status.Ingress {
		words := []string{entry.RouterName, entry.Host}
		for _, c := range entry.Conditions {
			words = append(words, string(c.Status), c.Reason)
		}
		out = append(out, strings.TrimSpace(strings.Join(words, " ")))
	}
	return strings.Join(out, "; ")
}
