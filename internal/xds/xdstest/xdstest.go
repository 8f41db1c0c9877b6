// Package xdstest runs a server of package xds in tests of what stands around
// it. It is imported by tests only.
package xdstest

import (
	"context"
	"path/filepath"
	"sync"
	"testing"

	"github.com/spillway-dev/spillway/internal/xds"
	"github.com/spillway-dev/spillway/internal/xds/bootstrap"
	"github.com/spillway-dev/spillway/internal/xds/envoytest"
)

// Rig is a server on a unix socket that can be killed and started again.
type Rig struct {
	Config xds.Config
	Socket string
	Server *xds.Server

	t    testing.TB
	stop func()
}

// New starts a server, until the test ends. Without a Store it has an empty one,
// and without ViewOf each edge has the view of its name.
func New(t testing.TB, cfg xds.Config) *Rig {
	t.Helper()
	if cfg.Store == nil {
		cfg.Store = xds.NewStore()
	}
	if cfg.ViewOf == nil {
		cfg.ViewOf = func(edge string) (string, bool) { return edge, true }
	}
	r := &Rig{Config: cfg, Socket: filepath.Join(t.TempDir(), "xds.sock"), t: t}
	r.Start()
	t.Cleanup(func() { r.Kill() })
	return r
}

// Start runs a new server.
func (r *Rig) Start() {
	r.t.Helper()
	e, err := xds.ListenUnix(r.Socket)
	if err != nil {
		r.t.Fatal(err)
	}
	r.Server = xds.NewServer(r.Config)
	ctx, cancel := context.WithCancel(context.Background())
	var wg sync.WaitGroup
	wg.Go(func() {
		if err := r.Server.Serve(ctx, e); err != nil {
			r.t.Error(err)
		}
	})
	r.stop = func() {
		cancel()
		wg.Wait()
		if err := e.Close(); err != nil {
			r.t.Error(err)
		}
	}
}

// Kill ends the server.
func (r *Rig) Kill() {
	r.stop()
	r.stop = func() {}
}

// Envoy starts a real Envoy of an edge against the server, with health discovery.
func (r *Rig) Envoy(edge, node string) *envoytest.Process {
	r.t.Helper()
	admin := envoytest.Loopback(r.t)
	conf, err := bootstrap.Render(bootstrap.Options{Edge: edge, NodeID: node, XDSSocket: r.Socket, AdminAddress: admin, Health: true})
	if err != nil {
		r.t.Fatal(err)
	}
	return envoytest.Start(r.t, conf, admin)
}
