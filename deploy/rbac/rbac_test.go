// Package rbac_test runs what `spillway serve` does to API servers under the
// roles of this folder, against real API servers: embedded ones, and with `make
// old-kubernetes` those of older versions.
package rbac_test

import (
	"bufio"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	networkingv1 "k8s.io/api/networking/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"
	"sigs.k8s.io/yaml"

	"github.com/spillway-dev/spillway/api/gatewayapi"
	"github.com/spillway-dev/spillway/api/v1alpha1"
	"github.com/spillway-dev/spillway/internal/cluster"
	"github.com/spillway-dev/spillway/internal/eventually"
	"github.com/spillway-dev/spillway/internal/fleet"
	"github.com/spillway-dev/spillway/internal/hub"
	"github.com/spillway-dev/spillway/internal/inc"
	"github.com/spillway-dev/spillway/internal/leaf"
	"github.com/spillway-dev/spillway/internal/model"
)

// limit is how long to wait for what real processes do.
const limit = 2 * time.Minute

const namespace = "spillway-system"

// built is the plain binary, as `make build` leaves it.
const built = "../../bin/spillway"

// binary is the first of some binaries that is there.
func binary(t *testing.T, paths ...string) string {
	t.Helper()
	for _, path := range paths {
		if _, err := os.Stat(path); path != "" && err == nil {
			abs, err := filepath.Abs(path)
			if err != nil {
				t.Fatal(err)
			}
			return abs
		}
	}
	if os.Getenv("CI") == "true" {
		t.Fatal("no spillway binary: run `make build`, or set SPILLWAY_BIN")
	}
	t.Skip("no spillway binary: run `make build`, or set SPILLWAY_BIN")
	return ""
}

// server starts a real API server, of $SPILLWAY_BIN if it is set, which may be an older
// Kubernetes, and returns its administrator's kubeconfig.
func server(t *testing.T) []byte {
	t.Helper()
	return starting(t)()
}

// starting is server, to be called when it is to be ready: several start at once.
func starting(t *testing.T) (ready func() []byte) {
	t.Helper()
	dir := t.TempDir()
	cmd := exec.Command(binary(t, os.Getenv("SPILLWAY_BIN"), built), "hub", "--data-dir", dir)
	out, err1 := cmd.StdoutPipe()
	cmd.Stderr = cmd.Stdout
	if err := errors.Join(err1, cmd.Start()); err != nil {
		t.Fatal(err)
	}
	served, over := make(chan struct{}), make(chan struct{})
	said := &strings.Builder{}
	go func() {
		defer close(over)
		var once sync.Once
		for lines := bufio.NewScanner(out); lines.Scan(); {
			fmt.Fprintln(said, lines.Text())
			if strings.HasPrefix(lines.Text(), "ready") {
				once.Do(func() { close(served) })
			}
		}
	}()
	t.Cleanup(func() {
		_ = cmd.Process.Signal(os.Interrupt)
		<-over
		_ = cmd.Wait()
	})
	return func() []byte {
		t.Helper()
		select {
		case <-served:
		case <-over:
			t.Fatalf("the API server ended:\n%s", said)
		case <-time.After(limit):
			t.Fatal("the API server is not ready")
		}
		kubeconfig, err := os.ReadFile(filepath.Join(dir, "admin.kubeconfig"))
		if err != nil {
			t.Fatal(err)
		}
		return kubeconfig
	}
}

// admin is an administrator of an API server.
type admin struct {
	t       *testing.T
	config  *rest.Config
	core    kubernetes.Interface
	dynamic dynamic.Interface
}

func newAdmin(t *testing.T, kubeconfig []byte) *admin {
	t.Helper()
	config, err := clientcmd.RESTConfigFromKubeConfig(kubeconfig)
	if err != nil {
		t.Fatal(err)
	}
	return &admin{t, config, kubernetes.NewForConfigOrDie(config), dynamic.NewForConfigOrDie(config)}
}

var gatewayAPI = schema.GroupVersion(gatewayv1.GroupVersion)

