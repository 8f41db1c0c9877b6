package xds

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"sync"
	"sync/atomic"
	"time"

	core "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	discovery "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	"github.com/prometheus/client_golang/prometheus"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/keepalive"
	"google.golang.org/grpc/status"
)

// Config is what a Server is built from. Store and ViewOf are required.
type Config struct {
	Store *Store
	// ViewOf names the view of an edge's proxies; false means that there is
	// no such edge, and its proxies are refused. Call [Server.Reassign] when
	// its answers may have changed.
	ViewOf func(edge string) (view string, ok bool)
	// ClientViewOf is the same for the gRPC clients of an edge, and ClientFace what
	// stands between such a client and its session: see package sotw. Nil refuses
	// them.
	ClientViewOf func(edge string) (view string, ok bool)
	ClientFace   func(Limits) Face
	// TrustDomain is the only one accepted in client certificates. Empty
	// accepts any that the client CA vouches for.
	TrustDomain string
	// Allow may refuse a client whose SPIFFE ID names its edge, for example
	// by the edge's own list of identities. Nil allows all of them.
	Allow func(edge, spiffeID string) bool
	// Services are served beside ADS.
	Services []Service

	Limits       Limits
	ReportTypes  []TypeURL // acknowledgements of these go to Reports; rejections always do
	Reports      *Reports  // may be nil
	Log          *slog.Logger
	Metrics      prometheus.Registerer
	MaxStreams   int           // of ADS, and of each of the Services; refused beyond; 20,000
	MaxOfOne     int           // of these, and of connections, by one identity; a quarter of MaxStreams
	InitialSyncs int           // streams that load their first state at a time, half of them of one identity at most; 8
	MaxAge       time.Duration // of a connection, ±10 % by gRPC; 0: no limit, since open streams are rechecked

	Now func() time.Time // the clock of the server and its store; [time.Now]
}

// Server serves ADS and, at the same endpoints, the services beside it.
type Server struct {
	cfg     Config
	log     *slog.Logger
	metrics *metrics
	door    *door
	refused onceLog

	mu      sync.Mutex
	streams map[uint64]*stream
	last    atomic.Uint64
	pool    *pool

	reassigned  broadcast
	quota       *quota   // streams of ADS
	beside      []*quota // of each of the Services
	connections *quota
	unread      *unread
}

// NewServer returns a server that is not listening yet.
func NewServer(cfg Config) *Server {
	if cfg.Log == nil {
		cfg.Log = slog.New(slog.DiscardHandler)
	}
	if cfg.MaxStreams == 0 {
		cfg.MaxStreams = 20_000
	}
	if cfg.MaxOfOne == 0 {
		cfg.MaxOfOne = cfg.MaxStreams / 4
	}
	if cfg.InitialSyncs == 0 {
		cfg.InitialSyncs = 8
	}
	if cfg.Reports == nil {
		cfg.Reports = &Reports{}
	}
	cfg.Limits = cfg.Limits.withDefaults()
	if cfg.Now == nil {
		cfg.Now = time.Now
	} else {
		cfg.Store.now = cfg.Now
	}
	s := &Server{
		cfg: cfg, log: cfg.Log, metrics: newMetrics(cfg.Metrics),
		door: newDoor(cfg.InitialSyncs), streams: map[uint64]*stream{}, pool: newPool(),
		quota:       &quota{what: "ADS streams", most: cfg.MaxStreams, ofOne: cfg.MaxOfOne},
		connections: &quota{what: "connections", most: math.MaxInt, ofOne: cfg.MaxOfOne},
	}
	s.unread = newUnread(s.overflown)
	for range cfg.Services {
		s.beside = append(s.beside, &quota{what: "streams of that service", most: cfg.MaxStreams, ofOne: cfg.MaxOfOne})
	}
	return s
}

// Connection care.
const (
	pingAfter   = 30 * time.Second
	pingTimeout = 20 * time.Second
	idleAfter   = time.Minute // without a stream: it is closed
)

