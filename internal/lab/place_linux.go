package lab

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"

	"github.com/spillway-dev/spillway/internal/files"
	"github.com/spillway-dev/spillway/internal/lab/forward"
	"github.com/spillway-dev/spillway/internal/lab/netns"
)

const dnsPort = 53 // inside a place, for its resolver

// place is a network namespace with what it needs of the host forwarded into it.
type place struct {
	name   string
	edge   string
	client bool
	space  *netns.Space
	addr   netip.Addr // in the fleet's network
	source netip.Addr // what the host sees
	tcp    []*forward.TCP
	udp    []*forward.UDP
}

// placeAddr is the address of a place in the fleet's network: the edge's own
// namespace is first, its clients' second.
func placeAddr(edge int, client bool) []netip.Addr {
	last := byte(1)
	if client {
		last = 2
	}
	return []netip.Addr{
		netip.AddrFrom4([4]byte{10, 250, byte(edge), last}),
		netip.AddrFrom16([16]byte{0xfd, 0x10, 0, 250, 0, byte(edge), 15: last}),
	}
}

// startPlace makes the namespace of edge i (from 1) or of its clients.
func (s *supervisor) startPlace(i int, e EdgeSpec, client bool) (*place, error) {
	p := &place{name: e.Name, edge: e.Name, client: client, source: s.spec.loopback(sourceNet, 2*i-1)}
	if client {
		p.name, p.source = e.Place, s.spec.loopback(sourceNet, 2*i)
	}
	addrs := placeAddr(i, client)
	p.addr = addrs[0]
	var err error
	if p.space, err = netns.New(p.name); err != nil {
		return nil, err
	}
	if err := s.furnish(p, addrs); err != nil {
		p.close()
		return nil, err
	}
	return p, nil
}

// furnish attaches a place and gives it our DNS server.
func (s *supervisor) furnish(p *place, addrs []netip.Addr) error {
	if err := s.router.Attach(p.space, addrs...); err != nil {
		return err
	}
	if err := p.space.Do(func() error { return useResolver(s.path("run/resolv-" + p.name + ".conf")) }); err != nil {
		return fmt.Errorf("resolver of %s: %w", p.name, err)
	}
	target := netip.AddrPortFrom(localhost, uint16(s.spec.DNSPort))
	for _, port := range []uint16{dnsPort, uint16(s.spec.DNSPort)} {
		at := netip.AddrPortFrom(localhost, port)
		if err := s.forwardFromPlace(p, at, target); err != nil {
			return err
		}
		in, err := p.space.ListenPacket(at)
		if err != nil {
			return fmt.Errorf("place %s: %w", p.name, err)
		}
		p.udp = append(p.udp, forward.ServeUDP(in, func() (net.Conn, error) { return s.host.DialUDP(p.source, target) }))
		if int(port) == s.spec.DNSPort {
			break // when it is 53
		}
	}
	return nil
}

// forwardFromPlace forwards a port inside a place to one on the host.
func (s *supervisor) forwardFromPlace(p *place, at, target netip.AddrPort) error {
	f, err := forward.ListenTCP(
		func() (net.Listener, error) { return p.space.Listen(at) },
		func(ctx context.Context) (net.Conn, error) { return s.host.Dial(ctx, p.source, target) })
	if err != nil {
		return fmt.Errorf("place %s: %w", p.name, err)
	}
	p.tcp = append(p.tcp, f)
	return nil
}

// hubInPlaces has all places reach the hub's API, at its address of the host.
func (s *supervisor) hubInPlaces() error {
	at := s.hub.front.Addr().(*net.TCPAddr).AddrPort()
	for _, p := range s.places {
		if err := s.forwardFromPlace(p, at, at); err != nil {
			return err
		}
	}
	return nil
}

// useResolver makes the calling thread's mount namespace ask the place's own
// loopback for names, by a file that it writes and that is the place's alone: one
// that is replaced meanwhile can't be mounted. It is skipped where the machine has
// no /etc/resolv.conf.
func useResolver(conf string) error {
	target, err := filepath.EvalSymlinks("/etc/resolv.conf")
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	if err := files.Replace(conf, []byte("nameserver 127.0.0.1\noptions timeout:1 attempts:2\n"), 0o644); err != nil {
		return err
	}
	return unix.Mount(conf, target, "", unix.MS_BIND, "")
}

func (p *place) close() {
	for _, f := range p.tcp {
		f.Close()
	}
	for _, f := range p.udp {
		f.Close()
	}
	if p.space != nil {
		p.space.Close()
	}
}
