package rbac_test

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	networkingv1 "k8s.io/api/networking/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"github.com/spillway-dev/spillway/api/v1alpha1"
	"github.com/spillway-dev/spillway/internal/eventually"
)

// gate is a way to an API server that can be closed.
type gate struct {
	listener net.Listener
	mu       sync.Mutex
	closed   bool
	open     map[net.Conn]bool
	all      sync.WaitGroup
}

// newGate makes one to a URL, and returns the URL of the gate.
func newGate(t *testing.T, to string) (*gate, string) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	g := &gate{listener: l, open: map[net.Conn]bool{}}
	g.all.Go(func() { g.serve(strings.TrimPrefix(to, "https://")) })
	t.Cleanup(func() {
		_ = l.Close()
		g.set(true)
		g.all.Wait()
	})
	return g, "https://" + l.Addr().String()
}

func (g *gate) serve(to string) {
	for {
		in, err := g.listener.Accept()
		if err != nil {
			return
		}
		out, err := net.Dial("tcp", to)
		if err != nil || !g.add(in, out) {
			_ = in.Close()
			if err == nil {
				_ = out.Close()
			}
			continue
		}
		for _, pair := range [][2]net.Conn{{in, out}, {out, in}} {
			g.all.Go(func() {
				_, _ = io.Copy(pair[0], pair[1])
				_, _ = pair[0].Close(), pair[1].Close()
			})
		}
	}
}

func (g *gate) add(conns ...net.Conn) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	for _, c := range conns {
		if !g.closed {
			g.open[c] = true
		}
	}
	return !g.closed
}

// set closes the gate, or opens it.
func (g *gate) set(closed bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.closed = closed
	for c := range g.open {
		if closed {
			_ = c.Close()
			delete(g.open, c)
		}
	}
}

var (
	memberClusters = v1alpha1.GroupVersion.WithResource("memberclusters")
	tombstones     = v1alpha1.GroupVersion.WithResource("membertombstones")
)

// behind puts a gate before a member.
func (f *leafFleet) behind(m string) *gate {
	f.t.Helper()
	g, url := newGate(f.t, f.members[m].config.Host)
	c := f.members[m].as("spillway")
	c.Host = url
	patch, err := json.Marshal(map[string]any{"data": map[string][]byte{"kubeconfig": kubeconfig(c)}})
	if err == nil {
		_, err = f.hub.core.CoreV1().Secrets(namespace).Patch(f.t.Context(), m, types.MergePatchType, patch, metav1.PatchOptions{})
	}
	if err != nil {
		f.t.Fatal(err)
	}
	return g
}

func (f *leafFleet) gone(r schema.GroupVersionResource, name string) bool {
	_, err := f.hub.dynamic.Resource(r).Get(f.t.Context(), name, metav1.GetOptions{})
	return apierrors.IsNotFound(err)
}

// stones are the tombstones there are.
func (f *leafFleet) stones() []unstructured.Unstructured {
	list, err := f.hub.dynamic.Resource(tombstones).List(f.t.Context(), metav1.ListOptions{})
	if err != nil {
		f.t.Fatal(err)
	}
	return list.Items
}

// remove runs `spillway member remove`.
func (f *leafFleet) remove(args ...string) (string, error) {
	f.t.Helper()
	admin := filepath.Join(f.dir, "admin")
	if err := os.WriteFile(admin, kubeconfigOf(f.hub), 0o600); err != nil {
		f.t.Fatal(err)
	}
	out, err := exec.CommandContext(f.t.Context(), binary(f.t, built), append([]string{"member", "remove", "--kubeconfig", admin}, args...)...).CombinedOutput()
	return string(out), err
}

