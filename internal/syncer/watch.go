package syncer

import (
	"context"
	"fmt"
	"time"

	"github.com/go-logr/logr"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"

	"github.com/spillway-dev/spillway/api/v1alpha1"
)

// kind watches the leaves of one kind. It keeps no objects: the syncer has what
// is needed of each.
type kind struct {
	syncer   *Syncer
	resource schema.GroupVersionResource
	claims   Claims // how others ask for hosts; zero: what has our mark is read, and no more

	// Under the lock of the syncer.
	listed bool   // in full, once
	over   int    // objects with our mark that are not kept: they are too many
	found  int    // of over, by the list under way
	again  func() // has it listed anew; nil: it does not run
	err    error  // why it can't be listed; nil: it can, or nobody has asked yet
	others map[named]*claimant
	next   listed // of others, by the list under way
	unread bool   // there are more of others than are kept
	word   string // what objects call the kind
}

// selector is what is read of a kind.
func (k *kind) selector() string {
	if k.claims.Of != nil {
		return ""
	}
	return v1alpha1.LabelHub + "=" + k.syncer.Hub
}

// known reports whether it is known what there is: a list, or that there is none.
func (k *kind) known() bool { return k.listed || k.err != nil }

func (k *kind) run(ctx context.Context) {
	ctx = klog.NewContext(ctx, logr.Discard()) // what matters is told
	for ctx.Err() == nil {
		once, end := context.WithTimeout(ctx, relist)
		k.syncer.mu.Lock()
		k.again = end
		k.syncer.mu.Unlock()
		r := cache.NewReflectorWithOptions(k, nil, k, cache.ReflectorOptions{Name: k.resource.Resource})
		r.RunWithContext(once)
		end()
	}
}

// IsWatchListSemanticsUnSupported: a list comes in pages, and its errors as errors.
func (k *kind) IsWatchListSemanticsUnSupported() bool { return true }

// ListWithContext lists what has our mark.
func (k *kind) ListWithContext(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) {
	list, err := k.pages(ctx)
	if err != nil {
		if ctx.Err() == nil {
			k.failed(err)
		}
		return nil, err
	}
	return list, nil
}

// WatchWithContext watches what has our mark.
func (k *kind) WatchWithContext(ctx context.Context, o metav1.ListOptions) (watch.Interface, error) {
	o.LabelSelector = k.selector()
	return k.syncer.Client.Resource(k.resource).Watch(ctx, o)
}

// List is ListWithContext.
func (k *kind) List(o metav1.ListOptions) (runtime.Object, error) {
	return k.ListWithContext(context.Background(), o)
}

// Watch is WatchWithContext.
func (k *kind) Watch(o metav1.ListOptions) (watch.Interface, error) {
	return k.WatchWithContext(context.Background(), o)
}

// failed notes why there is no list. A kind that is not there has no objects;
// otherwise what was there is still there.
func (k *kind) failed(err error) {
	s := k.syncer
	s.mu.Lock()
	defer s.mu.Unlock()
	first := !k.known()
	k.err = err
	s.poke()
	if gone := apierrors.IsNotFound(err); gone || !k.listed {
		k.listed = false
		for key, e := range s.leaves {
			if key.Resource != k.resource {
				continue
			}
			if gone {
				s.see(key, e, nil)
				e.settled = ""
			}
			s.queue.Add(key)
		}
		if gone {
			k.took()
			s.retell(k.claims)
		}
	}
	if first {
		s.Log.Warn("syncer: leaves are not listed, trying again", "kind", k.resource.GroupResource().String(), "reason", string(apierrors.ReasonForError(err)))
	}
}

// Replace takes a list.
func (k *kind) Replace(list []any, _ string) error {
	s := k.syncer
	s.mu.Lock()
	defer s.mu.Unlock()
	there := make(map[Key]bool, len(list))
	for _, o := range list {
		if u, ok := o.(*unstructured.Unstructured); ok {
			there[k.key(u)] = true
		}
	}
	first := !k.listed
	k.listed, k.err, k.over = true, nil, k.found
	s.poke()
	for key, e := range s.leaves {
		// What was written and never seen may be gone before the watch could tell.
		if key.Resource == k.resource && !there[key] && (first || e.seen != nil || e.settled != "") {
			s.see(key, e, nil)
			s.rested(key, e)
		}
	}
	k.took()
	for _, o := range list {
		k.saw(o)
	}
	if first {
		s.retell(k.claims)
	}
	return nil
}

