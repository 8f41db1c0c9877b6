package syncer

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/util/flowcontrol"

	"github.com/spillway-dev/spillway/internal/ingest"
	"github.com/spillway-dev/spillway/internal/work"
)

// How hard a member is worked.
const (
	workers     = 4
	retryFirst  = 200 * time.Millisecond
	retryLast   = time.Minute
	callTimeout = 10 * time.Second
)

// pace is how soon things are done that nobody tells us to do.
type pace struct {
	gather time.Duration // how long it is seen, before one is deleted, whether it is many
	atOnce time.Duration // deletions of so long ago are no part of those at once
	look   time.Duration // between two looks at an object that is not ours: it is not watched
}

var usual = pace{gather: time.Second, atOnce: time.Minute, look: time.Minute}

// Options are what a syncer needs.
type Options struct {
	// Hub is the UID of the hub: whose leaves they are. At most 63 characters.
	Hub string
	// Client talks to the member. It should send each request once (work.NewClient).
	Client dynamic.Interface
	// Kinds are those of which there may be leaves, wanted or left behind.
	Kinds []schema.GroupVersionResource
	// Claims are the kinds of which objects that are not ours are read, too: whether they
	// ask for hosts of leaves.
	Claims map[schema.GroupVersionResource]Claims
	// Budget is what may be asked while the member does nothing but fail; nil: one
	// request in 5 s.
	Budget flowcontrol.RateLimiter
	Log    *slog.Logger
	// Counted is told how many leaves are in the member, when that changes. What it
	// is told is the latest, and no older than what Report was told before; nil:
	// nobody wants to know.
	Counted func(Count)
	// Namespaces makes those that are not there; nil: nobody does.
	Namespaces *Namespaces
	// Report is told of each leaf whose state changed, one at a time. What it is
	// told is the latest; states in between may be left out.
	Report func(Key, State)
}

// Syncer keeps the leaves of one member.
type Syncer struct {
	Options
	queue work.Queue[Key]
	gate  *work.Gate
	told  chan struct{} // there is something to tell
	pace  pace

	mu       sync.Mutex
	kinds    map[schema.GroupVersionResource]*kind
	leaves   map[Key]*leaf
	roots    map[rootOf]Key // what is wanted of a root
	movers   map[Key][]Key  // leaves of a root that go when the one that is wanted is there
	complete bool
	claims   claims
	surplus  map[Key]*leaf // of leaves, what is there, not wanted, and may not go yet
	there    int           // of leaves, those that are in the member
	present  int           // of leaves, those that the watch has
	wants    int           // of leaves, those that are wanted
	bytes    int           // of the statuses that are kept
	letting  bool          // all go, released
	counted  Count         // as told
	deleted  []time.Time   // when, without consent: at most as many as may be deleted so
	news     map[Key]State // to tell
}

// leaf is what is known of one.
type leaf struct {
	want    *wish // nil: there should be none
	root    rootOf
	release bool  // nor is it ours any more
	invalid error // why there is no want though one was told
	seen    *seen // as the watch has it last; nil: there is none of ours

	// What the member made of a wish: it has it, but for these differences.
	settled string // hash of the wish; empty: not known
	differs differences

	state     State  // what is told, but for what is seen
	last      State  // as told
	met       string // version of the foreign object that the state is about
	offered   bool   // it was told what taking over a foreign object would change
	fight     fight
	consented bool           // it may go
	deleting  types.UID      // what we deleted
	counted   bool           // among those in the member
	claim     *ingest.Asking // what it asks for; nil: it is not there, or not wanted
}

// New prepares a syncer. Run ends what it holds.
func New(o Options) (*Syncer, error) {
	if bad := validation.IsValidLabelValue(o.Hub); o.Hub == "" || len(bad) > 0 {
		return nil, fmt.Errorf("syncer: the UID of the hub, %q, can't be a label", o.Hub)
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	if o.Counted == nil {
		o.Counted = func(Count) {}
	}
	if o.Report == nil {
		o.Report = func(Key, State) {}
	}
	if o.Budget == nil {
		o.Budget = flowcontrol.NewTokenBucketRateLimiter(0.2, 1)
	}
	s := &Syncer{
		Options: o,
		queue:   work.NewQueue(func(k Key) string { return k.Namespace }, retryFirst, retryLast),
		gate:    work.NewGate(o.Budget),
		told:    make(chan struct{}, 1),
		pace:    usual,
		kinds:   map[schema.GroupVersionResource]*kind{},
		leaves:  map[Key]*leaf{},
		claims:  newClaims(),
		surplus: map[Key]*leaf{},
		roots:   map[rootOf]Key{},
		movers:  map[Key][]Key{},
		news:    map[Key]State{},
	}
	for _, r := range o.Kinds {
		s.kinds[r] = &kind{syncer: s, resource: r, claims: o.Claims[r]}
	}
	return s, nil
}

// Want says which leaf there should be of a name; nil: none. The latest counts.
func (s *Syncer) Want(key Key, l *Leaf) {
	var want *wish
	var invalid error
	switch {
	case l != nil && l.Hold:
		invalid = errHeld
	case l != nil:
		want, invalid = wishOf(key, l, s.Hub)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.letting {
		return
	}
	e := s.leaf(key)
	s.rooted(key, e, l)
	if want != nil && e.want != nil && want.hash == e.want.hash && want.adopt == e.want.adopt && want.tag == e.want.tag && want.keep == e.want.keep && !e.release {
		return
	}
	if e.want == nil || want == nil {
		e.settled = "" // what we deleted nobody else did
	}
	s.wish(e, want)
	e.invalid, e.release, e.consented, e.offered, e.met = invalid, false, false, false, ""
	s.wanted(key, e)
}

// Release leaves an object in the member as it is, and it is ours no more. It
// must be called again in each run until the state is Released: what has our mark
// and is neither wanted nor to be released is deleted.
func (s *Syncer) Release(key Key) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.release(key, s.leaf(key))
}

func (s *Syncer) release(key Key, e *leaf) {
	s.wish(e, nil)
	e.invalid, e.release, e.settled = nil, true, ""
	s.wanted(key, e)
}

// ReleaseAll leaves all that has our mark in the member as it is, and it is ours
// no more. Nothing is wanted from then on.
func (s *Syncer) ReleaseAll() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.letting {
		return
	}
	s.letting = true
	for key, e := range s.leaves {
		s.release(key, e)
	}
	s.poke()
}

