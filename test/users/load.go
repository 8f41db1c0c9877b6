package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/spillway-dev/spillway/internal/lab/user"
)

const (
	inFlight   = 512 // requests without an answer, at most
	freshEvery = 8   // every eighth request of a target has a connection of its own
	mentioned  = 10  // failures that are told one by one
	inARow     = 20  // answers on fresh connections after which every thread of a proxy has a change
)

// Answers that are of no pod.
const (
	closed        = "closed" // the TLS handshake is refused: there is no certificate for the name
	notFound      = "404"
	notPermitted  = "500"
	servedByBlue  = "200 blue"
	servedByGreen = "200 green"
	servedByRed   = "200 red"
)

// target is what clients ask for, and what they may be answered.
type target struct {
	request user.Request
	usual   []string         // the answers that are right while nobody changes anything
	share   int              // of the load; default 1
	saw     func(user.Reply) // is told of each; may be nil
	instead *target          // what a client asks that is answered 421; may be nil
	right   right
}

// at is a target at a Gateway.
func (w *world) at(gateway, url string, usual ...string) *target {
	t := &target{request: user.Request{Edge: w.doors[gateway], URL: url}, usual: usual}
	t.right.be(time.Now(), usual...)
	return t
}

func (w *world) weighted() *target {
	return w.at(mine, "http://"+weightedHost+"/", servedByBlue, servedByGreen)
}
func (w *world) granted() *target { return w.at(mine, "http://"+grantedHost+"/", servedByRed) }
func (w *world) tenant() *target  { return w.at(mine, "http://"+tenantHost+"/", servedByGreen) }
func (w *world) edited() *target  { return w.at(mine, "http://"+editedHost+"/", servedByBlue) }

// secure is asked on fresh connections alone: one that is open has been let in.
func (w *world) secure() *target {
	t := w.secureOpen()
	t.request.Fresh = true
	return t
}

func (w *world) secureOpen() *target { return w.at(mine, "https://"+secureHost+"/", servedByGreen) }

// bystanders are of the same Gateway and of another; nothing that is done is about them.
func (w *world) bystanders() []*target {
	return []*target{
		w.at(mine, "http://"+bystanderHost+"/", servedByBlue),
		w.at(mine, "https://"+bystanderHost+"/", servedByBlue),
		w.at(mine, "http://"+setHost+"/", servedByBlue),
		w.at(other, "http://"+bystanderHost+"/", servedByBlue),
		w.at(other, "https://"+bystanderHost+"/", servedByBlue),
	}
}

func (t *target) String() string { return fmt.Sprintf("%s at %s", t.request, t.request.Edge.Name) }

// answer is what a client saw, in a word.
func answer(r user.Reply) string {
	switch {
	case r.Refused:
		return closed
	case r.Status == 0:
		return "no answer: " + r.Err.Error()
	case r.Err != nil:
		return fmt.Sprintf("%d, cut off: %v", r.Status, r.Err)
	case r.Status != 200:
		return strconv.Itoa(r.Status)
	}
	var pod struct{ Pod string }
	if err := json.Unmarshal(r.Body, &pod); err != nil || pod.Pod == "" {
		return fmt.Sprintf("200, but not of a pod: %.80q", r.Body)
	}
	name, _, _ := strings.Cut(pod.Pod, "-")
	return "200 " + name
}

// becomes returns when a target is answered in one of these ways on so many fresh
// connections in a row that every thread of the proxy must have been asked, and
// says when the first of these answers was there.
func (t *target) becomes(ctx context.Context, want ...string) (since time.Time, err error) {
	r := t.request
	r.Fresh = true
	err = patience.Await(ctx, fmt.Sprintf("%s to be answered %v", t, want), func(ctx context.Context) error {
		for i := range inARow {
			reply := r.Send(ctx)
			if got := answer(reply); !slices.Contains(want, got) {
				return fmt.Errorf("it was answered %q, after %d as expected", got, i)
			}
			if i == 0 {
				since = reply.Done
			}
		}
		return nil
	})
	return since, err
}

// load asks for targets in turn, and judges the answers.
type load struct {
	user.Load
	turns []*target

	repeated atomic.Int64 // since they were answered 421

	mu       sync.Mutex
	failed   int
	failures []string // the first
}

func (w *world) newLoad(all ...*target) *load {
	l := &load{Load: user.Load{Rate: w.rate, Room: inFlight}}
	for _, t := range all {
		for range cmp.Or(t.share, 1) {
			l.turns = append(l.turns, t)
		}
	}
	l.Draw = l.draw
	return l
}

func (l *load) draw(n int) (user.Request, func(user.Reply)) {
	t := l.turns[n%len(l.turns)]
	r := t.request
	r.Fresh = r.Fresh || n/len(l.turns)%freshEvery == 0
	return r, func(reply user.Reply) {
		l.judge(t, r, reply)
		if t.instead != nil && reply.Status == http.StatusMisdirectedRequest {
			l.judge(t.again())
			l.repeated.Add(1)
		}
	}
}

// again is what a client does that is answered 421: it repeats the request on a connection
// of the host's own.
func (t *target) again() (*target, user.Request, user.Reply) {
	r := t.instead.request
	r.Fresh = true
	return t.instead, r, r.Send(context.Background())
}

func (l *load) judge(t *target, r user.Request, reply user.Reply) {
	if t.saw != nil {
		t.saw(reply)
	}
	want, got := t.right.of(reply.Sent, reply.Done), answer(reply)
	if slices.Contains(want, got) {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.failed++
	if len(l.failures) < mentioned {
		l.failures = append(l.failures, fmt.Sprintf("%s %s at %s was answered %q after %s, expected was one of %q",
			reply.Sent.UTC().Format("15:04:05.000"), r, r.Edge.Name, got, reply.Done.Sub(reply.Sent).Round(time.Millisecond), want))
	}
}

// wrong is nil if every answer was right.
func (l *load) wrong() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.failed == 0 {
		return nil
	}
	errs := []error{fmt.Errorf("%d of %d requests failed", l.failed, l.Counts().Sent)}
	for _, f := range l.failures {
		errs = append(errs, errors.New(f))
	}
	return errors.Join(errs...)
}

// under has something done while a load goes on. What it does gets an end as soon as
// it is done.
func (w *world) under(ctx context.Context, l *load, do func(context.Context) error) error {
	ctx, end := context.WithCancel(ctx)
	var running sync.WaitGroup
	running.Go(func() { l.Run(ctx) })
	err := do(ctx)
	end()
	running.Wait()
	c := l.Counts()
	w.said.line("%d requests, %d failed, %d late, %d begun again by the HTTP client", c.Sent, l.failed, c.Late, c.Again)
	return errors.Join(err, l.wrong())
}
