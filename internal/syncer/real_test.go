package syncer

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/goleak"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/spillway-dev/spillway/api/v1alpha1"
	"github.com/spillway-dev/spillway/internal/eventually"
	"github.com/spillway-dev/spillway/internal/syncer/syncertest"
	"github.com/spillway-dev/spillway/internal/work"
)

// limit is how long to wait for a real process to start.
const limit = 2 * time.Minute

var (
	ingresses  = schema.GroupVersionResource{Group: "networking.k8s.io", Version: "v1", Resource: "ingresses"}
	configMaps = schema.GroupVersionResource{Version: "v1", Resource: "configmaps"}
)

func TestMain(m *testing.M) {
	rest.SetDefaultWarningHandler(rest.NoWarnings{})
	utilruntime.ErrorHandlers = nil // one of them measures time across the bubbles of tests
	code := m.Run()
	shared.stop()
	if code == 0 {
		if err := goleak.Find(); err != nil {
			fmt.Fprintln(os.Stderr, err)
			code = 1
		}
	}
	os.Exit(code)
}

// shared is one real API server for all tests, each of which has a namespace and
// a hub of its own.
var shared server

type server struct {
	once   sync.Once
	cmd    *exec.Cmd
	dir    string
	over   chan struct{}
	config *rest.Config
	err    error
	n      atomic.Int64
}

func (s *server) start(bin string) error {
	dir, err := os.MkdirTemp("", "spillway-syncer-")
	if err != nil {
		return err
	}
	s.dir, s.over = dir, make(chan struct{})
	s.cmd = exec.Command(bin, "hub", "--data-dir", filepath.Join(dir, "data"))
	out, err := s.cmd.StdoutPipe()
	if err != nil {
		return err
	}
	s.cmd.Stderr = s.cmd.Stdout
	if err := s.cmd.Start(); err != nil {
		return err
	}
	ready := make(chan struct{})
	go func() {
		defer close(s.over)
		var once sync.Once
		for lines := bufio.NewScanner(out); lines.Scan(); {
			if strings.HasPrefix(lines.Text(), "ready") {
				once.Do(func() { close(ready) })
			}
		}
	}()
	select {
	case <-ready:
	case <-s.over:
		return fmt.Errorf("the API server ended")
	case <-time.After(limit):
		return fmt.Errorf("the API server is not ready")
	}
	s.config, err = clientcmd.BuildConfigFromFlags("", filepath.Join(dir, "data", "admin.kubeconfig"))
	return err
}

func (s *server) stop() {
	if s.cmd != nil && s.cmd.Process != nil {
		_ = s.cmd.Process.Signal(os.Interrupt)
		<-s.over
		_ = s.cmd.Wait()
	}
	if s.dir != "" {
		_ = os.RemoveAll(s.dir)
	}
}

// binary is the plain binary: $SPILLWAY_BIN, or bin/spillway.
func binary(t *testing.T) string {
	t.Helper()
	for _, path := range []string{os.Getenv("SPILLWAY_BIN"), "../../bin/spillway"} {
		if _, err := os.Stat(path); path != "" && err == nil {
			return path
		}
	}
	if os.Getenv("CI") == "true" {
		t.Fatal("no spillway binary: run `make build`, or set SPILLWAY_BIN")
	}
	t.Skip("no spillway binary: run `make build`, or set SPILLWAY_BIN")
	return ""
}

// member is a namespace of an API server, and a hub whose leaves are there.
type member struct {
	t         *testing.T
	config    *rest.Config
	hub       string
	namespace string
	admin     dynamic.Interface // as somebody else
	claims    map[schema.GroupVersionResource]Claims
}

func realMember(t *testing.T) *member {
	t.Helper()
	bin := binary(t)
	shared.once.Do(func() { shared.err = shared.start(bin) })
	if shared.err != nil {
		t.Fatal(shared.err)
	}
	n := shared.n.Add(1)
	m := newMember(t, shared.config, n)
	m.create(namespaces, &unstructured.Unstructured{Object: map[string]any{"apiVersion": "v1", "kind": "Namespace", "metadata": map[string]any{"name": m.namespace}}})
	return m
}

