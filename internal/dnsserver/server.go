package dnsserver

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/netip"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/spillway-dev/spillway/internal/zone"
)

// DefaultListen is where the server listens if nothing else is said.
const DefaultListen = "127.0.0.1:1053"

// Config says where and how to serve. The zero value of a field means its default.
type Config struct {
	Listen         []string      // IP:PORT, or :PORT for every address; default DefaultListen
	Sockets        int           // UDP sockets per address, which share the load between cores; default: see cores
	MaxConnections int           // open TCP connections; default 512. One network may have a quarter
	IdleTimeout    time.Duration // a TCP client sends a whole query within; default 10 s
	Lifetime       time.Duration // of a TCP connection while others want in; default 2 min
	MaxQueries     int           // on one TCP connection, then it is closed; default 10,000
	// RateLimit is how many answers a second a network gets over UDP, of one kind
	// from one zone (see limiter); default DefaultRateLimit, below 0: no limit.
	RateLimit int
	Unlimited []netip.Prefix // networks without that limit; default: loopback, which nobody elsewhere can pretend to be
	Log       *slog.Logger   // default: none
}

func (c Config) withDefaults() Config {
	set := func(v *int, def int) {
		if *v <= 0 {
			*v = def
		}
	}
	set(&c.Sockets, cores())
	set(&c.MaxConnections, 512)
	set(&c.MaxQueries, 10000)
	if c.RateLimit == 0 {
		c.RateLimit = DefaultRateLimit
	}
	if c.Unlimited == nil {
		c.Unlimited = loopback
	}
	if len(c.Listen) == 0 {
		c.Listen = []string{DefaultListen}
	}
	if c.IdleTimeout <= 0 {
		c.IdleTimeout = 10 * time.Second
	}
	if c.Lifetime <= 0 {
		c.Lifetime = 2 * time.Minute
	}
	if c.Log == nil {
		c.Log = slog.New(slog.DiscardHandler)
	}
	return c
}

// Server serves a snapshot. Make one with Listen.
type Server struct {
	cfg       Config
	current   atomic.Pointer[zone.Snapshot]
	metrics   metrics
	udp       []*net.UDPConn
	tcp       []*net.TCPListener
	conns     conns
	guard     guard
	publish   sync.Mutex // guards the two below, never held by a query
	published *zone.Snapshot
	geo       zone.Locator
}

func newServer(cfg Config) *Server {
	cfg = cfg.withDefaults()
	s := &Server{cfg: cfg, conns: conns{max: cfg.MaxConnections}}
	s.guard.init(cfg)
	s.metrics.guard = &s.guard
	return s
}

// Listen opens all sockets, so that a port in use is known at once; queries
// wait until Serve runs. Whoever gets a server calls Serve, which closes it.
func Listen(cfg Config) (*Server, error) {
	s := newServer(cfg)
	for _, text := range s.cfg.Listen {
		addrs, err := parseListen(text)
		if err == nil {
			err = s.open(addrs)
		}
		if err != nil {
			s.close()
			return nil, err
		}
	}
	return s, nil
}

// parseListen reads IP:PORT or :PORT.
func parseListen(text string) ([]netip.AddrPort, error) {
	if port, ok := strings.CutPrefix(text, ":"); ok {
		v4, err := netip.ParseAddrPort("0.0.0.0:" + port)
		if err == nil {
			return []netip.AddrPort{v4, netip.AddrPortFrom(netip.IPv6Unspecified(), v4.Port())}, nil
		}
	}
	a, err := netip.ParseAddrPort(text)
	if err != nil {
		return nil, fmt.Errorf("dns: cannot listen on %q: want an IP address and a port, for example %s or :53", text, DefaultListen)
	}
	return []netip.AddrPort{a}, nil
}

// readBuffer is what a UDP socket has for packets that nobody took yet: some
// thousand of them, as many as come while the garbage collector or other programs
// have the CPUs.
const readBuffer = 4 << 20

