package xds

import (
	"context"
	"errors"
	"io"
	"sync/atomic"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// Reasons for which a stream ends, as in the metric and the log.
const (
	reasonClient     = "client"     // the proxy went away, or the server stops
	reasonBehind     = "behind"     // more is queued than one response a type
	reasonUnanswered = "unanswered" // no ACK in Limits.AckTimeout
	reasonProtocol   = "protocol"
	reasonEdgeGone   = "edge_gone"
)

// foreignLimit is how many answers for types we do not serve may be queued.
const foreignLimit = 16

// admission is the longest time a stream may take one of the places for
// initial syncs.
const admission = 2 * time.Second

type sender interface {
	Context() context.Context
	SendMsg(any) error
}

// stream is one proxy's connection. Its goroutines are: the gRPC handler,
// which runs the loop and owns the session; one that receives; one that sends.
// The last two end when the handler has returned.
type stream struct {
	server  *Server
	id      uint64
	proxy   Proxy
	version string
	since   time.Time
	str     sender
	member  *member
	face    face
	recheck atomic.Bool
	sent    atomic.Uint64 // bytes handed to gRPC

	out      chan *Response // never blocks: its capacity is what may be unanswered
	failed   chan error
	admitted time.Time // of the place taken among the initial syncs; zero when given back
	synced   bool      // the place was given back
}

// receive hands on what the client sends until the stream ends. It closes in.
func receive[T any](str interface {
	Context() context.Context
	Recv() (T, error)
}, in chan<- T) {
	defer close(in)
	for {
		m, err := str.Recv()
		if err != nil {
			return
		}
		select {
		case in <- m:
		case <-str.Context().Done():
			return
		}
	}
}

// firstRequest is how long a client may take to say who it is.
const firstRequest = 10 * time.Second

func await[T any](ctx context.Context, in <-chan T) (T, error) {
	t := time.NewTimer(firstRequest)
	defer t.Stop()
	var none T
	select {
	case m, ok := <-in:
		if !ok {
			return none, status.Error(codes.Canceled, "the stream ended before its first request")
		}
		return m, nil
	case <-ctx.Done():
		return none, status.FromContextError(ctx.Err()).Err()
	case <-t.C:
		return none, status.Error(codes.DeadlineExceeded, "no request within "+firstRequest.String())
	}
}

// run serves the stream until it ends, and returns why.
func (st *stream) run(in <-chan message, first message) (string, error) {
	ctx := st.str.Context()
	defer close(st.out)
	go st.transmit()
	if !st.enter(ctx) {
		return reasonClient, nil
	}
	defer st.exit()
	timer := time.NewTimer(time.Hour)
	defer timer.Stop()
	req := &first.Request
	for {
		if reason, err := st.turn(req, timer); err != nil {
			return reason, err
		}
		req = nil
		select {
		case m, ok := <-in:
			if !ok {
				return reasonClient, nil
			}
			req = &m.Request
		case <-st.member.wake:
		case <-timer.C:
		case err := <-st.failed:
			if errors.Is(err, io.EOF) || ctx.Err() != nil {
				return reasonClient, nil
			}
			return reasonClient, err
		case <-ctx.Done():
			return reasonClient, nil
		}
	}
}

// turn takes one request or wake-up and queues what is ready.
func (st *stream) turn(req *Request, timer *time.Timer) (string, error) {
	if st.recheck.Swap(false) {
		viewID, ok := st.server.viewOf(st.proxy)
		if !ok {
			return reasonEdgeGone, status.Errorf(codes.NotFound, "the Edge %q was deleted", st.proxy.Edge)
		}
		st.move(viewID)
	}
	now := time.Now()
	var out []Response
	var verdicts []Verdict
	var overdue TypeURL
	var late, quiet bool
	var next time.Time
	var err error
	st.member.step(func(s *Session) {
		if req != nil {
			err = st.member.request(now, st.face, *req)
		}
		out = st.face.Ready(now)
		verdicts = s.Verdicts()
		overdue, late = s.Overdue(now)
		next, _ = s.Deadline()
		quiet = !st.synced && s.Synced()
	})
	if errors.Is(err, errWildcard) {
		return reasonProtocol, st.server.refuse(st.proxy, codes.InvalidArgument, "wildcard", err.Error())
	}
	if err != nil {
		return reasonProtocol, status.Error(codes.ResourceExhausted, err.Error())
	}
	st.report(now, req, verdicts)
	if late {
		return reasonUnanswered, status.Errorf(codes.DeadlineExceeded, "no answer to a response of %s", overdue.short())
	}
	for i := range out {
		select {
		case st.out <- &out[i]:
		default:
			return reasonBehind, status.Error(codes.ResourceExhausted, "the stream reads too slowly")
		}
	}
	if quiet || !st.synced && now.Sub(st.admitted) > admission {
		st.exit()
	}
	st.arm(timer, now, next)
	return "", nil
}

// arm sets the timer to the session's next deadline, and to the end of the
// admission while that lasts.
func (st *stream) arm(timer *time.Timer, now, next time.Time) {
	if !st.synced {
		if end := st.admitted.Add(admission + time.Millisecond); next.IsZero() || end.Before(next) {
			next = end
		}
	}
	if next.IsZero() {
		timer.Stop()
		return
	}
	timer.Reset(max(next.Sub(now), time.Millisecond))
}

// transmit sends what is queued. It ends when the handler closed the queue.
func (st *stream) transmit() {
	m := st.server.metrics
	for r := range st.out {
		if err := st.str.SendMsg(r); err != nil {
			st.failed <- err
			for range st.out { // the handler is told, and closes the queue
			}
			return
		}
		n := r.Size()
		st.sent.Add(uint64(n))
		kind := r.Type.metric()
		m.bytes.WithLabelValues(kind).Add(float64(n))
		m.resources.WithLabelValues(kind).Add(float64(len(r.Resources)))
	}
}

// report passes on what the client said.
func (st *stream) report(now time.Time, req *Request, verdicts []Verdict) {
	if req != nil && req.Rejected {
		st.server.metrics.rejected.WithLabelValues(req.Type.metric()).Inc()
	}
	for _, v := range verdicts {
		if v.Error != "" {
			st.server.log.Warn("resource rejected", "edge", st.proxy.Edge, "node", st.proxy.Node,
				"type", v.Type.short(), "name", v.Name, "version", v.Version, "error", v.Error)
		}
	}
	st.server.cfg.Reports.said(st.proxy, st.viewID(), now, verdicts)
}

// enter takes a place among the initial syncs; false if the stream ended.
func (st *stream) enter(ctx context.Context) bool {
	select {
	case st.server.admit <- struct{}{}:
		st.admitted = time.Now()
		return true
	case <-ctx.Done():
		return false
	}
}

// exit gives the place back, once.
func (st *stream) exit() {
	if !st.synced {
		st.synced = true
		<-st.server.admit
	}
}

// move makes the stream follow a view, when it is its turn.
func (st *stream) move(viewID string) {
	if viewID != st.viewID() {
		if !st.server.moves.enter(st) {
			return
		}
		st.server.cfg.Store.follow(st.member, viewID)
	}
	st.server.moves.leave(st)
}

func (st *stream) viewID() string {
	if v := st.member.view.Load(); v != nil {
		return v.id
	}
	return ""
}

// metric is the type's label: one of ours, or other.
func (t TypeURL) metric() string {
	if _, ok := kindOf[t]; ok {
		return t.short()
	}
	return "other"
}