var namespaces = schema.GroupVersionResource{Version: "v1", Resource: "namespaces"}

func newMember(t *testing.T, config *rest.Config, n int64) *member {
	t.Helper()
	c := rest.CopyConfig(config)
	c.QPS = -1
	c.UserAgent = "somebody"
	admin, err := dynamic.NewForConfig(c)
	if err != nil {
		t.Fatal(err)
	}
	return &member{t: t, config: c, hub: fmt.Sprintf("hub-%d", n), namespace: fmt.Sprintf("ns-%d", n), admin: admin}
}

func (m *member) in(r schema.GroupVersionResource) dynamic.ResourceInterface {
	if r == namespaces || r.Group == "apiextensions.k8s.io" || r.Group == "admissionregistration.k8s.io" {
		return m.admin.Resource(r)
	}
	return m.admin.Resource(r).Namespace(m.namespace)
}

func (m *member) create(r schema.GroupVersionResource, o *unstructured.Unstructured) *unstructured.Unstructured {
	m.t.Helper()
	got, err := m.in(r).Create(context.Background(), o, metav1.CreateOptions{FieldManager: "somebody"})
	if err != nil {
		m.t.Fatal(err)
	}
	return got
}

// get returns an object; nil: there is none.
func (m *member) get(key Key) *unstructured.Unstructured {
	m.t.Helper()
	o, err := m.in(key.Resource).Get(context.Background(), key.Name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return nil
	}
	if err != nil {
		m.t.Fatal(err)
	}
	return o
}

// patch is an edit by somebody else.
func (m *member) patch(key Key, patch string, sub ...string) {
	m.t.Helper()
	if _, err := m.in(key.Resource).Patch(context.Background(), key.Name, types.MergePatchType, []byte(patch), metav1.PatchOptions{FieldManager: "somebody"}, sub...); err != nil {
		m.t.Fatal(err)
	}
}

func (m *member) delete(key Key) {
	m.t.Helper()
	if err := m.in(key.Resource).Delete(context.Background(), key.Name, metav1.DeleteOptions{}); err != nil {
		m.t.Fatal(err)
	}
}

func (m *member) key(r schema.GroupVersionResource, name string) Key {
	return Key{r, m.namespace, name}
}

// ingress is a leaf of a host, with paths.
func (m *member) ingress(name string, paths ...string) (Key, *Leaf) {
	var list []any
	for _, p := range paths {
		list = append(list, map[string]any{"path": p, "pathType": "Prefix", "backend": map[string]any{"service": map[string]any{"name": "web", "port": map[string]any{"number": int64(80)}}}})
	}
	return m.key(ingresses, name), m.leaf(name, map[string]any{"apiVersion": "networking.k8s.io/v1", "kind": "Ingress", "spec": map[string]any{
		"ingressClassName": "local",
		"rules":            []any{map[string]any{"host": name + ".example", "http": map[string]any{"paths": list}}},
	}})
}

func (m *member) configMap(name string, data map[string]any) (Key, *Leaf) {
	return m.key(configMaps, name), m.leaf(name, map[string]any{"apiVersion": "v1", "kind": "ConfigMap", "data": data})
}

func (m *member) leaf(name string, o map[string]any) *Leaf {
	o["metadata"] = map[string]any{"namespace": m.namespace, "name": name}
	return &Leaf{Object: &unstructured.Unstructured{Object: o}, Root: Root{Kind: "Ingress", Namespace: "shop", Name: name, UID: types.UID("root-" + name)}}
}

// run is a syncer at work, and what it asked and told.
type run struct {
	*Syncer
	m      *member
	end    func()
	cancel func() // as end, but does not wait
	over   <-chan struct{}
	before func(*http.Request) // called with each request

	mu     sync.Mutex
	asked  []*write // in the order in which they were sent
	reads  int
	states map[Key]State
	all    map[Key][]State
}