// plurals of what is applied here.
var plurals = map[string]string{
	"Namespace": "namespaces", "ServiceAccount": "serviceaccounts", "ClusterRole": "clusterroles", "ClusterRoleBinding": "clusterrolebindings", "Role": "roles", "RoleBinding": "rolebindings",
	"MemberCluster": "memberclusters", "Placement": "placements", "IngressClass": "ingressclasses", "CustomResourceDefinition": "customresourcedefinitions",
	"GatewayClassConfig": "gatewayclassconfigs", "ValidatingAdmissionPolicy": "validatingadmissionpolicies", "ValidatingAdmissionPolicyBinding": "validatingadmissionpolicybindings",
	"Route": "routes", "GatewayClass": "gatewayclasses", "Gateway": "gateways", "ListenerSet": "listenersets", "HTTPRoute": "httproutes", "ReferenceGrant": "referencegrants", "GlobalIngress": "globalingresses", "Edge": "edges",
}

// apply makes the objects of a YAML file.
func (a *admin) apply(text string) {
	a.t.Helper()
	for doc := range strings.SplitSeq(strings.TrimPrefix(text, "---\n"), "\n---\n") {
		var u unstructured.Unstructured
		if err := yaml.Unmarshal([]byte(doc), &u.Object); err != nil {
			a.t.Fatal(err)
		}
		gv, err := schema.ParseGroupVersion(u.GetAPIVersion())
		if err != nil {
			a.t.Fatal(err)
		}
		r := a.dynamic.Resource(gv.WithResource(plurals[u.GetKind()])).Namespace(u.GetNamespace())
		if _, err := r.Create(a.t.Context(), &u, metav1.CreateOptions{}); err != nil && !apierrors.IsAlreadyExists(err) {
			a.t.Fatalf("%s %s: %v", u.GetKind(), u.GetName(), err)
		}
	}
}

// install makes our kinds and those of the Gateway API, where they are not there:
// on an API server that is not our embedded one.
func (a *admin) install() {
	a.t.Helper()
	for _, crd := range v1alpha1.CRDs() {
		a.apply(string(crd))
	}
	for _, file := range gatewayapi.Files() {
		if strings.Contains(string(file), "kind: CustomResourceDefinition") {
			a.apply(string(file))
		}
	}
	served := func(gv schema.GroupVersion, plurals ...string) {
		for _, plural := range plurals {
			eventually.True(a.t, plural+" are served", func() bool {
				_, err := a.dynamic.Resource(gv.WithResource(plural)).List(a.t.Context(), metav1.ListOptions{})
				return err == nil
			})
		}
	}
	served(v1alpha1.GroupVersion, "dnszones", "edges", "gatewayclassconfigs", "memberclusters", "membertombstones", "placements", "globalingresses")
	served(gatewayAPI, "gatewayclasses", "gateways", "listenersets", "httproutes", "referencegrants")
}

func (a *admin) applyFile(name string) {
	a.t.Helper()
	data, err := os.ReadFile(name)
	if err != nil {
		a.t.Fatal(err)
	}
	a.apply(string(data))
}

// as is the configuration of a service account.
func (a *admin) as(account string) *rest.Config {
	a.t.Helper()
	token, err := a.core.CoreV1().ServiceAccounts(namespace).CreateToken(a.t.Context(), account, &authenticationv1.TokenRequest{}, metav1.CreateOptions{})
	if err != nil {
		a.t.Fatal(err)
	}
	c := rest.AnonymousClientConfig(a.config)
	c.BearerToken = token.Status.Token
	return c
}

// kubeconfig writes a configuration down.
func kubeconfig(c *rest.Config) []byte {
	return fmt.Appendf(nil, `{"apiVersion": "v1", "kind": "Config", "current-context": "c", "contexts": [{"name": "c", "context": {"cluster": "c", "user": "u"}}],
"clusters": [{"name": "c", "cluster": {"server": %q, "certificate-authority-data": %q}}], "users": [{"name": "u", "user": {"token": %q}}]}`,
		c.Host, base64.StdEncoding.EncodeToString(c.CAData), c.BearerToken)
}

