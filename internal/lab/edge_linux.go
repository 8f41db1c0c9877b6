package lab

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os/exec"
	"strconv"

	"golang.org/x/sync/errgroup"
	"golang.org/x/sys/unix"

	"github.com/spillway-dev/spillway/internal/files"
	"github.com/spillway-dev/spillway/internal/lab/forward"
	"github.com/spillway-dev/spillway/internal/lab/netns"
	"github.com/spillway-dev/spillway/internal/lab/proc"
	"github.com/spillway-dev/spillway/internal/xds/bootstrap"
)

// edge is one Envoy with its namespace and public ports.
type edge struct {
	spec    EdgeSpec
	addr    netip.Addr   // public, on the host's loopback and in every client place
	pool    []netip.Addr // the same, for Gateways and classes that have addresses of their own
	place   *place
	process *proc.Process
	public  []*forward.TCP // closed while Envoy does not run, as a dead machine's ports
}

// startEdges makes all places, then the edges: a place reaches every edge.
func (s *supervisor) startEdges(ctx context.Context) error {
	if err := s.step("places", s.startPlaces); err != nil {
		return err
	}
	var all errgroup.Group
	for i, e := range s.spec.Edges {
		all.Go(func() error { return s.step("edge "+e.Name, func() error { return s.startEdge(ctx, i) }) })
	}
	return all.Wait()
}

func (s *supervisor) startPlaces() error {
	var all errgroup.Group
	for i, e := range s.spec.Edges {
		for k, client := range []bool{false, true} {
			all.Go(func() error {
				p, err := s.startPlace(i+1, e, client)
				s.mu.Lock()
				defer s.mu.Unlock()
				s.places[2*i+k] = p
				return err
			})
		}
	}
	return diagnose(all.Wait())
}

func (s *supervisor) startEdge(ctx context.Context, i int) error {
	e := &edge{spec: s.spec.Edges[i], addr: s.spec.loopback(edgeNet, i+1), pool: s.spec.PoolOf(i), place: s.places[2*i]}
	s.mu.Lock()
	s.edges[i] = e
	s.mu.Unlock()
	xds := netip.AddrPortFrom(localhost, uint16(s.spec.XDSPort))
	if err := s.forwardFromPlace(e.place, xds, xds); err != nil {
		return err
	}
	if err := s.publish(e); err != nil {
		return err
	}
	conf := s.path("run", "edge-"+e.spec.Name+".json")
	if err := s.bootstrap(ctx, e, conf); err != nil {
		return err
	}
	var err error
	log := s.path("logs", "edge-"+e.spec.Name+".log")
	e.process, err = proc.Start(proc.Config{
		Name: "edge " + e.spec.Name, Space: e.place.space, Path: s.spec.Envoy, Log: s.log,
		Args:    []string{"-c", conf, "--disable-hot-restart", "--concurrency", "1", "--log-level", "warning"},
		LogFile: log,
		Changed: func(running bool) { s.edgeChanged(e, running) },
	})
	if err != nil {
		return err
	}
	return await(ctx, "edge "+e.spec.Name, e.place.answers, func() error { return diedAtStart(e.process, "edge "+e.spec.Name, log) })
}

// answers is nil once the admin interface of Envoy does.
func (p *place) answers(ctx context.Context) error {
	c, err := p.space.Dial(ctx, netip.Addr{}, netip.AddrPortFrom(localhost, adminPort))
	if err != nil {
		return err
	}
	return c.Close()
}

