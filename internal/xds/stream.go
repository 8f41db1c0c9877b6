package xds

import (
	"context"
	"errors"
	"io"
	"sync"
	"sync/atomic"
	"time"

	"google.golang.org/grpc"
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
	reasonLimit      = "limit"   // it asked for too much: see inbound.go and Limits
	reasonRevoked    = "revoked" // its identity is not listed any more, or its CA
	reasonExpired    = "expired" // its certificate
)

// admission is the longest time a stream may take one of the places for
// initial syncs.
const admission = 2 * time.Second

type sender interface {
	Context() context.Context
	SendMsg(any) error
}

// stream is one data plane's connection. The gRPC handler receives, and takes each
// request as it comes; the turns that no request asks for, the pool takes. Who
// takes a turn sends what follows from it, unless somebody sends already.
type stream struct {
	server  *Server
	id      uint64
	proxy   Proxy
	who     speaker
	version string
	since   time.Time
	str     sender
	member  *member
	face    Face
	recheck atomic.Bool
	cred    *credential
	sent    atomic.Uint64 // bytes handed to gRPC

	due    atomic.Bool    // a turn is wanted
	queued atomic.Bool    // in the queue of the pool
	turns  sync.Mutex     // held for a turn
	sends  sync.Mutex     // held by who sends
	out    chan *Response // never blocks: its capacity is what may be unanswered
	alarm  *time.Timer    // wants a turn
	armed  time.Time      // for when; zero: it does not
	rang   atomic.Bool    // since it was armed
	over   atomic.Pointer[ending]

	admitted time.Time // of the place taken among the initial syncs; zero when given back
	synced   bool      // the place was given back
	answered bool      // the client took something that it was sent, or refused it
	serving  Serving   // as it was reported
}

// ending is why a stream ends. Only the first counts.
type ending struct {
	reason string
	err    error
}

// await returns the first message of a client, by which it says who it is.
func await[T any](ctx context.Context, limit time.Duration, recv func() (T, error)) (T, error) {
	late := status.Error(codes.DeadlineExceeded, "no request within "+limit.String())
	timer := time.AfterFunc(limit, func() { finish(ctx, late) })
	m, err := recv()
	var none T
	if !timer.Stop() {
		return none, late
	}
	if err == nil {
		return m, nil
	}
	if _, err := ended(err); err != nil {
		return none, err
	}
	return none, status.Error(codes.Canceled, "the stream ended before its first request")
}

// finish ends a call whose handler may be waiting for the client: the client is
// told why, and the handler receives an error. gRPC-Go has no other way to end one
// than that its handler returns, and a goroutine that waits for that alone would be
// a sixth of what a stream costs. The stream of its transport has WriteStatus, by
// which gRPC ends calls itself. Without that this panics, in the first test of a
// stream that ends.
func finish(ctx context.Context, err error) {
	call := grpc.ServerTransportStreamFromContext(ctx).(interface {
		WriteStatus(*status.Status) error
	})
	_ = call.WriteStatus(status.Convert(err)) // else the connection is gone
}

// run serves the stream until it ends, and returns why.
func (st *stream) run(recv func() (*message, error), first *message) (string, error) {
	if why := st.enter(st.str.Context()); why != nil {
		return why.reason, why.err
	}
	st.alarm = time.AfterFunc(time.Hour, st.ring)
	st.alarm.Stop()
	st.hear(recv, first)
	st.turns.Lock() // no turn after this one does anything
	st.alarm.Stop()
	st.exit()
	st.turns.Unlock()
	why := st.over.Load()
	return why.reason, why.err
}

// hear takes what the client says until the stream ends.
func (st *stream) hear(recv func() (*message, error), m *message) {
	for {
		st.turn(&m.Request)
		st.release()
		var err error
		if m, err = recv(); err != nil {
			st.end(ended(err))
			return
		}
		st.turns.Lock()
	}
}

// end has the handler return.
func (st *stream) end(reason string, err error) {
	if st.over.CompareAndSwap(nil, &ending{reason, err}) {
		finish(st.str.Context(), err)
	}
}

