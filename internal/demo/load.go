package demo

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptrace"
	"net/netip"
	"strings"
	"sync"
	"syscall"
	"time"
)

// What load is: so many requests a second at each edge, sent when they are due
// and not when an answer has come, until so many are without an answer.
const (
	rate         = 200 // requests a second
	unsafeEvery  = 10  // every tenth is a POST
	inFlight     = 256 // at each edge
	longest      = 15 * time.Minute
	giveUp       = 30 * time.Second // on one request; far beyond what any part of the fleet waits
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
	edge   string
	url    string
	host   string
	client *http.Client
	room   chan struct{}

	mu    sync.Mutex
	tally tally
}

func startLoad(host string, edges map[string]netip.AddrPort) *load {
	ctx, cancel := context.WithTimeout(context.Background(), longest)
	l := &load{cancel: cancel}
	for edge, at := range edges {
		l.lanes = append(l.lanes, &lane{edge: edge, url: "http://" + at.String() + "/load", host: host, client: newClient(), room: make(chan struct{}, inFlight)})
	}
	for _, a := range l.lanes {
		l.all.Go(func() { a.run(ctx) })
	}
	return l
}

// newClient keeps as many connections alive as it needs.
func newClient() *http.Client {
	dialer := &net.Dialer{Timeout: giveUp}
	return &http.Client{Timeout: giveUp, Transport: &http.Transport{
		DialContext: dialer.DialContext, MaxIdleConnsPerHost: inFlight, IdleConnTimeout: giveUp, DisableCompression: true,
	}}
}

// run sends a request whenever one is due.
func (a *lane) run(ctx context.Context) {
	defer a.client.CloseIdleConnections()
	var flying sync.WaitGroup
	defer flying.Wait()
	tick := time.NewTicker(time.Second / rate)
	defer tick.Stop()
	began, sent := time.Now(), 0
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		for due := int(time.Since(began).Seconds() * rate); sent < due; sent++ {
			if !a.admit(ctx) {
				return
			}
			unsafe := sent%unsafeEvery == unsafeEvery-1
			flying.Go(func() { a.one(unsafe) })
		}
	}
}

// admit waits for room and reports false at the end.
func (a *lane) admit(ctx context.Context) bool {
	late := 0
	select {
	case a.room <- struct{}{}:
	default:
		late = 1
		select {
		case a.room <- struct{}{}:
		case <-ctx.Done():
			return false
		}
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	a.tally.sent++
	a.tally.late += late
	return true
}

// one sends a request and counts what became of it. It is not ended with the
// load: a request that was sent is waited for.
func (a *lane) one(unsafe bool) {
	o := outcome{unsafe: unsafe, sent: time.Now()}
	o.member, o.pod, o.failed = a.ask(unsafe, &o.again)
	o.took = time.Since(o.sent)
	a.mu.Lock()
	a.tally.add(o)
	a.mu.Unlock()
	<-a.room
}

func (a *lane) ask(unsafe bool, again *int) (member, pod, failed string) {
	connections := 0
	ctx := httptrace.WithClientTrace(context.Background(), &httptrace.ClientTrace{GotConn: func(httptrace.GotConnInfo) { connections++ }})
	method, body := http.MethodGet, io.Reader(nil)
	if unsafe {
		method, body = http.MethodPost, strings.NewReader("order")
	}
	req, err := http.NewRequestWithContext(ctx, method, a.url, body)
	if err != nil {
		return "", "", err.Error()
	}
	req.Host = a.host
	resp, err := a.client.Do(req)
	*again = max(0, connections-1)
	if err != nil {
		return "", "", reason(err)
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(io.LimitReader(resp.Body, 1<<20))
	if err != nil {
		return "", "", "answer cut off: " + reason(err)
	}
	if resp.StatusCode != http.StatusOK {
		return "", "", shorten(fmt.Sprintf("status %d: %s", resp.StatusCode, strings.TrimSpace(string(text))))
	}
	who, err := whoAnswered(text)
	if err != nil {
		return "", "", err.Error()
	}
	return who.Member, who.Pod, ""
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
		return "no answer in " + giveUp.String()
	}
	return shorten(err.Error())
}

// seen is what has happened at an edge so far.
func (l *load) seen(edge string) tally {
	for _, a := range l.lanes {
		if a.edge == edge {
			a.mu.Lock()
			defer a.mu.Unlock()
			return a.tally.clone()
		}
	}
	return tally{}
}

// completed is how many requests have an outcome at the edge that has fewest.
func (l *load) completed() int {
	least := -1
	for _, a := range l.lanes {
		if n := l.seen(a.edge).done; least < 0 || n < least {
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
		sum = sum.plus(l.seen(a.edge))
	}
	return sum
}
