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

// NewBudget is what may be asked of one server while it fails, by its sources
// and, of the hub, by who writes to it: with the probes of a member, or with the
// burst, at most 120 requests in any minute. The burst is for a connection that
// breaks once, under all of them. Who waits is served in turn, so nobody starves.
func NewBudget() flowcontrol.RateLimiter { return flowcontrol.NewTokenBucketRateLimiter(1.5, 16) }

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
	delay   wait.Backoff
	next    time.Time     // when it may try again
	pause   time.Duration // before the next attempt, where the kind is absent
	absent  bool          // the server does not have the kind, as it last said; what is known of it stays
	denied  bool          // that is, it does not let us see it
	excess  error         // the limit that was met since the last first list began
	cancel  context.CancelFunc
}

// attempt waits until a source may try again, and begins anew where it tries a
// first list.
func (s *source) attempt(ctx context.Context, first bool) error {
	s.mu.Lock()
	delay := time.Until(s.next)
	s.mu.Unlock()
	if delay > 0 {
		t := time.NewTimer(delay)
		defer t.Stop()
		select {
		case <-t.C:
		case <-ctx.Done():
		}
	}
	if first && ctx.Err() == nil {
		s.store.begin()
		s.read.Store(0)
		s.mu.Lock()
		s.excess = nil
		s.mu.Unlock()
	}
	return ctx.Err()
}

// ask waits until a source may send one more request.
func (s *source) ask(ctx context.Context) error {
	s.mu.Lock()
	failing := s.failing
	s.mu.Unlock()
	if !failing || s.budget == nil {
		return ctx.Err()
	}
	return s.budget.Wait(ctx)
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
	s.absent, s.denied, s.failing, s.quiet = true, denied, true, 0
	s.pause = s.delay.Step()
	s.next = time.Now().Add(s.pause)
	s.mu.Unlock()
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
	return absent || s.store.complete()
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
	if s.store.listing.Load() && s.read.Add(int64(n)) > listLimit {
		return &excess{"bytes in a first list", listLimit}
	}
	return nil
}

// open follows a watch that was opened.
func (s *source) open(ctx context.Context, w watch.Interface, cancel context.CancelFunc) watch.Interface {
	o := &opened{Interface: w, source: s, ctx: ctx, since: time.Now()}
	s.mu.Lock()
	s.cancel, s.absent, s.denied = cancel, false, false
	suspect, trusted := s.failing, s.quiet < quietly
	s.mu.Unlock()
	if trusted {
		s.set(true, nil)
	}
	if suspect {
		o.prove()
	}
	return o
}

// held says that a watch held.
func (s *source) held() {
	s.mu.Lock()
	s.failing, s.quiet, s.next = false, 0, time.Time{}
	s.mu.Unlock()
	s.set(true, nil)
}

// opened is a watch, which the reflector stops when it ended.
type opened struct {
	watch.Interface
	source *source
	ctx    context.Context // of the source
	since  time.Time
	proof  *time.Timer // under the source's lock
	once   sync.Once
}

// prove has the source hear of it when the watch has held for long enough.
func (o *opened) prove() {
	o.source.mu.Lock()
	defer o.source.mu.Unlock()
	o.proof = time.AfterFunc(o.source.pace.holds, func() {
		if o.source.store.listing.Load() {
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
	s.cancel()
	if o.proof != nil {
		o.proof.Stop()
	}
	s.mu.Unlock()
	if time.Since(o.since) < s.pace.holds || s.store.listing.Load() {
		s.failed(o.ctx, errCut)
		return
	}
	s.held()
}