// TestAway: a MemberCluster that is deleted goes when its leaves are gone. One that is
// away goes at once; when it is reached again its leaves go, and what remembers them. One
// that never returns is forgotten. What nobody but the hub remembers is looked for.
func TestAway(t *testing.T) {
	t.Parallel()
	f := newLeafFleet(t)
	for _, m := range f.members {
		m.applyFile("member-leaves.yaml")
	}
	away := f.behind("eu-2")
	f.start()
	f.root("web", "/")
	f.has("web", "/", "eu-1", "eu-2")
	guarded := func(m string) bool {
		o, err := f.hub.dynamic.Resource(memberClusters).Get(t.Context(), m, metav1.GetOptions{})
		return err == nil && slices.Contains(o.GetFinalizers(), v1alpha1.FinalizerLeaves)
	}
	if !guarded("eu-1") || !guarded("eu-2") {
		t.Error("leaves are there, and nobody is held back")
	}

	// Away: it goes at once, and its leaf stays, remembered.
	away.set(true)
	eventually.True(t, "eu-2 is away", func() bool {
		o, err := f.hub.dynamic.Resource(memberClusters).Get(t.Context(), "eu-2", metav1.GetOptions{})
		return err == nil && strings.Contains(fmt.Sprint(o.Object["status"]), "Unreachable")
	})
	said, err := f.remove("eu-2")
	if err != nil || !strings.Contains(said, "MemberTombstone eu-2-") {
		t.Errorf("said %s (%v)", said, err)
	}
	if f.leaf("eu-2", "web") == nil {
		t.Error("its leaf is gone")
	}
	if s := f.stones(); len(s) != 1 || fmt.Sprint(s[0].Object["spec"].(map[string]any)["clusterUID"]) == "<nil>" {
		t.Fatalf("tombstones %v", s)
	}
	// It returns: also to a serve that knows nothing.
	f.kill()
	if err := os.RemoveAll(filepath.Join(f.dir, "state")); err != nil {
		t.Fatal(err)
	}
	away.set(false)
	f.start()
	f.has("web", "", "eu-2")
	eventually.True(t, "nobody remembers", func() bool { return len(f.stones()) == 0 })

	// The last one stays, unless it is forced.
	said, err = f.remove("eu-1")
	if err == nil || !strings.Contains(said, "the last leaves of Ingress default/web") {
		t.Errorf("said %s (%v)", said, err)
	}
	if f.leaf("eu-1", "web") == nil {
		t.Error("the last leaf is gone")
	}
	force := []byte(`{"metadata": {"annotations": {"` + v1alpha1.AnnotationForceDelete + `": "true"}}}`)
	if _, err := f.hub.dynamic.Resource(memberClusters).Patch(t.Context(), "eu-1", types.MergePatchType, force, metav1.PatchOptions{}); err != nil {
		t.Fatal(err)
	}
	eventually.True(t, "eu-1 is gone", func() bool { return f.gone(memberClusters, "eu-1") })
	if f.leaf("eu-1", "web") != nil {
		t.Error("its leaf is there")
	}
	if s := f.stones(); len(s) > 0 {
		t.Errorf("remembered: %v", s)
	}
}