// Add takes an object.
func (k *kind) Add(o any) error {
	s := k.syncer
	s.mu.Lock()
	defer s.mu.Unlock()
	u, ok := o.(*unstructured.Unstructured)
	if !ok || k.foreign(u, false) {
		return nil
	}
	if s.full(k.key(u)) {
		k.over++
		s.poke()
		return nil
	}
	k.saw(u)
	return nil
}

// foreign takes over what an object that is not ours asks for, and reports whether it is
// one. One that was marked, and is kept, is gone from what is ours. The caller has the lock.
func (k *kind) foreign(u *unstructured.Unstructured, known bool) bool {
	if k.claims.Of == nil {
		return false
	}
	was := k.heard(u, true)
	if k.ours(u) {
		if was && known && k.syncer.full(k.key(u)) {
			k.over++ // it has our mark since now
			k.syncer.poke()
		}
		return false
	}
	if e := k.syncer.leaves[k.key(u)]; e != nil && e.seen != nil {
		k.lost(u, e)
	}
	return true
}

// lost takes that an object is not there, or not ours, any more. The caller has the lock.
func (k *kind) lost(u *unstructured.Unstructured, e *leaf) {
	k.syncer.see(k.key(u), e, nil)
	k.syncer.rested(k.key(u), e)
	if k.over > 0 && k.again != nil && k.syncer.strays() <= most/2 {
		k.again() // there is room for more
	}
}

// Update takes an object that changed.
func (k *kind) Update(o any) error {
	k.syncer.mu.Lock()
	defer k.syncer.mu.Unlock()
	u, ok := o.(*unstructured.Unstructured)
	if !ok || k.foreign(u, true) || k.syncer.full(k.key(u)) {
		return nil
	}
	k.saw(u)
	return nil
}

// Delete takes that an object is gone, or has our mark no more.
func (k *kind) Delete(o any) error {
	u, ok := o.(*unstructured.Unstructured)
	if !ok {
		return fmt.Errorf("not an object: %T", o)
	}
	s := k.syncer
	s.mu.Lock()
	defer s.mu.Unlock()
	e := s.leaves[k.key(u)]
	if k.claims.Of != nil {
		k.heard(u, false)
		if !k.ours(u) && (e == nil || e.seen == nil) {
			return nil
		}
	}
	if e == nil {
		k.over = max(0, k.over-1) // it was not kept
		s.poke()
		return nil
	}
	k.lost(u, e)
	return nil
}

// Resync has nothing to do.
func (k *kind) Resync() error { return nil }

func (k *kind) key(u *unstructured.Unstructured) Key {
	return Key{k.resource, u.GetNamespace(), u.GetName()}
}

// saw compares an object with what is wanted. The caller has the lock.
func (k *kind) saw(o any) {
	u, ok := o.(*unstructured.Unstructured)
	if !ok {
		return
	}
	s, key := k.syncer, k.key(u)
	e := s.leaf(key)
	now := seenOf(u, maxStatuses-s.bytes+e.seen.size())
	if k.claims.Of != nil {
		asking := k.claims.Of(u.Object)
		now.class, now.at = asking.Class, asking.Addresses
	}
	s.see(key, e, now)
	if s.fits(e, u) {
		s.queue.Forget(key)
		s.inPlace(key, e)
		return
	}
	s.say(key, e, e.state)
	s.rested(key, e)
}

// see notes what is there. The caller has the lock.
func (s *Syncer) see(key Key, e *leaf, what *seen) {
	s.bytes += what.size() - e.seen.size()
	if (what == nil) != (e.seen == nil) {
		s.present += 1
		if what == nil {
			s.present -= 2
		}
		s.poke()
	}
	if e.seen = what; what == nil {
		e.deleting, e.consented = "", false
	}
	s.count(key, e)
}

// fits reports whether an object of ours is as it is wanted. The caller has the lock.
func (s *Syncer) fits(e *leaf, have *unstructured.Unstructured) bool {
	if e.want == nil || have.GetDeletionTimestamp() != nil {
		return false
	}
	d := lacks(e.want.body(), have)
	if e.settled == e.want.hash {
		return d.equal(e.differs)
	}
	if len(d) > 0 {
		return false
	}
	e.settled, e.differs = e.want.hash, nil
	return true
}

// inPlace tells that the member has a leaf. The caller has the lock.
func (s *Syncer) inPlace(key Key, e *leaf) {
	dropped, altered := e.differs.split()
	now := State{Reason: Applied, Dropped: dropped, Altered: altered}
	if left := e.fight.over(time.Now()); left > 0 {
		now.Reason, now.Message = Contested, contested
		s.queue.AddAfter(key, left)
	}
	s.say(key, e, now)
}