// control is hub, members and writer as `serve` has them.
type control struct {
	mail  *cluster.Mailbox
	graph *inc.Graph
	prog  *fleet.Program
	leaf  *leaf.Tables
	known bool
	hub   *cluster.Hub
	asks  chan func()
}

func (c *control) run(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-c.mail.Wake():
			c.graph.Commit(func(tx *inc.Tx) {
				for _, w := range c.mail.Take() {
					w(tx)
				}
			})
		case ask := <-c.asks:
			ask()
		}
	}
}

// await waits until cond holds between two commits.
func (c *control) await(t *testing.T, what string, cond func() bool) {
	t.Helper()
	eventually.True(t, what, func() bool {
		holds := make(chan bool)
		c.asks <- func() { holds <- cond() }
		return <-holds
	})
}

const memberYAML = `
apiVersion: spillway.dev/v1alpha1
kind: MemberCluster
metadata: {name: eu-1}
spec:
  connection: {kubeconfigSecretRef: {name: eu-1}}
  taints: []`

// TestRoles: the whole way from the hub's objects to a member's endpoints and
// back to statuses works with these roles, on real API servers.
func TestRoles(t *testing.T) {
	t.Parallel()
	hubAdmin, member := newAdmin(t, server(t)), newAdmin(t, server(t))
	hubAdmin.install()
	hubAdmin.applyFile("hub.yaml")
	member.applyFile("member.yaml")
	ctx := t.Context()

	port := int32(8080)
	_, err1 := member.core.CoreV1().Services("default").Create(ctx, &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Name: "web"}, Spec: corev1.ServiceSpec{Ports: []corev1.ServicePort{{Port: 80}}},
	}, metav1.CreateOptions{})
	_, err2 := member.core.DiscoveryV1().EndpointSlices("default").Create(ctx, &discoveryv1.EndpointSlice{
		ObjectMeta:  metav1.ObjectMeta{Name: "web-1", Labels: map[string]string{discoveryv1.LabelServiceName: "web"}},
		AddressType: discoveryv1.AddressTypeIPv4, Ports: []discoveryv1.EndpointPort{{Port: &port}},
		Endpoints: []discoveryv1.Endpoint{{Addresses: []string{"10.1.0.1"}}},
	}, metav1.CreateOptions{})
	_, err3 := hubAdmin.core.CoreV1().Secrets(namespace).Create(ctx, &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Name: "eu-1"}, Data: map[string][]byte{"kubeconfig": kubeconfig(member.as("spillway"))},
	}, metav1.CreateOptions{})
	class := "spillway"
	_, err4 := hubAdmin.core.NetworkingV1().Ingresses("default").Create(ctx, &networkingv1.Ingress{
		ObjectMeta: metav1.ObjectMeta{Name: "web"},
		Spec: networkingv1.IngressSpec{IngressClassName: &class, DefaultBackend: &networkingv1.IngressBackend{
			Service: &networkingv1.IngressServiceBackend{Name: "web", Port: networkingv1.ServiceBackendPort{Number: 80}},
		}},
	}, metav1.CreateOptions{})
	if err := errors.Join(err1, err2, err3, err4); err != nil {
		t.Fatal(err)
	}
	hubAdmin.apply(memberYAML)
	hubAdmin.rules()

	serve := hubAdmin.as("spillway-serve")
	w := writer(t, serve)
	c := start(t, serve, w.Seen)
	c.await(t, "hub known", func() bool { return c.known })
	c.await(t, "member read", func() bool {
		s, _ := c.prog.In.Sources.Get(nil, "eu-1")
		return s.Connected && c.prog.In.Slices.Len() == 1
	})
	c.await(t, "ingress read", func() bool { return c.prog.In.Roots.Len() == 1 })
	gateways(t, hubAdmin, w, c)
	write(t, hubAdmin, w)
	refused(t, serve, member.as("spillway"))
}

