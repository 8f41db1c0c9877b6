package rbac_test

import (
	"errors"
	"testing"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/spillway-dev/spillway/internal/eventually"
	"github.com/spillway-dev/spillway/internal/model"
)

// TestSecretNamespaces: with rights for Secrets of one namespace serve works, if it is
// told so, and does without them in others; if it is not, the hub counts as not read.
func TestSecretNamespaces(t *testing.T) {
	t.Parallel()
	a, ctx := newAdmin(t, server(t)), t.Context()
	a.install()
	a.applyFile("hub.yaml")
	const role = "spillway-hub-secrets"
	err := errors.Join(a.core.RbacV1().ClusterRoleBindings().Delete(ctx, role, metav1.DeleteOptions{}))
	for _, namespace := range []string{"shop", "other"} {
		_, err1 := a.core.CoreV1().Namespaces().Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace}}, metav1.CreateOptions{})
		_, err2 := a.core.CoreV1().Secrets(namespace).Create(ctx, &corev1.Secret{
			ObjectMeta: metav1.ObjectMeta{Name: "cert"}, Type: corev1.SecretTypeTLS, Data: map[string][]byte{corev1.TLSCertKey: {}, corev1.TLSPrivateKeyKey: {}},
		}, metav1.CreateOptions{})
		err = errors.Join(err, err1, err2)
	}
	_, bound := a.core.RbacV1().RoleBindings("shop").Create(ctx, &rbacv1.RoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: role}, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: role},
		Subjects: []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Namespace: namespace, Name: "spillway-serve"}},
	}, metav1.CreateOptions{})
	if err := errors.Join(err, bound); err != nil {
		t.Fatal(err)
	}
	serve := a.as("spillway-serve")

	c := start(t, serve, nil, "shop")
	c.await(t, "the hub to be known", func() bool { return c.known })
	c.await(t, "the Secret of shop", func() bool {
		keys := c.prog.In.Certificates.Keys()
		return len(keys) == 1 && keys[0] == model.SecretID{Namespace: "shop", Name: "cert"}
	})

	all := start(t, serve, nil)
	eventually.True(t, "what is missing to be told", func() bool {
		return all.hub.State().Problem == "we may not list and watch secrets: grant it to our account"
	})
	all.await(t, "the hub not to be known", func() bool { return !all.known })
}
