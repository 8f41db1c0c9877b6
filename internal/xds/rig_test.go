package xds

import (
	"context"
	"net"
	"path/filepath"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/spillway-dev/spillway/internal/xds/bootstrap"
	"github.com/spillway-dev/spillway/internal/xds/envoytest"
)

// rig is a server on a unix socket that can be killed and started again.
type rig struct {
	t      testing.TB
	cfg    Config
	socket string
	server *Server
	stop   func()
}

func newRig(t testing.TB, cfg Config) *rig {
	t.Helper()
	if cfg.Store == nil {
		cfg.Store = NewStore()
	}
	if cfg.ViewOf == nil {
		cfg.ViewOf = func(edge string) (string, bool) { return edge, true }
	}
	if cfg.Reports == nil {
		cfg.Reports = &Reports{}
	}
	r := &rig{t: t, cfg: cfg, socket: filepath.Join(t.TempDir(), "xds.sock")}
	r.start()
	t.Cleanup(func() { r.kill() })
	return r
}

func (r *rig) start() {
	r.t.Helper()
	e, err := ListenUnix(r.socket)
	if err != nil {
		r.t.Fatal(err)
	}
	r.server, r.stop = serve(r.t, r.cfg, e)
}

func (r *rig) kill() {
	r.stop()
	r.stop = func() {}
}

// serve runs a new server on e until stop is called.
func serve(t testing.TB, cfg Config, e *Endpoint) (*Server, func()) {
	t.Helper()
	s := NewServer(cfg)
	return s, run(t, s, e)
}

// run has a server answer on e until stop is called.
func run(t testing.TB, s *Server, e *Endpoint) (stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	var wg sync.WaitGroup
	wg.Go(func() {
		if err := s.Serve(ctx, e); err != nil {
			t.Error(err)
		}
	})
	return func() {
		cancel()
		wg.Wait()
		if err := e.Close(); err != nil {
			t.Error(err)
		}
	}
}

// bell is rung when a member is woken.
type bell chan struct{}

func newMember(s *Session) (*member, bell) {
	b := make(bell, 1)
	return &member{session: s, wake: func() {
		select {
		case b <- struct{}{}:
		default:
		}
	}}, b
}

// rang tells whether the bell was rung since it was last asked.
func (b bell) rang() bool {
	select {
	case <-b:
		return true
	default:
		return false
	}
}

// say has a member take a request as its stream does.
func (m *member) say(now time.Time, f face, r Request) (err error) {
	f.Put(r)
	for more := true; more && err == nil; {
		m.step(func(*Session) { more, err = m.take(now, f) })
	}
	return err
}

// envoy starts a real Envoy of an edge against the rig.
func (r *rig) envoy(edge, node string) *envoytest.Process {
	r.t.Helper()
	admin := envoytest.Loopback(r.t)
	conf, err := bootstrap.Render(bootstrap.Options{
		Edge: edge, NodeID: node, XDSSocket: r.socket, AdminAddress: admin, Health: r.cfg.Canaries != nil,
	})
	if err != nil {
		r.t.Fatal(err)
	}
	return envoytest.Start(r.t, conf, admin)
}

// target is an endpoint that accepts connections, refuses them, or drops them
// silently as a cut network does.
type target struct {
	t    testing.TB
	addr *net.TCPAddr
	l    *net.TCPListener
	fill []int
}

func newTarget(t testing.TB) *target {
	t.Helper()
	x := &target{t: t, addr: &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1)}}
	x.accept()
	t.Cleanup(x.refuse)
	return x
}

// accept opens every connection, and closes it when the client does.
func (x *target) accept() {
	x.refuse()
	l, err := net.ListenTCP("tcp", x.addr)
	if err != nil {
		x.t.Fatal(err)
	}
	x.l, x.addr = l, l.Addr().(*net.TCPAddr)
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go func() {
				_, _ = c.Read(make([]byte, 1))
				_ = c.Close()
			}()
		}
	}()
}

// refuse closes the port.
func (x *target) refuse() {
	if x.l != nil {
		_ = x.l.Close()
		x.l = nil
	}
	for _, fd := range x.fill {
		_ = syscall.Close(fd)
	}
	x.fill = nil
}

// drop leaves the port open with a full queue: the kernel drops each SYN.
func (x *target) drop() {
	x.refuse()
	fd, err := syscall.Socket(syscall.AF_INET, syscall.SOCK_STREAM, 0)
	if err != nil {
		x.t.Fatal(err)
	}
	x.fill = append(x.fill, fd)
	sa := &syscall.SockaddrInet4{Port: x.addr.Port, Addr: [4]byte{127, 0, 0, 1}}
	for _, err := range []error{
		syscall.SetsockoptInt(fd, syscall.SOL_SOCKET, syscall.SO_REUSEADDR, 1), syscall.Bind(fd, sa), syscall.Listen(fd, 0),
	} {
		if err != nil {
			x.t.Fatal(err)
		}
	}
	for range 2 {
		c, err := syscall.Socket(syscall.AF_INET, syscall.SOCK_STREAM|syscall.SOCK_NONBLOCK, 0)
		if err != nil {
			x.t.Fatal(err)
		}
		x.fill = append(x.fill, c)
		_ = syscall.Connect(c, sa)
	}
}
