package cluster

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/go-logr/logr"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/util/flowcontrol"
	"k8s.io/klog/v2"
)

// pageSize bounds a list from a server that can't stream it.
const pageSize = 500

// resource is a kind of object as an API server has it.
type resource struct {
	client    *rest.RESTClient
	plural    string
	namespace string // empty: all
	fields    string // field selector
	list      func() runtime.Object
	metadata  bool        // of objects only that is asked for, and list is of PartialObjectMetadata
	written   func() bool // objects are asked for as JSON; nil: as the client does
}

// source lists and watches one resource into a store.
type source struct {
	resource
	store *store
	part  string // of the store that is read; empty: all

	kubeconfigs bool // of members: what is read gives no rows

	defined  bool    // the kind has a CustomResourceDefinition: see reread
	optional bool    // the server need not have the kind: 404 says so, and no more
	offers   *offers // where it is asked whether it has one that it did not have; may be nil
	mayHide  bool    // nor let us see it: 403 says no more than 404
	gone     func()  // called when it does not; may be nil

	pace   pace
	budget flowcontrol.RateLimiter     // of requests to the server while they fail; nil: none
	kin    []*source                   // of the same server, itself included
	told   func()                      // called after a change of the state; may be nil
	check  func(context.Context) error // called before each list, which fails with it; may be nil

	ended atomic.Bool // the server ended the watch that is open, in order

	mu sync.Mutex
	fate
}

// run lists and watches until ctx ends.
func (s *source) run(ctx context.Context) {
	b := reflectorBackoff
	r := cache.NewReflectorWithOptions(s, nil, s.share(), cache.ReflectorOptions{Name: s.plural, Backoff: &b})
	r.WatchListPageSize = pageSize
	r.RunWithContext(unlogged(ctx))
}

// called is the resource, with the namespace if it is of one.
func (s *source) called() string {
	out := s.plural
	if g := s.client.APIVersion().Group; g != "" {
		out += "." + g
	}
	if s.part != "" {
		out += " in namespace " + s.part
	}
	return out
}

// share is what it writes into.
func (s *source) share() share { return share{s.store, s.part, s.overfull} }

// unlogged has the library log nothing: what matters is told.
func unlogged(ctx context.Context) context.Context { return klog.NewContext(ctx, logr.Discard()) }

// state tells whether the source watches, and why not.
func (s *source) state() (running bool, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.running, s.err
}

func (s *source) set(running bool, err error) {
	s.mu.Lock()
	same := s.running == running && fmt.Sprint(s.err) == fmt.Sprint(err)
	s.running, s.err = running, err
	s.mu.Unlock()
	if !same && s.told != nil {
		s.told()
	}
}

// ListWithContext lists, for a server that can't stream a list.
func (s *source) ListWithContext(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) {
	list := s.list()
	var err error
	if o.Continue == "" {
		err = s.begin(ctx)
		o.ResourceVersionMatch = matching(o)
	}
	if err == nil {
		err = s.get(ctx, o, list)
	}
	s.failed(ctx, err)
	return list, err
}

// matching is how a first page is to match the revision it is asked for: not older. Left
// out, a page is of just that revision, and no watch goes on from there once the server
// has forgotten what came after it (legacy rules of resourceVersion with limit,
// Kubernetes API concepts).
func matching(o metav1.ListOptions) metav1.ResourceVersionMatch {
	if o.ResourceVersion == "" || o.ResourceVersion == "0" {
		return ""
	}
	return metav1.ResourceVersionMatchNotOlderThan
}

// begin begins a first list, as soon as the source may.
func (s *source) begin(ctx context.Context) error {
	if err := s.attempt(ctx, true); err != nil || s.check == nil {
		return err
	}
	if err := s.ask(ctx); err != nil {
		return err
	}
	if s.lacked(ctx) {
		return apierrors.NewNotFound(schema.GroupResource{Group: s.client.APIVersion().Group, Resource: s.plural}, "")
	}
	if err := s.check(ctx); err != nil {
		return err
	}
	s.heard()
	return nil
}

// get reads a list, or a page of one.
func (s *source) get(ctx context.Context, o metav1.ListOptions, into runtime.Object) error {
	if o.Continue == "" {
		if err := s.ask(ctx); err != nil {
			return err
		}
	}
	if err := s.request(o).Do(s.counted(ctx)).Into(into); err != nil {
		return err
	}
	if into.(metav1.ListInterface).GetResourceVersion() == "" {
		return errNoList
	}
	s.heard()
	return nil
}

