package lab

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/spillway-dev/spillway/internal/lab/forward"
	"github.com/spillway-dev/spillway/internal/lab/proc"
)

var localhost = netip.AddrFrom4([4]byte{127, 0, 0, 1})

// api is one API server and the forwarder in front of it.
type api struct {
	name       string
	direct     string // kubeconfig that goes past the forwarder, for the lab itself
	kubeconfig string // the users'
	server     string
	port       uint16 // its own, on the host's loopback: past the forwarder
	process    *proc.Process

	mu      sync.Mutex
	running bool
	cut     forward.Mode
	front   *forward.TCP // nil until the first start is over
}

// setCut cuts or heals the way to the API server.
func (a *api) setCut(mode forward.Mode) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.cut = mode
	return a.apply()
}

// changed closes the port of a dead server, as it would be without us.
func (a *api) changed(running bool) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.running = running
	return a.apply()
}

func (a *api) apply() error {
	switch {
	case a.front == nil:
		return nil
	case !a.running:
		return a.front.Set(forward.Refuse)
	}
	return a.front.Set(a.cut)
}

// publish puts the forwarder in front of the server and makes the users'
// kubeconfig.
func (a *api) publish(front *forward.TCP) error {
	a.server = "https://" + front.Addr().String()
	a.mu.Lock()
	a.front = front
	err := a.apply()
	a.mu.Unlock()
	if err != nil {
		return err
	}
	return redirectKubeconfig(a.direct, a.kubeconfig, a.server)
}

// startAPI starts an API server and returns when it is ready.
func (s *supervisor) startAPI(ctx context.Context, name, kubeconfig string, flags ...string) (*api, error) {
	port, err := s.freePort()
	if err != nil {
		return nil, err
	}
	a := &api{name: name, direct: s.path("data", name+".kubeconfig"), kubeconfig: kubeconfig, port: uint16(port)}
	// A lab does not outlive its machine, so its databases wait for no disk.
	args := append([]string{"hub", "--unsafe-no-fsync", "--name", name, "--data-dir", s.path("data", name), "--port", strconv.Itoa(port), "--kubeconfig", a.direct}, flags...)
	log := s.path("logs", name+".log")
	a.process, err = proc.Start(proc.Config{
		Name: name, Space: s.host, Path: s.spec.Binary, Args: args, LogFile: log, Log: s.log,
		Changed: func(running bool) {
			if err := a.changed(running); err != nil && !errors.Is(err, net.ErrClosed) {
				s.log.Warn("API port not opened", "api", name, "error", err)
			}
			go s.save()
		},
	})
	if err != nil {
		return nil, err
	}
	if err := awaitAPI(ctx, a.direct, func() error { return diedAtStart(a.process, name, log) }); err != nil {
		a.process.Close()
		return nil, err
	}
	target := netip.AddrPortFrom(localhost, uint16(port))
	front, err := s.forwardFree(target)
	if err == nil {
		err = a.publish(front)
	}
	if err != nil {
		a.close()
		return nil, err
	}
	return a, nil
}

// diedAtStart is an error once a process has ended by itself.
func diedAtStart(p *proc.Process, name, log string) error {
	if st := p.State(); st.Restarts > 0 || !st.Running {
		return fmt.Errorf("%s ended at start (%s): %s: see %s", name, st.LastExit, lastLine(log), log)
	}
	return nil
}

func lastLine(path string) string {
	b, err := os.ReadFile(path)
	if err != nil {
		return "no log"
	}
	lines := strings.Split(strings.TrimSpace(string(b)), "\n")
	return lines[len(lines)-1]
}

func (a *api) close() {
	a.process.Close()
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.front != nil {
		a.front.Close()
	}
}

// freePort finds a port on the host's loopback, and gives it to nothing else of the lab.
func (s *supervisor) freePort() (int, error) {
	return s.ports.free(func(at netip.AddrPort) (net.Listener, error) { return s.host.Listen(at) })
}

// forwardFree forwards a free port of the host's loopback to another.
func (s *supervisor) forwardFree(target netip.AddrPort) (*forward.TCP, error) {
	port, err := s.freePort()
	if err != nil {
		return nil, err
	}
	at := netip.AddrPortFrom(localhost, uint16(port))
	return forward.ListenTCP(
		func() (net.Listener, error) { return s.host.Listen(at) },
		func(ctx context.Context) (net.Conn, error) { return s.host.Dial(ctx, netip.Addr{}, target) })
}

func (s *supervisor) startHub(ctx context.Context) error {
	args := s.spec.HubArgs
	if slices.ContainsFunc(s.spec.Members, func(m MemberSpec) bool { return m.OnHub }) {
		args = append([]string{"--workloads"}, args...)
	}
	a, err := s.startAPI(ctx, "hub", hubKubeconfig(s.spec.Dir), args...)
	if err != nil {
		return err
	}
	if err := redirectKubeconfig(s.path("data", "hub", "serve.kubeconfig"), serveKubeconfig(s.spec.Dir), a.server); err != nil {
		a.close()
		return err
	}
	s.mu.Lock()
	s.hub = a
	s.mu.Unlock()
	close(s.hubUp)
	return nil
}
