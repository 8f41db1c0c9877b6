package cli

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic/fake"
	clienttesting "k8s.io/client-go/testing"

	"github.com/spillway-dev/spillway/api/v1alpha1"
)

// hubWith is a hub that holds back what has finalizers, as an API server does. told is
// what serve says of a MemberCluster that is being deleted; empty: it lets it go.
func hubWith(reason, told string, objects ...runtime.Object) *fake.FakeDynamicClient {
	hub := fake.NewSimpleDynamicClientWithCustomListKinds(runtime.NewScheme(), map[schema.GroupVersionResource]string{
		namespaces: "NamespaceList", memberClusters: "MemberClusterList", tombstones: "MemberTombstoneList",
	}, objects...)
	hub.PrependReactor("delete", "memberclusters", func(clienttesting.Action) (bool, runtime.Object, error) {
		o, err := hub.Tracker().Get(memberClusters, "", "eu-1")
		if err != nil {
			return true, nil, err
		}
		u := o.(*unstructured.Unstructured)
		if len(u.GetFinalizers()) == 0 || reason == "" && told == "" {
			return true, nil, hub.Tracker().Delete(memberClusters, "", "eu-1")
		}
		u.SetDeletionTimestamp(&metav1.Time{Time: noon})
		_ = unstructured.SetNestedSlice(u.Object, []any{map[string]any{"type": "Accepted", "status": "False", "reason": reason, "message": told, "lastTransitionTime": noon.Format(time.RFC3339)}}, "status", "conditions")
		return true, nil, hub.Tracker().Update(memberClusters, u, "")
	})
	hub.PrependReactor("patch", "memberclusters", func(a clienttesting.Action) (bool, runtime.Object, error) {
		if strings.Contains(string(a.(clienttesting.PatchAction).GetPatch()), `"finalizers":["else"]`) {
			return true, &unstructured.Unstructured{}, hub.Tracker().Delete(memberClusters, "", "eu-1") // somebody lets it go, too
		}
		return true, nil, nil
	})
	return hub
}

func objectOf(t *testing.T, kind string, o any) *unstructured.Unstructured {
	t.Helper()
	m, err := runtime.DefaultUnstructuredConverter.ToUnstructured(o)
	if err != nil {
		t.Fatal(err)
	}
	u := &unstructured.Unstructured{Object: m}
	u.SetGroupVersionKind(v1alpha1.GroupVersion.WithKind(kind))
	return u
}

func theMember(t *testing.T) *unstructured.Unstructured {
	m := &v1alpha1.MemberCluster{Status: v1alpha1.MemberClusterStatus{Leaves: new(int32(3))}}
	m.Name, m.UID, m.Finalizers = "eu-1", "u-1", []string{v1alpha1.FinalizerLeaves, "else"}
	return objectOf(t, "MemberCluster", m)
}

func theStone(t *testing.T, name, member string) *unstructured.Unstructured {
	s := &v1alpha1.MemberTombstone{Spec: v1alpha1.MemberTombstoneSpec{Member: member, HubUID: "h", Leaves: new(int32(3))}}
	s.Name = name
	return objectOf(t, "MemberTombstone", s)
}

func system() *unstructured.Unstructured {
	u := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "v1", "kind": "Namespace"}}
	u.SetName("kube-system")
	u.SetUID("h")
	return u
}

// TestMemberRemove: what is told of a member that goes, stays, or is forgotten.
func TestMemberRemove(t *testing.T) {
	for _, c := range []struct {
		name    string
		hub     *fake.FakeDynamicClient
		forget  bool
		out     string
		errs    string
		fails   string
		stones  int
		members int
	}{
		{"there is none", hubWith("", ""), false, "", "", "there is no MemberCluster eu-1", 0, 0},
		{"it goes", hubWith("", "", theMember(t)), false, "MemberCluster eu-1 is gone\n", "", "", 0, 0},
		{"it is away", hubWith("", "", theMember(t), theStone(t, "eu-1-u", "eu-1")), false, "its leaves (3, as far as known) are deleted when it is reached again, which MemberTombstone eu-1-u remembers", "", "", 1, 0},
		{"the last site", hubWith("LastSite", "it is the last that serves shop/web", theMember(t)), false, "", "", "it stays: it is the last that serves shop/web", 0, 1},
		{"leaves stay", hubWith("Accepted", "3 leaves are there yet", theMember(t)), false, "", "waiting for: 3 leaves are there yet\n", "it waits for: 3 leaves are there yet", 0, 1},
		{"forgotten", hubWith("Accepted", "3 leaves are there yet", theMember(t), system(), theStone(t, "us-1-u", "us-1")), true,
			"  for kind in backendtlspolicies.gateway.networking.k8s.io gateways.gateway.networking.k8s.io grpcroutes.gateway.networking.k8s.io httproutes.gateway.networking.k8s.io listenersets.gateway.networking.k8s.io" +
				" referencegrants.gateway.networking.k8s.io tcproutes.gateway.networking.k8s.io tlsroutes.gateway.networking.k8s.io udproutes.gateway.networking.k8s.io ingresses.networking.k8s.io routes.route.openshift.io;" +
				" do kubectl --kubeconfig MEMBER.kubeconfig delete $kind -A -l spillway.dev/hub=h; done\nand where it was given keys:\n  kubectl --kubeconfig MEMBER.kubeconfig delete secret -A -l spillway.dev/key,spillway.dev/hub=h\n", "", "", 1, 0},
		{"forgotten after it left", hubWith("", "", theStone(t, "eu-1-u", "eu-1"), system()), true, "its leaves (3, as far as known) stay in the member", "", "", 0, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			var out, errs strings.Builder
			r := removal{hub: c.hub, name: "eu-1", format: "table", forget: c.forget, limit: 300 * time.Millisecond, every: 10 * time.Millisecond, out: &out, errs: &errs}
			err := r.run(t.Context())
			if (err != nil) != (c.fails != "") || err != nil && !strings.Contains(err.Error(), c.fails) {
				t.Errorf("failed with %v", err)
			}
			if !strings.Contains(out.String(), c.out) || errs.String() != c.errs {
				t.Errorf("said %q, %q", out.String(), errs.String())
			}
			stones, _ := c.hub.Resource(tombstones).List(t.Context(), metav1.ListOptions{})
			members, _ := c.hub.Resource(memberClusters).List(t.Context(), metav1.ListOptions{})
			if len(stones.Items) != c.stones || len(members.Items) != c.members {
				t.Errorf("%d tombstones and %d members are left", len(stones.Items), len(members.Items))
			}
		})
	}
}

// TestMemberRemoveForMachines: the same as JSON, also where it fails.
func TestMemberRemoveForMachines(t *testing.T) {
	var out, errs strings.Builder
	r := removal{hub: hubWith("LastSite", "it is the last", theMember(t)), name: "eu-1", format: "json", limit: time.Second, every: 10 * time.Millisecond, out: &out, errs: &errs}
	if err := r.run(t.Context()); err == nil {
		t.Error("it is gone")
	}
	var got removed
	if err := json.Unmarshal([]byte(out.String()), &got); err != nil || got.Removed || got.WaitsFor != "it is the last" || got.Leaves == nil || *got.Leaves != 3 {
		t.Errorf("said %s (%v)", out.String(), err)
	}
}