// rules checks that the rules of our kinds work as they do in the embedded hub.
func (a *admin) rules() {
	a.t.Helper()
	edges := a.dynamic.Resource(v1alpha1.GroupVersion.WithResource("edges"))
	for _, c := range []struct {
		name, id string
		taken    bool
	}{
		{"fra", "spiffe://shop.example/edge/fra", true},
		{"ams", "spiffe://shop.example/eu/grpc/ams", true},
		{"par", "spiffe://shop.example/edge/fra", false},
		{"par", "spiffe://shop.example/edge/xpar", false},
		{"par", "spiffe://shop.example/nedge/par", false},
		{"par", "spiffe://shop.example/par", false},
	} {
		edge := &unstructured.Unstructured{Object: map[string]any{"spec": map[string]any{"identity": map[string]any{"spiffeIDs": []any{c.id}}}}}
		edge.SetGroupVersionKind(v1alpha1.GroupVersion.WithKind("Edge"))
		edge.SetName(c.name)
		_, err := edges.Create(a.t.Context(), edge, metav1.CreateOptions{})
		if c.taken && err != nil || !c.taken && !apierrors.IsInvalid(err) {
			a.t.Errorf("Edge %s with %s: %v", c.name, c.id, err)
		}
	}
}

// start runs hub and members with the rights of an account.
func start(t *testing.T, config *rest.Config, seen func(model.Object, metav1.Object), secretNamespaces ...string) *control {
	t.Helper()
	ctx, end := context.WithCancel(context.Background())
	c := &control{mail: cluster.NewMailbox(), graph: inc.New(), asks: make(chan func())}
	c.prog = fleet.Declare(c.graph)
	c.leaf = leaf.Declare(c.graph, c.prog, leaf.Outputs{})
	tables := cluster.Declare(c.graph)
	log := slog.New(slog.DiscardHandler)
	members := cluster.NewMembers(ctx, &c.prog.In, tables, c.mail, log)
	h, err := cluster.NewHub(cluster.HubOptions{
		Config: config, Namespace: namespace, SecretNamespaces: secretNamespaces, Inputs: &c.prog.In, Tables: tables, Mailbox: c.mail, Members: members, Log: log,
		Seen: seen, Known: func(*inc.Tx) { c.known = true },
	})
	if err != nil {
		end()
		t.Fatal(err)
	}
	c.hub = h
	var all sync.WaitGroup
	all.Go(func() { h.Run(ctx) })
	all.Go(func() { c.run(ctx) })
	t.Cleanup(func() {
		end()
		members.Wait()
		all.Wait()
	})
	return c
}

