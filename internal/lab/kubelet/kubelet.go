// Package kubelet runs the pods of one lab member as local processes.
//
// It registers the member's nodes, binds pending pods to them, and for every
// pod bound to one of its nodes makes a sandbox (addresses and namespaces of
// its own), runs the containers in it, probes them and writes the pod's
// status; a deleted pod gets its grace. What a container runs is looked up in
// a map from image name to local program; nothing is pulled. It speaks to the
// member's API server only, and to the machine only through Runtime.
//
// Not done: resource limits, security contexts, cluster DNS, service addresses,
// persistent volumes, exec over the API, updates of mounted volumes.
package kubelet

import (
	"context"
	"fmt"
	"log/slog"
	"net/netip"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/scheme"
	typedcorev1 "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/record"
)

// Node is one node of the member: all its pods get addresses of Pods4, and of
// Pods6 where that is valid.
type Node struct {
	Name, Region, Zone string
	Address            netip.Addr // reported as the node's; pods see it as their host's
	Pods4, Pods6       netip.Prefix
}

// Config is what a Kubelet works with.
type Config struct {
	Client  kubernetes.Interface
	Member  string
	Nodes   []Node
	Images  Images
	Runtime Runtime
	LogDir  string     // gets a file per container: NAMESPACE_POD_CONTAINER.log
	Logs    *LogServer // nil: logs are files only
	Volumes string     // folder for the contents of volumes
	Log     *slog.Logger
}

// Kubelet runs a member's pods. Make it with New, then Run it once.
type Kubelet struct {
	Config
	events record.EventRecorder
	nodes  map[string]*nodePool
	binder *binder

	mu      sync.Mutex
	workers map[types.UID]*worker
	wg      sync.WaitGroup
}

// New returns a Kubelet that does nothing yet.
func New(cfg Config) *Kubelet {
	k := &Kubelet{Config: cfg, nodes: map[string]*nodePool{}, workers: map[types.UID]*worker{}}
	for _, n := range cfg.Nodes {
		k.nodes[n.Name] = &nodePool{node: n}
	}
	k.binder = newBinder(cfg.Nodes)
	return k
}

// Run registers the nodes and runs pods until ctx ends; then it kills them at
// once and returns. It is ready when ready is called.
func (k *Kubelet) Run(ctx context.Context, ready func()) error {
	if err := k.register(ctx); err != nil {
		return fmt.Errorf("kubelet of %s: %w", k.Member, err)
	}
	if k.Logs != nil {
		if err := k.serveLogs(ctx); err != nil {
			return fmt.Errorf("kubelet of %s: %w", k.Member, err)
		}
	}
	broadcaster := record.NewBroadcaster(record.WithContext(ctx))
	defer broadcaster.Shutdown()
	broadcaster.StartRecordingToSink(&typedcorev1.EventSinkImpl{Interface: k.Client.CoreV1().Events("")})
	k.events = broadcaster.NewRecorder(scheme.Scheme, corev1.EventSource{Component: "lab-kubelet", Host: k.Member})

	factory := informers.NewSharedInformerFactory(k.Client, 0)
	pods := factory.Core().V1().Pods().Informer()
	_, err := pods.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc:    func(o any) { k.saw(ctx, o.(*corev1.Pod)) },
		UpdateFunc: func(_, o any) { k.saw(ctx, o.(*corev1.Pod)) },
		DeleteFunc: func(o any) {
			if t, ok := o.(cache.DeletedFinalStateUnknown); ok {
				o = t.Obj
			}
			k.deleted(o.(*corev1.Pod))
		},
	})
	if err != nil {
		return err
	}
	factory.Start(ctx.Done())
	factory.WaitForCacheSync(ctx.Done())
	ready()
	k.heartbeat(ctx)
	factory.Shutdown()
	k.wg.Wait()
	return nil
}

// saw handles a pod as it is now. It is called from one goroutine.
func (k *Kubelet) saw(ctx context.Context, p *corev1.Pod) {
	pool := k.nodes[p.Spec.NodeName]
	switch {
	case p.Spec.NodeName == "" && p.DeletionTimestamp == nil:
		k.wg.Go(func() { k.bind(ctx, p) })
		return
	case pool == nil:
		return // somebody else's node
	}
	k.binder.bound(p)
	k.mu.Lock()
	w := k.workers[p.UID]
	// A deleted pod without a worker has ended; what is seen of it is late.
	fresh := w == nil && p.DeletionTimestamp == nil && p.Status.Phase != corev1.PodSucceeded && p.Status.Phase != corev1.PodFailed
	if fresh {
		w = newWorker(k, p.DeepCopy(), pool)
		k.workers[p.UID] = w
		k.wg.Go(func() { w.run(ctx) })
	}
	k.mu.Unlock()
	if p.DeletionTimestamp == nil {
		return
	}
	if w == nil {
		k.wg.Go(func() { k.confirmDeleted(ctx, p) })
		return
	}
	w.terminate(deletionGrace(p))
}

func deletionGrace(p *corev1.Pod) time.Duration {
	if p.DeletionGracePeriodSeconds == nil {
		return corev1.DefaultTerminationGracePeriodSeconds * time.Second
	}
	return time.Duration(*p.DeletionGracePeriodSeconds) * time.Second
}

// deleted kills what is left of a pod that the API has no more.
func (k *Kubelet) deleted(p *corev1.Pod) {
	k.binder.forget(p.UID)
	k.mu.Lock()
	w := k.workers[p.UID]
	k.mu.Unlock()
	if w != nil {
		w.terminate(0)
	}
}

// confirmDeleted tells the API that nothing of the pod runs any more.
func (k *Kubelet) confirmDeleted(ctx context.Context, p *corev1.Pod) {
	zero := int64(0)
	k.retry(ctx, "delete pod "+p.Namespace+"/"+p.Name, func() error {
		return k.Client.CoreV1().Pods(p.Namespace).Delete(ctx, p.Name, metav1.DeleteOptions{
			GracePeriodSeconds: &zero, Preconditions: &metav1.Preconditions{UID: &p.UID},
		})
	})
}

// forget removes a finished worker.
func (k *Kubelet) forget(uid types.UID) {
	k.mu.Lock()
	defer k.mu.Unlock()
	delete(k.workers, uid)
}

// Pods counts the pods that have a worker, that is, that may have processes.
func (k *Kubelet) Pods() int {
	k.mu.Lock()
	defer k.mu.Unlock()
	return len(k.workers)
}
