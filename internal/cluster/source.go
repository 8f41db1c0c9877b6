package cluster

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
	"time"

	"github.com/go-logr/logr"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"
)

// backoff between attempts to list and watch: with its jitter, between 0.5 s
// and 20 s, so that a fleet of members does not come back all at once.
var backoff = wait.Backoff{Duration: 500 * time.Millisecond, Cap: 10 * time.Second, Steps: 8, Factor: 2, Jitter: 1}

// pageSize bounds a list from a server that can't stream it.
const pageSize = 500

// resource is a kind of object as an API server has it.
type resource struct {
	client    *rest.RESTClient
	plural    string
	namespace string // empty: all
	fields    string // field selector
	list      func() runtime.Object
}

// source lists and watches one resource into a store.
type source struct {
	resource
	store *store

	told  func()                      // called after a change of the state; may be nil
	check func(context.Context) error // called before each list, which fails with it; may be nil

	mu      sync.Mutex
	err     error // why the last attempt failed; nil: it watches, or begins to
	running bool  // a watch is open
}

// run lists and watches until ctx ends.
func (s *source) run(ctx context.Context) {
	quiet := klog.NewContext(ctx, logr.Discard()) // what matters is in state
	b := backoff
	r := cache.NewReflectorWithOptions(s, nil, s.store, cache.ReflectorOptions{Name: s.plural, Backoff: &b})
	r.WatchListPageSize = pageSize
	r.RunWithContext(quiet)
}

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
	err := s.checked(ctx, o.Continue == "")
	if err == nil {
		err = s.request(o).Do(ctx).Into(list)
	}
	if err != nil && !gone(err) && ctx.Err() == nil {
		s.set(false, err)
	}
	return list, opaque(err)
}

// WatchWithContext opens a watch.
func (s *source) WatchWithContext(ctx context.Context, o metav1.ListOptions) (watch.Interface, error) {
	err := s.checked(ctx, o.SendInitialEvents != nil)
	if err == nil {
		err = s.behind(ctx, o)
	}
	var w watch.Interface
	if err == nil {
		o.Watch = true
		w, err = s.request(o).Watch(ctx)
	}
	switch {
	case err == nil:
		s.set(true, nil)
	case !gone(err) && ctx.Err() == nil:
		s.set(false, err)
	}
	return w, opaque(err)
}

func (s *source) checked(ctx context.Context, first bool) error {
	if s.check == nil || !first {
		return nil
	}
	return s.check(ctx)
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
	if err := s.request(metav1.ListOptions{Limit: 1}).Do(ctx).Into(list); err != nil {
		return err
	}
	if now := revision(list.(metav1.ListInterface).GetResourceVersion()); now != 0 && now < last {
		return apierrors.NewResourceExpired(fmt.Sprintf("the server is at %d, we were at %d", now, last))
	}
	return nil
}

func (s *source) request(o metav1.ListOptions) *rest.Request {
	o.FieldSelector = s.fields
	r := s.client.Get().Resource(s.plural).VersionedParams(&o, metav1.ParameterCodec).MaxRetries(0)
	if s.namespace != "" {
		r = r.Namespace(s.namespace)
	}
	if o.Watch && o.TimeoutSeconds != nil {
		r = r.Timeout(time.Duration(*o.TimeoutSeconds) * time.Second)
	}
	return r
}

// List is ListWithContext.
func (s *source) List(o metav1.ListOptions) (runtime.Object, error) {
	return s.ListWithContext(context.Background(), o)
}

// Watch is WatchWithContext.
func (s *source) Watch(o metav1.ListOptions) (watch.Interface, error) {
	return s.WatchWithContext(context.Background(), o)
}

// gone reports whether the server merely forgot a version: a new list helps,
// and nothing is wrong. A server that does not know how to stream a list says
// Invalid or so, and is listed at once.
func gone(err error) bool {
	return apierrors.IsResourceExpired(err) || apierrors.IsGone(err) || apierrors.IsInvalid(err) || apierrors.IsBadRequest(err)
}

// opaque hides what the reflector retries by itself without listening to its
// context: connections refused, and servers that ask for patience. It goes the
// way of any other error then: back-off, which ends with the context.
func opaque(err error) error {
	var status apierrors.APIStatus
	if err == nil || errors.Is(err, io.EOF) || errors.As(err, &status) && !apierrors.IsTooManyRequests(err) {
		return err
	}
	return fmt.Errorf("%s", err.Error()) // not wrapped: that is the point
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
