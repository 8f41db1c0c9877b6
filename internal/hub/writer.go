package hub

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/util/flowcontrol"
	"k8s.io/client-go/util/workqueue"

	"github.com/spillway-dev/spillway/api/v1alpha1"
	"github.com/spillway-dev/spillway/internal/model"
)

// How hard the hub is worked.
const (
	workers     = 4
	retryFirst  = 200 * time.Millisecond
	retryLast   = time.Minute
	callTimeout = 10 * time.Second
	qps, burst  = 50, 100 // of all requests
)

// what is a kind of work on an object.
type what uint8

const (
	addresses what = iota // status.loadBalancer of an Ingress
	conditions
	finding
	finalizer
)

var whats = [...]string{"addresses", "status", "events", "finalizer"}

// job names a piece of work.
type job struct {
	what   what
	object model.Object
}

// Writer writes to the hub.
type Writer struct {
	client dynamic.Interface
	log    *slog.Logger
	who    string // instance, in events
	queue  workqueue.TypedRateLimitingInterface[job]
	events flowcontrol.RateLimiter
	open   chan struct{} // closed: may write
	done   func()        // called after each piece of work; may be nil

	mu        sync.Mutex
	opened    bool
	addresses map[model.Object]published
	statuses  map[model.Object]Status
	guards    map[model.Object]bool
	news      map[model.Object]*news
}

// NewWriter prepares to write to a hub as instance who; nothing is sent before Run.
func NewWriter(config *rest.Config, who string, log *slog.Logger) (*Writer, error) {
	c := rest.CopyConfig(config)
	c.QPS, c.Burst, c.Timeout, c.UserAgent = qps, burst, callTimeout, "spillway"
	client, err := dynamic.NewForConfig(c)
	if err != nil {
		return nil, fmt.Errorf("hub: %w", err)
	}
	return newWriter(client, who, log), nil
}

func newWriter(client dynamic.Interface, who string, log *slog.Logger) *Writer {
	limit := workqueue.NewTypedItemExponentialFailureRateLimiter[job](retryFirst, retryLast)
	return &Writer{
		client: client, log: log, who: who,
		queue:     workqueue.NewTypedRateLimitingQueue(limit),
		events:    flowcontrol.NewTokenBucketRateLimiter(eventQPS, eventBurst),
		open:      make(chan struct{}),
		addresses: map[model.Object]published{},
		statuses:  map[model.Object]Status{},
		guards:    map[model.Object]bool{},
		news:      map[model.Object]*news{},
	}
}

// Open lets the writer write, from now on: all that is known is known.
func (w *Writer) Open() {
	w.mu.Lock()
	defer w.mu.Unlock()
	if !w.opened {
		w.opened = true
		close(w.open)
	}
}

func (w *Writer) isOpen() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.opened
}

// published is what status.loadBalancer of an Ingress should list.
type published struct {
	list []string
	left bool // nothing, where what it lists is ours
}

// Addresses says what status.loadBalancer of an Ingress should list.
func (w *Writer) Addresses(o model.Object, list []string) { w.publish(o, published{list: list}) }

// Withdraw takes our addresses out of the status of an Ingress that is not ours
// any more. What somebody else wrote stays.
func (w *Writer) Withdraw(o model.Object) { w.publish(o, published{left: true}) }

func (w *Writer) publish(o model.Object, p published) {
	w.mu.Lock()
	w.addresses[o] = p
	w.mu.Unlock()
	w.add(job{addresses, o})
}

// Status says what the status of one of our objects should be.
func (w *Writer) Status(o model.Object, s Status) {
	w.mu.Lock()
	old, had := w.statuses[o]
	w.statuses[o] = s
	w.mu.Unlock()
	if !had || !old.equal(s) {
		w.add(job{conditions, o})
	}
}

// Guard holds a MemberCluster back when it is deleted, until Release.
func (w *Writer) Guard(m model.Member) { w.guard(m, true) }

// Release lets a deleted MemberCluster go: its traffic has been moved.
func (w *Writer) Release(m model.Member) { w.guard(m, false) }

func (w *Writer) guard(m model.Member, hold bool) {
	o := model.Object{Kind: "MemberCluster", Name: string(m)}
	w.mu.Lock()
	w.guards[o] = hold
	w.mu.Unlock()
	w.add(job{finalizer, o})
}

// Findings says what is wrong with an object now; each finding that is new
// becomes an event on it.
func (w *Writer) Findings(o model.Object, now model.Findings) {
	w.mu.Lock()
	n := w.news[o]
	if n == nil {
		n = &news{told: map[model.Finding]int{}}
		w.news[o] = n
	}
	n.now = now
	w.mu.Unlock()
	w.add(job{finding, o})
}

