package rbac_test

import (
	"context"
	"fmt"
	"log/slog"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"

	"github.com/spillway-dev/spillway/api/v1alpha1"
	"github.com/spillway-dev/spillway/internal/cluster"
	"github.com/spillway-dev/spillway/internal/eventually"
	"github.com/spillway-dev/spillway/internal/hub"
	"github.com/spillway-dev/spillway/internal/inc"
	"github.com/spillway-dev/spillway/internal/model"
)

const globalYAML = `apiVersion: spillway.dev/v1alpha1
kind: GatewayClassConfig
metadata: {name: members}
spec: {dataPlane: Leaf}
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
  taints: []
  leafAddresses: [192.0.2.0/24]`

// process is a run of serve, as far as it writes GlobalIngresses.
type process struct {
	*control
	w   *hub.Writer
	end func()
}

// begin runs one with the rights of an account, until it is killed.
func begin(t *testing.T, config *rest.Config, leafy cluster.LeafyClasses) *process {
	t.Helper()
	w, err := hub.NewWriter(config, "test", cluster.NewBudget(), slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	ctx, kill := context.WithCancel(context.Background())
	var all sync.WaitGroup
	all.Go(func() { w.Run(ctx) })
	p := &process{control: start(t, config, w.Seen), w: w, end: sync.OnceFunc(func() { kill(); all.Wait() })}
	t.Cleanup(p.end)
	p.asks <- func() { hub.Follow(w, p.leaf) }
	p.hub.Leafy(leafy)
	p.await(t, "hub known", func() bool { return p.known })
	return p
}

// tell is what a syncer tells of the leaf.
func (p *process) tell(id model.LeafID, addresses ...string) {
	p.asks <- func() {
		p.graph.Commit(func(tx *inc.Tx) {
			p.prog.In.LeafStates.Set(tx, id, model.LeafState{Reason: "Applied", There: true, Addresses: model.TextsOf(addresses)})
		})
	}
}

// versions are the objects of the namespace and their versions.
func versions(t *testing.T, globals dynamic.ResourceInterface) string {
	t.Helper()
	list, err := globals.List(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	var out []string
	for _, o := range list.Items {
		out = append(out, fmt.Sprint(o.GetName(), " ", o.GetUID(), " ", o.GetResourceVersion()))
	}
	return strings.Join(out, "\n")
}

// TestGlobalIngress: on a real API server and with the role that we ship, a GlobalIngress
// comes with a leaf's address, is written once for an edit and not at all by a process
// that starts, is put right, goes with its root when its consumer lets go; and the sample
// consumer writes records from it with its own role.
func TestGlobalIngress(t *testing.T) {
	t.Parallel()
	a, member := newAdmin(t, server(t)), newAdmin(t, server(t))
	a.install()
	a.applyFile("hub.yaml")
	member.applyFile("member.yaml")
	ctx := t.Context()
	if _, err := member.core.CoreV1().Services("default").Create(ctx, &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Name: "web"}, Spec: corev1.ServiceSpec{Ports: []corev1.ServicePort{{Port: 80}}},
	}, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	if _, err := a.core.CoreV1().Secrets(namespace).Create(ctx, &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Name: "eu-1"}, Data: map[string][]byte{"kubeconfig": kubeconfig(member.as("spillway"))},
	}, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	a.apply(globalYAML)
	class := "members"
	ingresses := a.core.NetworkingV1().Ingresses("default")
	root, err := ingresses.Create(ctx, &networkingv1.Ingress{
		ObjectMeta: metav1.ObjectMeta{Name: "web"},
		Spec: networkingv1.IngressSpec{IngressClassName: &class, Rules: []networkingv1.IngressRule{{Host: "shop.example", IngressRuleValue: networkingv1.IngressRuleValue{
			HTTP: &networkingv1.HTTPIngressRuleValue{Paths: []networkingv1.HTTPIngressPath{{Path: "/", PathType: new(networkingv1.PathTypePrefix), Backend: networkingv1.IngressBackend{
				Service: &networkingv1.IngressServiceBackend{Name: "web", Port: networkingv1.ServiceBackendPort{Number: 80}},
			}}}},
		}}}},
	}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	globals := a.dynamic.Resource(v1alpha1.GroupVersion.WithResource("globalingresses")).Namespace("default")
	get := func() *unstructured.Unstructured {
		o, err := globals.Get(ctx, "ingress.web", metav1.GetOptions{})
		if apierrors.IsNotFound(err) {
			return nil
		}
		if err != nil {
			t.Fatal(err)
		}
		return o
	}
	serve := a.as("spillway-serve")
	leafy := cluster.LeafyClasses{"members": false}
	leaf := model.LeafID{Member: "eu-1", Root: model.Object{Kind: "Ingress", Namespace: "default", Name: "web"}}
	p := begin(t, serve, leafy)
	p.w.Open()
	p.await(t, "the leaf is wanted", func() bool { _, ok := p.leaf.Leaves.Get(nil, leaf); return ok })
	if get() != nil {
		t.Error("it is there before its root is ready")
	}
	p.tell(leaf, "192.0.2.7")
	settled := func(p *process) {
		t.Helper()
		p.await(t, "what was written is read", func() bool {
			row, ok := p.leaf.Globals.Get(nil, model.Object{Kind: model.GlobalKind, Namespace: "default", Name: "ingress.web"})
			return ok && row.Settled
		})
	}
	settled(p)
	o := get()
	if owners := o.GetOwnerReferences(); len(owners) != 1 || owners[0].UID != root.UID || owners[0].Kind != "Ingress" {
		t.Errorf("owners %v", owners)
	}

	consumer := consume(t, a)
	consumer.expect("shop.example.\t30\tIN\tA\t192.0.2.7\n")
	eventually.True(t, "the consumer says so", func() bool {
		s := fmt.Sprint(get().Object["status"])
		return strings.Contains(s, "example.com/zone-file") && strings.Contains(s, "Programmed") && len(get().GetFinalizers()) == 1
	})

	// An edit is one write of ours; the consumer's are of its status.
	before := get().GetGeneration()
	p.tell(leaf, "192.0.2.7", "192.0.2.8")
	consumer.expect("shop.example.\t30\tIN\tA\t192.0.2.7\nshop.example.\t30\tIN\tA\t192.0.2.8\n")
	settled(p)
	if now := get().GetGeneration(); now != before+1 {
		t.Errorf("%d writes for an edit", now-before)
	}
	eventually.True(t, "the consumer has seen it", func() bool { return strings.Contains(fmt.Sprint(get().Object["status"]), "2 records") })

	// Somebody changes it.
	if _, err := globals.Patch(ctx, "ingress.web", types.MergePatchType, []byte(`{"spec": {"hosts": ["evil.example"]}}`), metav1.PatchOptions{FieldManager: "vandal"}); err != nil {
		t.Fatal(err)
	}
	eventually.True(t, "it is put right", func() bool { return fmt.Sprint(get().Object["spec"].(map[string]any)["hosts"]) == "[shop.example]" })
	settled(p)
	eventually.True(t, "the consumer has seen that, too", func() bool {
		o := get()
		return strings.Contains(fmt.Sprint(o.Object["status"]), fmt.Sprint("observedGeneration:", o.GetGeneration()))
	})

	// Another process starts: nothing is written, before it hears of leaves and after.
	p.end()
	was := versions(t, globals)
	p = begin(t, serve, leafy)
	p.await(t, "all is read", func() bool { return p.prog.In.Globals.Len() == 1 && p.leaf.Globals.Len() == 1 })
	p.w.Open()
	settled(p)
	p.tell(leaf, "192.0.2.7", "192.0.2.8")
	settled(p)
	eventually.True(t, "nothing waits", func() bool { return p.w.Waiting() == 0 })
	if now := versions(t, globals); now != was {
		t.Errorf("a start writes: %s, not %s", now, was)
	}

	// The root goes while the consumer is away: what it holds is there until it is back.
	consumer.stop()
	if err := ingresses.Delete(ctx, "web", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	eventually.True(t, "it is asked to go", func() bool { return get().GetDeletionTimestamp() != nil })
	consumer.start()
	eventually.True(t, "it is gone", func() bool { return get() == nil })
	consumer.expect("")
}

// sample is the sample consumer, built from its own module.
type sample struct {
	t          *testing.T
	binary     string
	kubeconfig string
	file       string
	cmd        *exec.Cmd
}

// consume builds it and runs it with its own role.
func consume(t *testing.T, a *admin) *sample {
	t.Helper()
	dir := t.TempDir()
	s := &sample{t: t, binary: filepath.Join(dir, "consumer"), kubeconfig: filepath.Join(dir, "kubeconfig"), file: filepath.Join(dir, "records.zone")}
	build := exec.Command("go", "build", "-o", s.binary, ".")
	build.Dir = "../../examples/globalingress-consumer"
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	role, err := os.ReadFile(filepath.Join(build.Dir, "role.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	a.apply(string(role))
	ctx := t.Context()
	if _, err := a.core.CoreV1().ServiceAccounts(namespace).Create(ctx, &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: "consumer"}}, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	if _, err := a.core.RbacV1().ClusterRoleBindings().Create(ctx, &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: "consumer"}, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "globalingress-consumer"},
		Subjects: []rbacv1.Subject{{Kind: "ServiceAccount", Namespace: namespace, Name: "consumer"}},
	}, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(s.kubeconfig, kubeconfig(a.as("consumer")), 0o600); err != nil {
		t.Fatal(err)
	}
	s.start()
	t.Cleanup(s.stop)
	return s
}

func (s *sample) start() {
	s.cmd = exec.Command(s.binary, "-kubeconfig", s.kubeconfig, "-file", s.file)
	s.cmd.Stderr = s.t.Output()
	if err := s.cmd.Start(); err != nil {
		s.t.Fatal(err)
	}
}

// stop kills it.
func (s *sample) stop() {
	if s.cmd == nil {
		return
	}
	_ = s.cmd.Process.Kill()
	_ = s.cmd.Wait()
	s.cmd = nil
}

func (s *sample) expect(want string) {
	s.t.Helper()
	eventually.True(s.t, "the file says "+want, func() bool {
		got, err := os.ReadFile(s.file)
		return err == nil && string(got) == want
	})
}

// TestGlobalIngressRole: each verb of the rule for GlobalIngresses is needed.
func TestGlobalIngressRole(t *testing.T) {
	t.Parallel()
	a := newAdmin(t, server(t))
	a.install()
	a.applyFile("hub.yaml")
	ctx := t.Context()
	role, err := a.core.RbacV1().ClusterRoles().Get(ctx, "spillway-hub", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	for _, rule := range role.Rules {
		if fmt.Sprint(rule.Resources) == "[globalingresses]" && fmt.Sprint(rule.Verbs) != "[get list watch create update delete]" {
			t.Errorf("verbs %v", rule.Verbs)
		}
	}
	globals, err := dynamic.NewForConfig(a.as("spillway-serve"))
	if err != nil {
		t.Fatal(err)
	}
	r := globals.Resource(v1alpha1.GroupVersion.WithResource("globalingresses")).Namespace("default")
	if _, err := r.Patch(ctx, "x", types.MergePatchType, []byte(`{"status": {"consumers": []}}`), metav1.PatchOptions{}, "status"); !apierrors.IsForbidden(err) {
		t.Errorf("may write the status: %v", err)
	}
	if _, err := r.Patch(ctx, "x", types.MergePatchType, []byte(`{"spec": {}}`), metav1.PatchOptions{}); !apierrors.IsForbidden(err) {
		t.Errorf("may patch: %v", err)
	}
}

// TestGlobalIngressRules: the definition takes what we write at most, and no more.
func TestGlobalIngressRules(t *testing.T) {
	t.Parallel()
	a := newAdmin(t, server(t))
	a.install()
	globals := a.dynamic.Resource(v1alpha1.GroupVersion.WithResource("globalingresses")).Namespace("default")
	made := 0
	try := func(hosts, sites int, serving any) error {
		made++
		spec := map[string]any{"rootRef": map[string]any{"group": "networking.k8s.io", "kind": "Ingress", "name": "web", "uid": "u"}, "serving": serving, "steering": "Nearest"}
		var list, all []any
		for n := range hosts {
			list = append(list, fmt.Sprintf("h%d.%s.example", n, strings.Repeat("a", 63)))
		}
		for n := range sites {
			all = append(all, map[string]any{
				"name": fmt.Sprint("e", n), "kind": "Edge", "health": "Unknown", "reason": "Serving", "serving": false, "weight": int64(0),
				"addresses": []any{map[string]any{"type": "IPAddress", "value": netip.AddrFrom4([4]byte{192, 0, 2, byte(n)}).String()}},
			})
		}
		spec["hosts"], spec["sites"] = list, all
		o := &unstructured.Unstructured{Object: map[string]any{"spec": spec}}
		o.SetGroupVersionKind(v1alpha1.GroupVersion.WithKind("GlobalIngress"))
		o.SetName(fmt.Sprint("g", made))
		_, err := globals.Create(t.Context(), o, metav1.CreateOptions{})
		return err
	}
	for _, c := range []struct {
		hosts, sites int
		taken        bool
	}{{1, 0, true}, {v1alpha1.MaxGlobalHosts, v1alpha1.MaxGlobalSites, true}, {0, 1, false}, {v1alpha1.MaxGlobalHosts + 1, 1, false}, {1, v1alpha1.MaxGlobalSites + 1, false}} {
		if err := try(c.hosts, c.sites, int64(0)); c.taken && err != nil || !c.taken && !apierrors.IsInvalid(err) {
			t.Errorf("%d hosts, %d sites: %v", c.hosts, c.sites, err)
		}
	}
	if err := try(1, 1, int64(-1)); !apierrors.IsInvalid(err) {
		t.Errorf("serving -1: %v", err)
	}
}