// open opens TCP first: its port is exclusive, while UDP sockets that share a
// port would let a second server in unnoticed.
func (s *Server) open(addrs []netip.AddrPort) error {
	for _, a := range addrs {
		tcp, err := net.ListenTCP(network("tcp", a), net.TCPAddrFromAddrPort(a))
		if errors.Is(err, syscall.EAFNOSUPPORT) && len(addrs) > 1 {
			continue // ":53" on a host without IPv6
		}
		if err != nil {
			return listenError(a, err)
		}
		s.tcp = append(s.tcp, tcp)
		at := netip.AddrPortFrom(a.Addr(), uint16(tcp.Addr().(*net.TCPAddr).Port))
		for range s.cfg.Sockets {
			udp, err := listenUDP(at, s.cfg.Sockets > 1)
			if err != nil {
				return listenError(at, err)
			}
			_ = udp.SetReadBuffer(readBuffer) // the kernel gives what net.core.rmem_max allows
			s.udp = append(s.udp, udp)
		}
	}
	return nil
}

func network(proto string, a netip.AddrPort) string {
	if a.Addr().Unmap().Is4() {
		return proto + "4"
	}
	return proto + "6"
}

// listenError says in one line what to do.
func listenError(a netip.AddrPort, err error) error {
	what := "check that this machine has the address"
	switch {
	case errors.Is(err, syscall.EADDRINUSE):
		what = "stop what listens there, or choose another address with --dns-address"
	case errors.Is(err, syscall.EACCES), errors.Is(err, syscall.EPERM):
		what = "ports below 1024 need the capability NET_BIND_SERVICE; or choose another address with --dns-address"
	}
	var sys *net.OpError
	if errors.As(err, &sys) {
		err = sys.Err
	}
	return fmt.Errorf("dns: cannot listen on %s: %w: %s", a, err, what)
}

// Addrs are the addresses that are served over UDP and TCP, with their real ports.
func (s *Server) Addrs() []netip.AddrPort {
	var out []netip.AddrPort
	for _, l := range s.tcp {
		out = append(out, l.Addr().(*net.TCPAddr).AddrPort())
	}
	return out
}

// Publish makes a snapshot the one that is served.
func (s *Server) Publish(snap *zone.Snapshot) {
	s.publish.Lock()
	defer s.publish.Unlock()
	s.published = snap
	s.swap()
}

// SetGeo makes a locator the one that is asked where the snapshot's places have
// no entry. Nil: none.
func (s *Server) SetGeo(l zone.Locator) {
	s.publish.Lock()
	defer s.publish.Unlock()
	s.geo = l
	s.swap()
}

func (s *Server) swap() {
	snap := s.published
	if snap != nil && s.geo != nil {
		snap = snap.WithGeo(s.geo)
	}
	s.current.Store(snap)
}

// SetStale says since when the inputs of the answers are stale; the zero time:
// they are fresh. It changes a metric, never an answer.
func (s *Server) SetStale(since time.Time) {
	if since.IsZero() {
		s.metrics.stale.Store(0)
		return
	}
	s.metrics.stale.Store(since.UnixNano())
}

// Metrics is what to register with Prometheus.
func (s *Server) Metrics() prometheus.Collector { return &s.metrics }

// Serve answers until the context ends, closes all sockets, and returns when no
// goroutine of the server is left.
func (s *Server) Serve(ctx context.Context) {
	defer context.AfterFunc(ctx, s.close)()
	defer s.close()
	s.cfg.Log.Info("dns: serving", "addresses", s.Addrs(), "udp_sockets", len(s.udp))
	var wg sync.WaitGroup
	for _, conn := range s.udp {
		wg.Go(func() { s.serveUDP(ctx, conn) })
	}
	for _, l := range s.tcp {
		wg.Go(func() { s.serveTCP(ctx, l) })
	}
	wg.Wait()
}

func (s *Server) close() {
	for _, c := range s.udp {
		c.Close()
	}
	for _, l := range s.tcp {
		l.Close()
	}
}

// pause waits after an error that may pass, and reports whether to go on.
func pause(ctx context.Context) bool {
	t := time.NewTimer(50 * time.Millisecond)
	defer t.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-t.C:
		return true
	}
}
