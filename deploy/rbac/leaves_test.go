package rbac_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"

	"github.com/spillway-dev/spillway/api/v1alpha1"
	"github.com/spillway-dev/spillway/internal/eventually"
)

const leavesYAML = `
apiVersion: spillway.dev/v1alpha1
kind: GatewayClassConfig
metadata: {name: members}
spec:
  dataPlane: Leaf
  leaf:
    ingressClassName: nginx
    annotations: [nginx.example/]
    members: [{name: eu-2, ingressClassName: haproxy}]
---
apiVersion: networking.k8s.io/v1
kind: IngressClass
metadata: {name: members}
spec:
  controller: spillway.dev/ingress
  parameters: {apiGroup: spillway.dev, kind: GatewayClassConfig, name: members, scope: Cluster}
---
apiVersion: spillway.dev/v1alpha1
kind: MemberCluster
metadata: {name: eu-1}
spec:
  connection: {kubeconfigSecretRef: {name: eu-1}}
  leafAddresses: [192.0.2.0/24]
  taints: []
---
apiVersion: spillway.dev/v1alpha1
kind: MemberCluster
metadata: {name: eu-2}
spec:
  connection: {kubeconfigSecretRef: {name: eu-2}}
  leafAddresses: ["*.lb.example"]
  taints: []`

// leafFleet is a hub, two members with a Service, and serve between them with the roles
// that we ship.
type leafFleet struct {
	t       *testing.T
	hub     *admin
	members map[string]*admin
	dir     string
	serve   *exec.Cmd
	over    chan struct{}
}

func newLeafFleet(t *testing.T) *leafFleet {
	t.Helper()
	servers := map[string]func() []byte{"eu-1": starting(t), "eu-2": starting(t)}
	f := &leafFleet{t: t, hub: newAdmin(t, server(t)), members: map[string]*admin{}, dir: t.TempDir()}
	f.hub.install()
	f.hub.applyFile("hub.yaml")
	for _, m := range []string{"eu-1", "eu-2"} {
		a := newAdmin(t, servers[m]())
		f.members[m] = a
		a.applyFile("member.yaml")
		_, err1 := a.core.CoreV1().Services("default").Create(t.Context(), &corev1.Service{
			ObjectMeta: metav1.ObjectMeta{Name: "web"}, Spec: corev1.ServiceSpec{Ports: []corev1.ServicePort{{Port: 80}}},
		}, metav1.CreateOptions{})
		_, err2 := f.hub.core.CoreV1().Secrets(namespace).Create(t.Context(), &corev1.Secret{
			ObjectMeta: metav1.ObjectMeta{Name: m}, Data: map[string][]byte{"kubeconfig": kubeconfig(a.as("spillway"))},
		}, metav1.CreateOptions{})
		if err := errors.Join(err1, err2); err != nil {
			t.Fatal(err)
		}
	}
	f.hub.apply(strings.TrimPrefix(leavesYAML, "\n"))
	if err := os.WriteFile(filepath.Join(f.dir, "kubeconfig"), kubeconfig(f.hub.as("spillway-serve")), 0o600); err != nil {
		t.Fatal(err)
	}
	return f
}

// start starts serve.
func (f *leafFleet) start() {
	f.t.Helper()
	cmd := exec.Command(binary(f.t, built), "serve", "--kubeconfig", filepath.Join(f.dir, "kubeconfig"), "--state-dir", filepath.Join(f.dir, "state"), "--dns-address=", "--admin-address=127.0.0.1:0")
	out, err := cmd.StderrPipe()
	if err := errors.Join(err, cmd.Start()); err != nil {
		f.t.Fatal(err)
	}
	f.serve, f.over = cmd, make(chan struct{})
	log, over := &strings.Builder{}, f.over
	go func() {
		defer close(over)
		for lines := bufio.NewScanner(out); lines.Scan(); {
			fmt.Fprintln(log, lines.Text())
		}
	}()
	f.t.Cleanup(func() {
		f.kill()
		<-over
		if f.t.Failed() {
			f.t.Log(log.String())
		}
	})
}

// kill ends serve as a crash does.
func (f *leafFleet) kill() {
	if f.serve != nil {
		_ = f.serve.Process.Kill()
		<-f.over
		_ = f.serve.Wait()
		f.serve = nil
	}
}

// root makes a root, or changes it.
func (f *leafFleet) root(name, path string) {
	f.t.Helper()
	patch := fmt.Sprintf(`{"apiVersion": "networking.k8s.io/v1", "kind": "Ingress", "metadata": {"name": %q, "annotations": {"nginx.example/body": "8m", "other.example/x": "y"}},
"spec": {"ingressClassName": "members", "rules": [{"host": "%[1]s.example", "http": {"paths": [{"path": %[2]q, "pathType": "Prefix", "backend": {"service": {"name": "web", "port": {"number": 80}}}}]}}]}}`, name, path)
	if _, err := f.hub.core.NetworkingV1().Ingresses("default").Patch(f.t.Context(), name, types.ApplyPatchType, []byte(patch), metav1.PatchOptions{FieldManager: "user"}); err != nil {
		f.t.Fatal(err)
	}
}

