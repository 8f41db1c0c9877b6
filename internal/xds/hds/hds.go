// Package hds is the health discovery service of Envoy: it asks proxies to probe
// canaries, endpoints of each member that their edge dials, and passes on what
// they report. Of each edge only some proxies probe. probes is the state machine
// of a stream, pure; docs/design/hds.md says what was measured.
package hds

import (
	"slices"
	"sync"
	"time"

	core "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	health "github.com/envoyproxy/go-control-plane/envoy/service/health/v3"
	"google.golang.org/grpc"

	"github.com/spillway-dev/spillway/internal/xds"
)

// reportBytes is the largest report: 100 bytes a canary.
const reportBytes = 1 << 20

// Config is what a Server is built from. Canaries is required. Call
// [Server.CanariesChanged] when answers of its functions may have changed.
type Config struct {
	Canaries func(edge string) []Canary // whose health an edge's proxies report
	Probing  func(edge string) Probing  // how; nil: by default
	Health   Hears                      // receives what they say; nil: nobody does
	Now      func() time.Time           // [time.Now]
}

// Hears receives a report. What it returns is called instead, as long as that
// stream says the same again: it tells whether the report still stands. If not,
// the next is passed on whole.
type Hears func(Report) (again func(at time.Time) bool)

// Server is the service, for [xds.Config].
type Server struct {
	cfg Config

	mu      sync.Mutex
	streams map[string][]*stream // of each edge, oldest first
	weight  int                  // of a report of each stream
	every   time.Duration        // between reports, for so much
}

// stream is one proxy's.
type stream struct {
	edge   string
	wake   chan struct{} // capacity 1
	weight int           // of a report

	echo  echo
	again func(at time.Time) bool // what it said last; belongs to serve
}

// New returns a server without streams.
func New(cfg Config) *Server {
	if cfg.Now == nil {
		cfg.Now = time.Now
	}
	return &Server{cfg: cfg, streams: map[string][]*stream{}, every: steps[0]}
}

// Register is for [xds.Server].
func (s *Server) Register(g grpc.ServiceRegistrar, a *xds.Admission) {
	health.RegisterHealthDiscoveryServiceServer(g, &face{server: s, admission: a})
}

// CanariesChanged asks Canaries and Probing again for every proxy.
func (s *Server) CanariesChanged() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.wakeAll()
}

// wakeAll needs the lock.
func (s *Server) wakeAll() {
	for _, of := range s.streams {
		wake(of)
	}
}

func wake(streams []*stream) {
	for _, st := range streams {
		select {
		case st.wake <- struct{}{}:
		default:
		}
	}
}

// join adds a stream of an edge.
func (s *Server) join(st *stream) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.streams[st.edge] = append(s.streams[st.edge], st)
}

// leave takes a stream away. If it probed, another one of its edge may have to.
func (s *Server) leave(st *stream) {
	most := s.probing(st.edge).Proxies
	s.mu.Lock()
	defer s.mu.Unlock()
	s.weigh(st, 0)
	of := s.streams[st.edge]
	at := slices.Index(of, st)
	of = slices.Delete(of, at, at+1)
	if s.streams[st.edge] = of; len(of) == 0 {
		delete(s.streams, st.edge)
	}
	if at < most {
		wake(of[:min(most, len(of))])
	}
}

// canaries returns what a proxy is to probe: only the oldest streams of its
// edge do.
func (s *Server) canaries(st *stream) []Canary {
	most := s.probing(st.edge).Proxies
	s.mu.Lock()
	of := s.streams[st.edge]
	oldest := slices.Contains(of[:min(most, len(of))], st)
	s.mu.Unlock()
	if !oldest {
		return nil
	}
	return s.cfg.Canaries(st.edge)
}

func (s *Server) probing(edge string) Probing {
	if s.cfg.Probing == nil {
		return Probing{}.withDefaults()
	}
	return s.cfg.Probing(edge).withDefaults()
}

// pace notes how many endpoints a stream probes, and returns how often it is to
// report.
func (s *Server) pace(st *stream, endpoints int) time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.weigh(st, weight(endpoints))
	return s.every
}

// weigh notes what a report of a stream weighs. All are asked anew when that
// changes how often they report. It needs the lock.
func (s *Server) weigh(st *stream, weight int) {
	s.weight += weight - st.weight
	st.weight = weight
	if next := interval(s.every, s.weight); next != s.every {
		s.every = next
		s.wakeAll()
	}
}

// face is the service at one endpoint.
type face struct {
	health.UnimplementedHealthDiscoveryServiceServer
	server    *Server
	admission *xds.Admission
}

type said = health.HealthCheckRequestOrEndpointHealthResponse

func says(e *echo) xds.Says[*said] {
	return xds.Says[*said]{
		Name: "health", Bytes: reportBytes, Same: e.same,
		Node: func(m *said) *core.Node { return m.GetHealthCheckRequest().GetNode() },
	}
}

// StreamHealthCheck asks one proxy to probe its edge's canaries, and passes on
// what it reports.
func (f *face) StreamHealthCheck(str health.HealthDiscoveryService_StreamHealthCheckServer) error {
	st := &stream{wake: make(chan struct{}, 1)}
	return xds.Admit(f.admission, str, says(&st.echo), func(in *xds.SideStream[*said]) error {
		st.edge = in.Proxy.Edge
		f.server.join(st)
		defer f.server.leave(st)
		return f.server.serve(st, in, str.Send)
	})
}

func (s *Server) serve(st *stream, in *xds.SideStream[*said], send func(*health.HealthCheckSpecifier) error) error {
	p := &probes{}
	for {
		if err := in.Check(); err != nil {
			return err
		}
		canaries, how := s.canaries(st), s.probing(st.edge)
		how.Report = max(how.Report, s.pace(st, len(canaries)))
		if spec := p.ask(s.cfg.Now(), canaries, how); spec != nil {
			st.echo.stands.Store(false)
			if err := send(spec); err != nil {
				return err
			}
		}
		if err := s.listen(st, in, p); err != nil {
			return err
		}
	}
}

// listen passes on what a proxy reports, until it may have to be asked anew.
func (s *Server) listen(st *stream, in *xds.SideStream[*said], p *probes) error {
	for {
		m, reported, err := in.Next(st.wake)
		if err != nil || !reported {
			return err
		}
		now := s.cfg.Now()
		if m != nil {
			s.heard(st, p, Report{Proxy: in.Proxy, At: now}, m.GetEndpointHealthResponse())
		} else if st.echo.stands.Load() && !st.again(now) {
			st.echo.stands.Store(false)
		}
	}
}

// heard passes a report on.
func (s *Server) heard(st *stream, p *probes, report Report, said *health.EndpointHealthResponse) {
	var final bool
	report.Canaries, final = p.heard(report.At, said)
	st.again = nil
	if len(report.Canaries) > 0 && s.cfg.Health != nil {
		st.again = s.cfg.Health(report)
	}
	st.echo.stands.Store(final && st.again != nil)
}
