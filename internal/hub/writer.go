package hub

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/util/flowcontrol"

	"github.com/spillway-dev/spillway/api/v1alpha1"
	"github.com/spillway-dev/spillway/internal/leaf"
	"github.com/spillway-dev/spillway/internal/model"
	"github.com/spillway-dev/spillway/internal/work"
)

// How hard the hub is worked. Statuses and events have each a share of their own.
const (
	stateWorkers = 4
	talkWorkers  = 2
	retryFirst   = 200 * time.Millisecond
	retryLast    = time.Minute
	callTimeout  = 10 * time.Second
	qps, burst   = 50, 100 // requests for statuses
)

// what is a kind of work on an object.
type what uint8

const (
	addresses what = iota // status.loadBalancer of an Ingress
	conditions
	finding
	finalizer
	parents  // status.parents of a route of the Gateway API
	admitted // our entry of status.ingress of a Route of OpenShift
	global   // a GlobalIngress
	leafing  // the finalizer of a MemberCluster for its leaves
	unbury   // a MemberTombstone that is needed no more
)

var whats = [...]string{"addresses", "status", "events", "finalizer", "parents", "admission", "globalingress", "finalizer for leaves", "tombstone"}

// job names a piece of work.
type job struct {
	what   what
	object model.Object
}

// Writer writes to the hub. Statuses and finalizers never wait for events.
type Writer struct {
	log     *slog.Logger
	who     string                  // instance, in events
	state   *line                   // statuses and finalizers
	talk    *line                   // events
	world   *line                   // GlobalIngresses
	limit   flowcontrol.RateLimiter // of events
	pace    flowcontrol.RateLimiter // of GlobalIngresses
	open    chan struct{}           // closed: may write
	metrics metrics

	mu         sync.Mutex
	opened     bool
	addresses  map[model.Object]published
	statuses   map[model.Object]Status
	parents    map[model.Object]said
	admissions map[model.Object]admission
	globals    map[model.Object]leaf.GlobalRow
	globalAt   map[model.Object]time.Time // when it was last written, of late
	guards     map[model.Object]bool
	leafed     map[model.Object]leafGuard
	unburied   map[model.Object]bool
	news       map[model.Object]*news
	over       int             // of news, those that ended since the last sweep
	records    map[job]*record // of what was written lately
	swept      time.Time       // when old ones went
	warned     time.Time       // when the log last told of a rival
}

// NewWriter prepares to write to a hub as instance who; nothing is sent before Run.
// The budget is what may be asked of the hub while it does nothing but fail.
func NewWriter(config *rest.Config, who string, budget flowcontrol.RateLimiter, log *slog.Logger) (*Writer, error) {
	var clients [3]dynamic.Interface
	for i, rate := range [...]struct{ qps, burst int }{{qps, burst}, {eventQPS * perEvent, eventBurst}, {globalQPS * perGlobal, globalBurst * perGlobal}} {
		c := rest.CopyConfig(config)
		c.QPS, c.Burst, c.Timeout, c.UserAgent = float32(rate.qps), rate.burst, callTimeout, "spillway"
		var err error
		if clients[i], err = work.NewClient(c); err != nil {
			return nil, fmt.Errorf("hub: %w", err)
		}
	}
	w := newWriter(clients[0], clients[1], who, budget, log)
	w.world.client = clients[2]
	return w, nil
}

func newWriter(state, talk dynamic.Interface, who string, budget flowcontrol.RateLimiter, log *slog.Logger) *Writer {
	w := &Writer{
		log: log, who: who,
		state:      newLine(state, stateWorkers, budget),
		talk:       newLine(talk, talkWorkers, budget),
		limit:      flowcontrol.NewTokenBucketRateLimiter(eventQPS, eventBurst),
		open:       make(chan struct{}),
		metrics:    newMetrics(),
		addresses:  map[model.Object]published{},
		statuses:   map[model.Object]Status{},
		parents:    map[model.Object]said{},
		admissions: map[model.Object]admission{},
		guards:     map[model.Object]bool{},
		leafed:     map[model.Object]leafGuard{},
		unburied:   map[model.Object]bool{},
		news:       map[model.Object]*news{},
		records:    map[job]*record{},
		globals:    map[model.Object]leaf.GlobalRow{},
		globalAt:   map[model.Object]time.Time{},
		pace:       flowcontrol.NewTokenBucketRateLimiter(globalQPS, globalBurst),
	}
	w.world = &line{client: state, queue: work.NewQueueOf(work.NewRanked(laneOf, w.urgent), retryFirst, retryLast), workers: globalWorkers, gate: work.NewGate(budget)}
	return w
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

// ForgetMember is told of a MemberCluster that is gone.
func (w *Writer) ForgetMember(m model.Member) { w.forget(finalizer, memberObject(m)) }

func memberObject(m model.Member) model.Object {
	return model.Object{Kind: "MemberCluster", Name: string(m)}
}

func (w *Writer) guard(m model.Member, hold bool) {
	o := memberObject(m)
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
	if len(now) == 0 && len(n.now) > 0 {
		w.ended()
	}
	n.now = now
	w.mu.Unlock()
	w.add(job{finding, o})
}

// maxOver bounds of how many objects it is remembered what was once told.
const maxOver = 4096

// ended counts an object whose findings are over. What is remembered of such is
// forgotten now and then: one that comes back is not counted then.
func (w *Writer) ended() {
	if w.over++; w.over > maxOver {
		w.over = 0
		maps.DeleteFunc(w.news, func(_ model.Object, n *news) bool { return len(n.now) == 0 })
	}
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
		delete(w.records, job{conditions, o})
	case parents:
		delete(w.parents, o)
	case admitted:
		delete(w.admissions, o)
	case finalizer:
		delete(w.guards, o)
	case leafing:
		delete(w.leafed, o)
	case finding:
		delete(w.news, o)
	case global:
		delete(w.globals, o)
	}
}