// Serve answers on l until ctx is done, then closes all its streams. It
// returns nil after ctx is done.
func (s *Server) Serve(ctx context.Context, l *Endpoint) error {
	creds := l.creds
	if l.files != nil {
		creds = newHandshakes(creds, s.connections, s.unread)
	}
	g := grpc.NewServer(
		grpc.Creds(creds),
		grpc.ForceServerCodecV2(newCodec()),
		grpc.MaxRecvMsgSize(firstRequestBytes),
		grpc.InitialWindowSize(windowBytes),
		grpc.InitialConnWindowSize(connectionBytes),
		grpc.MaxConcurrentStreams(16),
		grpc.ReadBufferSize(4<<10),
		grpc.ConnectionTimeout(20*time.Second),
		grpc.WaitForHandlers(true),
		grpc.KeepaliveParams(keepalive.ServerParameters{
			Time: pingAfter, Timeout: pingTimeout, MaxConnectionIdle: idleAfter,
			MaxConnectionAge: s.cfg.MaxAge, MaxConnectionAgeGrace: 10 * time.Second,
		}),
		grpc.KeepaliveEnforcementPolicy(keepalive.EnforcementPolicy{MinTime: 5 * time.Second, PermitWithoutStream: true}),
	)
	discovery.RegisterAggregatedDiscoveryServiceServer(g, &ads{server: s, at: l})
	for i, service := range s.cfg.Services {
		service.Register(g, &Admission{server: s, at: l, open: s.beside[i]})
	}
	watch, unwatch := context.WithCancel(ctx)
	var watching sync.WaitGroup
	watching.Go(func() { l.watchCAs(watch, s.Reassign) })
	defer watching.Wait()
	defer unwatch()
	stopped := make(chan struct{})
	stop := context.AfterFunc(ctx, func() {
		g.Stop()
		close(stopped)
	})
	err := g.Serve(l)
	if stop() { // it ended by itself
		g.Stop()
		return fmt.Errorf("xds: serve %s: %w", l.Addr(), err)
	}
	<-stopped
	if err != nil && !errors.Is(err, grpc.ErrServerStopped) {
		return fmt.Errorf("xds: serve %s: %w", l.Addr(), err)
	}
	return nil
}

// Reassign asks ViewOf and Allow again for every stream. A stream whose view
// changed is sent the difference; one whose edge is gone, or that may not speak
// for it any more, is closed: at once, and whatever is published meanwhile.
func (s *Server) Reassign() {
	s.reassigned.ring()
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, st := range s.streams {
		st.recheck.Store(true)
		st.member.wake()
	}
}

// ads is the gRPC face: Envoy is told what changes, gRPC clients the state of
// the world.
type ads struct {
	discovery.UnimplementedAggregatedDiscoveryServiceServer
	server *Server
	at     *Endpoint
}

// StreamAggregatedResources serves one gRPC client.
func (a *ads) StreamAggregatedResources(str discovery.AggregatedDiscoveryService_StreamAggregatedResourcesServer) error {
	if a.server.cfg.ClientViewOf == nil {
		return status.Error(codes.Unimplemented, ErrWildcard.Error())
	}
	recv := reader[discovery.DiscoveryRequest](str, (&gauge{fields: worldFields, names: a.server.cfg.Limits.Names}).check, nil)
	return a.server.serve(str, GRPC, a.at, func() (*message, error) {
		r, err := recv()
		return worldRequest(r), err
	})
}

// DeltaAggregatedResources serves one proxy.
func (a *ads) DeltaAggregatedResources(str discovery.AggregatedDiscoveryService_DeltaAggregatedResourcesServer) error {
	g := &gauge{fields: deltaFields, names: a.server.cfg.Limits.Names}
	var ack message
	recv := reader[discovery.DeltaDiscoveryRequest](str, g.check, func(raw []byte) (ok bool) {
		ack.Request, ok = g.acknowledgement(raw)
		return ok
	})
	return a.server.serve(str, Envoy, a.at, func() (*message, error) {
		r, err := recv()
		if r == nil && err == nil {
			return &ack, nil
		}
		return deltaRequest(r), err
	})
}

// serve runs the stream of one data plane.
func (s *Server) serve(str sender, class Class, at *Endpoint, recv func() (*message, error)) error {
	first, err := await(str.Context(), s.cfg.Limits.First, recv)
	if err != nil {
		return err
	}
	proxy, cred, err := s.identify(str.Context(), at, first.node, class)
	if err != nil {
		return err
	}
	viewID, ok := s.viewOf(proxy)
	if !ok {
		return s.refuseUnknown(proxy)
	}
	st, err := s.open(str, proxy, cred, first.node, viewID)
	if err != nil {
		return err
	}
	reason, err := st.run(recv, first)
	s.blame(proxy, reason, err)
	s.close(st, reason)
	return err
}

func (s *Server) viewOf(p Proxy) (string, bool) {
	if p.Class == GRPC {
		return s.cfg.ClientViewOf(p.Edge)
	}
	return s.cfg.ViewOf(p.Edge)
}

