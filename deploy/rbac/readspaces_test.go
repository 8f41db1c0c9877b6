package rbac_test

import (
	"errors"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/spillway-dev/spillway/api/v1alpha1"
)

// TestReadNamespaces: with member-namespace.yaml alone a member is connected that is read
// in one namespace, and what it has there counts. It needs each of the rules.
func TestReadNamespaces(t *testing.T) {
	t.Parallel()
	hubAdmin, member := newAdmin(t, server(t)), newAdmin(t, server(t))
	hubAdmin.install()
	hubAdmin.applyFile("hub.yaml")
	ctx := t.Context()
	for _, n := range []string{"shop", "other"} {
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
	member.applyFile("member-namespace.yaml")
	_, err := hubAdmin.core.CoreV1().Secrets(namespace).Create(ctx, &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Name: "eu-1"}, Data: map[string][]byte{"kubeconfig": kubeconfig(member.as("spillway"))},
	}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	hubAdmin.apply(memberYAML + "\n  readNamespaces: [shop]")
	serve := hubAdmin.as("spillway-serve")

	c := start(t, serve, nil)
	c.await(t, "that of shop, and of no other", func() bool {
		s, _ := c.prog.In.Sources.Get(nil, "eu-1")
		keys := c.prog.In.Services.Keys()
		return s.Connected && len(keys) == 1 && keys[0].Service.Namespace() == "shop" && c.prog.In.Clusters.Len() == 1
	})
	roles := member.core.RbacV1().Roles("shop")
	whole, err := roles.Get(ctx, "spillway-member", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	for i, rule := range whole.Rules {
		less, err := roles.Get(ctx, whole.Name, metav1.GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		less.Rules = append(append([]rbacv1.PolicyRule{}, whole.Rules[:i]...), whole.Rules[i+1:]...)
		if _, err := roles.Update(ctx, less, metav1.UpdateOptions{}); err != nil {
			t.Fatal(err)
		}
		c := start(t, serve, nil)
		c.await(t, "to be told that one may not read "+rule.Resources[0], func() bool {
			s, _ := c.prog.In.Contacts.Get(nil, "eu-1")
			return s.Reason == v1alpha1.ReasonUnauthorized && strings.Contains(s.Message, "namespace shop") || strings.Contains(s.Hidden, "in namespace shop")
		})
	}
}
