package cluster

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"time"

	"k8s.io/client-go/rest"

	"github.com/spillway-dev/spillway/api/v1alpha1"
	"github.com/spillway-dev/spillway/internal/model"
)

// endless is how long first lists may be on their way, with an API that answers
// probes and no request that fails.
const endless = 2 * time.Minute

var (
	errEndless = errors.New("its lists have not come to an end for minutes")
	errBlind   = errors.New("it lets us see none of the namespaces that are to be read")
)

// link judges one connection to a member: its API says it is ready every few
// seconds, and its watches run.
type link struct {
	member  *member
	api     *api
	core    *rest.RESTClient
	sources []*source
	expiry  int64
	warning string // about the way to the member, which is used all the same
	wake    chan struct{}
	read    func() // called when everything is listed, or can't be

	identified bool // since the API last failed; belongs to the probe under way

	probed   bool  // the last probe succeeded
	probeErr error // why not
	lastGood time.Time
	cause    model.Contact // what would be said now
	times    int           // in a row
}

// run watches and judges until ctx ends.
func (l *link) run(ctx context.Context) {
	defer l.api.close()
	var all sync.WaitGroup
	for _, s := range l.sources {
		all.Go(func() { s.run(ctx) })
	}
	all.Go(func() { l.answers(ctx) })
	l.watch(ctx)
	all.Wait()
}

// poke makes the link judge again.
func (l *link) poke() {
	select {
	case l.wake <- struct{}{}:
	default:
	}
}

// watch judges until ctx ends.
func (l *link) watch(ctx context.Context) {
	l.lastGood = time.Now() // grace for a connection that replaces another
	results := make(chan error)
	var probes sync.WaitGroup
	defer probes.Wait()
	// Not all members at the same moment.
	next := time.NewTimer(rand.N(l.member.pace.every / 10))
	defer next.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-next.C:
			probes.Go(func() { l.probe(ctx, results) })
		case err := <-results:
			l.probed, l.probeErr = err == nil, err
			l.judge(true)
			next.Reset(l.member.pace.next(time.Now(), l.member.beat))
		case <-l.wake:
			l.judge(false)
		}
	}
}

// probe asks the API whether it is ready, and is over in time.
func (l *link) probe(ctx context.Context, results chan<- error) {
	asked, cancel := context.WithTimeout(unlogged(ctx), l.member.pace.timeout)
	defer cancel()
	err := l.core.Get().AbsPath("/readyz").MaxRetries(0).Do(asked).Error()
	if err == nil {
		l.identify(asked)
	} else {
		l.identified = false // behind the same address there may be another one
	}
	select {
	case results <- err:
	case <-ctx.Done():
	}
}

// identify asks which cluster it is. One that does not say is as good.
func (l *link) identify(ctx context.Context) {
	if l.identified {
		return
	}
	uid, err := uidOf(ctx, l.core)
	if err == nil {
		l.identified = true
		l.member.is(model.ClusterID(uid))
	}
}

// judge decides what is said about the member, after a probe or in between.
func (l *link) judge(probed bool) {
	err, listed := l.err(), l.listed()
	if err != nil || listed {
		l.read()
	}
	now := time.Now()
	if err == nil && l.probed && listed {
		l.lastGood, l.times = now, 0
		l.member.tell(model.Contact{Reason: v1alpha1.ReasonConnected, Message: l.warning, Hidden: l.hidden(), Expiry: l.expiry})
		return
	}
	if err == nil && now.Sub(l.lastGood) < endless {
		return // on its way
	}
	err = cmp.Or(err, errEndless)
	was, source := l.member.state()
	if source.Connected && now.Sub(l.lastGood) < l.member.pace.patience {
		return
	}
	c := model.Contact{Expiry: l.expiry}
	c.Reason, c.Message = trouble(l.api.host(), err)
	if c != l.cause {
		l.cause, l.times = c, 0
	}
	if probed {
		l.times++
	}
	if was.Reason != c.Reason || l.times >= sameCause {
		l.member.tell(c)
	}
}

// err is why the member is not well: what the probe says, then the watches.
func (l *link) err() error {
	if l.probeErr != nil {
		return l.probeErr
	}
	for _, s := range l.sources {
		if running, err := s.state(); !running && err != nil {
			return err
		}
	}
	if l.blind() {
		return errBlind
	}
	return nil
}

// blind reports whether there is no namespace of which the member lets us see all that it
// has to.
func (l *link) blind() bool {
	hides := map[string]bool{}
	for _, s := range l.sources {
		hides[s.part] = hides[s.part] || !s.optional && s.hidden()
	}
	for _, hidden := range hides {
		if !hidden {
			return false
		}
	}
	return len(hides) > 0
}

// mostHidden are told by name.
const mostHidden = 4

// hidden is what a member that is connected does not let us see, and what to do.
func (l *link) hidden() string {
	var what []string
	unknown := "what it exports"
	for _, s := range l.sources {
		if !s.hidden() {
			continue
		}
		what = append(what, s.called())
		if !s.optional {
			unknown = "what is there"
		}
	}
	if len(what) == 0 {
		return ""
	}
	if more := len(what) - mostHidden; more > 0 {
		what = append(what[:mostHidden], fmt.Sprintf("%d more", more))
	}
	return fmt.Sprintf("it does not allow to list and watch %s: %s is not known; grant it", strings.Join(what, ", "), unknown)
}

// listed reports whether everything was read on this connection or an earlier
// one, and is watched now.
func (l *link) listed() bool {
	for _, s := range l.sources {
		if running, _ := s.state(); !running || !s.settled() {
			return false
		}
	}
	return !l.member.exports.holds()
}