// open makes a stream that its caller has.
func (s *Server) open(str sender, proxy Proxy, cred *credential, node *core.Node, viewID string) (*stream, error) {
	who := cred.speaker(proxy)
	if limit, refusal := s.quota.enter(who); refusal != "" {
		return nil, s.refuse(proxy, codes.ResourceExhausted, limit, refusal)
	}
	face := s.faceFor(proxy.Class)
	version := envoyVersion(node)
	face.Base().Report(s.cfg.ReportTypes...)
	face.Base().Speaks(Client{Identity: cred.identity(proxy), Node: proxy.Node, Version: version})
	st := &stream{
		server: s, id: s.last.Add(1), proxy: proxy, who: who, version: version, since: s.cfg.Now(), str: str, face: face, cred: cred,
		out:    make(chan *Response, int(kinds)+foreignLimit),
		member: &member{session: face.Base(), wake: func() {}},
	}
	if str != nil {
		st.member.wake = st.poke
	}
	st.turns.Lock()
	st.recheck.Store(true) // the edge may have moved since ViewOf was asked
	s.mu.Lock()
	s.streams[st.id] = st
	s.mu.Unlock()
	st.follow(viewID) // beside the lock: Reassign waits for no client
	s.metrics.connected(proxy).Inc()
	s.log.Info(proxy.Class.noun()+" connected", "edge", proxy.Edge, "node", proxy.Node, "version", st.version, "view", viewID, "stream", st.id)
	s.cfg.Reports.opened(st.change(st.since))
	return st, nil
}

func (s *Server) close(st *stream, reason string) {
	viewID := st.viewID()
	s.mu.Lock()
	delete(s.streams, st.id)
	s.mu.Unlock()
	s.quota.leave(st.who)
	s.cfg.Store.leave(st.member)
	s.metrics.connected(st.proxy).Dec()
	s.metrics.closed.WithLabelValues(reason).Inc()
	now := s.cfg.Now()
	s.log.Info(st.proxy.Class.noun()+" disconnected", "edge", st.proxy.Edge, "node", st.proxy.Node, "stream", st.id, "reason", reason, "after", now.Sub(st.since).Round(time.Millisecond))
	s.cfg.Reports.stream(StreamChange{Proxy: st.proxy, Stream: st.id, View: viewID, Version: st.version, Reason: reason, At: now})
}

func (s *Server) refuseUnknown(p Proxy) error {
	return s.refuse(p, codes.NotFound, "no_edge", fmt.Sprintf(
		"there is no Edge %q: create one with this name, or set node.cluster to that of an existing Edge", p.Edge))
}

// refuse logs a refusal once and returns it as a gRPC status.
func (s *Server) refuse(p Proxy, code codes.Code, reason, message string) error {
	s.metrics.refused.WithLabelValues(reason).Inc()
	if s.refused.first(p.Edge + "\x00" + reason + "\x00" + message) {
		s.log.Warn(p.Class.noun()+" refused", "edge", p.Edge, "node", p.Node, "reason", message)
	}
	return status.Error(code, message)
}

// overflown logs that an identity lost a connection: see unread.
func (s *Server) overflown(who speaker, bytes int64) {
	s.metrics.shed.WithLabelValues().Inc()
	if s.refused.first(who.identity + "\x00unread") {
		s.log.Warn("connection closed: too much came of requests that are not complete", "identity", who.identity, "bytes", bytes, "most", s.unread.most)
	}
}

// blame logs once why a stream was closed that asked for too much or may not be
// here any more.
func (s *Server) blame(p Proxy, reason string, err error) {
	if err == nil || reason != reasonLimit && reason != reasonRevoked && reason != reasonExpired {
		return
	}
	if message := status.Convert(err).Message(); s.refused.first(p.Edge + "\x00" + p.Node + "\x00" + message) {
		s.log.Warn(p.Class.noun()+" closed", "edge", p.Edge, "node", p.Node, "reason", message)
	}
}

// onceLog remembers what was logged, up to a bound.
type onceLog struct {
	mu   sync.Mutex
	seen map[string]struct{}
}

func (o *onceLog) first(line string) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	if _, ok := o.seen[line]; ok {
		return false
	}
	if o.seen == nil || len(o.seen) >= 1024 {
		o.seen = map[string]struct{}{}
	}
	o.seen[line] = struct{}{}
	return true
}

func envoyVersion(n *core.Node) string {
	v := n.GetUserAgentBuildVersion().GetVersion()
	if v == nil {
		return clipped(n.GetUserAgentVersion(), maxVersion)
	}
	return fmt.Sprintf("%d.%d.%d", v.GetMajorNumber(), v.GetMinorNumber(), v.GetPatch())
}