// bootstrap has our own binary write Envoy's configuration.
func (s *supervisor) bootstrap(ctx context.Context, e *edge, conf string) error {
	pki := PKI{Dir: s.path("pki")}
	var open unix.Rlimit // of Envoy, too
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &open); err != nil {
		return fmt.Errorf("limit of open files: %w", err)
	}
	cmd := exec.CommandContext(ctx, s.spec.Binary, "bootstrap", "envoy",
		"--max-connections", strconv.FormatUint(uint64(bootstrap.ConnectionsWithin(open.Max)), 10),
		"--edge", e.spec.Name, "--node-id", e.spec.Name+"-1",
		"--xds-address", netip.AddrPortFrom(localhost, uint16(s.spec.XDSPort)).String(),
		"--ca", pki.CA(), "--cert", pki.EdgeCert(e.spec.Name), "--key", pki.EdgeKey(e.spec.Name),
		"--admin-port", strconv.Itoa(adminPort)) // a namespace of its own: only the lab gets there
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("spillway bootstrap envoy for edge %s: %w: %s", e.spec.Name, err, bytes.TrimSpace(errs.Bytes()))
	}
	return files.Replace(conf, out.Bytes(), 0o600)
}

// publish makes the edge's ports reachable at its public address: on the host,
// through the edge's own loopback; in client places, over the fleet's network,
// so that Envoy sees the client's address. All are closed until Envoy runs.
func (s *supervisor) publish(e *edge) error {
	for _, port := range []int{e.spec.HTTPPort, e.spec.HTTPSPort, adminPort} {
		target := netip.AddrPortFrom(localhost, uint16(port))
		if err := s.publishIn(e, s.host, e.place.space, netip.AddrPortFrom(e.addr, uint16(port)), target); err != nil {
			return fmt.Errorf("edge %s: %w: is another lab running? Give this one --loopback, such as 127.1", e.spec.Name, err)
		}
	}
	for _, p := range s.places {
		if !p.client {
			continue
		}
		for _, d := range s.spec.doors(e.spec, true) {
			at, target := netip.AddrPortFrom(e.addr, d.at), netip.AddrPortFrom(e.place.addr, d.to)
			if err := s.publishIn(e, p.space, p.space, at, target); err != nil {
				return fmt.Errorf("edge %s in place %s: %w", e.spec.Name, p.name, err)
			}
		}
	}
	return s.publishPool(e)
}

// publishPool makes the addresses of the edge's pool reachable: on the host and in
// client places through the edge's own loopback, where Envoy listens on the same
// addresses. Envoy does not see who the client is.
func (s *supervisor) publishPool(e *edge) error {
	if err := s.publishPoolIn(e, s.host, false); err != nil {
		return err
	}
	for _, p := range s.places {
		if !p.client {
			continue
		}
		if err := s.publishPoolIn(e, p.space, true); err != nil {
			return err
		}
	}
	return nil
}

func (s *supervisor) publishPoolIn(e *edge, in *netns.Space, place bool) error {
	for _, a := range e.pool {
		for _, d := range s.spec.doors(e.spec, place) {
			if err := s.publishIn(e, in, e.place.space, netip.AddrPortFrom(a, d.at), netip.AddrPortFrom(a, d.to)); err != nil {
				return fmt.Errorf("edge %s: address %s: %w", e.spec.Name, a, err)
			}
		}
	}
	return nil
}

func (s *supervisor) publishIn(e *edge, in, from *netns.Space, at, target netip.AddrPort) error {
	f, err := forward.ListenTCP(
		func() (net.Listener, error) { return in.Listen(at) },
		func(ctx context.Context) (net.Conn, error) { return from.Dial(ctx, netip.Addr{}, target) })
	if err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	e.public = append(e.public, f)
	return f.Set(forward.Refuse)
}

// edgeChanged opens the public ports when Envoy starts and closes them when it
// has ended.
func (s *supervisor) edgeChanged(e *edge, running bool) {
	mode := forward.Refuse
	if running {
		mode = forward.Open
	}
	var errs []error
	for _, f := range e.public {
		errs = append(errs, f.Set(mode))
	}
	if err := errors.Join(errs...); err != nil && !errors.Is(err, net.ErrClosed) {
		s.log.Warn("public port not opened", "edge", e.spec.Name, "error", err)
	}
	go s.save()
}

func (e *edge) close() {
	if e.process != nil {
		e.process.Close()
	}
	for _, f := range e.public {
		f.Close()
	}
}