// run starts a syncer of some kinds. It ends with the test, or before.
func (m *member) run(prepare func(*run), kinds ...schema.GroupVersionResource) *run {
	m.t.Helper()
	r := &run{m: m, states: map[Key]State{}, all: map[Key][]State{}}
	config := rest.CopyConfig(m.config)
	config.Wrap(func(next http.RoundTripper) http.RoundTripper { return &counter{r, next} })
	client, err := work.NewClient(config)
	if err != nil {
		m.t.Fatal(err)
	}
	if len(kinds) == 0 {
		kinds = []schema.GroupVersionResource{ingresses, configMaps}
	}
	r.Syncer, err = New(Options{Hub: m.hub, Client: client, Kinds: kinds, Claims: m.claims, Report: r.report})
	if err != nil {
		m.t.Fatal(err)
	}
	r.pace = pace{gather: 50 * time.Millisecond, atOnce: time.Hour, look: 50 * time.Millisecond}
	ctx, cancel := context.WithCancel(context.Background())
	r.cancel, r.over = cancel, ctx.Done()
	if prepare != nil {
		prepare(r)
	}
	var over sync.WaitGroup
	over.Go(func() { r.Run(ctx) })
	r.end = sync.OnceFunc(func() {
		cancel()
		over.Wait()
	})
	m.t.Cleanup(r.end)
	return r
}

type counter struct {
	run  *run
	next http.RoundTripper
}

func (c *counter) RoundTrip(r *http.Request) (*http.Response, error) {
	r = r.Clone(r.Context())
	r.Header.Set(syncertest.HubHeader, c.run.m.hub)
	if c.run.before != nil {
		c.run.before(r)
	}
	w := c.run.sent(r)
	answer, err := c.next.RoundTrip(r)
	c.run.mu.Lock()
	defer c.run.mu.Unlock()
	w.over, w.done = true, err == nil && answer.StatusCode < http.StatusMultipleChoices
	return answer, err
}

// write is a request that changes something.
type write struct {
	what string // verb and path
	over bool   // it was answered
	done bool   // with success
}

// sent notes a request. Its place is that of its sending: the watch may tell of a write, and
// the next one follow, before its answer is read.
func (r *run) sent(q *http.Request) *write {
	r.mu.Lock()
	defer r.mu.Unlock()
	w := &write{what: q.Method + " " + q.URL.Path}
	switch {
	case q.Method == http.MethodGet:
		r.reads++
	case q.URL.Query().Get("dryRun") == "":
		r.asked = append(r.asked, w)
	}
	return w
}

func (c *counter) CloseIdleConnections() {
	if i, ok := c.next.(interface{ CloseIdleConnections() }); ok {
		i.CloseIdleConnections()
	}
}

func (r *run) report(k Key, s State) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.states[k] = s
	r.all[k] = append(r.all[k], s)
}

// state is what was told last.
func (r *run) state(k Key) State {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.states[k]
}

// writes are those since the last call. Those under way are waited for: the watch may have
// told of one before its answer was read.
func (r *run) writes() []string {
	r.m.t.Helper()
	r.until("writes to be answered", func() error {
		r.mu.Lock()
		defer r.mu.Unlock()
		if i := slices.IndexFunc(r.asked, func(w *write) bool { return !w.over }); i >= 0 {
			return errors.New(r.asked[i].what)
		}
		return nil
	})
	r.mu.Lock()
	defer r.mu.Unlock()
	var out []string
	for _, w := range r.asked {
		if w.done {
			out = append(out, w.what)
		}
	}
	r.asked = slices.DeleteFunc(r.asked, func(w *write) bool { return w.over })
	return out
}

// await waits until a leaf is told to be so, and returns what is told.
func (r *run) await(k Key, want Reason) State {
	r.m.t.Helper()
	r.until(fmt.Sprintf("%v to be %s", k, want), func() error {
		if s := r.state(k); s.Reason != want {
			return fmt.Errorf("it is %+v", s)
		}
		return nil
	})
	return r.state(k)
}

// there waits until it is told of which generation and status a leaf is.
func (r *run) there(k Key) State {
	r.m.t.Helper()
	r.until(fmt.Sprintf("%v to be there", k), func() error {
		have, s := r.m.get(k), r.state(k)
		if have == nil || s.Reason != Applied || s.UID != have.GetUID() || s.Generation != have.GetGeneration() {
			return fmt.Errorf("it is %+v, and there is %v", s, have)
		}
		return nil
	})
	return r.state(k)
}

