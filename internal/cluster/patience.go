package cluster

import (
	"context"
	"errors"
	"math"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/util/flowcontrol"
)

// A watch that opens proves nothing: it must hold. Until one did, each attempt
// waits longer than the one before, whatever it failed with; the library would
// ask again at once after a version that was forgotten, or a watch that was cut.

// quietly is how many failures in a row are no news: see quiet.
const quietly = 3

// backoff between attempts to list and watch: with its jitter, between 0.5 s
// and 20 s, so that a fleet of members does not come back all at once.
var backoff = wait.Backoff{Duration: 500 * time.Millisecond, Cap: 10 * time.Second, Steps: 8, Factor: 2, Jitter: 1}

// reflectorBackoff is the library's own, which has nothing to add.
var reflectorBackoff = wait.Backoff{Duration: time.Millisecond, Factor: 1, Steps: 1}

// NewBudget is how often one server may be tried while it fails by all of its sources, or,
// of the hub, by who writes to it. A source sends three requests at most where the first
// two are answered: at most 135 a minute and the burst, and fewer than 120 however a server
// fails that we know of (TestHubPatience). Who waits is served in turn, so nobody starves.
func NewBudget() flowcontrol.RateLimiter { return flowcontrol.NewTokenBucketRateLimiter(0.75, 4) }

// absentFor is how long a server is not asked for a kind that it does not have, at
// first and at most: one that has just started may be about to install it.
func absentFor(first, most time.Duration) wait.Backoff {
	return wait.Backoff{Duration: first, Factor: 2, Jitter: 0.2, Steps: math.MaxInt32, Cap: most}
}

// errCut is what is wrong with watches that open, and end.
var errCut = errors.New("its watches end at once")

// fate is how a source fares.
type fate struct {
	err     error // why the last attempt failed; nil: it watches, or begins to
	running bool  // a watch is open, as far as is told
	failing bool  // no watch held since something failed
	quiet   int   // failures since a watch held that are no news
	free    bool  // the next attempt takes no turn: see release
	turn    turn  // that it has
	delay   wait.Backoff
	next    time.Time          // when it may try again
	pause   time.Duration      // before the next attempt, where the kind is absent
	absent  bool               // the server does not have the kind, as it last said; what is known of it stays
	denied  bool               // that is, it does not let us see it
	excess  error              // the limit that was met since the last first list began
	stale   bool               // since then, the server ended a watch early: see reread
	asked   bool               // somebody wants all objects read again: see again
	wake    context.CancelFunc // ends what an attempt waits for
	cancel  context.CancelFunc
}

// turn is that of a source that fails: what its server answers may go on, from the
// first question to a list and from there to a watch. Were each of these requests to
// wait for a turn behind all other sources, the first to watch again would come late.
type turn uint8

const (
	none turn = iota
	taken
	answered // its last request
)

// attempt waits until a source may try again, and begins anew where it tries a
// first list.
func (s *source) attempt(ctx context.Context, first bool) error {
	s.mu.Lock()
	pause, end := context.WithDeadline(ctx, s.next)
	s.wake = end
	s.mu.Unlock()
	defer end()
	<-pause.Done()
	if first && ctx.Err() == nil {
		s.store.begin(s.part)
		s.mu.Lock()
		s.excess, s.stale, s.asked = nil, false, false
		s.mu.Unlock()
	}
	return ctx.Err()
}

// ask waits until a source may send one more request.
func (s *source) ask(ctx context.Context) error {
	s.mu.Lock()
	counts := s.failing && !s.free && s.budget != nil
	waits := counts && s.turn != answered
	if counts {
		s.turn = taken
	}
	wait, end := context.WithCancel(ctx)
	s.wake = end
	s.mu.Unlock()
	defer end()
	if waits {
		if err := s.budget.Wait(wait); wait.Err() == nil {
			return err
		}
	}
	return ctx.Err()
}

// heard notes that a request was answered.
func (s *source) heard() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.turn == taken {
		s.turn = answered
	}
}

// goesOn reports whether the server has just answered.
func (s *source) goesOn() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.turn == answered
}

// release has a source that fails try once more at once and out of turn: a watch of
// another one held, so their server works again. In turn, the last one would wait for
// longer the more there are.
func (s *source) release() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.running || !s.failing {
		return
	}
	s.free, s.next = true, time.Time{}
	if s.wake != nil {
		s.wake()
	}
}

// quiet reports whether a failure is no news unless it repeats: a new list helps.
func quiet(err error) bool {
	return errors.Is(err, errCut) || apierrors.IsResourceExpired(err) || apierrors.IsGone(err)
}

// failed notes why an attempt failed.
func (s *source) failed(ctx context.Context, err error) {
	if err == nil || ctx.Err() != nil {
		return
	}
	s.store.broke(s.part)
	if denied := s.mayHide && apierrors.IsForbidden(err); denied || s.optional && apierrors.IsNotFound(err) {
		s.missed(denied)
		return
	}
	s.mu.Lock()
	if s.excess != nil && !errors.Is(err, s.excess) { // what follows from it
		s.mu.Unlock()
		return
	}
	if !s.failing {
		s.failing, s.delay = true, backoff
	}
	pause := s.delay.Step()
	s.free, s.turn = false, none
	told := true
	switch {
	case s.excess != nil:
		pause, s.quiet = s.pace.excess, quietly // told until a list is within the limits
	case quiet(err):
		s.quiet++
		told = s.quiet >= quietly
	}
	s.next = time.Now().Add(pause)
	s.mu.Unlock()
	if told {
		s.set(false, err)
	}
}

