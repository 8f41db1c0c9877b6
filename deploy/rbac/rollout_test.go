package rbac_test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/spillway-dev/spillway/api/v1alpha1"
	"github.com/spillway-dev/spillway/internal/eventually"
)

const wavesYAML = `
apiVersion: spillway.dev/v1alpha1
kind: Placement
metadata: {name: careful, namespace: default}
spec:
  targetRefs: [{group: "", kind: Namespace, name: default}]
  rollout:
    waves: [{selector: {matchLabels: {wave: canary}}}]
    pause: 1h`

// owner is who owns a root, with the role that the documentation has.
type owner struct {
	*leafFleet
	kubeconfig string
}

func newOwner(t *testing.T, f *leafFleet) *owner {
	t.Helper()
	page, err := os.ReadFile("../../docs/reference/placement.md")
	if err != nil {
		t.Fatal(err)
	}
	_, role, _ := strings.Cut(string(page), "```yaml\napiVersion: rbac.authorization.k8s.io/v1\n")
	role, _, _ = strings.Cut(role, "```")
	f.hub.apply("apiVersion: rbac.authorization.k8s.io/v1\n" + role)
	ctx := t.Context()
	if _, err := f.hub.core.CoreV1().ServiceAccounts(namespace).Create(ctx, &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: "owner"}}, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	if _, err := f.hub.core.RbacV1().RoleBindings("default").Create(ctx, &rbacv1.RoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: "owner"}, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "rollout"},
		Subjects: []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Namespace: namespace, Name: "owner"}},
	}, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	o := &owner{f, filepath.Join(f.dir, "owner")}
	if err := os.WriteFile(o.kubeconfig, kubeconfig(f.hub.as("owner")), 0o600); err != nil {
		t.Fatal(err)
	}
	return o
}

// rollout runs `spillway rollout`, and checks what it says.
func (o *owner) rollout(fails bool, want string, args ...string) {
	o.t.Helper()
	out, err := exec.CommandContext(o.t.Context(), binary(o.t, built), append([]string{"rollout", "--kubeconfig", o.kubeconfig, "-n", "default"}, args...)...).CombinedOutput()
	if (err != nil) != fails || !strings.Contains(string(out), want) {
		o.t.Errorf("spillway rollout %v said %s (%v), want %s", args, out, err, want)
	}
}

// stands waits until the Placement says of the edits how they stand.
func (o *owner) stands(want string) {
	o.t.Helper()
	eventually.True(o.t, "an edit is "+want, func() bool {
		p, err := o.hub.dynamic.Resource(v1alpha1.GroupVersion.WithResource("placements")).Namespace("default").Get(o.t.Context(), "careful", metav1.GetOptions{})
		return err == nil && strings.Contains(fmt.Sprint(p.Object["status"]), want)
	})
}

func (o *owner) pauses(pause string) {
	o.t.Helper()
	patch := fmt.Appendf(nil, `{"spec": {"rollout": {"pause": %q}}}`, pause)
	if _, err := o.hub.dynamic.Resource(v1alpha1.GroupVersion.WithResource("placements")).Namespace("default").Patch(o.t.Context(), "careful", types.MergePatchType, patch, metav1.PatchOptions{}); err != nil {
		o.t.Fatal(err)
	}
}

// TestRollout: an edit reaches the member of the first wave, which loses its address by it.
// It is stopped, its owner takes it back, and the next one reaches both. The one behind that
// is stopped, too, and goes on as the owner wants. All of it by serve on real API servers,
// and by the commands, with no more rights than the documentation names.
func TestRollout(t *testing.T) {
	t.Parallel()
	f := newLeafFleet(t)
	for _, m := range f.members {
		m.applyFile("member-leaves.yaml")
	}
	if _, err := f.hub.dynamic.Resource(memberClusters).Patch(t.Context(), "eu-1", types.MergePatchType, []byte(`{"metadata": {"labels": {"wave": "canary"}}}`), metav1.PatchOptions{}); err != nil {
		t.Fatal(err)
	}
	f.hub.apply(strings.TrimPrefix(wavesYAML, "\n"))
	o := newOwner(t, f)
	f.start()
	f.root("web", "/")
	f.has("web", "/", "eu-1", "eu-2")
	f.says("eu-1", "web", `{"ip": "192.0.2.1"}`)
	f.says("eu-2", "web", `{"hostname": "a.lb.example"}`)
	f.addresses("web", "192.0.2.1", "a.lb.example")
	o.stands("no edit is on its way")
	o.rollout(false, "none\n", "status")
	o.rollout(true, "no edit of Ingress default/web is on its way: there is nothing to take back", "back", "Ingress", "web")

	f.root("web", "/bad")
	f.has("web", "/bad", "eu-1")
	o.stands("all is well so far")
	o.rollout(true, "is not stopped: it is in wave 1 of 2 (all is well so far)", "back", "Ingress/web")
	f.says("eu-1", "web", "")
	o.stands("reason:Stopped")
	f.has("web", "/", "eu-2")
	o.rollout(false, "1 of 2    default/careful   member eu-1: it lost its addresses", "status")
	o.rollout(false, "only Placements of namespace default are looked at", "status", "ing", "web")
	o.rollout(true, "not 00000000", "back", "Ingress/web", "--edit", "00000000")
	o.rollout(false, "is taken back: members get what was before it", "back", "Ingress", "web")
	f.has("web", "/", "eu-1", "eu-2")
	o.stands("reason:Back")

	f.says("eu-1", "web", `{"ip": "192.0.2.1"}`)
	f.addresses("web", "192.0.2.1", "a.lb.example")
	o.pauses("0s")
	f.root("web", "/good")
	f.has("web", "/good", "eu-1", "eu-2")
	o.stands("no edit is on its way")

	o.pauses("1h")
	f.root("web", "/moved")
	f.has("web", "/moved", "eu-1")
	o.stands("all is well so far")
	f.says("eu-1", "web", "")
	o.stands("reason:Stopped")
	f.has("web", "/good", "eu-2")
	o.pauses("0s")
	o.rollout(false, "Ingress default/web", "resume", "Ingress", "web")
	f.has("web", "/moved", "eu-1", "eu-2")
	o.stands("no edit is on its way")
}
