package xds

import (
	"context"
	"errors"
	"io"
	"sync"
	"time"

	core "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/proto"
)

// Service is a gRPC service of proxies beside ADS: health discovery, load
// reporting. Its streams come in at the endpoints of a Server, and are admitted
// and rechecked as those of ADS are.
type Service interface {
	// Register is called for each endpoint that is served.
	Register(g grpc.ServiceRegistrar, a *Admission)
}

// Admission lets streams of a service in at an endpoint.
type Admission struct {
	server *Server
	at     *Endpoint
	open   *quota // streams of the service, at all endpoints
}

// Says is what a proxy says on a stream of a service.
type Says[M proto.Message] struct {
	Name  string             // of the service, for refusals: health
	Bytes int                // the largest message
	Same  func([]byte) bool  // takes a message by its bytes, if that suffices: Next hands on none for it; nil: never
	Node  func(M) *core.Node // who speaks, in the first message
}

// SideStream is an open stream of a service. It belongs to the function that
// serves it.
type SideStream[M proto.Message] struct {
	Proxy Proxy
	First M // by which it said who it is

	ctx   context.Context
	box   *inbox[M]
	guard *guard
}

// Admit runs a stream: serve is called when it is known who the client is, and
// returns when Next does with an error, with that, or with one for the client.
func Admit[T any, M interface {
	*T
	proto.Message
}](a *Admission, str grpc.ServerStream, says Says[M], serve func(*SideStream[M]) error) error {
	s, ctx := a.server, str.Context()
	recv := reader[T, M](str, atMost(says.Bytes, "a "+says.Name+" report"), says.Same)
	first, err := await(ctx, s.cfg.Limits.First, recv)
	if err != nil {
		return err
	}
	proxy, cred, err := s.identify(ctx, a.at, says.Node(first), Envoy)
	if err != nil {
		return err
	}
	who := cred.speaker(proxy)
	if limit, refusal := a.open.enter(who); refusal != "" {
		return s.refuse(proxy, codes.ResourceExhausted, limit, says.Name+": "+refusal)
	}
	defer a.open.leave(who)
	g, reason, err := s.guard(proxy, cred)
	defer g.stop()
	if err != nil {
		return g.revoked(reason, err)
	}
	if err := serve(&SideStream[M]{Proxy: proxy, First: first, ctx: ctx, box: receive(ctx, recv), guard: g}); !errors.Is(err, io.EOF) {
		return err
	}
	return nil
}

// Next waits for a message of the client or for a wake-up; said is false for
// that. A message that Same took is none. It returns io.EOF when the client is gone, and another error when it may
// not be here any more.
func (s *SideStream[M]) Next(wake <-chan struct{}) (m M, said bool, err error) {
	var none M
	for {
		select {
		case m, ok := <-s.box.in:
			if ok {
				return m, true, nil
			}
			if _, err := ended(s.box.err); err != nil {
				return none, false, err
			}
			return none, false, io.EOF
		case <-wake:
			return none, false, nil
		case <-s.guard.changed:
		case <-s.guard.timer.C:
		case <-s.ctx.Done():
			return none, false, io.EOF
		}
		if err := s.Check(); err != nil {
			return none, false, err
		}
	}
}

// Check tells whether the client may be sent something now.
func (s *SideStream[M]) Check() error {
	reason, err := s.guard.check()
	if err != nil {
		return s.guard.revoked(reason, err)
	}
	return nil
}

// broadcast wakes all who wait for the next ring.
type broadcast struct {
	mu   sync.Mutex
	next chan struct{}
}

func (b *broadcast) wait() <-chan struct{} {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.next == nil {
		b.next = make(chan struct{})
	}
	return b.next
}

func (b *broadcast) ring() {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.next != nil {
		close(b.next)
		b.next = nil
	}
}

// guard rechecks a stream that has no session which does it, or not yet. A stream
// that is earlier than its Edge stays open and is asked for nothing.
type guard struct {
	server  *Server
	proxy   Proxy
	cred    *credential
	changed <-chan struct{} // receives when check is to be called
	timer   *time.Timer     // does, too
	known   bool            // the Edge was there
}

// guard begins with a check: what changed while the client was identified
// counts.
func (s *Server) guard(p Proxy, c *credential) (g *guard, reason string, err error) {
	g = &guard{server: s, proxy: p, cred: c, timer: time.NewTimer(time.Hour)}
	reason, err = g.check()
	return g, reason, err
}

// check tells whether the stream may go on, or else why not.
func (g *guard) check() (reason string, err error) {
	g.changed = g.server.reassigned.wait()
	now := g.server.cfg.Now()
	_, there := g.server.viewOf(g.proxy)
	reason, err = g.server.recheck(g.proxy, g.cred, now)
	if err == nil && g.known && !there {
		reason, err = edgeGone(g.proxy)
	}
	g.known = there
	if next := g.cred.next(); err == nil && !next.IsZero() {
		g.timer.Reset(max(next.Sub(now), time.Millisecond))
	}
	return reason, err
}

// revoked logs why a stream ends, and returns that.
func (g *guard) revoked(reason string, err error) error {
	g.server.log.Info("health or load stream ended", "edge", g.proxy.Edge, "node", g.proxy.Node, "reason", reason)
	return err
}

func (g *guard) stop() { g.timer.Stop() }
