package rbac_test

import (
	"fmt"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	"github.com/spillway-dev/spillway/api/v1alpha1"
	"github.com/spillway-dev/spillway/internal/eventually"
	"github.com/spillway-dev/spillway/internal/hub"
	"github.com/spillway-dev/spillway/internal/model"
)

const placementYAML = `
apiVersion: networking.k8s.io/v1
kind: IngressClass
metadata: {name: spillway}
spec: {controller: spillway.dev/ingress}
---
apiVersion: spillway.dev/v1alpha1
kind: Placement
metadata: {name: gold, namespace: default}
spec:
  targetRefs:
  - {group: networking.k8s.io, kind: Ingress, name: web}
  - {group: "", kind: Namespace, name: default}
  members: {selector: {matchLabels: {tier: gold}}}`

// TestPlacement: from objects of a hub and a Service of a member, on real API servers
// and with the roles that we ship, to the members of a backend and the status that says
// why, and again after each edit; then nobody writes any more.
func TestPlacement(t *testing.T) {
	t.Parallel()
	hubAdmin, member := newAdmin(t, server(t)), newAdmin(t, server(t))
	hubAdmin.install()
	hubAdmin.applyFile("hub.yaml")
	member.applyFile("member.yaml")
	ctx := t.Context()
	if _, err := member.core.CoreV1().Services("default").Create(ctx, &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Name: "web"}, Spec: corev1.ServiceSpec{Ports: []corev1.ServicePort{{Port: 80}}},
	}, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	if _, err := hubAdmin.core.CoreV1().Secrets(namespace).Create(ctx, &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Name: "eu-1"}, Data: map[string][]byte{"kubeconfig": kubeconfig(member.as("spillway"))},
	}, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	serve := hubAdmin.as("spillway-serve")
	w := writer(t, serve)
	c := start(t, serve, w.Seen)
	c.asks <- func() { hub.Follow(w, c.leaf) }
	hubAdmin.apply(memberYAML)
	hubAdmin.apply(strings.TrimPrefix(placementYAML, "\n"))
	class := "spillway"
	if _, err := hubAdmin.core.NetworkingV1().Ingresses("default").Create(ctx, &networkingv1.Ingress{
		ObjectMeta: metav1.ObjectMeta{Name: "web"},
		Spec: networkingv1.IngressSpec{IngressClassName: &class, DefaultBackend: &networkingv1.IngressBackend{
			Service: &networkingv1.IngressServiceBackend{Name: "web", Port: networkingv1.ServiceBackendPort{Number: 80}},
		}},
	}, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	placements := hubAdmin.dynamic.Resource(v1alpha1.GroupVersion.WithResource("placements")).Namespace("default")
	says := func(want string) {
		t.Helper()
		eventually.True(t, want, func() bool {
			o, err := placements.Get(ctx, "gold", metav1.GetOptions{})
			return err == nil && placementShown(o) == want
		})
	}
	says("Namespace default Accepted=True Placed=False NotUsed; Ingress web Accepted=True Placed=False NoMembers; Accepted=True Placed=False NoMembers; 0 of 1; eu-1 NotSelected")

	members := hubAdmin.dynamic.Resource(v1alpha1.GroupVersion.WithResource("memberclusters"))
	label := func(tier string) {
		t.Helper()
		patch := fmt.Appendf(nil, `{"metadata": {"labels": {"tier": %q}}}`, tier)
		if _, err := members.Patch(ctx, "eu-1", types.MergePatchType, patch, metav1.PatchOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	label("gold")
	const placed = "Namespace default Accepted=True Placed=False NotUsed; Ingress web Accepted=True Placed=True Placed; Accepted=True Placed=True Placed; 1 of 1; eu-1 Chosen"
	says(placed)
	backend := model.BackendKey{Service: model.ServiceOf("default", "web"), Port: model.PortRef{Number: 80}, Placed: "Ingress.default.web"}.Backend()
	c.await(t, "the member is chosen", func() bool {
		row, _ := c.prog.Backends.Get(nil, backend)
		return len(row.Members) == 1
	})
	label("tin")
	says("Namespace default Accepted=True Placed=False NotUsed; Ingress web Accepted=True Placed=False NoMembers; Accepted=True Placed=False NoMembers; 0 of 1; eu-1 NotSelected")
	label("gold")
	says(placed)
	o, err := placements.Get(ctx, "gold", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if err := placements.Delete(ctx, "gold", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	backend = backend.In("")
	c.await(t, "all members have it again", func() bool {
		row, ok := c.prog.Backends.Get(nil, backend)
		return ok && len(row.Members) == 1 && c.prog.In.Placements.Len() == 0
	})
	if n := len(o.GetManagedFields()); n == 0 || n > 3 {
		t.Errorf("%d writers of the status", n)
	}
}

// placementShown is the status of a Placement in a line.
func placementShown(o *unstructured.Unstructured) string {
	conditions := func(of any) string {
		var out []string
		list, _ := of.([]any)
		for _, c := range list {
			m := c.(map[string]any)
			s := fmt.Sprint(m["type"], "=", m["status"])
			if m["type"] == "Placed" {
				s += fmt.Sprint(" ", m["reason"])
			}
			out = append(out, s)
		}
		return strings.Join(out, " ")
	}
	status, _ := o.Object["status"].(map[string]any)
	var out []string
	ancestors, _ := status["ancestors"].([]any)
	for _, a := range ancestors {
		m := a.(map[string]any)
		ref := m["ancestorRef"].(map[string]any)
		out = append(out, fmt.Sprint(ref["kind"], " ", ref["name"], " ", conditions(m["conditions"])))
	}
	out = append(out, conditions(status["conditions"]), fmt.Sprint(status["chosen"], " of ", status["total"]))
	members, _ := status["members"].([]any)
	for _, e := range members {
		m := e.(map[string]any)
		out = append(out, fmt.Sprint(m["name"], " ", m["reason"]))
	}
	return strings.Join(out, "; ")
}
