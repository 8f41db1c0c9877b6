package suite

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	discovery "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
)

// world is what one test has to itself: a namespace of one name in all clusters, and what
// it makes in there.
type world struct {
	*testing.T
	*fleet
	*options
	kind      kind // of backends
	namespace string

	mu   sync.Mutex
	pods map[pods]int // where they listen
}

// pods are those of a Service in a member.
type pods struct {
	member *cluster
	name   string
}

// prefix is what their names begin with.
func (p pods) prefix() string { return p.name + "-" + p.member.name }

// newNamespace makes a namespace in all clusters, and removes it at the end of the test.
func (w *world) newNamespace() string {
	w.Helper()
	name := strings.ToLower(fmt.Sprintf("mc-%s-%s", strings.NewReplacer("/", "-", "TestMulticluster/", "").Replace(w.Name()), unique()))
	w.made(name)
	w.Cleanup(func() {
		for _, c := range w.clusters() {
			if err := c.remove(context.Background(), "Namespace", "", name); err != nil {
				w.Errorf("remove namespace %s from %s: %v", name, c.name, err)
			}
		}
	})
	for _, c := range w.clusters() {
		w.apply(c, "Namespace", "", name, "metadata: {labels: {app.kubernetes.io/managed-by: "+manager+"}}")
	}
	return name
}

// in has something done in another namespace.
func (w *world) in(namespace string, do func()) {
	own := w.namespace
	w.namespace = namespace
	defer func() { w.namespace = own }()
	do()
}

func (w *world) must(err error) {
	w.Helper()
	if err != nil {
		w.Fatal(err)
	}
}

// await returns when there is nothing wrong any more.
func (w *world) await(what string, wrong func(context.Context) error) {
	w.Helper()
	w.must(within(w.Context(), w.timeout, what, wrong))
}

func (w *world) apply(c *cluster, kind, namespace, name, text string) *unstructured.Unstructured {
	w.Helper()
	out, err := c.apply(w.Context(), kind, namespace, name, text)
	w.must(err)
	return out
}

func (w *world) remove(c *cluster, kind, name string) {
	w.Helper()
	w.must(c.remove(w.Context(), kind, w.namespace, name))
}

// applyLater applies an object that is younger than another by its creationTimestamp,
// which is in whole seconds and of another clock than the test's.
func (w *world) applyLater(than *unstructured.Unstructured, c *cluster, kind, name, text string) *unstructured.Unstructured {
	w.Helper()
	var out *unstructured.Unstructured
	w.await("a later second", func(ctx context.Context) (err error) {
		if out, err = c.apply(ctx, kind, w.namespace, name, text); err != nil {
			return err
		}
		if !out.GetCreationTimestamp().After(than.GetCreationTimestamp().Time) {
			return errors.Join(errors.New("it is of the same second"), c.remove(ctx, kind, w.namespace, name))
		}
		return nil
	})
	return out
}

// port is the one of Services, and listens that of pods.
const (
	port    = 80
	listens = 8080
)

// onePort is of a Service that leads its port to that of pods.
func onePort(listens int) string {
	return fmt.Sprintf("[{name: http, port: %d, targetPort: %d}]", port, listens)
}

// offers has pods and a Service of a name in members, exported where backends are
// ServiceImports, and returns when all have a ready endpoint.
func (w *world) offers(name string, members ...*cluster) {
	w.Helper()
	w.each(members, func(m *cluster) error {
		return errors.Join(w.deploy(m, name, 1, listens), w.serve(m, name, onePort(listens)))
	})
	w.each(members, func(m *cluster) error { return w.ready(m, name, 1) })
}

// each does something in several members at a time.
func (w *world) each(members []*cluster, do func(*cluster) error) {
	w.Helper()
	failed := make([]error, len(members))
	var all sync.WaitGroup
	for i, m := range members {
		all.Go(func() { failed[i] = do(m) })
	}
	all.Wait()
	w.must(errors.Join(failed...))
}

