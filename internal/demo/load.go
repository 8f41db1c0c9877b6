package demo

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/spillway-dev/spillway/internal/lab/user"
)

// What load is: so many requests a second at each edge, sent when they are due
// and not when an answer has come, until so many are without an answer.
const (
	rate         = 200 // requests a second
	unsafeEvery  = 10  // every tenth is a POST
	inFlight     = 256 // at each edge
	longest      = 15 * time.Minute
	reasonLength = 120
)

// load sends requests to edges. Start it with startLoad, end it with stop.
type load struct {
	lanes  []*lane
	cancel context.CancelFunc
	all    sync.WaitGroup
}

// lane is the load at one edge.
type lane struct {
	user.Load

	mu    sync.Mutex
	edge  *user.Edge
	tally tally
}

// startLoad sends requests for a host to edges, and closes those when it ends.
func startLoad(host string, edges []*user.Edge) *load {
	ctx, cancel := context.WithTimeout(context.Background(), longest)
	l := &load{cancel: cancel}
	for _, edge := range edges {
		a := &lane{edge: edge, Load: user.Load{Rate: rate, Room: inFlight}}
		a.Draw = func(n int) (user.Request, func(user.Reply)) {
			r := user.Request{Edge: edge, URL: "http://" + host + "/load", Unsafe: n%unsafeEvery == unsafeEvery-1}
			return r, func(got user.Reply) { a.count(r, got) }
		}
		l.lanes = append(l.lanes, a)
		l.all.Go(func() {
			defer edge.Close()
			a.Run(ctx)
		})
	}
	return l
}

// count counts what became of a request.
func (a *lane) count(r user.Request, got user.Reply) {
	o := outcome{unsafe: r.Unsafe, sent: got.Sent, took: got.Done.Sub(got.Sent)}
	who, err := judge(got)
	if err != nil {
		o.failed = err.Error()
	}
	o.member, o.pod = who.Member, who.Pod
	a.mu.Lock()
	defer a.mu.Unlock()
	a.tally.add(o)
}

// judge tells who answered, or why that is a failure.
func judge(r user.Reply) (answer, error) {
	switch {
	case r.Status == 0:
		return answer{}, errors.New(reason(r.Err))
	case r.Err != nil:
		return answer{}, errors.New("answer cut off: " + reason(r.Err))
	case r.Status != http.StatusOK:
		return answer{}, errors.New(shorten(fmt.Sprintf("status %d: %s", r.Status, strings.TrimSpace(string(r.Body)))))
	}
	return whoAnswered(r.Body)
}

// answer is the part of an echo's answer that the demo looks at.
type answer struct {
	Member   string `json:"member"`
	Pod      string `json:"pod"`
	Protocol string `json:"protocol"`
}

func whoAnswered(text []byte) (answer, error) {
	var a answer
	if err := json.Unmarshal(text, &a); err != nil || a.Member == "" {
		return a, errors.New(shorten("not an answer of a pod: " + string(text)))
	}
	return a, nil
}

func shorten(s string) string {
	if len(s) > reasonLength {
		return s[:reasonLength] + "…"
	}
	return s
}

// reason names a failure without what differs each time, such as ports.
func reason(err error) string {
	var timeout interface{ Timeout() bool }
	switch {
	case errors.Is(err, syscall.ECONNREFUSED):
		return "connection refused"
	case errors.Is(err, syscall.ECONNRESET), errors.Is(err, syscall.EPIPE):
		return "connection reset"
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
		return "connection closed before the answer"
	case errors.As(err, &timeout) && timeout.Timeout():
		return "no answer in " + user.GiveUp.String()
	}
	return shorten(err.Error())
}

// seen is what has happened at an edge so far.
func (l *load) seen(edge string) tally {
	for _, a := range l.lanes {
		if a.edge.Name == edge {
			a.mu.Lock()
			defer a.mu.Unlock()
			t := a.tally.clone()
			t.counts = a.Counts()
			return t
		}
	}
	return tally{}
}

// completed is how many requests have an outcome at the edge that has fewest.
func (l *load) completed() int {
	least := -1
	for _, a := range l.lanes {
		if n := l.seen(a.edge.Name).done; least < 0 || n < least {
			least = n
		}
	}
	return max(least, 0)
}

// stop ends the load, waits for the last answers and adds up.
func (l *load) stop() tally {
	l.cancel()
	l.all.Wait()
	var sum tally
	for _, a := range l.lanes {
		sum = sum.plus(l.seen(a.edge.Name))
	}
	return sum
}
