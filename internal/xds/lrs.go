package xds

import (
	"slices"
	"sync"
	"time"

	load "github.com/envoyproxy/go-control-plane/envoy/service/load_stats/v3"
	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/types/known/durationpb"
)

// LoadReport is what one proxy sent to its clusters since it last said so. It
// stands for its edge: of each edge one proxy reports.
type LoadReport struct {
	Proxy
	Clusters []ClusterLoad // those that got requests
	Proxies  int           // of the edge that this server could have asked, this one included
	At       time.Time
}

// ClusterLoad is how many requests a second a proxy sent to a cluster, retries
// included. What goes through an aggregate cluster counts for the one it led to.
type ClusterLoad struct {
	Name     string
	Requests float64
}

// LoadInterval is the time between load reports by default. A report lists
// every cluster that the proxy has, idle ones too: 10,000 are 426 KB and 71 ms
// of Envoy's main thread (BenchmarkLoadReport).
const LoadInterval = time.Minute

// silence is the interval for a proxy that is to report nothing. Envoy sends an
// empty report each time; zero would have it do so without a pause.
const silence = time.Hour

// tally is the state machine of one load stream, pure: what the proxy was told,
// and what its reports say.
type tally struct {
	every  time.Duration
	chosen bool
	hushed bool
}

// choose has the proxy report from now on. It returns what to send.
func (t *tally) choose() *load.LoadStatsResponse {
	t.chosen = true
	return &load.LoadStatsResponse{SendAllClusters: true, LoadReportingInterval: durationpb.New(t.every)}
}

// heard returns what a request says, false if it is no report that counts, and
// what to send, nil for nothing.
//
// A proxy that was told nothing reports nothing. But Envoy remembers what it
// was told on an earlier stream, and goes on with that: one that was chosen
// then, and is not now, is told once to name no cluster.
func (t *tally) heard(r *load.LoadStatsRequest) (loads []ClusterLoad, ok bool, answer *load.LoadStatsResponse) {
	if len(r.GetClusterStats()) == 0 {
		return nil, false, nil
	}
	if !t.chosen {
		if t.hushed {
			return nil, false, nil // it was on its way
		}
		t.hushed = true
		return nil, false, &load.LoadStatsResponse{LoadReportingInterval: durationpb.New(silence)}
	}
	for _, c := range r.GetClusterStats() {
		issued := 0.0
		for _, l := range c.GetUpstreamLocalityStats() {
			issued += float64(l.GetTotalIssuedRequests())
		}
		if took := c.GetLoadReportInterval().AsDuration(); issued > 0 && took > 0 {
			loads = append(loads, ClusterLoad{c.GetClusterName(), issued / took.Seconds()})
		}
	}
	return loads, true, nil
}

// reporters chooses the proxy of each edge that reports load: the one whose
// stream is the oldest. It stays chosen until it leaves.
type reporters struct {
	mu    sync.Mutex
	edges map[string][]*reporter // oldest first, none empty
	n     int
}

// reporter is a proxy that may be chosen, for which chosen is closed.
type reporter struct {
	edge   string
	chosen chan struct{}
}

// join adds a proxy of an edge; false if there are limit already.
func (r *reporters) join(edge string, limit int) (*reporter, bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.n >= limit {
		return nil, false
	}
	if r.edges == nil {
		r.edges = map[string][]*reporter{}
	}
	me := &reporter{edge, make(chan struct{})}
	if len(r.edges[edge]) == 0 {
		close(me.chosen)
	}
	r.edges[edge] = append(r.edges[edge], me)
	r.n++
	return me, true
}

// leave takes a proxy away; the next one is chosen if it was.
func (r *reporters) leave(me *reporter) {
	r.mu.Lock()
	defer r.mu.Unlock()
	i := slices.Index(r.edges[me.edge], me)
	left := slices.Delete(r.edges[me.edge], i, i+1)
	r.edges[me.edge] = left
	r.n--
	if len(left) == 0 {
		delete(r.edges, me.edge)
	} else if i == 0 {
		close(left[0].chosen)
	}
}

// of counts the proxies of an edge.
func (r *reporters) of(edge string) int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.edges[edge])
}

// lrs is the gRPC face of load reporting.
type lrs struct {
	load.UnimplementedLoadReportingServiceServer
	server *Server
	at     *Endpoint
}

// StreamLoadStats asks one proxy of each edge for the load of its clusters, and
// passes on what it reports. The streams of the others stay open and silent.
func (l *lrs) StreamLoadStats(str load.LoadReportingService_StreamLoadStatsServer) error {
	s := l.server
	recv := reader[load.LoadStatsRequest](str, atMost(loadReportBytes, "a load report"))
	first, err := await(str.Context(), recv)
	if err != nil {
		return err
	}
	proxy, cred, err := s.identify(str.Context(), l.at, first.GetNode(), Envoy)
	if err != nil {
		return err
	}
	g, err := s.guard(proxy, cred)
	defer g.stop()
	if err != nil {
		return err
	}
	me, ok := s.reporters.join(proxy.Edge, s.cfg.MaxStreams)
	if !ok {
		return s.refuse(proxy, codes.ResourceExhausted, "too_many", "this server has as many load streams as it may")
	}
	defer s.reporters.leave(me)
	var chosen <-chan struct{} = me.chosen
	if s.cfg.Load == nil {
		chosen = nil // never
	}
	return s.tally(str, g, chosen, first, receive(str.Context(), recv))
}

func (s *Server) tally(str load.LoadReportingService_StreamLoadStatsServer, g *guard, chosen <-chan struct{},
	first *load.LoadStatsRequest, box *inbox[*load.LoadStatsRequest]) error {
	proxy := g.proxy
	t := &tally{every: s.cfg.LoadInterval}
	choose := func() error {
		chosen = nil
		return str.Send(t.choose())
	}
	hear := func(r *load.LoadStatsRequest) error {
		loads, ok, answer := t.heard(r)
		if _, there := s.cfg.ViewOf(proxy.Edge); ok && there {
			s.cfg.Load(LoadReport{Proxy: proxy, Clusters: loads, Proxies: s.reporters.of(proxy.Edge), At: s.cfg.Now()})
		}
		if answer != nil {
			return str.Send(answer)
		}
		return nil
	}
	select { // one that is chosen from the start may bring a report
	case <-chosen:
		if err := choose(); err != nil {
			return err
		}
	default:
	}
	if err := hear(first); err != nil {
		return err
	}
	for {
		var err error
		select {
		case r, ok := <-box.in:
			if !ok {
				_, err = ended(box.err)
				return err
			}
			err = hear(r)
		case <-chosen:
			err = choose()
		case <-g.changed:
			err = g.check()
		case <-g.timer.C:
			err = g.check()
		case <-str.Context().Done():
			return nil
		}
		if err != nil {
			return err
		}
	}
}