// leaf is the Ingress of a name in a member; nil: there is none.
func (f *leafFleet) leaf(m, name string) *networkingv1.Ingress {
	f.t.Helper()
	return ingressOf(f.t, f.members[m].core, name)
}

func ingressOf(t *testing.T, c kubernetes.Interface, name string) *networkingv1.Ingress {
	t.Helper()
	o, err := c.NetworkingV1().Ingresses("default").Get(t.Context(), name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return nil
	}
	if err != nil {
		t.Fatal(err)
	}
	return o
}

// has waits until members have a leaf with a path, or, without one, have none.
func (f *leafFleet) has(name, path string, members ...string) {
	f.t.Helper()
	for _, m := range members {
		eventually.True(f.t, fmt.Sprintf("leaf %s%s in %s", name, path, m), func() bool {
			o := f.leaf(m, name)
			return o == nil && path == "" || o != nil && path != "" && o.Spec.Rules[0].HTTP.Paths[0].Path == path
		})
	}
}

// says has the controller of a member say where a leaf is.
func (f *leafFleet) says(m, name, status string) {
	f.t.Helper()
	patch := []byte(`{"status": {"loadBalancer": {"ingress": [` + status + `]}}}`)
	if _, err := f.members[m].core.NetworkingV1().Ingresses("default").Patch(f.t.Context(), name, types.MergePatchType, patch, metav1.PatchOptions{FieldManager: "controller"}, "status"); err != nil {
		f.t.Fatal(err)
	}
}

// addresses waits until a root's status lists these.
func (f *leafFleet) addresses(name string, want ...string) {
	f.t.Helper()
	eventually.True(f.t, fmt.Sprint(name, " is at ", want), func() bool {
		var got []string
		for _, a := range ingressOf(f.t, f.hub.core, name).Status.LoadBalancer.Ingress {
			got = append(got, a.IP+a.Hostname)
		}
		slices.Sort(got)
		return slices.Equal(got, want)
	})
}

// told waits until an event of a root has some words.
func (f *leafFleet) told(name, reason, words string) {
	f.t.Helper()
	f.toldOf("Ingress", name, reason, words)
}

func (f *leafFleet) toldOf(kind, name, reason, words string) {
	f.t.Helper()
	eventually.True(f.t, reason+" "+words, func() bool {
		list, err := f.hub.core.CoreV1().Events("default").List(f.t.Context(), metav1.ListOptions{FieldSelector: "involvedObject.kind=" + kind + ",involvedObject.name=" + name})
		return err == nil && slices.ContainsFunc(list.Items, func(e corev1.Event) bool { return e.Reason == reason && strings.Contains(e.Message, words) })
	})
}