// errNoList is what is wrong with JSON of something else, such as {}: the library
// reads it as a list of nothing, but an API server's says of when it is.
var errNoList = errors.New("the answer is no list")

// WatchWithContext opens a watch.
func (s *source) WatchWithContext(ctx context.Context, o metav1.ListOptions) (watch.Interface, error) {
	if o.SendInitialEvents == nil && s.lost() {
		return nil, apierrors.NewResourceExpired("what came was not all taken, or reads otherwise now")
	}
	s.ended.Store(false)
	watched, cancel := context.WithCancel(ctx)
	w, err := s.watch(watched, o)
	if err != nil {
		cancel()
		// A server that does not know how to stream a list says Invalid or so, and
		// is listed at once.
		if o.SendInitialEvents == nil || !apierrors.IsInvalid(err) && !apierrors.IsBadRequest(err) {
			s.failed(ctx, err)
		}
		return nil, err
	}
	return s.open(ctx, w, lasting(o), cancel), nil
}

// lasting is how long a watch may be open, as was asked.
func lasting(o metav1.ListOptions) time.Duration {
	if o.TimeoutSeconds == nil {
		return 0
	}
	return time.Duration(*o.TimeoutSeconds) * time.Second
}

func (s *source) watch(ctx context.Context, o metav1.ListOptions) (watch.Interface, error) {
	var err error
	if o.SendInitialEvents != nil {
		err = s.begin(ctx)
	} else if err = s.attempt(ctx, false); err == nil && !s.goesOn() {
		err = s.behind(ctx, o)
	}
	if err != nil {
		return nil, err
	}
	if err := s.ask(ctx); err != nil {
		return nil, err
	}
	o.Watch = true
	return s.request(o).Watch(s.counted(ctx))
}

// behind asks, before a watch goes on where it was, whether the server is
// that far. One that was set back to an older state would accept the watch and
// then say nothing until it gets there.
func (s *source) behind(ctx context.Context, o metav1.ListOptions) error {
	last := revision(o.ResourceVersion)
	if o.SendInitialEvents != nil || last == 0 {
		return nil
	}
	list := s.list()
	if err := s.get(ctx, metav1.ListOptions{Limit: 1}, list); err != nil {
		return err
	}
	if now := revision(list.(metav1.ListInterface).GetResourceVersion()); now != 0 && now < last {
		return apierrors.NewResourceExpired(fmt.Sprintf("the server is at %d, we were at %d", now, last))
	}
	return nil
}

// lost reports whether something that came was not taken, or may read otherwise now: a
// watch can't go on from there.
func (s *source) lost() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.excess != nil || s.stale
}

func (s *source) request(o metav1.ListOptions) *rest.Request {
	o.FieldSelector = s.fields
	r := s.client.Get().Resource(s.plural).VersionedParams(&o, metav1.ParameterCodec).MaxRetries(0)
	if s.namespace != "" {
		r = r.Namespace(s.namespace)
	}
	if s.metadata {
		r = r.SetHeader("Accept", metadataType(o.Watch))
	}
	if s.written != nil && s.written() {
		r = r.SetHeader("Accept", jsonType)
	}
	if d := lasting(o); o.Watch && d > 0 {
		r = r.Timeout(d)
	}
	return r
}

// metadataType is what is accepted where metadata is asked for.
func metadataType(watch bool) string {
	kind := "PartialObjectMetadataList"
	if watch {
		kind = "PartialObjectMetadata"
	}
	return jsonType + ";as=" + kind + ";g=" + metav1.GroupName + ";v=v1"
}

// List is ListWithContext.
func (s *source) List(o metav1.ListOptions) (runtime.Object, error) {
	return s.ListWithContext(context.Background(), o)
}

// Watch is WatchWithContext.
func (s *source) Watch(o metav1.ListOptions) (watch.Interface, error) {
	return s.WatchWithContext(context.Background(), o)
}

// selectType is the field selector for Secrets of a type, or of all but some.
func selectType(is string, not ...string) string {
	if is != "" {
		return fields.OneTermEqualSelector("type", is).String()
	}
	var all []fields.Selector
	for _, t := range not {
		all = append(all, fields.OneTermNotEqualSelector("type", t))
	}
	return fields.AndSelectors(all...).String()
}