// writer is one that writes with the rights of an account.
func writer(t *testing.T, config *rest.Config) *hub.Writer {
	t.Helper()
	w, err := hub.NewWriter(config, "test", cluster.NewBudget(), slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	ctx, end := context.WithCancel(context.Background())
	var all sync.WaitGroup
	all.Go(func() { w.Run(ctx) })
	t.Cleanup(func() { end(); all.Wait() })
	w.Open()
	return w
}

// write writes a status of each kind, an event and a finalizer.
func write(t *testing.T, a *admin, w *hub.Writer) {
	t.Helper()
	ctx := t.Context()
	web := model.Object{Kind: "Ingress", Namespace: "default", Name: "web"}
	w.Addresses(web, []string{"192.0.2.1", "edge.example"})
	w.Findings(web, model.Findings{{Object: web, Field: "spec", Reason: "Invalid", Message: "for a test"}})
	w.Status(model.Object{Kind: "MemberCluster", Name: "eu-1"}, hub.Status{
		Generation: 1, Conditions: map[string]hub.Condition{"Connected": {Type: "Connected", Status: "True", Reason: "Connected"}},
		Fields: map[string]any{"services": 1, "endpoints": 0, "staleSince": nil},
	})
	w.Guard("eu-1")
	eventually.True(t, "addresses", func() bool {
		o, err := a.core.NetworkingV1().Ingresses("default").Get(ctx, "web", metav1.GetOptions{})
		return err == nil && len(o.Status.LoadBalancer.Ingress) == 2 && o.Status.LoadBalancer.Ingress[0].IP == "192.0.2.1"
	})
	eventually.True(t, "event", func() bool {
		list, err := a.core.CoreV1().Events("default").List(ctx, metav1.ListOptions{FieldSelector: "involvedObject.name=web,involvedObject.kind=Ingress"})
		return err == nil && len(list.Items) == 1 && strings.Contains(list.Items[0].Message, "for a test")
	})
	members := a.dynamic.Resource(schema.GroupVersionResource{Group: "spillway.dev", Version: "v1alpha1", Resource: "memberclusters"})
	eventually.True(t, "member's status and finalizer", func() bool {
		o, err := members.Get(ctx, "eu-1", metav1.GetOptions{})
		if err != nil {
			return false
		}
		n, found, _ := unstructured.NestedInt64(o.Object, "status", "services")
		return found && n == 1 && len(o.GetFinalizers()) == 1
	})
	putRight(t, a, members)
	w.Addresses(web, nil)
	eventually.True(t, "no addresses", func() bool {
		o, err := a.core.NetworkingV1().Ingresses("default").Get(ctx, "web", metav1.GetOptions{})
		return err == nil && len(o.Status.LoadBalancer.Ingress) == 0
	})
	if err := members.Delete(ctx, "eu-1", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	w.Release("eu-1")
	eventually.True(t, "released", func() bool {
		_, err := members.Get(ctx, "eu-1", metav1.GetOptions{})
		return apierrors.IsNotFound(err)
	})
}

const gatewayYAML = `
apiVersion: gateway.networking.k8s.io/v1
kind: GatewayClass
metadata: {name: spillway}
spec: {controllerName: spillway.dev/gateway}
---
apiVersion: gateway.networking.k8s.io/v1
kind: Gateway
metadata: {namespace: default, name: web}
spec:
  gatewayClassName: spillway
  listeners:
  - {name: http, port: 80, protocol: HTTP}
  - {name: more, port: 81, protocol: HTTP}
---
apiVersion: gateway.networking.k8s.io/v1
kind: ListenerSet
metadata: {namespace: default, name: more}
spec:
  parentRef: {name: web}
  listeners: [{name: more, port: 82, protocol: HTTP}]
---
apiVersion: gateway.networking.k8s.io/v1
kind: HTTPRoute
metadata: {namespace: default, name: web}
spec:
  parentRefs: [{name: web}]
  hostnames: [shop.example]
  rules: [{backendRefs: [{name: web, port: 80}]}]
---
apiVersion: gateway.networking.k8s.io/v1
kind: ReferenceGrant
metadata: {namespace: default, name: web}
spec: {from: [{group: gateway.networking.k8s.io, kind: HTTPRoute, namespace: other}], to: [{group: "", kind: Service}]}`

// gateways reads the kinds of the Gateway API and writes their statuses, beside
// what other controllers say.
func gateways(t *testing.T, a *admin, w *hub.Writer, c *control) {
	t.Helper()
	a.apply(strings.TrimPrefix(gatewayYAML, "\n"))
	in := &c.prog.In
	c.await(t, "the Gateway API is read", func() bool {
		return in.GatewayClasses.Len() == 1 && in.Gateways.Len() == 1 && in.ListenerSets.Len() == 1 && in.Roots.Len() == 2 && in.Grants.Len() == 1 && in.Namespaces.Len() > 1
	})
	c.await(t, "the version of the Gateway API is read", func() bool {
		release, ok := in.Releases.Get(nil, model.GatewayDefinition(""))
		return ok && release.Supported() && in.Releases.Len() == 1
	})
	others(t, a)
	said := map[string]hub.Condition{"Accepted": {Type: "Accepted", Status: "True", Reason: "Accepted"}}
	gateway := model.Object{Kind: "Gateway", Namespace: "default", Name: "web"}
	route := model.Object{Kind: "HTTPRoute", Namespace: "default", Name: "web"}
	w.Status(model.Object{Kind: "GatewayClass", Name: "spillway"}, hub.Status{Generation: 1, Conditions: said, Each: true})
	w.Status(gateway, hub.Status{
		Generation: 1, Conditions: said, Each: true, Fields: map[string]any{"addresses": []any{map[string]any{"type": "IPAddress", "value": "192.0.2.1"}}, "attachedListenerSets": 1},
		Listeners: []hub.Listener{{Name: "http", Kinds: []string{"HTTPRoute"}, Attached: 1, Conditions: said}, {Name: "more", Conditions: said}},
	})
	set := model.Object{Kind: model.ListenerSetKind, Namespace: "default", Name: "more"}
	w.Status(set, hub.Status{Generation: 1, Conditions: said, Each: true, Listeners: []hub.Listener{{Name: "more", Attached: 2, Conditions: said}}})
	w.Parents(route, []model.ParentStatus{{
		Parent:     model.Parent{Group: model.GatewayGroup, Kind: "Gateway", Name: "web"},
		Conditions: []model.StatedCondition{{Type: "Accepted", Status: "True", Reason: "Accepted", Generation: 1}},
	}})
	w.Findings(route, model.Findings{{Object: route, Field: "spec", Reason: "Invalid", Message: "of a route"}})
	holds := func(plural, namespace, name string, lines ...string) {
		t.Helper()
		eventually.True(t, plural+" "+strings.Join(lines, " "), func() bool {
			o, err := a.dynamic.Resource(gatewayAPI.WithResource(plural)).Namespace(namespace).Get(t.Context(), name, metav1.GetOptions{})
			if err != nil {
				return false
			}
			status, err := json.Marshal(o.Object["status"])
			return err == nil && !slices.ContainsFunc(lines, func(l string) bool { return !strings.Contains(string(status), l) })
		})
	}
	const accepted, other = `"reason":"Accepted","status":"True","type":"Accepted"`, `"type":"Other"`
	holds("gatewayclasses", "", "spillway", accepted, other)
	holds("gateways", "default", "web", accepted, other, `"value":"192.0.2.1"`, `"name":"http"`, `"name":"more"`, `"attachedRoutes":1`, `"attachedRoutes":0`, `"attachedListenerSets":1`)
	holds("listenersets", "default", "more", accepted, other, `"name":"more"`, `"attachedRoutes":2`)
	c.await(t, "that we said something is read", func() bool { spec, _ := in.ListenerSets.Get(nil, set); return spec.Ours })
	holds("httproutes", "default", "web", accepted, other, `"controllerName":"spillway.dev/gateway"`, `"controllerName":"example.org/other"`)
	c.await(t, "what we said is read", func() bool { root, _ := in.Roots.Get(nil, route); return root.Ours })
	eventually.True(t, "event of the route", func() bool {
		list, err := a.core.CoreV1().Events("default").List(t.Context(), metav1.ListOptions{FieldSelector: "involvedObject.kind=HTTPRoute"})
		return err == nil && len(list.Items) == 1
	})
	w.Parents(route, nil)
	c.await(t, "our entries are gone", func() bool { root, _ := in.Roots.Get(nil, route); return !root.Ours })
	holds("httproutes", "default", "web", other)
}

// others are other controllers, which say something of the same objects.
func others(t *testing.T, a *admin) {
	t.Helper()
	const other = `{"type": "Other", "status": "True", "reason": "Other", "message": "", "lastTransitionTime": "2020-01-01T00:00:00Z"}`
	for _, c := range []struct{ plural, namespace, name, status string }{
		{"gatewayclasses", "", "spillway", `"conditions": [` + other + `]`},
		{"gateways", "default", "web", `"conditions": [` + other + `], "listeners": [{"name": "http", "supportedKinds": [], "attachedRoutes": 9, "conditions": [` + other + `]}]`},
		{"listenersets", "default", "more", `"conditions": [` + other + `]`},
		{"httproutes", "default", "web", `"parents": [{"parentRef": {"name": "web"}, "controllerName": "example.org/other", "conditions": [` + other + `]}]`},
	} {
		r := a.dynamic.Resource(gatewayAPI.WithResource(c.plural)).Namespace(c.namespace)
		if _, err := r.Patch(t.Context(), c.name, types.MergePatchType, []byte(`{"status": {`+c.status+`}}`), metav1.PatchOptions{FieldManager: "other"}, "status"); err != nil {
			t.Fatal(err)
		}
	}
}

// putRight changes a status that was written, and waits until it is as it was.
// What others add beside it stays.
func putRight(t *testing.T, a *admin, members dynamic.ResourceInterface) {
	t.Helper()
	const vandal = `{"status": {"services": 7, "staleSince": "2020-01-01T00:00:00Z", "conditions": [
		{"type": "Connected", "status": "False", "reason": "Vandal", "message": "", "lastTransitionTime": "2020-01-01T00:00:00Z"},
		{"type": "Others", "status": "True", "reason": "Fine", "message": "", "lastTransitionTime": "2020-01-01T00:00:00Z"}]}}`
	if _, err := members.Patch(t.Context(), "eu-1", types.MergePatchType, []byte(vandal), metav1.PatchOptions{FieldManager: "vandal"}, "status"); err != nil {
		t.Fatal(err)
	}
	eventually.True(t, "the member's status is put right", func() bool {
		o, err := members.Get(t.Context(), "eu-1", metav1.GetOptions{})
		if err != nil {
			return false
		}
		n, _, _ := unstructured.NestedInt64(o.Object, "status", "services")
		_, stale, _ := unstructured.NestedString(o.Object, "status", "staleSince")
		list, _, _ := unstructured.NestedSlice(o.Object, "status", "conditions")
		var conditions []string
		for _, c := range list {
			conditions = append(conditions, fmt.Sprint(c.(map[string]any)["type"], "=", c.(map[string]any)["status"]))
		}
		applied := slices.ContainsFunc(o.GetManagedFields(), func(e metav1.ManagedFieldsEntry) bool {
			return e.Manager == "spillway" && e.Operation == metav1.ManagedFieldsOperationApply && e.Subresource == "status"
		})
		return n == 1 && !stale && strings.Join(conditions, " ") == "Connected=True Others=True" && applied
	})
}

// refused checks that the accounts may not do what they need not.
func refused(t *testing.T, serve, member *rest.Config) {
	t.Helper()
	ctx := t.Context()
	definitions := schema.GroupVersionResource{Group: "apiextensions.k8s.io", Version: "v1", Resource: "customresourcedefinitions"}
	s, m, d := kubernetes.NewForConfigOrDie(serve), kubernetes.NewForConfigOrDie(member), dynamic.NewForConfigOrDie(serve)
	for what, try := range map[string]func() error{
		"read one Secret of another namespace": func() error {
			_, err := s.CoreV1().Secrets("default").Get(ctx, "x", metav1.GetOptions{})
			return err
		},
		"delete an Ingress": func() error { return s.NetworkingV1().Ingresses("default").Delete(ctx, "web", metav1.DeleteOptions{}) },
		"make a ConfigMap on the hub": func() error {
			_, err := s.CoreV1().ConfigMaps("default").Create(ctx, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "x"}}, metav1.CreateOptions{})
			return err
		},
		"change a route": func() error {
			_, err := d.Resource(gatewayAPI.WithResource("httproutes")).Namespace("default").Patch(ctx, "web", types.MergePatchType, []byte(`{"spec": {"hostnames": []}}`), metav1.PatchOptions{})
			return err
		},
		"read one namespace": func() error {
			_, err := s.CoreV1().Namespaces().Get(ctx, "default", metav1.GetOptions{})
			return err
		},
		"list all definitions of kinds": func() error {
			_, err := d.Resource(definitions).List(ctx, metav1.ListOptions{})
			return err
		},
		"list one of another kind": func() error {
			_, err := d.Resource(definitions).List(ctx, metav1.ListOptions{FieldSelector: "metadata.name=gateways." + model.GatewayGroup})
			return err
		},
		"read Secrets of a member": func() error {
			_, err := m.CoreV1().Secrets("default").List(ctx, metav1.ListOptions{})
			return err
		},
		"delete a Service of a member": func() error { return m.CoreV1().Services("default").Delete(ctx, "web", metav1.DeleteOptions{}) },
	} {
		if err := try(); !apierrors.IsForbidden(err) {
			t.Errorf("may %s: %v", what, err)
		}
	}
}