// add has something done, soon: not at once where somebody else keeps changing it.
func (w *Writer) add(j job) {
	if _, ok := onHub(j.object); ok {
		w.line(j).queue.AddAfter(j, max(w.resting(j), w.spacing(j)))
	}
}

// line is the one that a piece of work is on.
func (w *Writer) line(j job) *line {
	switch j.what {
	case finding:
		return w.talk
	case global:
		return w.world
	}
	return w.state
}

// Waiting is how many pieces of work are not done.
func (w *Writer) Waiting() int { return w.state.queue.Len() + w.talk.queue.Len() + w.world.queue.Len() }

// Run works until ctx ends.
func (w *Writer) Run(ctx context.Context) {
	var all sync.WaitGroup
	for _, l := range []*line{w.state, w.talk, w.world} {
		for range l.workers {
			all.Go(func() { w.work(ctx, l) })
		}
	}
	<-ctx.Done()
	w.state.queue.ShutDown()
	w.talk.queue.ShutDown()
	w.world.queue.ShutDown()
	all.Wait()
}

func (w *Writer) work(ctx context.Context, l *line) {
	select {
	case <-w.open:
	case <-ctx.Done():
		return
	}
	l.work(ctx, func(j job) { w.do(ctx, l, j) })
}

// do works on one thing, and tries again later if it fails. An object that is
// gone, or a kind that the hub does not have, is nobody's business any more.
func (w *Writer) do(ctx context.Context, l *line, j job) {
	err := w.write(ctx, l, j)
	if ctx.Err() != nil {
		return
	}
	l.gate.Came(err)
	switch {
	case err == nil:
		l.queue.Forget(j)
	case apierrors.IsNotFound(err):
		l.queue.Forget(j)
		if j.what == finding {
			w.forget(finding, j.object)
		}
	case apierrors.IsConflict(err):
		l.queue.AddRateLimited(j) // it changed meanwhile: read it again
	default:
		// The first failure of a row of them is worth a line.
		if l.queue.NumRequeues(j) == 0 {
			w.log.Warn("hub: not written, trying again", "object", j.object.String(), "what", whats[j.what], "error", short(err))
		}
		l.queue.AddRateLimited(j)
	}
}

// short is an error without what a server may have put into it at length.
func short(err error) string { return clip(err.Error(), 200) }

var errNoKind = errors.New("no such kind")

// target is an object on the hub.
type target struct {
	job
	kind
	in dynamic.ResourceInterface
}

func (l *line) target(j job) (target, error) {
	k, ok := onHub(j.object)
	if !ok {
		return target{}, fmt.Errorf("%v: %w", j.object, errNoKind)
	}
	r := l.client.Resource(k.resource)
	if k.namespaced {
		return target{j, k, r.Namespace(j.object.Namespace)}, nil
	}
	return target{j, k, r}, nil
}

// get reads the object.
func (t target) get(ctx context.Context) (*unstructured.Unstructured, error) {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	return t.in.Get(ctx, t.object.Name, metav1.GetOptions{})
}

// apply writes a status by server-side apply, also over what others wrote.
// Where a version is given, the object must still be the one that was read.
func (t target) apply(ctx context.Context, version string, status map[string]any) (*unstructured.Unstructured, error) {
	o := &unstructured.Unstructured{Object: map[string]any{"status": status}}
	o.SetAPIVersion(t.resource.GroupVersion().String())
	o.SetKind(t.object.Kind)
	o.SetName(t.object.Name)
	o.SetNamespace(t.object.Namespace)
	o.SetResourceVersion(version)
	data, err := json.Marshal(o.Object)
	if err != nil {
		return nil, err
	}
	return t.patch(ctx, types.ApplyPatchType, data, "status")
}