// deploy makes pods whose names begin with their Service's and the member's. After they
// have been told to end they serve for a while, whatever the image does.
func (w *world) deploy(m *cluster, name string, replicas, listens int) error {
	p := pods{m, name}
	w.know(p, listens)
	seconds := int(w.drain / time.Second)
	_, err := m.apply(w.Context(), "Deployment", w.namespace, p.prefix(), fmt.Sprintf(`
spec:
  replicas: %d
  selector: {matchLabels: {app: %[2]s}}
  template:
    metadata: {labels: {app: %[2]s}}
    spec:
      terminationGracePeriodSeconds: %[6]d
      containers:
      - name: echo
        image: %[3]s
        env:
        - {name: HTTP_PORT, value: "%[4]d"}
        - {name: POD_NAME, valueFrom: {fieldRef: {fieldPath: metadata.name}}}
        ports: [{containerPort: %[4]d}]
        readinessProbe: {httpGet: {path: /, port: %[4]d}, periodSeconds: 1}
        lifecycle: {preStop: {sleep: {seconds: %[5]d}}}
`, replicas, name, w.image, listens, seconds, seconds+1))
	return err
}

func (w *world) know(p pods, listens int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.pods == nil {
		w.pods = map[pods]int{}
	}
	w.pods[p] = listens
}

// service makes the Service of a name in a member.
func (w *world) service(m *cluster, name, ports string) error {
	_, err := m.apply(w.Context(), "Service", w.namespace, name, fmt.Sprintf("spec: {selector: {app: %s}, ports: %s}", name, ports))
	return err
}

// serve makes the Service of a name in a member, and exports it where backends are
// ServiceImports.
func (w *world) serve(m *cluster, name, ports string) error {
	err := w.service(m, name, ports)
	if err == nil && w.kind == serviceImport {
		_, err = w.export(m, name)
	}
	return err
}

func (w *world) export(m *cluster, name string) (*unstructured.Unstructured, error) {
	return m.apply(w.Context(), "ServiceExport", w.namespace, name, "{}")
}

// withdraw takes the Service of a name from a member, or its export. Its pods go on.
func (w *world) withdraw(m *cluster, name string) {
	w.Helper()
	if w.kind == serviceImport {
		w.remove(m, "ServiceExport", name)
		return
	}
	w.remove(m, "Service", name)
}

// scale returns when so many endpoints are ready.
func (w *world) scale(replicas int, name string, members ...*cluster) {
	w.Helper()
	w.each(members, func(m *cluster) error {
		w.mu.Lock()
		at := w.pods[pods{m, name}]
		w.mu.Unlock()
		return errors.Join(w.deploy(m, name, replicas, at), w.ready(m, name, replicas))
	})
}

// alone has a Service's only endpoint in one member.
func (w *world) alone(name string, m *cluster) {
	w.Helper()
	w.scale(1, name, m)
	w.scale(0, name, w.others(m)...)
}

// ready returns when a Service of a member has so many ready endpoints.
func (w *world) ready(m *cluster, name string, want int) error {
	return within(w.Context(), w.timeout, fmt.Sprintf("Service %s in %s", name, m.name), func(ctx context.Context) error {
		list, err := m.of("EndpointSlice", w.namespace).List(ctx, metav1.ListOptions{LabelSelector: discovery.LabelServiceName + "=" + name})
		if err != nil {
			return err
		}
		got := map[string]bool{}
		for _, item := range list.Items {
			var slice discovery.EndpointSlice
			if err := runtime.DefaultUnstructuredConverter.FromUnstructured(item.Object, &slice); err != nil {
				return err
			}
			for _, e := range slice.Endpoints {
				if e.Conditions.Ready != nil && *e.Conditions.Ready && e.TargetRef != nil {
					got[e.TargetRef.Name] = true
				}
			}
		}
		if len(got) != want {
			return fmt.Errorf("expected %d ready endpoints, and there are %d", want, len(got))
		}
		return nil
	})
}

// others are all members but one.
func (w *world) others(but *cluster) (out []*cluster) {
	for _, m := range w.members {
		if m != but {
			out = append(out, m)
		}
	}
	return out
}