func (r *run) until(what string, check func() error) {
	r.m.t.Helper()
	eventually.Nil(r.m.t, what, func(context.Context) error { return check() })
}

// settle waits until there is nothing to do, and each leaf that is wanted is seen.
func (r *run) settle() {
	r.m.t.Helper()
	r.until("a pause", func() error {
		select {
		case <-r.over:
			return nil
		default:
		}
		if n := r.queue.Len(); n > 0 {
			return fmt.Errorf("%d wait", n)
		}
		r.Syncer.mu.Lock()
		defer r.Syncer.mu.Unlock()
		for _, k := range r.kinds {
			if !k.known() {
				return fmt.Errorf("%s is not listed", k.resource.Resource)
			}
		}
		return nil
	})
}

func at(o *unstructured.Unstructured, path ...string) any {
	v, _, _ := unstructured.NestedFieldNoCopy(o.Object, path...)
	return v
}

func pathsOf(o *unstructured.Unstructured) (out []string) {
	rules, _ := at(o, "spec", "rules").([]any)
	for _, r := range rules {
		list, _, _ := unstructured.NestedSlice(r.(map[string]any), "http", "paths")
		for _, p := range list {
			out = append(out, p.(map[string]any)["path"].(string))
		}
	}
	return out
}

// TestALeafsLife: it is made, told with its status, edited by one write, put
// right, made again, left alone by the next syncer, and deleted.
func TestALeafsLife(t *testing.T) {
	m := realMember(t)
	r := m.run(nil)
	key, leaf := m.ingress("web", "/")
	before, _ := json.Marshal(leaf.Object)
	r.Want(key, leaf)
	r.there(key)
	have := m.get(key)
	if have.GetLabels()[v1alpha1.LabelHub] != m.hub || have.GetLabels()[v1alpha1.LabelRootUID] != "root-web" || have.GetAnnotations()[v1alpha1.AnnotationRoot] != "Ingress//shop/web" {
		t.Errorf("marks: %v %v", have.GetLabels(), have.GetAnnotations())
	}
	if w := r.writes(); len(w) != 1 {
		t.Errorf("made by %v", w)
	}

	m.patch(key, `{"status":{"loadBalancer":{"ingress":[{"ip":"192.0.2.1"}]}}}`, "status")
	r.until("the status", func() error {
		if s := r.state(key); !strings.Contains(string(s.Status), "192.0.2.1") {
			return fmt.Errorf("%s", s.Status)
		}
		return nil
	})

	_, edited := m.ingress("web", "/", "/two")
	r.Want(key, edited)
	r.until("the edit", func() error {
		if got := pathsOf(m.get(key)); !slices.Equal(got, []string{"/", "/two"}) {
			return fmt.Errorf("%v", got)
		}
		return nil
	})
	r.there(key)
	if w := r.writes(); len(w) != 1 {
		t.Errorf("one edit was written by %v", w)
	}

	m.patch(key, `{"spec":{"ingressClassName":"theirs"}}`)
	r.until("the repair", func() error {
		if got := at(m.get(key), "spec", "ingressClassName"); got != "local" {
			return fmt.Errorf("%v", got)
		}
		return nil
	})
	uid := m.get(key).GetUID()
	m.delete(key)
	r.until("a new one", func() error {
		if o := m.get(key); o == nil || o.GetUID() == uid {
			return fmt.Errorf("%v", o)
		}
		return nil
	})
	r.there(key)
	if after, _ := json.Marshal(leaf.Object); string(before) != string(after) {
		t.Errorf("the input was changed: %s", after)
	}
	r.end()

	r = m.run(func(r *run) { r.Want(key, edited) })
	r.Complete()
	r.there(key)
	r.settle()
	if w := r.writes(); len(w) > 0 {
		t.Errorf("at rest, after a start: %v", w)
	}
	r.Want(key, nil)
	r.await(key, Gone)
	if o := m.get(key); o != nil {
		t.Errorf("still there: %v", o)
	}
}