// missed notes that the server does not have the kind, or does not let us see it.
// Nothing is wrong with it, but it is asked again in turn with what fails.
func (s *source) missed(denied bool) {
	s.mu.Lock()
	news, other := !s.absent, denied != s.denied
	if news {
		s.delay = s.pace.absent
	}
	s.absent, s.denied, s.failing, s.free, s.quiet = true, denied, true, false, 0
	s.pause = s.delay.Step()
	s.next = time.Now().Add(s.pause)
	s.mu.Unlock()
	s.store.veil(s.part, denied)
	s.set(true, nil)
	if (news || other) && s.told != nil {
		s.told()
	}
	if news && s.gone != nil {
		s.gone()
	}
}

// lacked reports whether the server does not have the kind, as it last said and says
// now. Kinds of one group come at about the same time, so what was said to another a
// while ago, a part of the pause, is good enough.
func (s *source) lacked(ctx context.Context) bool {
	s.mu.Lock()
	absent, within := s.absent && !s.denied, s.pause/3
	s.mu.Unlock()
	return absent && s.offers != nil && s.offers.lack(ctx, s.client, s.plural, within)
}

// hidden reports whether the server does not let us see the kind.
func (s *source) hidden() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.denied
}

// settled reports whether all that the server has of the kind was listed once.
func (s *source) settled() bool {
	s.mu.Lock()
	absent := s.absent
	s.mu.Unlock()
	return absent || s.store.complete(s.part)
}

// overfull ends the attempt under way for a limit that it met.
func (s *source) overfull(err error) {
	s.mu.Lock()
	known, cancel := s.excess != nil, s.cancel
	if !known {
		s.excess = err
	}
	s.mu.Unlock()
	if known {
		return
	}
	s.failed(context.Background(), err)
	if cancel != nil {
		cancel()
	}
}

// took counts what is read of a first list.
func (s *source) took(n int) error {
	return s.store.took(s.part, n)
}

// open follows a watch that was opened, for as long as it may be.
func (s *source) open(ctx context.Context, w watch.Interface, lasting time.Duration, cancel context.CancelFunc) watch.Interface {
	o := &opened{Interface: w, source: s, ctx: ctx, since: time.Now(), lasting: lasting}
	s.mu.Lock()
	s.cancel, s.absent, s.denied = cancel, false, false
	suspect, trusted := s.failing, s.quiet < quietly
	s.mu.Unlock()
	s.store.veil(s.part, false)
	if trusted {
		s.set(true, nil)
	}
	if suspect {
		o.prove()
	}
	if !s.store.lists(s.part) {
		s.endAsked() // it was asked while the watch was being opened
	}
	return o
}

// held says that a watch held.
func (s *source) held() {
	s.mu.Lock()
	first := s.failing && !s.free // of its server's to work again
	s.failing, s.free, s.turn, s.quiet, s.next = false, false, none, 0, time.Time{}
	s.mu.Unlock()
	s.set(true, nil)
	if !first {
		return
	}
	for _, k := range s.kin {
		k.release()
	}
}

// opened is a watch, which the reflector stops when it ended.
type opened struct {
	watch.Interface
	source  *source
	ctx     context.Context // of the source
	since   time.Time
	lasting time.Duration // at most, as was asked; 0: for ever
	proof   *time.Timer   // under the source's lock
	once    sync.Once
}

// prove has the source hear of it when the watch has held for long enough.
func (o *opened) prove() {
	o.source.mu.Lock()
	defer o.source.mu.Unlock()
	o.proof = time.AfterFunc(o.source.pace.holds, func() {
		if o.source.store.lists(o.source.part) {
			o.prove()
			return
		}
		o.source.held()
	})
}

// Stop ends the watch, if it has not ended.
func (o *opened) Stop() {
	o.Interface.Stop()
	o.once.Do(o.ended)
}

func (o *opened) ended() {
	s := o.source
	s.mu.Lock()
	s.stale = s.stale || o.reread()
	s.cancel()
	if o.proof != nil {
		o.proof.Stop()
	}
	asked := s.asked
	s.mu.Unlock()
	if asked {
		return // we ended it: that is no news of the server
	}
	if time.Since(o.since) < s.pace.holds || s.store.lists(s.part) {
		s.failed(o.ctx, errCut)
		return
	}
	s.held()
}

// again has all objects be read again, since they read otherwise now. What is read in
// the meantime is taken as well.
func (s *source) again() {
	s.mu.Lock()
	s.stale, s.asked = true, true
	s.mu.Unlock()
	if !s.store.lists(s.part) {
		s.endAsked()
	}
}

// endAsked ends the watch that is open, if all is to be read again. It is called when a
// list was taken, too: one that was under way is read to its end.
func (s *source) endAsked() {
	s.mu.Lock()
	asked, cancel := s.asked, s.cancel
	s.mu.Unlock()
	if asked && cancel != nil {
		cancel()
	}
}

// reread reports whether all objects are to be read again, since their definition may
// have changed. An API server then ends the watches of the kind, before their time and in
// order. For a second and more before, they drop fields that the old definition does not
// have (apiextensions-apiserver, crdHandler.tearDown): an object that was written
// meanwhile would lack them for as long as it stays as it is.
func (o *opened) reread() bool {
	early := o.lasting == 0 || time.Since(o.since) < o.lasting-time.Second
	return o.source.defined && o.source.ended.Load() && early
}
