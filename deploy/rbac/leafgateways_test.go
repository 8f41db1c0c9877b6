package rbac_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	rbacv1 "k8s.io/api/rbac/v1"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	"sigs.k8s.io/yaml"

	"github.com/spillway-dev/spillway/api/gatewayapi"
	"github.com/spillway-dev/spillway/deploy/rbac"
	"github.com/spillway-dev/spillway/internal/app"
	"github.com/spillway-dev/spillway/internal/eventually"
)

// TestLeafRules: the role and the policy of members are for the kinds of which there are
// leaves, each of them, and for nothing else.
func TestLeafRules(t *testing.T) {
	t.Parallel()
	want := map[string]bool{"routes/custom-host.route.openshift.io": true}
	for _, r := range app.LeafResources() {
		want[r.GroupResource().String()] = true
	}
	var role rbacv1.ClusterRole
	var policy admissionv1.ValidatingAdmissionPolicy
	for doc := range strings.SplitSeq(string(rbac.MemberLeaves), "\n---\n") {
		for kind, into := range map[string]any{"kind: ClusterRole\n": &role, "kind: ValidatingAdmissionPolicy\n": &policy} {
			if strings.Contains(doc, "\n"+kind) {
				if err := yaml.UnmarshalStrict([]byte(doc), into); err != nil {
					t.Fatal(err)
				}
			}
		}
	}
	has := map[string]bool{}
	for _, rule := range role.Rules {
		verbs := []string{"get", "list", "watch", "create", "patch", "delete"}
		if rule.Resources[0] == "routes/custom-host" {
			verbs = []string{"create", "update"}
		}
		for _, resource := range rule.Resources {
			has[schema.GroupResource{Group: rule.APIGroups[0], Resource: resource}.String()] = len(rule.APIGroups) == 1 && slices.Equal(rule.Verbs, verbs)
		}
	}
	if fmt.Sprint(has) != fmt.Sprint(want) {
		t.Errorf("the role is for\n%v, leaves are\n%v", has, want)
	}
	delete(want, "routes/custom-host.route.openshift.io")
	has = map[string]bool{}
	for _, rule := range policy.Spec.MatchConstraints.ResourceRules {
		for _, resource := range rule.Resources {
			has[schema.GroupResource{Group: rule.APIGroups[0], Resource: resource}.String()] = len(rule.APIGroups) == 1 && len(rule.Operations) == 3
		}
	}
	if fmt.Sprint(has) != fmt.Sprint(want) {
		t.Errorf("the policy is for\n%v, leaves are\n%v", has, want)
	}
}

const leafGatewayYAML = `
apiVersion: spillway.dev/v1alpha1
kind: GatewayClassConfig
metadata: {name: gateways}
spec:
  dataPlane: Leaf
  leaf:
    gatewayClassName: contour
    members: [{name: eu-2, gatewayClassName: cilium}]
---
apiVersion: gateway.networking.k8s.io/v1
kind: GatewayClass
metadata: {name: members}
spec:
  controllerName: spillway.dev/gateway
  parametersRef: {group: spillway.dev, kind: GatewayClassConfig, name: gateways}
---
apiVersion: gateway.networking.k8s.io/v1
kind: Gateway
metadata: {name: gw, namespace: default, labels: {a: b}}
spec:
  gatewayClassName: members
  allowedListeners: {namespaces: {from: Same}}
  listeners: [{name: http, port: 80, protocol: HTTP, hostname: "*.shop.example"}]
---
apiVersion: gateway.networking.k8s.io/v1
kind: HTTPRoute
metadata: {name: web, namespace: default}
spec:
  parentRefs: [{name: gw}]
  hostnames: [a.shop.example]
  rules:
  - matches: [{path: {type: PathPrefix, value: /}}]
    backendRefs: [{name: web, port: 80}]`

var (
	gatewayGroup   = schema.GroupVersion{Group: "gateway.networking.k8s.io", Version: "v1"}
	gatewayObjects = gatewayGroup.WithResource("gateways")
	httpRoutes     = gatewayGroup.WithResource("httproutes")
)

// object is an object of a kind, which has a leaf in a member; nil: there is none.
func object(t *testing.T, c dynamic.Interface, r schema.GroupVersionResource, name string) *unstructured.Unstructured {
	t.Helper()
	o, err := c.Resource(r).Namespace("default").Get(t.Context(), name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return nil
	}
	if err != nil {
		t.Fatal(err)
	}
	return o
}