// merge sends a merge patch (RFC 7386), if there is something to merge.
func (t target) merge(ctx context.Context, data []byte, subresources ...string) error {
	if data == nil {
		return nil
	}
	_, err := t.patch(ctx, types.MergePatchType, data, subresources...)
	return err
}

func (t target) patch(ctx context.Context, by types.PatchType, data []byte, subresources ...string) (*unstructured.Unstructured, error) {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	o := metav1.PatchOptions{FieldManager: v1alpha1.FieldManager}
	if by == types.ApplyPatchType {
		o.Force = new(true)
	}
	return t.in.Patch(ctx, t.object.Name, by, data, o, subresources...)
}

func (w *Writer) write(ctx context.Context, l *line, j job) error {
	t, err := l.target(j)
	if err != nil {
		return err
	}
	if work := w.wanted(j); work != nil {
		return work(ctx, t)
	}
	return nil
}

// wanted returns what is to be done about an object, nil if nothing is any more.
func (w *Writer) wanted(j job) func(context.Context, target) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	switch j.what {
	case addresses:
		if p, ok := w.addresses[j.object]; ok && p.left {
			return withdraw
		} else if ok {
			return func(ctx context.Context, t target) error { return w.publishTo(ctx, t, p) }
		}
	case conditions:
		if s, ok := w.statuses[j.object]; ok {
			return func(ctx context.Context, t target) error { return w.say(ctx, t, s) }
		}
	case parents:
		if s, ok := w.parents[j.object]; ok {
			return func(ctx context.Context, t target) error { return w.report(ctx, t, s) }
		}
	case admitted:
		if a, ok := w.admissions[j.object]; ok {
			return func(ctx context.Context, t target) error { return w.report(ctx, t, a) }
		}
	case global:
		if row, ok := w.globals[j.object]; ok {
			return func(ctx context.Context, t target) error { return w.globally(ctx, t, row) }
		}
	case finalizer:
		if hold, ok := w.guards[j.object]; ok {
			return func(ctx context.Context, t target) error { return finalize(ctx, t, hold) }
		}
	case leafing:
		if g, ok := w.leafed[j.object]; ok {
			return func(ctx context.Context, t target) error { return w.guardLeaves(ctx, t, g) }
		}
	case unbury:
		if w.unburied[j.object] {
			return w.dig
		}
	case finding:
		n := w.news[j.object]
		if n != nil && len(n.fresh()) > 0 {
			return w.tell
		}
		if n != nil && len(n.now)+len(n.told) == 0 {
			delete(w.news, j.object)
		}
	}
	return nil
}

// publishTo makes status.loadBalancer of an Ingress list addresses. The object
// is not read before: nobody else writes the field of an Ingress that is ours,
// and addresses are wanted only if they differ. Where we wrote it lately,
// somebody does.
func (w *Writer) publishTo(ctx context.Context, t target, p published) error {
	if w.lately(t.job) {
		have, err := t.get(ctx)
		if err != nil {
			return err
		}
		if p.says(have) {
			w.record(t.job, have, p)
			return nil
		}
		w.contest(t.job, have)
	}
	have, err := t.apply(ctx, "", p.status())
	if err != nil {
		return err
	}
	w.record(t.job, have, p)
	return nil
}

// say makes the status of one of our objects say what is wanted.
func (w *Writer) say(ctx context.Context, t target, s Status) error {
	have, err := t.get(ctx)
	if err != nil {
		return err
	}
	if s.Generation == 0 {
		s.Generation = have.GetGeneration()
	}
	status, err := s.status(have, time.Now())
	if err != nil {
		return err
	}
	if status == nil {
		w.record(t.job, have, s)
		return nil
	}
	w.contest(t.job, have)
	if have, err = t.apply(ctx, have.GetResourceVersion(), status); err != nil {
		return err
	}
	w.record(t.job, have, s)
	// What somebody else added does not go by being left out.
	data, err := s.without(have)
	if err != nil {
		return err
	}
	return t.merge(ctx, data, "status")
}

// withdraw empties status.loadBalancer of an Ingress that left us.
func withdraw(ctx context.Context, t target) error {
	have, err := t.get(ctx)
	if err != nil {
		return err
	}
	data, err := withdrawal(have)
	if err != nil {
		return err
	}
	return t.merge(ctx, data, "status")
}

// finalize adds our finalizer to a MemberCluster, or takes it away.
func finalize(ctx context.Context, t target, hold bool) error {
	have, err := t.get(ctx)
	if err != nil {
		return err
	}
	data, err := finalizers(v1alpha1.FinalizerMember, hold, have)
	if err != nil {
		return err
	}
	return t.merge(ctx, data)
}