// poke makes a turn due. It never waits.
func (st *stream) poke() {
	st.due.Store(true)
	st.server.pool.add(st)
}

// visit takes the turn that is due. If somebody takes one now, it is due again
// after that.
func (st *stream) visit() {
	if st.turns.TryLock() {
		if st.due.Swap(false) {
			st.turn(nil)
		}
		st.release()
	}
}

// release ends a turn.
func (st *stream) release() {
	st.turns.Unlock()
	if st.due.Load() {
		st.server.pool.add(st)
	}
	st.flush()
}

// turn takes one request or wake-up and queues what is ready.
func (st *stream) turn(req *Request) {
	if st.over.Load() != nil {
		return
	}
	now := st.server.cfg.Now()
	st.answered = st.answered || req != nil && req.Nonce != ""
	done, reason, err := st.step(now, req)
	if err != nil {
		st.end(reason, err)
		return
	}
	for i := range done.out {
		select {
		case st.out <- &done.out[i]:
		default:
			st.end(reasonBehind, status.Error(codes.ResourceExhausted, "the stream reads too slowly"))
			return
		}
	}
	if done.quiet || !st.synced && now.Sub(st.admitted) > admission {
		st.exit()
	}
	st.arm(now, done.next)
}

// stepped is what follows from a step of a stream.
type stepped struct {
	out      []Response
	next     time.Time // when it wants another step; zero: not before something happens
	quiet    bool      // it has its first state
	verdicts []Verdict
	late     bool // overdue is unanswered for too long
	overdue  TypeURL
	serving  Serving
}

// step takes one request or wake-up. It does no I/O. With an error comes the
// reason for which the stream ends.
func (st *stream) step(now time.Time, req *Request) (done stepped, reason string, err error) {
	if st.recheck.Swap(false) || st.cred.due(now) {
		if reason, err := st.server.recheck(st.proxy, st.cred, now); err != nil {
			return done, reason, err
		}
		viewID, ok := st.server.viewOf(st.proxy)
		if !ok {
			reason, err := edgeGone(st.proxy)
			return done, reason, err
		}
		st.follow(viewID)
	}
	done, err = st.work(now, req)
	if errors.Is(err, ErrWildcard) {
		return done, reasonProtocol, st.server.refuse(st.proxy, codes.InvalidArgument, "wildcard", err.Error())
	}
	if err != nil {
		return done, reasonLimit, status.Error(codes.ResourceExhausted, err.Error())
	}
	st.report(now, req, done.verdicts)
	if done.serving != st.serving {
		st.serving = done.serving
		st.server.cfg.Reports.stream(st.change(now))
	}
	if done.late {
		return done, reasonUnanswered, status.Errorf(codes.DeadlineExceeded, "no answer to a response of %s", done.overdue.Short())
	}
	if len(done.out) > 0 {
		if reason, err := st.server.permits(st.proxy, st.cred, now); err != nil {
			return stepped{}, reason, err
		}
	}
	if at := st.cred.next(); !at.IsZero() && (done.next.IsZero() || at.Before(done.next)) {
		done.next = at
	}
	return done, "", nil
}

// work takes a request, if there is one, and what is ready to be sent. It gives
// the store back after each part of that.
func (st *stream) work(now time.Time, req *Request) (done stepped, err error) {
	if req != nil {
		st.face.Put(*req)
	}
	for more := true; more && err == nil; {
		st.member.step(func(s *Session) {
			if req != nil {
				if more, err = st.face.Take(now, namesAtOnce); more || err != nil {
					return
				}
				req = nil
			}
			done.out = joined(done.out, st.face.Ready(now))
			more = s.More()
			done.verdicts = joined(done.verdicts, s.Verdicts())
			done.overdue, done.late = s.Overdue(now)
			done.next, _ = s.Deadline()
			done.quiet = !st.synced && s.Synced()
			serves := s.Serves()
			done.serving = Serving{Serves: serves, Loaded: serves && (st.serving.Loaded || s.Loaded())}
		})
	}
	return done, err
}

