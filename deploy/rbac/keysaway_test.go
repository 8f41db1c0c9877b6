package rbac_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/spillway-dev/spillway/api/v1alpha1"
	"github.com/spillway-dev/spillway/internal/eventually"
)

// withKey is a fleet in which eu-2 has a leaf that names the copy of a Secret.
func withKey(t *testing.T) *leafFleet {
	t.Helper()
	f := newLeafFleet(t)
	for _, m := range f.members {
		m.applyFile("member-leaves.yaml")
		m.applyFile("member-keys.yaml")
	}
	configs := f.hub.dynamic.Resource(v1alpha1.GroupVersion.WithResource("gatewayclassconfigs"))
	if _, err := configs.Patch(t.Context(), "members", types.MergePatchType, []byte(`{"spec": {"leaf": {"tls": "Distribute"}}}`), metav1.PatchOptions{}); err != nil {
		t.Fatal(err)
	}
	chain, key := pair(t, "web.example")
	secret := tlsSecret("cert", chain, key, nil)
	secret.Immutable, secret.Annotations = nil, map[string]string{v1alpha1.AnnotationDistribute: "eu-2"}
	if _, err := f.hub.core.CoreV1().Secrets("default").Create(t.Context(), secret, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	return f
}

// secured has the Ingress web have TLS.
func (f *leafFleet) secured() {
	f.t.Helper()
	f.root("web", "/")
	tls := []byte(`{"spec": {"tls": [{"hosts": ["web.example"], "secretName": "cert"}]}}`)
	if _, err := f.hub.core.NetworkingV1().Ingresses("default").Patch(f.t.Context(), "web", types.MergePatchType, tls, metav1.PatchOptions{}); err != nil {
		f.t.Fatal(err)
	}
}

// copies are the names of those in a namespace of eu-2.
func (f *leafFleet) copies(namespace string) (out []string) {
	list, err := f.members["eu-2"].core.CoreV1().Secrets(namespace).List(f.t.Context(), metav1.ListOptions{LabelSelector: v1alpha1.LabelKey})
	if err != nil {
		f.t.Fatal(err)
	}
	for i := range list.Items {
		out = append(out, list.Items[i].Name)
	}
	return out
}

// TestKeysOfAMemberThatLeft: a member that left while it was away gives its keys back when
// it is reached again, to whoever reads the MemberTombstone.
func TestKeysOfAMemberThatLeft(t *testing.T) {
	t.Parallel()
	f := withKey(t)
	away := f.behind("eu-2")
	f.start()
	f.secured()
	eventually.True(t, "eu-2 has the key", func() bool { return len(f.copies("default")) == 1 })
	eventually.True(t, "its leaf names it", func() bool {
		o := f.leaf("eu-2", "web")
		return o != nil && len(o.Spec.TLS) == 1 && o.Spec.TLS[0].SecretName == f.copies("default")[0]
	})
	away.set(true)
	eventually.True(t, "eu-2 is away", func() bool {
		o, err := f.hub.dynamic.Resource(memberClusters).Get(t.Context(), "eu-2", metav1.GetOptions{})
		return err == nil && strings.Contains(fmt.Sprint(o.Object["status"]), "Unreachable")
	})
	if said, err := f.remove("eu-2"); err != nil {
		t.Fatalf("said %s (%v)", said, err)
	}
	stones := f.stones()
	if len(stones) != 1 {
		t.Fatalf("tombstones %v", stones)
	}
	if spec, _ := stones[0].Object["spec"].(map[string]any); fmt.Sprint(spec["keys"], spec["keyNamespaces"]) != "1 [default]" {
		t.Errorf("it remembers %v", spec)
	}
	f.kill()
	if err := os.RemoveAll(filepath.Join(f.dir, "state")); err != nil {
		t.Fatal(err)
	}
	away.set(false)
	f.start()
	eventually.True(t, "nobody remembers", func() bool { return len(f.stones()) == 0 })
	if f.leaf("eu-2", "web") != nil || len(f.copies("default")) > 0 {
		t.Errorf("left are %v, %v", f.leaf("eu-2", "web"), f.copies("default"))
	}
}

// TestANamespaceThatMoves: where a MemberCluster says that its member calls a namespace
// otherwise, the Services there count, leaves and keys are there, and move when it changes.
func TestANamespaceThatMoves(t *testing.T) {
	t.Parallel()
	f := withKey(t)
	core := f.members["eu-2"].core
	_, err := core.CoreV1().Namespaces().Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "team"}}, metav1.CreateOptions{})
	if err == nil {
		_, err = core.CoreV1().Services("team").Create(t.Context(), &corev1.Service{ObjectMeta: metav1.ObjectMeta{Name: "web"}, Spec: corev1.ServiceSpec{Ports: []corev1.ServicePort{{Port: 80}}}}, metav1.CreateOptions{})
	}
	if err != nil {
		t.Fatal(err)
	}
	f.start()
	f.secured()
	in := func(namespace string) bool {
		o, err := core.NetworkingV1().Ingresses(namespace).Get(t.Context(), "web", metav1.GetOptions{})
		copies := f.copies(namespace)
		return err == nil && len(copies) == 1 && len(o.Spec.TLS) == 1 && o.Spec.TLS[0].SecretName == copies[0]
	}
	none := func(namespace string) bool {
		list, err := core.NetworkingV1().Ingresses(namespace).List(t.Context(), metav1.ListOptions{})
		return err == nil && len(list.Items) == 0 && len(f.copies(namespace)) == 0
	}
	move := func(patch string) {
		if _, err := f.hub.dynamic.Resource(memberClusters).Patch(t.Context(), "eu-2", types.MergePatchType, []byte(patch), metav1.PatchOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	eventually.True(t, "as everywhere", func() bool { return in("default") && none("team") })
	move(`{"spec": {"namespaces": [{"namespace": "default", "as": "team"}]}}`)
	eventually.True(t, "in team", func() bool { return in("team") && none("default") })
	f.kill()
	f.start()
	move(`{"spec": {"namespaces": null}}`)
	eventually.True(t, "back", func() bool { return in("default") && none("team") })
	for _, as := range []string{"kube-system", "spillway-system", "Team"} {
		patch := fmt.Appendf(nil, `{"spec": {"namespaces": [{"namespace": "default", "as": %q}]}}`, as)
		if _, err := f.hub.dynamic.Resource(memberClusters).Patch(t.Context(), "eu-2", types.MergePatchType, patch, metav1.PatchOptions{}); err == nil {
			t.Errorf("namespace %s is taken", as)
		}
	}
}
