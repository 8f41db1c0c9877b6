package rbac_test

import (
	"errors"
	"os"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/spillway-dev/spillway/api/v1alpha1"
)

// TestReadNamespaces: with member-by-namespace.yaml alone, applied for each of two namespaces,
// a member is connected that is read in these, and what it has there counts. It needs each
// of the rules: without one of a namespace that is told, and the other is read; without
// those of all the member is not connected.
func TestReadNamespaces(t *testing.T) {
	t.Parallel()
	hubAdmin, member := newAdmin(t, server(t)), newAdmin(t, server(t))
	hubAdmin.install()
	hubAdmin.applyFile("hub.yaml")
	ctx := t.Context()
	for _, n := range []string{"shop", "web", "other"} {
		_, err1 := member.core.CoreV1().Namespaces().Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: n}}, metav1.CreateOptions{})
		_, err2 := member.core.CoreV1().Services(n).Create(ctx, &corev1.Service{
			ObjectMeta: metav1.ObjectMeta{Name: "web"}, Spec: corev1.ServiceSpec{Ports: []corev1.ServicePort{{Port: 80}}},
		}, metav1.CreateOptions{})
		_, err3 := member.core.DiscoveryV1().EndpointSlices(n).Create(ctx, &discoveryv1.EndpointSlice{
			ObjectMeta:  metav1.ObjectMeta{Name: "web-1", Labels: map[string]string{discoveryv1.LabelServiceName: "web"}},
			AddressType: discoveryv1.AddressTypeIPv4, Endpoints: []discoveryv1.Endpoint{{Addresses: []string{"10.1.0.1"}}},
		}, metav1.CreateOptions{})
		if err := errors.Join(err1, err2, err3); err != nil {
			t.Fatal(err)
		}
	}
	manifest, err := os.ReadFile("member-by-namespace.yaml")
	if err != nil {
		t.Fatal(err)
	}
	member.apply(string(manifest))
	member.apply(strings.ReplaceAll(string(manifest), "namespace: shop\n", "namespace: web\n"))
	_, err = hubAdmin.core.CoreV1().Secrets(namespace).Create(ctx, &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Name: "eu-1"}, Data: map[string][]byte{"kubeconfig": kubeconfig(member.as("spillway"))},
	}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	hubAdmin.apply(memberYAML + "\n  readNamespaces: [shop, web]")
	serve := hubAdmin.as("spillway-serve")

	// has awaits that a process which starts now reads namespaces, and that cond holds.
	has := func(what string, cond func(*control, string) bool, namespaces ...string) {
		t.Helper()
		c := start(t, serve, nil)
		c.await(t, what, func() bool {
			s, _ := c.prog.In.Sources.Get(nil, "eu-1")
			contact, _ := c.prog.In.Contacts.Get(nil, "eu-1")
			var services []string
			for _, k := range c.prog.In.Services.Keys() {
				services = append(services, k.Service.Namespace())
			}
			slices.Sort(services)
			return s.Connected && slices.Equal(services, namespaces) && cond(c, contact.Hidden)
		})
	}
	has("those of both namespaces, and of no other", func(c *control, hidden string) bool {
		return hidden == "" && c.prog.In.Clusters.Len() == 1
	}, "shop", "web")

	roles := member.core.RbacV1().Roles("web")
	whole, err := roles.Get(ctx, "spillway-member", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	with := func(rules []rbacv1.PolicyRule) {
		t.Helper()
		role, err := roles.Get(ctx, whole.Name, metav1.GetOptions{})
		if err == nil {
			role.Rules = rules
			_, err = roles.Update(ctx, role, metav1.UpdateOptions{})
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	for i, rule := range whole.Rules {
		with(slices.Delete(slices.Clone(whole.Rules), i, i+1))
		namespaces := []string{"shop", "web"}
		if rule.Resources[0] == "services" {
			namespaces = namespaces[:1]
		}
		has("to be told that one may not read "+rule.Resources[0], func(_ *control, hidden string) bool {
			return strings.Contains(hidden, rule.Resources[0]) && strings.Contains(hidden, "in namespace web")
		}, namespaces...)
	}
	with(whole.Rules)

	cluster, err := member.core.RbacV1().ClusterRoles().Get(ctx, "spillway-member-api", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	cluster.Rules = slices.DeleteFunc(cluster.Rules, func(r rbacv1.PolicyRule) bool { return len(r.Resources) > 0 })
	if _, err := member.core.RbacV1().ClusterRoles().Update(ctx, cluster, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	has("a member of which it is not known which cluster it is", func(c *control, _ string) bool { return c.prog.In.Clusters.Len() == 0 }, "shop", "web")

	if err := member.core.RbacV1().RoleBindings("shop").Delete(ctx, "spillway-member", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	with(nil)
	c := start(t, serve, nil)
	c.await(t, "to be told that one may read nothing", func() bool {
		s, _ := c.prog.In.Contacts.Get(nil, "eu-1")
		return s.Reason == v1alpha1.ReasonUnauthorized && strings.Contains(s.Message, "spec.readNamespaces")
	})
}
