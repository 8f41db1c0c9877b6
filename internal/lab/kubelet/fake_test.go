package kubelet

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"net/netip"
	"sync"
	"testing"
	"testing/synctest"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"
)

// fakeRuntime runs nothing; the test plays the programs.
type fakeRuntime struct {
	mu      sync.Mutex
	started []*fakeRun
	boxes   []*fakeBox
	open    map[uint16]bool // ports that accept a connection
}

type fakeBox struct {
	rt     *fakeRuntime
	addrs  []netip.Addr
	closed bool
}

// fakeRun is one started program; end makes it exit.
type fakeRun struct {
	prog     Program
	stubborn bool // ignores SIGTERM
	once     sync.Once
	done     chan struct{}
	exit     Exit
}

func (r *fakeRuntime) Sandbox(_ string, addrs []netip.Addr) (Sandbox, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	b := &fakeBox{rt: r, addrs: addrs}
	r.boxes = append(r.boxes, b)
	return b, nil
}

func (b *fakeBox) Start(p Program) (Running, error) {
	run := &fakeRun{prog: p, done: make(chan struct{}), stubborn: p.Argv[0] == "stubborn"}
	b.rt.mu.Lock()
	defer b.rt.mu.Unlock()
	b.rt.started = append(b.rt.started, run)
	return run, nil
}

func (b *fakeBox) Dial(_ context.Context, to netip.AddrPort) (net.Conn, error) {
	b.rt.mu.Lock()
	defer b.rt.mu.Unlock()
	if !b.rt.open[to.Port()] {
		return nil, errors.New("connection refused")
	}
	near, far := net.Pipe()
	go far.Close()
	return near, nil
}

func (b *fakeBox) Close() {
	b.rt.mu.Lock()
	b.closed = true
	all := append([]*fakeRun(nil), b.rt.started...)
	b.rt.mu.Unlock()
	for _, r := range all {
		r.Kill()
	}
}

func (r *fakeRun) end(e Exit)            { r.once.Do(func() { r.exit = e; close(r.done) }) }
func (r *fakeRun) Done() <-chan struct{} { return r.done }
func (r *fakeRun) Exit() Exit            { return r.exit }
func (r *fakeRun) Kill()                 { r.end(Exit{Code: 137, Signal: 9}) }
func (r *fakeRun) Terminate() {
	if !r.stubborn {
		r.end(Exit{})
	}
}

// world is a Kubelet over fakes, inside a synctest bubble.
type world struct {
	t      *testing.T
	client *fake.Clientset
	rt     *fakeRuntime
	k      *Kubelet
}

// inWorld runs a test in a bubble with a running Kubelet.
func inWorld(t *testing.T, test func(*world)) {
	synctest.Test(t, func(t *testing.T) {
		w := &world{t: t, client: fake.NewClientset(), rt: &fakeRuntime{open: map[uint16]bool{}}}
		// The fake server binds: it sets the node's name.
		w.client.PrependReactor("create", "pods", w.binding)
		w.k = New(Config{
			Client: w.client, Member: "eu-1", Runtime: w.rt, Images: Images{"web": "web", "stubborn": "stubborn", "job": "job"},
			Nodes: []Node{
				{Name: "n1", Region: "eu", Zone: "eu-a", Address: netip.MustParseAddr("10.1.1.1"), Pods4: netip.MustParsePrefix("10.1.1.0/24")},
				{Name: "n2", Region: "eu", Zone: "eu-b", Address: netip.MustParseAddr("10.1.2.1"), Pods4: netip.MustParsePrefix("10.1.2.0/24")},
			},
			LogDir: t.TempDir(), Volumes: t.TempDir(), Log: slog.New(slog.DiscardHandler),
		})
		ctx, cancel := context.WithCancel(context.Background())
		ready, done := make(chan struct{}), make(chan error, 1)
		go func() { done <- w.k.Run(ctx, func() { close(ready) }) }()
		<-ready
		test(w)
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
		synctest.Wait()
	})
}

func (w *world) binding(action clienttesting.Action) (bool, runtime.Object, error) {
	create, ok := action.(clienttesting.CreateAction)
	if !ok || action.GetSubresource() != "binding" {
		return false, nil, nil
	}
	b := create.GetObject().(*corev1.Binding)
	gvr := corev1.SchemeGroupVersion.WithResource("pods")
	obj, err := w.client.Tracker().Get(gvr, action.GetNamespace(), b.Name)
	if err != nil {
		return true, nil, err
	}
	p := obj.(*corev1.Pod).DeepCopy()
	p.Spec.NodeName = b.Target.Name
	return true, b, w.client.Tracker().Update(gvr, p, p.Namespace)
}

func (w *world) create(p *corev1.Pod) {
	w.t.Helper()
	p.Namespace, p.UID = "shop", types.UID("uid-"+p.Name)
	if p.Spec.RestartPolicy == "" {
		p.Spec.RestartPolicy = corev1.RestartPolicyAlways
	}
	if _, err := w.client.CoreV1().Pods("shop").Create(w.t.Context(), p, metav1.CreateOptions{}); err != nil {
		w.t.Fatal(err)
	}
	synctest.Wait()
}

// delete marks a pod as deleted, as the server does while it has a grace.
func (w *world) delete(name string, grace int64) {
	w.t.Helper()
	p := w.get(name)
	now := metav1.Now()
	p.DeletionTimestamp, p.DeletionGracePeriodSeconds = &now, &grace
	if err := w.client.Tracker().Update(corev1.SchemeGroupVersion.WithResource("pods"), p, "shop"); err != nil {
		w.t.Fatal(err)
	}
	synctest.Wait()
}

func (w *world) get(name string) *corev1.Pod {
	w.t.Helper()
	p, err := w.client.CoreV1().Pods("shop").Get(w.t.Context(), name, metav1.GetOptions{})
	if err != nil {
		w.t.Fatal(err)
	}
	return p
}

func (w *world) gone(name string) bool {
	_, err := w.client.CoreV1().Pods("shop").Get(w.t.Context(), name, metav1.GetOptions{})
	return err != nil
}

// runs are the programs started so far.
func (w *world) runs() []*fakeRun {
	w.rt.mu.Lock()
	defer w.rt.mu.Unlock()
	return append([]*fakeRun(nil), w.rt.started...)
}

func (w *world) listen(port uint16, open bool) {
	w.rt.mu.Lock()
	defer w.rt.mu.Unlock()
	w.rt.open[port] = open
}

func isReady(p *corev1.Pod) bool {
	for _, c := range p.Status.Conditions {
		if c.Type == corev1.PodReady {
			return c.Status == corev1.ConditionTrue
		}
	}
	return false
}