// patch changes an object, or its status.
func patch(t *testing.T, c dynamic.Interface, r schema.GroupVersionResource, name, text string, part ...string) {
	t.Helper()
	if _, err := c.Resource(r).Namespace("default").Patch(t.Context(), name, types.MergePatchType, []byte(text), metav1.PatchOptions{FieldManager: "controller"}, part...); err != nil {
		t.Fatal(err)
	}
}

// conditionsIn is "TYPE=STATUS" of each condition in a list of an object, sorted.
func conditionsIn(o map[string]any, path ...string) []string {
	list, _, _ := unstructured.NestedSlice(o, path...)
	var out []string
	for _, e := range list {
		c := e.(map[string]any)
		out = append(out, fmt.Sprint(c["type"], "=", c["status"]))
	}
	slices.Sort(out)
	return out
}

func condition(kind string, generation int64) string {
	return fmt.Sprintf(`{"type": %[1]q, "status": "True", "reason": %[1]q, "message": "", "observedGeneration": %d, "lastTransitionTime": "2026-01-01T00:00:00Z"}`, kind, generation)
}

// knowGateways makes the kinds of the Gateway API in a member: only our own API server
// comes with them.
func (a *admin) knowGateways() {
	a.t.Helper()
	for _, file := range gatewayapi.Files() {
		if strings.Contains(string(file), "kind: CustomResourceDefinition") {
			a.apply(string(file))
		}
	}
	eventually.True(a.t, "members know the Gateway API", func() bool {
		_, err1 := a.dynamic.Resource(gatewayObjects).List(a.t.Context(), metav1.ListOptions{})
		_, err2 := a.dynamic.Resource(httpRoutes).List(a.t.Context(), metav1.ListOptions{})
		return err1 == nil && err2 == nil
	})
}