// wish notes what is wanted. The caller has the lock.
func (s *Syncer) wish(e *leaf, want *wish) {
	if e.want != nil {
		s.wants--
	}
	if e.want = want; want != nil {
		s.wants++
	}
}

// wanted has something done about a changed want. The caller has the lock.
func (s *Syncer) wanted(key Key, e *leaf) {
	if s.kinds[key.Resource] == nil {
		s.say(key, e, State{Reason: Refused, Message: fmt.Sprintf("leaf %v: the kind is none of this syncer's", key)})
		s.wish(e, nil)
		delete(s.leaves, key)
		return
	}
	s.count(key, e)
	s.queue.Forget(key)
	if errors.Is(e.invalid, errHeld) {
		s.say(key, e, State{Reason: Pending})
		return
	}
	if e.invalid != nil {
		s.say(key, e, State{Reason: Refused, Message: clip(e.invalid.Error())})
		return
	}
	s.say(key, e, State{Reason: Pending})
	s.soon(key, e, 0)
}

// soon has a leaf looked at. What should go is gathered, so that many are known
// to be many.
func (s *Syncer) soon(key Key, e *leaf, after time.Duration) {
	switch k := s.kinds[key.Resource]; {
	case e.invalid != nil, k == nil, !k.known():
	case e.want == nil && !e.release:
		s.queue.AddAfter(key, s.pace.gather)
	default:
		s.queue.AddAfter(key, after)
	}
}

// rested is soon, but for one that others keep changing.
func (s *Syncer) rested(key Key, e *leaf) { s.soon(key, e, e.fight.rest(time.Now())) }

// Complete says that all that is wanted is known: what has our mark and is not
// wanted may go.
func (s *Syncer) Complete() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.complete = true
	for key, e := range s.leaves {
		if e.want == nil {
			s.soon(key, e, 0)
		}
	}
	s.poke()
}

// leaf is what is known of one. The caller has the lock.
func (s *Syncer) leaf(key Key) *leaf {
	e := s.leaves[key]
	if e == nil {
		e = &leaf{release: s.letting}
		s.leaves[key] = e
	}
	return e
}

// Run works until ctx ends.
func (s *Syncer) Run(ctx context.Context) {
	var all sync.WaitGroup
	for _, k := range s.kinds {
		all.Go(func() { k.run(ctx) })
	}
	for range workers {
		all.Go(func() { s.work(ctx) })
	}
	all.Go(func() { s.tell(ctx) })
	<-ctx.Done()
	s.queue.ShutDown()
	all.Wait()
}

func (s *Syncer) work(ctx context.Context) {
	for s.gate.Pass(ctx) {
		key, end := s.queue.Get()
		if end {
			return
		}
		s.do(ctx, key)
		s.queue.Done(key)
	}
}

// say notes what has become of a leaf, to be told. The caller has the lock.
func (s *Syncer) say(key Key, e *leaf, now State) {
	now.Reason = cmp.Or(now.Reason, Pending)
	e.state = now
	if e.want != nil && (now.Reason == Applied || now.Reason == Contested) {
		now.Tag = e.want.tag
	}
	if e.seen != nil {
		now.UID, now.Generation, now.Status, now.Oversized = e.seen.uid, e.seen.generation, e.seen.status, e.seen.oversized
	}
	var known bool
	now.Claimed, known = s.claimed(key, e)
	now.Unclear = !known
	if k := s.kinds[key.Resource]; k != nil {
		now.Unknown = !k.listed && !apierrors.IsNotFound(k.err)
	}
	s.arrived(key, now)
	if e.last.equal(now) {
		return
	}
	e.last = now
	s.news[key] = now
	s.poke()
}

// poke has what is new told.
func (s *Syncer) poke() {
	select {
	case s.told <- struct{}{}:
	default:
	}
}

// tell reports until ctx ends.
func (s *Syncer) tell(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-s.told:
		}
		s.mu.Lock()
		news, count := s.news, s.countAll()
		s.news = map[Key]State{}
		recounted := count != s.counted
		s.counted = count
		s.mu.Unlock()
		for _, key := range slices.SortedFunc(maps.Keys(news), Key.compare) {
			if ctx.Err() != nil {
				return
			}
			s.Report(key, news[key])
			s.offered(key, news[key])
		}
		if recounted && ctx.Err() == nil {
			s.Counted(count)
		}
	}
}

// offered notes that it was told what taking an object over would change: now it
// may be.
func (s *Syncer) offered(key Key, told State) {
	s.mu.Lock()
	defer s.mu.Unlock()
	e := s.leaves[key]
	if e == nil || e.want == nil || !e.want.adopt || told.Reason != Foreign || e.offered {
		return
	}
	e.offered = true
	s.queue.Add(key)
}

// errHeld is in the place of a want that can't be written yet.
var errHeld = errors.New("held")

var errUnlisted = errors.New("not listed yet")