// forget drops a want: there is nothing more to say about the object.
func (w *Writer) forget(about what, o model.Object) {
	w.mu.Lock()
	defer w.mu.Unlock()
	switch about {
	case addresses:
		delete(w.addresses, o)
	case conditions:
		delete(w.statuses, o)
	case finalizer:
		delete(w.guards, o)
	case finding:
		delete(w.news, o)
	}
}

func (w *Writer) add(j job) {
	if _, ok := onHub(j.object); ok {
		w.queue.Add(j)
	}
}

// Waiting is how many pieces of work are not done.
func (w *Writer) Waiting() int { return w.queue.Len() }

// Run works until ctx ends.
func (w *Writer) Run(ctx context.Context) {
	var all sync.WaitGroup
	for range workers {
		all.Go(func() { w.work(ctx) })
	}
	<-ctx.Done()
	w.queue.ShutDown()
	all.Wait()
}

func (w *Writer) work(ctx context.Context) {
	select {
	case <-w.open:
	case <-ctx.Done():
		return
	}
	for {
		j, end := w.queue.Get()
		if end {
			return
		}
		w.do(ctx, j)
		w.queue.Done(j)
		if w.done != nil {
			w.done()
		}
	}
}

// do works on one thing, and tries again later if it fails. An object that is
// gone, or a kind that the hub does not have, is nobody's business any more.
func (w *Writer) do(ctx context.Context, j job) {
	asked, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	err := w.write(asked, j)
	switch {
	case err == nil:
		w.queue.Forget(j)
	case apierrors.IsNotFound(err):
		w.queue.Forget(j)
		if j.what == finding {
			w.forget(finding, j.object)
		}
	case apierrors.IsConflict(err):
		w.queue.AddRateLimited(j) // it changed meanwhile: read it again
	case ctx.Err() == nil:
		// The first failure of a row of them is worth a line.
		if w.queue.NumRequeues(j) == 0 {
			w.log.Warn("hub: not written, trying again", "object", j.object.String(), "what", whats[j.what], "error", short(err))
		}
		w.queue.AddRateLimited(j)
	}
}

// short is an error without what a server may have put into it at length.
func short(err error) string { return clip(err.Error(), 200) }

var errNoKind = errors.New("no such kind")

// resource is the collection that an object is in.
func (w *Writer) resource(o model.Object) (dynamic.ResourceInterface, error) {
	k, ok := onHub(o)
	if !ok {
		return nil, fmt.Errorf("%v: %w", o, errNoKind)
	}
	r := w.client.Resource(k.resource)
	if k.namespaced {
		return r.Namespace(o.Namespace), nil
	}
	return r, nil
}

func (w *Writer) write(ctx context.Context, j job) error {
	r, err := w.resource(j.object)
	if err != nil {
		return err
	}
	patch, blind := w.wanted(j)
	if patch == nil {
		return nil
	}
	var have *unstructured.Unstructured
	if !blind {
		if have, err = r.Get(ctx, j.object.Name, metav1.GetOptions{}); err != nil {
			return err
		}
	}
	if j.what == finding {
		return w.tell(ctx, j.object, have)
	}
	data, err := patch(have)
	if err != nil || data == nil {
		return err
	}
	subresources := []string{"status"}
	if j.what == finalizer {
		subresources = nil
	}
	_, err = r.Patch(ctx, j.object.Name, types.MergePatchType, data, metav1.PatchOptions{FieldManager: v1alpha1.FieldManager}, subresources...)
	return err
}

// wanted returns what makes a patch of an object as it is, nil if nothing is
// wanted any more. A blind one is made without a look at the object: addresses
// of an Ingress that is ours, which nobody else writes, and which are wanted
// only if they differ.
func (w *Writer) wanted(j job) (patch func(*unstructured.Unstructured) ([]byte, error), blind bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	switch j.what {
	case addresses:
		if p, ok := w.addresses[j.object]; ok && p.left {
			return withdrawal, false
		} else if ok {
			return func(*unstructured.Unstructured) ([]byte, error) { return loadBalancer(p.list) }, true
		}
	case conditions:
		if s, ok := w.statuses[j.object]; ok {
			return func(have *unstructured.Unstructured) ([]byte, error) { return s.patch(have, time.Now()) }, false
		}
	case finalizer:
		if hold, ok := w.guards[j.object]; ok {
			return func(have *unstructured.Unstructured) ([]byte, error) {
				return finalizers(v1alpha1.FinalizerMember, hold, have)
			}, false
		}
	case finding:
		n := w.news[j.object]
		if n != nil && len(n.fresh()) > 0 {
			return func(*unstructured.Unstructured) ([]byte, error) { return nil, nil }, false
		}
		if n != nil && len(n.now)+len(n.told) == 0 {
			delete(w.news, j.object)
		}
	}
	return nil, false
}