// TestUninstalled: without serve the documented command lets a MemberCluster go, and says
// how to delete what is left there.
func TestUninstalled(t *testing.T) {
	t.Parallel()
	f := newLeafFleet(t)
	for _, m := range f.members {
		m.applyFile("member-leaves.yaml")
	}
	f.start()
	f.root("web", "/")
	f.has("web", "/", "eu-1", "eu-2")

	// No class asks for leaves any more, while nobody looks, and no checkpoint tells.
	f.kill()
	if err := os.RemoveAll(filepath.Join(f.dir, "state")); err != nil {
		t.Fatal(err)
	}
	if err := f.hub.core.NetworkingV1().IngressClasses().Delete(t.Context(), "members", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	said, err := f.remove("eu-2", "--forget")
	if err != nil || !strings.Contains(said, " ingresses.networking.k8s.io ") || !strings.Contains(said, "delete $kind -A -l "+v1alpha1.LabelHub+"=") || !f.gone(memberClusters, "eu-2") || f.leaf("eu-2", "web") == nil {
		t.Errorf("said %s (%v)", said, err)
	}
	f.start()
	f.has("web", "", "eu-1")
	eventually.True(t, "nobody is held back", func() bool {
		o, err := f.hub.dynamic.Resource(memberClusters).Get(t.Context(), "eu-1", metav1.GetOptions{})
		return err == nil && !slices.Contains(o.GetFinalizers(), v1alpha1.FinalizerLeaves)
	})
	if f.leaf("eu-2", "web") == nil {
		t.Error("what was forgotten is gone")
	}
}

// TestAdopt: an Ingress that is there becomes a leaf with consent on the hub and in the
// member, without a gap, and is let go as it is where its root says so.
func TestAdopt(t *testing.T) {
	t.Parallel()
	f := newLeafFleet(t)
	for _, m := range f.members {
		m.applyFile("member-leaves.yaml")
	}
	f.start()
	f.root("web", "/")
	f.has("web", "/", "eu-1", "eu-2")
	f.policed("eu-1")
	there := f.members["eu-1"].core.NetworkingV1().Ingresses("default")
	o, err := there.Create(t.Context(), &networkingv1.Ingress{ObjectMeta: metav1.ObjectMeta{Name: "old", Labels: map[string]string{"app": "shop"}}, Spec: networkingv1.IngressSpec{
		DefaultBackend: &networkingv1.IngressBackend{Service: &networkingv1.IngressServiceBackend{Name: "x", Port: networkingv1.ServiceBackendPort{Number: 80}}},
	}}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	f.root("old", "/")
	f.told("old", "LeafForeign", v1alpha1.AnnotationAdopt)
	annotate := func(name, value string) {
		t.Helper()
		patch := fmt.Appendf(nil, `{"metadata": {"annotations": {%q: %q}}}`, name, value)
		if _, err := f.hub.core.NetworkingV1().Ingresses("default").Patch(t.Context(), "old", types.MergePatchType, patch, metav1.PatchOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	annotate(v1alpha1.AnnotationAdopt, "eu-1")
	f.told("old", "LeafForeign", "in the member") // the words of the policy there
	if _, err := there.Patch(t.Context(), "old", types.MergePatchType, []byte(`{"metadata": {"annotations": {"`+v1alpha1.AnnotationAdopt+`": "true"}}}`), metav1.PatchOptions{}); err != nil {
		t.Fatal(err)
	}
	marked := func() bool { return f.leaf("eu-1", "old").Labels[v1alpha1.LabelHub] != "" }
	eventually.True(t, "it is a leaf", marked)
	if now := f.leaf("eu-1", "old"); now.UID != o.UID || now.Labels["app"] != "shop" || len(now.Spec.Rules) != 1 {
		t.Errorf("adopted as %v", now)
	}
	annotate(v1alpha1.AnnotationLeafDeletion, "Orphan")
	eventually.True(t, "it says so", func() bool { return f.leaf("eu-1", "old").Annotations[v1alpha1.AnnotationLeafDeletion] != "" })
	if err := f.hub.core.NetworkingV1().Ingresses("default").Delete(t.Context(), "old", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	eventually.True(t, "it is a leaf no more", func() bool { return !marked() })
	if now := f.leaf("eu-1", "old"); now.UID != o.UID || len(now.Spec.Rules) != 1 {
		t.Errorf("let go as %v", now)
	}
}

// kubeconfigOf is that of an administrator.
func kubeconfigOf(a *admin) []byte {
	b64 := base64.StdEncoding.EncodeToString
	return fmt.Appendf(nil, `{"apiVersion": "v1", "kind": "Config", "current-context": "c", "contexts": [{"name": "c", "context": {"cluster": "c", "user": "u"}}],
"clusters": [{"name": "c", "cluster": {"server": %q, "certificate-authority-data": %q}}], "users": [{"name": "u", "user": {"token": %q, "client-certificate-data": %q, "client-key-data": %q}}]}`,
		a.config.Host, b64(a.config.CAData), a.config.BearerToken, b64(a.config.CertData), b64(a.config.KeyData))
}