// TestLeaves: from a root on the hub to leaves in two members, from what their
// controllers say to the status of the root, over edits, crashes and deletions, by serve
// itself on real API servers and with the roles that we ship.
func TestLeaves(t *testing.T) {
	t.Parallel()
	f := newLeafFleet(t)
	f.start()
	f.root("web", "/")
	f.told("web", "LeafRefused", `cannot list resource "ingresses"`)
	for _, m := range f.members {
		m.applyFile("member-leaves.yaml")
	}
	f.has("web", "/", "eu-1", "eu-2")
	for m, class := range map[string]string{"eu-1": "nginx", "eu-2": "haproxy"} {
		o := f.leaf(m, "web")
		if o.Spec.IngressClassName == nil || *o.Spec.IngressClassName != class || o.Annotations["nginx.example/body"] != "8m" || o.Annotations["other.example/x"] != "" {
			t.Errorf("%s: %v %v", m, o.Annotations, o.Spec)
		}
	}
	f.says("eu-1", "web", `{"ip": "192.0.2.1"}, {"ip": "198.51.100.1"}`)
	f.says("eu-2", "web", `{"hostname": "a.lb.example"}`)
	f.addresses("web", "192.0.2.1", "a.lb.example")
	f.told("web", "LeafAddressRefused", "198.51.100.1")

	foreign(t, f)
	claims(t, f)
	atRest(t, f)

	// What goes while nobody looks goes from members, too.
	f.kill()
	if err := f.hub.core.NetworkingV1().Ingresses("default").Delete(t.Context(), "web", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	f.start()
	f.has("web", "", "eu-1", "eu-2")
	f.has("late", "/b", "eu-1", "eu-2")
	if err := f.hub.core.NetworkingV1().Ingresses("default").Delete(t.Context(), "late", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	f.has("late", "", "eu-1", "eu-2")
	if f.leaf("eu-1", "theirs") == nil {
		t.Error("an Ingress that is not ours is gone")
	}
}

// foreign has an Ingress of the name in a member: it stays as it is, and so it would if
// we tried.
func foreign(t *testing.T, f *leafFleet) {
	t.Helper()
	theirs := f.occupy("eu-1", "theirs")
	f.root("theirs", "/")
	f.told("theirs", "LeafForeign", "eu-1")
	f.has("theirs", "/", "eu-2")
	if now := f.leaf("eu-1", "theirs"); now.ResourceVersion != theirs.ResourceVersion {
		t.Errorf("it was written: %v", now)
	}
	policy(t, f, theirs)
	if err := f.hub.core.NetworkingV1().Ingresses("default").Delete(t.Context(), "theirs", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	f.has("theirs", "", "eu-2")
}

// claims has an Ingress of another name, in another namespace, ask for the host of a leaf:
// that is told, with the roles that we ship, until it is gone. A challenge's solver beside
// the leaf is no matter, nor is an Ingress of another class.
func claims(t *testing.T, f *leafFleet) {
	t.Helper()
	core := f.members["eu-1"].core
	if _, err := core.CoreV1().Namespaces().Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "others"}}, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	ask := func(namespace, name, class, path string) {
		t.Helper()
		o := f.leaf("eu-1", "web")
		of := &networkingv1.Ingress{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: *o.Spec.DeepCopy()}
		of.Spec.IngressClassName, of.Spec.Rules[0].HTTP.Paths[0].Path = &class, path
		if _, err := core.NetworkingV1().Ingresses(namespace).Create(t.Context(), of, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	ask("default", "solver", "nginx", "/.well-known/acme-challenge/x")
	ask("others", "haproxy", "haproxy", "/")
	ask("others", "zz-claims", "nginx", "/x")
	f.told("web", "LeafHostClaimed", "web.example by Ingress others/zz-claims")
}

// policed waits until the policy of a member is in use, which takes a moment.
func (f *leafFleet) policed(m string) {
	f.t.Helper()
	ours := kubernetes.NewForConfigOrDie(f.members[m].as("spillway")).NetworkingV1().Ingresses("default")
	o := &networkingv1.Ingress{ObjectMeta: metav1.ObjectMeta{Name: "unmarked"}, Spec: networkingv1.IngressSpec{
		DefaultBackend: &networkingv1.IngressBackend{Service: &networkingv1.IngressServiceBackend{Name: "x", Port: networkingv1.ServiceBackendPort{Number: 80}}},
	}}
	eventually.True(f.t, "the policy is in use", func() bool {
		_, err := ours.Create(f.t.Context(), o, metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
		return err != nil && strings.Contains(err.Error(), v1alpha1.LabelHub)
	})
}

// policy checks that our account can't write what has no mark.
func policy(t *testing.T, f *leafFleet, theirs *networkingv1.Ingress) {
	t.Helper()
	ours := kubernetes.NewForConfigOrDie(f.members["eu-1"].as("spillway")).NetworkingV1().Ingresses("default")
	mark := []byte(`{"metadata": {"labels": {"` + v1alpha1.LabelHub + `": "x"}}}`)
	other, dry := &networkingv1.Ingress{ObjectMeta: metav1.ObjectMeta{Name: "other"}, Spec: theirs.Spec}, []string{metav1.DryRunAll}
	for what, try := range map[string]func(context.Context) error{
		"delete": func(ctx context.Context) error { return ours.Delete(ctx, "theirs", metav1.DeleteOptions{DryRun: dry}) },
		"mark": func(ctx context.Context) error {
			_, err := ours.Patch(ctx, "theirs", types.MergePatchType, mark, metav1.PatchOptions{DryRun: dry})
			return err
		},
		"create": func(ctx context.Context) error {
			_, err := ours.Create(ctx, other, metav1.CreateOptions{DryRun: dry})
			return err
		},
		"mark of another": func(ctx context.Context) error {
			_, err := ours.Patch(ctx, "web", types.MergePatchType, mark, metav1.PatchOptions{DryRun: dry})
			return err
		},
	} {
		eventually.True(t, what+" is refused", func() bool { // a policy takes a moment
			err := try(t.Context())
			return err != nil && strings.Contains(err.Error(), v1alpha1.LabelHub)
		})
	}
}

// atRest: a restart writes nothing. When what came after it is done, all that was there
// before is as it was.
func atRest(t *testing.T, f *leafFleet) {
	t.Helper()
	versions := func() (out []string) {
		for m := range f.members {
			out = append(out, m+" "+f.leaf(m, "web").ResourceVersion)
		}
		slices.Sort(out)
		return append(out, "hub "+ingressOf(t, f.hub.core, "web").ResourceVersion)
	}
	before := versions()
	f.kill()
	f.start()
	f.root("late", "/a")
	f.has("late", "/a", "eu-1", "eu-2")
	f.root("late", "/b")
	f.has("late", "/b", "eu-1", "eu-2")
	f.says("eu-1", "late", `{"ip": "192.0.2.2"}`)
	f.addresses("late", "192.0.2.2")
	if after := versions(); !slices.Equal(before, after) {
		t.Errorf("a restart made %v of %v", after, before)
	}
}
