package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/spillway-dev/spillway/internal/lab/user"
)

// phase is what may be missing; each includes those before.
type phase int32

const (
	runs  phase = iota // nothing
	joins              // the fresh edge, whose only proxy is new
	lacks              // rows of a member, that nobody remembers
	ends               // `serve` itself, and with it every answer
)

// What DNS says when it says nothing.
const (
	silence  = "nothing"
	servfail = "SERVFAIL"
	refused  = "REFUSED"
)

// may tells whether DNS may answer so. A resolver that hears nothing, or one of
// these codes, asks another server, and says it to nobody.
func (p phase) may(answer, all, old string) bool {
	switch answer {
	case all:
		return true
	case old:
		return p >= joins
	case servfail:
		return p >= lacks
	case silence, refused:
		return p == ends
	}
	return false
}

const (
	rate     = 60 // requests a second at the old proxies
	inFlight = 256
	askEvery = 20 * time.Millisecond
	mostTold = 10 // wrongs that are told one by one
)

// watch looks all the time, from before a loss until after it, at what nothing
// may take away: answers of old proxies, of DNS, and statuses.
type watch struct {
	*fleet
	began time.Time
	phase atomic.Int32
	stop  context.CancelFunc
	tasks sync.WaitGroup

	mu                          sync.Mutex
	requests, answers, statuses int
	wrongs                      int
	told                        []error
}

func (f *fleet) watch(ctx context.Context) *watch {
	ctx, stop := context.WithCancel(ctx)
	w := &watch{fleet: f, began: time.Now(), stop: stop}
	load := user.Load{Rate: rate, Room: inFlight, Draw: w.draw}
	w.tasks.Go(func() { load.Run(ctx) })
	w.tasks.Go(func() { w.ask(ctx) })
	w.tasks.Go(func() { w.follow(ctx) })
	return w
}

func (w *watch) enter(p phase) { w.phase.Store(int32(p)) }

// draw asks the old proxies for one host after another. Each is answered by the
// member that it was answered by before.
func (w *watch) draw(n int) (user.Request, func(user.Reply)) {
	h, edge := w.hosts[n%len(w.hosts)], w.old()[n/len(w.hosts)%len(w.old())]
	r := user.Request{Edge: edge, URL: h.url()}
	return r, func(got user.Reply) { w.note(&w.requests, answered(got, r.URL, w.nearest(h, edge))) }
}

// ask asks DNS.
func (w *watch) ask(ctx context.Context) {
	all, old := addresses(w.lab, w.edges), addresses(w.lab, w.old())
	for n := 0; ctx.Err() == nil; n++ {
		h, before := w.hosts[n%len(w.hosts)], phase(w.phase.Load())
		got := w.resolve(ctx, h)
		if ctx.Err() != nil {
			return
		}
		var err error
		if p := max(before, phase(w.phase.Load())); !p.may(got, all, old) {
			err = fmt.Errorf("DNS says %q for %s", got, h.name)
		}
		w.note(&w.answers, err)
		user.Rest(ctx, askEvery)
	}
}

// follow looks at every version of the Ingresses.
func (w *watch) follow(ctx context.Context) {
	events, err := w.hub.Of("Ingress", namespace).Watch(ctx, metav1.ListOptions{})
	if err != nil {
		w.note(&w.statuses, err)
		return
	}
	defer events.Stop()
	for e := range events.ResultChan() {
		o, ok := e.Object.(*unstructured.Unstructured)
		if !ok || !slices.ContainsFunc(w.hosts, func(h host) bool { return h.name == o.GetName() }) {
			continue
		}
		var err error
		if got := published(o); got != addresses(w.lab, w.edges) {
			err = fmt.Errorf("the status of Ingress %s lists %q", o.GetName(), got)
		}
		w.note(&w.statuses, err)
	}
	if ctx.Err() == nil {
		w.note(&w.statuses, errors.New("the watch of Ingresses ended"))
	}
}

// note counts what was looked at, and keeps what was wrong.
func (w *watch) note(count *int, err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	*count++
	if err == nil {
		return
	}
	if w.wrongs++; len(w.told) < mostTold {
		w.told = append(w.told, fmt.Errorf("after %s: %w", time.Since(w.began).Round(time.Millisecond), err))
	}
}

// verdict ends the watch; nil: nothing was wrong.
func (w *watch) verdict() error {
	w.stop()
	w.tasks.Wait()
	w.mu.Lock()
	defer w.mu.Unlock()
	w.tell("  %d requests at old proxies, %d DNS answers, %d statuses, %d of them wrong", w.requests, w.answers, w.statuses, w.wrongs)
	if w.requests == 0 || w.answers == 0 || w.statuses < len(w.hosts) {
		return errors.New("nothing was watched")
	}
	return errors.Join(w.told...)
}