// joined is a and b; nearly always a is empty.
func joined[T any](a, b []T) []T {
	if len(a) == 0 {
		return b
	}
	return append(a, b...)
}

// arm has a turn be due at the session's next deadline, and at the end of the
// admission while that lasts.
func (st *stream) arm(now, next time.Time) {
	if !st.synced {
		if end := st.admitted.Add(admission + time.Millisecond); next.IsZero() || end.Before(next) {
			next = end
		}
	}
	if st.rang.Swap(false) {
		st.armed = time.Time{}
	}
	if next.IsZero() || !st.armed.IsZero() && !next.Before(st.armed) {
		return // a turn too many costs less than an alarm set anew for each response
	}
	st.armed = next
	st.alarm.Reset(max(next.Sub(now), time.Millisecond))
}

func (st *stream) ring() {
	st.rang.Store(true)
	st.poke()
}

// flush sends what is queued, unless somebody else does.
func (st *stream) flush() {
	for len(st.out) > 0 && st.sends.TryLock() {
		st.transmit()
		st.sends.Unlock()
	}
}

func (st *stream) transmit() {
	for {
		select {
		case r := <-st.out:
			if st.over.Load() != nil {
				continue
			}
			if err := st.str.SendMsg(r); err != nil {
				st.end(reasonClient, st.lost(err))
				continue
			}
			n := r.Size()
			st.sent.Add(uint64(n))
			st.server.metrics.responded(r, n)
		default:
			return
		}
	}
}

// lost is what a stream ends with that could not be sent to: nothing, if its
// client went away.
func (st *stream) lost(err error) error {
	if gone := errors.Is(err, io.EOF) || st.str.Context().Err() != nil; !gone {
		return err
	}
	return nil
}

// report passes on what the client said.
func (st *stream) report(now time.Time, req *Request, verdicts []Verdict) {
	if req != nil && req.Rejected {
		st.server.metrics.rejected.WithLabelValues(metricOf(req.Type)).Inc()
	}
	for _, v := range verdicts {
		if v.Error != "" {
			st.server.log.Warn("resource rejected", "edge", st.proxy.Edge, "node", st.proxy.Node, "envoy", st.version, "alone", v.Lone,
				"type", v.Type.Short(), "name", v.Name, "version", v.Version, "error", v.Error)
		}
	}
	st.server.cfg.Reports.said(st.proxy, st.version, st.viewID(), now, verdicts)
}

// change is what is known of a stream that is open.
func (st *stream) change(now time.Time) StreamChange {
	return StreamChange{Proxy: st.proxy, Stream: st.id, View: st.viewID(), Version: st.version, Open: true, Serving: st.serving, At: now}
}

// enter takes a place among the initial syncs, or tells why the stream ends before:
// who waits may be revoked, too.
func (st *stream) enter(ctx context.Context) *ending {
	in := st.server.door.queue(st.who)
	g, reason, err := st.server.guard(st.proxy, st.cred)
	defer g.stop()
	for err == nil {
		select {
		case <-in:
			st.admitted = st.server.cfg.Now()
			return nil
		case <-g.changed:
			reason, err = g.check()
		case <-g.timer.C:
			reason, err = g.check()
		case <-ctx.Done():
			st.server.door.desert(st.who, in)
			return &ending{reason: reasonClient}
		}
	}
	st.server.door.desert(st.who, in)
	return &ending{reason, err}
}

// exit gives the place back, once.
func (st *stream) exit() {
	if !st.synced {
		st.synced = true
		st.server.door.exit(st.who, st.answered)
	}
}

// follow makes the stream follow a view, among those of its edge.
func (st *stream) follow(viewID string) {
	st.server.cfg.Store.follow(st.member, viewID, st.proxy.Edge)
}

func (st *stream) viewID() string {
	if v := st.member.view.Load(); v != nil {
		return *v
	}
	return ""
}

// metricOf is a type's label: one of ours, or other.
func metricOf(t TypeURL) string {
	if _, ok := kindOf[t]; ok {
		return t.Short()
	}
	return "other"
}
