package xds

import (
	"context"
	"path/filepath"
	"sync"
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
	if cfg.ClientFace == nil {
		cfg.ClientFace = NewWorld
	}
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
func (m *member) say(now time.Time, f Face, r Request) (err error) {
	f.Put(r)
	for more := true; more && err == nil; {
		m.step(func(*Session) { more, err = f.Take(now, namesAtOnce) })
	}
	return err
}

// envoy starts a real Envoy of an edge against the rig.
func (r *rig) envoy(edge, node string) *envoytest.Process {
	r.t.Helper()
	admin := envoytest.Loopback(r.t)
	conf, err := bootstrap.Render(bootstrap.Options{
		Edge: edge, NodeID: node, XDSSocket: r.socket, AdminAddress: admin, Health: len(r.cfg.Services) > 0,
	})
	if err != nil {
		r.t.Fatal(err)
	}
	return envoytest.Start(r.t, conf, admin)
}
