package apiserver

import (
	"context"
	"fmt"
	"testing"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/spillway-dev/spillway/api/v1alpha1"
	"github.com/spillway-dev/spillway/internal/eventually"
)

func named(name string) metav1.ObjectMeta { return metav1.ObjectMeta{Name: name} }

// makeNamespace makes a namespace and waits for its service account.
func makeNamespace(t *testing.T, s *server, name string) {
	t.Helper()
	if _, err := s.client.CoreV1().Namespaces().Create(t.Context(), &corev1.Namespace{ObjectMeta: named(name)}, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	eventually.Nil(t, "the service account of "+name, func(ctx context.Context) error {
		_, err := s.client.CoreV1().ServiceAccounts(name).Get(ctx, "default", metav1.GetOptions{})
		return err
	})
}

// gone turns "not found" into nil, and everything else into an error.
func gone(err error) error {
	if apierrors.IsNotFound(err) {
		return nil
	}
	if err == nil {
		return fmt.Errorf("still there")
	}
	return err
}

func TestNamespaceDeletes(t *testing.T) {
	t.Parallel()
	s := sharedServer(t)
	makeNamespace(t, s, "going")
	core := s.client.CoreV1()
	if _, err := core.ConfigMaps("going").Create(t.Context(), &corev1.ConfigMap{ObjectMeta: named("a")}, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	eventually.Nil(t, "the CA of the namespace", func(ctx context.Context) error {
		_, err := core.ConfigMaps("going").Get(ctx, "kube-root-ca.crt", metav1.GetOptions{})
		return err
	})
	if err := core.Namespaces().Delete(t.Context(), "going", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	eventually.Nil(t, "the namespace is gone", func(ctx context.Context) error {
		_, err := core.Namespaces().Get(ctx, "going", metav1.GetOptions{})
		return gone(err)
	})
}

// What an object owns goes with it, also where the owner is of a kind of ours.
func TestOwnedObjectsAreCollected(t *testing.T) {
	t.Parallel()
	s := sharedServer(t)
	makeNamespace(t, s, "owned")
	maps := s.client.CoreV1().ConfigMaps("owned")
	native, err := maps.Create(t.Context(), &corev1.ConfigMap{ObjectMeta: named("owner")}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	edge := &unstructured.Unstructured{Object: map[string]any{"spec": map[string]any{}}}
	edge.SetGroupVersionKind(v1alpha1.GroupVersion.WithKind("Edge"))
	edge.SetName("owner")
	edges := resource(t, s, edge)
	custom, err := edges.Create(t.Context(), edge, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	child := func(name string, owner metav1.OwnerReference) {
		c := &corev1.ConfigMap{ObjectMeta: named(name)}
		c.OwnerReferences = []metav1.OwnerReference{owner}
		must(t)(maps.Create(t.Context(), c, metav1.CreateOptions{}))
	}
	child("of-native", metav1.OwnerReference{APIVersion: "v1", Kind: "ConfigMap", Name: "owner", UID: native.UID})
	child("of-custom", metav1.OwnerReference{APIVersion: custom.GetAPIVersion(), Kind: "Edge", Name: "owner", UID: custom.GetUID()})
	if err := maps.Delete(t.Context(), "owner", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	if err := edges.Delete(t.Context(), "owner", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"of-native", "of-custom"} {
		eventually.Nil(t, name+" is gone", func(ctx context.Context) error {
			_, err := maps.Get(ctx, name, metav1.GetOptions{})
			return gone(err)
		})
	}
}

// A service account's token is who it says, and may do what RBAC allows: the
// aggregated role "view" is filled.
func TestServiceAccountTokens(t *testing.T) {
	t.Parallel()
	s := sharedServer(t)
	makeNamespace(t, s, "tokens")
	core := s.client.CoreV1()
	requested, err := core.ServiceAccounts("tokens").CreateToken(t.Context(), "default", &authenticationv1.TokenRequest{}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	secret := &corev1.Secret{ObjectMeta: named("legacy"), Type: corev1.SecretTypeServiceAccountToken}
	secret.Annotations = map[string]string{corev1.ServiceAccountNameKey: "default"}
	if _, err := core.Secrets("tokens").Create(t.Context(), secret, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	eventually.Nil(t, "the secret has a token", func(ctx context.Context) error {
		got, err := core.Secrets("tokens").Get(ctx, "legacy", metav1.GetOptions{})
		if err == nil && len(got.Data["token"]) == 0 {
			err = fmt.Errorf("no token")
		}
		secret = got
		return err
	})

	asRequested := withToken(t, s, requested.Status.Token)
	_, err = asRequested.CoreV1().Services("tokens").List(t.Context(), metav1.ListOptions{})
	if !apierrors.IsForbidden(err) {
		t.Errorf("list services without a role: %v", err)
	}
	binding := &rbacv1.RoleBinding{
		ObjectMeta: named("view"),
		Subjects:   []rbacv1.Subject{{Kind: "ServiceAccount", Name: "default", Namespace: "tokens"}},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "view"},
	}
	if _, err := s.client.RbacV1().RoleBindings("tokens").Create(t.Context(), binding, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	for _, c := range []*kubernetes.Clientset{asRequested, withToken(t, s, string(secret.Data["token"]))} {
		who, err := c.AuthenticationV1().SelfSubjectReviews().Create(t.Context(), &authenticationv1.SelfSubjectReview{}, metav1.CreateOptions{})
		if err != nil {
			t.Fatal(err)
		}
		if got := who.Status.UserInfo.Username; got != "system:serviceaccount:tokens:default" {
			t.Errorf("the token is of %s", got)
		}
		eventually.Nil(t, "the role allows", func(ctx context.Context) error {
			_, err := c.CoreV1().Services("tokens").List(ctx, metav1.ListOptions{})
			return err
		})
	}
}

func withToken(t *testing.T, s *server, token string) *kubernetes.Clientset {
	t.Helper()
	rc := rest.AnonymousClientConfig(s.config)
	rc.BearerToken = token
	c, err := kubernetes.NewForConfig(rc)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// An Ingress without a class gets the default one.
func TestDefaultIngressClass(t *testing.T) {
	t.Parallel()
	s := sharedServer(t)
	makeNamespace(t, s, "classes")
	class := &networkingv1.IngressClass{ObjectMeta: named("spillway"), Spec: networkingv1.IngressClassSpec{Controller: "spillway.dev/ingress"}}
	class.Annotations = map[string]string{networkingv1.AnnotationIsDefaultIngressClass: "true"}
	if _, err := s.client.NetworkingV1().IngressClasses().Create(t.Context(), class, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	web := networkingv1.IngressBackend{Service: &networkingv1.IngressServiceBackend{Name: "web", Port: networkingv1.ServiceBackendPort{Number: 80}}}
	eventually.Nil(t, "the default class is filled in", func(ctx context.Context) error {
		in := &networkingv1.Ingress{ObjectMeta: named("web"), Spec: networkingv1.IngressSpec{DefaultBackend: &web}}
		got, err := s.client.NetworkingV1().Ingresses("classes").Create(ctx, in, metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
		if err == nil && (got.Spec.IngressClassName == nil || *got.Spec.IngressClassName != "spillway") {
			err = fmt.Errorf("class %v", got.Spec.IngressClassName)
		}
		return err
	})
}
