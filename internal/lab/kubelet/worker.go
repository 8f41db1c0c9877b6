package kubelet

import (
	"context"
	"encoding/json"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// worker runs one pod from its binding to the end.
type worker struct {
	k    *Kubelet
	pod  *corev1.Pod
	pool *nodePool

	addrs   []netip.Addr
	box     Sandbox
	mounted map[string]string
	dirty   chan struct{} // the status changed
	over    chan struct{} // nothing runs any more
	stop    chan struct{} // closed: the pod shall end
	mu      sync.Mutex
	state   *podState
	stopped bool
	end     time.Time // when what still runs is killed
	sooner  chan struct{}
}

func newWorker(k *Kubelet, p *corev1.Pod, pool *nodePool) *worker {
	return &worker{
		k: k, pod: p, pool: pool, state: newPodState(p, pool.node.Address, time.Now()),
		dirty: make(chan struct{}, 1), over: make(chan struct{}), stop: make(chan struct{}), sooner: make(chan struct{}, 1),
	}
}

// terminate lets the pod end, with a grace from now. A later call may only
// shorten it.
func (w *worker) terminate(grace time.Duration) {
	w.mu.Lock()
	defer w.mu.Unlock()
	end := time.Now().Add(grace)
	if !w.stopped {
		w.stopped, w.end = true, end
		close(w.stop)
		return
	}
	if end.Before(w.end) {
		w.end = end
		select {
		case w.sooner <- struct{}{}:
		default:
		}
	}
}

// killTime fires when the grace is over, also when it was shortened.
func (w *worker) killTime(ctx context.Context) {
	for {
		w.mu.Lock()
		left := time.Until(w.end)
		w.mu.Unlock()
		if left <= 0 {
			return
		}
		t := time.NewTimer(left)
		select {
		case <-t.C:
		case <-w.sooner:
			t.Stop()
		case <-ctx.Done():
			t.Stop()
			return
		}
	}
}

func (w *worker) stopping() bool {
	select {
	case <-w.stop:
		return true
	default:
		return false
	}
}

// run is the pod's life. When ctx ends everything is killed at once and the
// API is not told.
func (w *worker) run(ctx context.Context) {
	defer w.k.forget(w.pod.UID)
	var reporter sync.WaitGroup
	reporter.Go(func() { w.report(ctx) })
	w.live(ctx)
	close(w.over)
	reporter.Wait()
	if w.stopping() && ctx.Err() == nil {
		w.k.confirmDeleted(ctx, w.pod)
	}
}

func (w *worker) live(ctx context.Context) {
	dir := filepath.Join(w.k.Volumes, string(w.pod.UID))
	defer os.RemoveAll(dir)
	if !w.prepare(ctx, dir) {
		return
	}
	defer w.pool.put(w.addrs)
	w.change(func(s *podState) { s.addrs = w.addrs })
	sidecars := w.initialize(ctx)
	var mains sync.WaitGroup
	if sidecars != nil {
		for _, c := range w.state.containers {
			if !c.init {
				mains.Go(func() { w.keep(ctx, c) })
			}
		}
	}
	mains.Wait()
	w.box.Close() // sidecars end with it
	for _, done := range sidecars {
		<-done
	}
	if !w.stopping() { // it has completed: its object stays until it is deleted
		select {
		case <-w.stop:
		case <-ctx.Done():
		}
	}
}

// prepare makes volumes, addresses and the sandbox; false when the pod ended
// before that succeeded.
func (w *worker) prepare(ctx context.Context, dir string) bool {
	for wait := firstRetry; ; wait = min(2*wait, maxRetry) {
		err := w.tryPrepare(ctx, dir)
		if err == nil {
			return true
		}
		w.event(corev1.EventTypeWarning, "FailedCreatePodSandBox", err.Error())
		if !w.pause(ctx, wait) {
			return false
		}
	}
}

func (w *worker) tryPrepare(ctx context.Context, dir string) (err error) {
	addrs, err := w.pool.take()
	if err != nil {
		return err
	}
	w.addrs = addrs
	defer func() {
		if err != nil {
			w.pool.put(addrs)
		}
	}()
	if w.mounted, err = w.volumes(ctx, dir); err != nil {
		return err
	}
	hostname := w.pod.Spec.Hostname
	if hostname == "" {
		hostname = w.pod.Name
	}
	w.box, err = w.k.Runtime.Sandbox(hostname, w.addrs)
	return err
}

// pause waits, but not longer than the pod shall live.
func (w *worker) pause(ctx context.Context, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-w.stop:
	case <-ctx.Done():
	}
	return false
}

func (w *worker) scope() scope {
	return scope{pod: w.pod, node: w.pool.node, member: w.k.Member, addrs: w.addrs, source: apiSource{k: w.k, namespace: w.pod.Namespace}}
}

// change edits the state and has the status written.
func (w *worker) change(f func(*podState)) {
	w.mu.Lock()
	f(w.state)
	w.mu.Unlock()
	select {
	case w.dirty <- struct{}{}:
	default:
	}
}

// report writes the status after every change, the latest only, until nothing
// runs any more.
func (w *worker) report(ctx context.Context) {
	for {
		select {
		case <-w.dirty:
			w.write(ctx)
		case <-w.over:
			select {
			case <-w.dirty:
				w.write(ctx)
			default:
			}
			return
		case <-ctx.Done():
			return
		}
	}
}

func (w *worker) write(ctx context.Context) {
	what := fmt.Sprintf("status of pod %s/%s", w.pod.Namespace, w.pod.Name)
	w.k.retry(ctx, what, func() error {
		w.mu.Lock()
		status := w.state.status(time.Now())
		w.mu.Unlock()
		patch, err := json.Marshal(map[string]any{"metadata": map[string]any{"uid": w.pod.UID}, "status": status})
		if err != nil {
			return err
		}
		_, err = w.k.Client.CoreV1().Pods(w.pod.Namespace).Patch(ctx, w.pod.Name, types.StrategicMergePatchType, patch, metav1.PatchOptions{}, "status")
		return err
	})
}

func (w *worker) event(kind, reason, message string) {
	w.k.events.Event(w.pod, kind, reason, message)
}