// TestLeavesOfGateways: a Gateway and its route on the hub are leaves in the members that
// know the Gateway API; what controllers there say is merged on the hub; an edit of the
// route is one write a member, and at rest there is none.
func TestLeavesOfGateways(t *testing.T) {
	t.Parallel()
	f := newLeafFleet(t)
	for _, m := range f.members {
		m.applyFile("member-leaves.yaml")
		m.knowGateways()
	}
	f.hub.apply(strings.TrimPrefix(leafGatewayYAML, "\n"))
	f.start()
	for m, class := range map[string]string{"eu-1": "contour", "eu-2": "cilium"} {
		eventually.True(t, "leaves in "+m, func() bool {
			gw, route := object(t, f.members[m].dynamic, gatewayObjects, "gw"), object(t, f.members[m].dynamic, httpRoutes, "web")
			if gw == nil || route == nil {
				return false
			}
			has, _, _ := unstructured.NestedString(gw.Object, "spec", "gatewayClassName")
			return has == class && gw.GetLabels()["a"] == "b"
		})
	}
	for m, address := range map[string]string{"eu-1": "192.0.2.1", "eu-2": "b.lb.example"} {
		kind := map[bool]string{true: "IPAddress", false: "Hostname"}[m == "eu-1"]
		c := f.members[m].dynamic
		patch(t, c, gatewayObjects, "gw", fmt.Sprintf(`{"status": {"addresses": [{"type": %q, "value": %q}], "conditions": [%s, %s], "listeners": [{"name": "http", "attachedRoutes": 1, "supportedKinds": [], "conditions": [%s, %s, %s]}]}}`,
			kind, address, condition("Accepted", 1), condition("Programmed", 1), condition("Accepted", 1), condition("Programmed", 1), condition("ResolvedRefs", 1)), "status")
		patch(t, c, httpRoutes, "web", fmt.Sprintf(`{"status": {"parents": [{"controllerName": "example.com/c", "parentRef": {"name": "gw"}, "conditions": [%s, %s]}]}}`,
			condition("Accepted", 1), condition("ResolvedRefs", 1)), "status")
	}
	eventually.True(t, "the Gateway's status is merged", func() bool {
		o := object(t, f.hub.dynamic, gatewayObjects, "gw")
		list, _, _ := unstructured.NestedSlice(o.Object, "status", "addresses")
		return len(list) == 2 && strings.Join(conditionsIn(o.Object, "status", "conditions"), " ") == "Accepted=True AddressesAssigned=True Programmed=True ResolvedRefs=True"
	})
	eventually.True(t, "the route's status is merged", func() bool {
		parents, _, _ := unstructured.NestedSlice(object(t, f.hub.dynamic, httpRoutes, "web").Object, "status", "parents")
		return len(parents) == 1 && strings.Join(conditionsIn(parents[0].(map[string]any), "conditions"), " ") == "Accepted=True ResolvedRefs=True"
	})
	before := map[string]string{}
	for m, a := range f.members {
		before[m] = object(t, a.dynamic, gatewayObjects, "gw").GetResourceVersion()
	}
	generation := func(m string) int64 { return object(t, f.members[m].dynamic, httpRoutes, "web").GetGeneration() }
	patch(t, f.hub.dynamic, httpRoutes, "web", `{"spec": {"hostnames": ["a.shop.example", "b.shop.example"]}}`)
	for m, a := range f.members {
		eventually.True(t, "the edit is in "+m, func() bool {
			names, _, _ := unstructured.NestedStringSlice(object(t, a.dynamic, httpRoutes, "web").Object, "spec", "hostnames")
			return len(names) == 2
		})
		if n := generation(m); n != 2 {
			t.Errorf("%s: an edit made generation %d", m, n)
		}
		if now := object(t, a.dynamic, gatewayObjects, "gw").GetResourceVersion(); now != before[m] {
			t.Errorf("%s: the Gateway was written, too: %s, %s", m, before[m], now)
		}
	}
	gatewaysAtRest(t, f)
	leafSets(t, f)
	if err := f.hub.dynamic.Resource(httpRoutes).Namespace("default").Delete(t.Context(), "web", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	for m, a := range f.members {
		eventually.True(t, "no leaf is left in "+m, func() bool {
			return object(t, a.dynamic, httpRoutes, "web") == nil && object(t, a.dynamic, gatewayObjects, "gw") == nil
		})
	}
}

// gatewaysAtRest: a restart writes nothing of Gateways and routes. When what came after it
// is done, all is as it was.
func gatewaysAtRest(t *testing.T, f *leafFleet) {
	t.Helper()
	versions := func() (out []string) {
		of := map[string]*admin{"hub": f.hub}
		for m, a := range f.members {
			of[m] = a
		}
		for who, a := range of {
			for r, name := range map[schema.GroupVersionResource]string{gatewayObjects: "gw", httpRoutes: "web"} {
				out = append(out, who+" "+r.Resource+" "+object(t, a.dynamic, r, name).GetResourceVersion())
			}
		}
		slices.Sort(out)
		return out
	}
	eventually.True(t, "the edit is told on the hub", func() bool {
		parents, _, _ := unstructured.NestedSlice(object(t, f.hub.dynamic, httpRoutes, "web").Object, "status", "parents")
		text := fmt.Sprint(parents)
		return len(parents) == 1 && strings.Count(text, "observedGeneration:2") == 2
	})
	before := versions()
	f.kill()
	f.start()
	f.root("late", "/a")
	f.has("late", "/a", "eu-1", "eu-2")
	f.says("eu-1", "late", `{"ip": "192.0.2.2"}`)
	f.addresses("late", "192.0.2.2")
	if after := versions(); !slices.Equal(before, after) {
		t.Errorf("a restart made %v of %v", after, before)
	}
}

// TestMemberWithoutGatewayAPI: a member that does not know the kinds is told, and holds
// nobody up.
func TestMemberWithoutGatewayAPI(t *testing.T) {
	t.Parallel()
	f := newLeafFleet(t)
	for _, a := range f.members {
		a.applyFile("member-leaves.yaml")
		a.knowGateways()
	}
	without := f.members["eu-2"].dynamic
	for _, r := range []schema.GroupVersionResource{gatewayObjects, listenerSets, httpRoutes, gatewayGroup.WithResource("grpcroutes")} {
		if err := without.Resource(definitions).Delete(t.Context(), r.GroupResource().String(), metav1.DeleteOptions{}); err != nil && !apierrors.IsNotFound(err) {
			t.Fatal(err)
		}
		eventually.True(t, "eu-2 does not know "+r.Resource, func() bool {
			_, err := without.Resource(r).List(t.Context(), metav1.ListOptions{})
			return apierrors.IsNotFound(err)
		})
	}
	f.hub.apply(strings.TrimPrefix(leafGatewayYAML, "\n"))
	f.start()
	f.root("web", "/")
	f.has("web", "/", "eu-1", "eu-2")
	eventually.True(t, "eu-1 has its leaves", func() bool {
		return object(t, f.members["eu-1"].dynamic, gatewayObjects, "gw") != nil && object(t, f.members["eu-1"].dynamic, httpRoutes, "web") != nil
	})
	f.toldOf("Gateway", "gw", "LeafRefused", "eu-2")
	f.toldOf("HTTPRoute", "web", "LeafRefused", "eu-2")
}
