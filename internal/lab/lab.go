package lab

import (
	"context"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"syscall"
	"time"

	"github.com/spillway-dev/spillway/internal/lab/user"
)

const closePatience = 10 * time.Second

// Lab is a running lab. Make it with Start, or find one with Open.
type Lab struct {
	spec Spec
	proc *supervisorProcess // nil when somebody else started it
	once sync.Once
	err  error
}

// Start runs a lab and returns when all of it is up: API servers ready, nodes
// registered, Envoys started, the hub's objects applied. progress, which may
// be nil, is called from one goroutine for every step that begins or ends. The
// lab ends with Close, and when this process ends.
func Start(ctx context.Context, spec Spec, progress func(Step)) (*Lab, error) {
	spec, err := spec.complete()
	if err != nil {
		return nil, err
	}
	if progress == nil {
		progress = func(Step) {}
	}
	p, err := startSupervisor(spec)
	if err != nil {
		return nil, err
	}
	l := &Lab{spec: spec, proc: p}
	stop := context.AfterFunc(ctx, p.end)
	defer stop()
	if err := p.await(progress); err != nil {
		if ctx.Err() != nil {
			err = ctx.Err()
		}
		return nil, errors.Join(err, l.Close())
	}
	return l, nil
}

// Open finds the lab that runs in dir.
func Open(ctx context.Context, dir string) (*Lab, error) {
	if dir == "" {
		dir = defaultDir
	}
	dir, err := filepath.Abs(dir)
	if err != nil {
		return nil, err
	}
	l := &Lab{spec: Spec{Dir: dir}}
	st, err := l.Status(ctx)
	if err != nil {
		return nil, err
	}
	l.spec.XDSPort, l.spec.DNSPort = st.XDSPort, st.DNSPort
	for _, e := range st.Edges {
		l.spec.Edges = append(l.spec.Edges, EdgeSpec{Name: e.Name, Place: e.Place, HTTPPort: e.HTTPPort, HTTPSPort: e.HTTPSPort})
		l.isAt(e.Address)
	}
	for _, m := range st.Members {
		l.spec.Members = append(l.spec.Members, MemberSpec{Name: m.Name, Region: m.Region, Zones: m.Zones, Contour: m.Ingress != ""})
		l.isAt(m.Ingress)
	}
	return l, nil
}

// isAt learns the lab's part of the loopback from an address in it.
func (l *Lab) isAt(address string) {
	if a, err := netip.ParseAddr(address); err == nil {
		b := a.As4()
		l.spec.Loopback = fmt.Sprintf("%d.%d", b[0], b[1])
	}
}

// Dir is the lab's folder, absolute.
func (l *Lab) Dir() string { return l.spec.Dir }

// HubKubeconfig is the path of the administrator's kubeconfig for the hub.
func (l *Lab) HubKubeconfig() string { return hubKubeconfig(l.spec.Dir) }

// MemberKubeconfig is the path of the administrator's kubeconfig for a member.
// Its server is behind the forwarder that `cut MEMBER api` cuts.
func (l *Lab) MemberKubeconfig(name string) string { return memberKubeconfig(l.spec.Dir, name) }

func hubKubeconfig(dir string) string { return filepath.Join(dir, "hub.kubeconfig") }

// serveKubeconfig is of `spillway serve`, with no more rights than it needs.
func serveKubeconfig(dir string) string { return filepath.Join(dir, "serve.kubeconfig") }

func memberKubeconfig(dir, name string) string {
	return filepath.Join(dir, "members", name+".kubeconfig")
}

// EdgeAddress is an edge's public address; invalid for an unknown edge.
func (l *Lab) EdgeAddress(edge string) netip.Addr {
	for i, e := range l.spec.Edges {
		if e.Name == edge {
			return l.spec.loopback(edgeNet, i+1)
		}
	}
	return netip.Addr{}
}

// EdgePorts are an edge's HTTP and HTTPS ports; zero for an unknown edge.
func (l *Lab) EdgePorts(edge string) (http, https int) {
	for _, e := range l.spec.Edges {
		if e.Name == edge {
			return e.HTTPPort, e.HTTPSPort
		}
	}
	return 0, 0
}

// Edge is an edge as clients on this host reach it, that trust roots. Close it.
func (l *Lab) Edge(name string, roots *x509.CertPool) *user.Edge {
	http, https := l.EdgePorts(name)
	return user.NewEdge(name, l.EdgeAddress(name), http, https, roots)
}

// IngressAddress is where clients reach the ingress controller of a member; invalid for
// one that has none.
func (l *Lab) IngressAddress(member string) netip.Addr { return l.spec.IngressAddress(member) }

// Ingress is the ingress controller of a member, as clients on this host reach it, that
// trust roots. Close it.
func (l *Lab) Ingress(member string, roots *x509.CertPool) *user.Edge {
	return user.NewEdge(member, l.spec.IngressAddress(member), defaultHTTP, defaultHTTPS, roots)
}

// AdminAddress is HOST:PORT of an edge's Envoy admin listener, on the host.
func (l *Lab) AdminAddress(edge string) string {
	return adminAddress(l.EdgeAddress(edge))
}

// DNSAddress is HOST:PORT of the DNS server of the control plane, on the host.
func (l *Lab) DNSAddress() string { return onLocalhost(l.spec.DNSPort) }

// Cut cuts a part of a member; with the name "hub", its API.
func (l *Lab) Cut(ctx context.Context, member string, what Part, mode Mode) error {
	_, err := l.ask(ctx, request{Op: "cut", Name: member, Part: what, Mode: mode})
	return err
}

// Heal undoes every fault of a member, an edge or the hub; "all" heals all.
// It does not wait until what was killed is ready again.
func (l *Lab) Heal(ctx context.Context, name string) error {
	_, err := l.ask(ctx, request{Op: "heal", Name: name})
	return err
}

// KillEdge kills an edge's Envoy, which stays dead until Heal.
func (l *Lab) KillEdge(ctx context.Context, name string) error {
	_, err := l.ask(ctx, request{Op: "kill-edge", Name: name})
	return err
}

// KillMember kills a member's API server, which stays dead until Heal. The
// member's pods go on.
func (l *Lab) KillMember(ctx context.Context, name string) error {
	_, err := l.ask(ctx, request{Op: "kill-member", Name: name})
	return err
}

// Pause has the API server of a member stand still (SIGSTOP), or with the name "hub"
// that of the hub, until Heal: connections are taken, and nothing is answered.
func (l *Lab) Pause(ctx context.Context, name string) error {
	_, err := l.ask(ctx, request{Op: "pause", Name: name})
	return err
}

// KillHub kills the hub's process, which stays dead until StartHub or Heal.
func (l *Lab) KillHub(ctx context.Context) error {
	_, err := l.ask(ctx, request{Op: "kill-hub"})
	return err
}

// StartHub starts a killed hub on its data and waits until it is ready.
func (l *Lab) StartHub(ctx context.Context) error {
	if err := l.Heal(ctx, "hub"); err != nil {
		return err
	}
	return awaitAPI(ctx, l.HubKubeconfig(), func() error { return nil })
}

// Status returns what the lab consists of and how it does.
func (l *Lab) Status(ctx context.Context) (Status, error) {
	resp, err := l.ask(ctx, request{Op: "status"})
	if err != nil {
		return Status{}, err
	}
	return *resp.Status, nil
}

// ask asks over the control socket; when ctx ends it stops waiting.
func (l *Lab) ask(ctx context.Context, r request) (response, error) {
	c, err := dialControl(l.spec.Dir)
	if err != nil {
		return response{}, err
	}
	defer c.Close()
	stop := context.AfterFunc(ctx, func() { c.Close() })
	defer stop()
	resp, err := ask(c, r)
	if ctx.Err() != nil {
		return response{}, ctx.Err()
	}
	return resp, err
}

// Exec runs a command in a place, with the caller's environment and working
// directory, and returns its exit code. The streams may be nil; those that are
// files are handed over as they are. When ctx ends the command is killed.
func (l *Lab) Exec(ctx context.Context, place string, stdin io.Reader, stdout, stderr io.Writer, argv ...string) (int, error) {
	return l.exec(ctx, place, stdin, stdout, stderr, nil, argv)
}

// notRun is why a command can't be run.
type notRun struct{ error }

func (n notRun) Unwrap() error { return n.error }

// ExitCode is that of a shell: POSIX, 2.8.2.
func (n notRun) ExitCode() int {
	if errors.Is(n, fs.ErrPermission) {
		return 126
	}
	return 127
}

func (l *Lab) exec(ctx context.Context, place string, stdin io.Reader, stdout, stderr io.Writer, signals <-chan os.Signal, argv []string) (int, error) {
	if len(argv) == 0 {
		return 0, errors.New("nothing to run")
	}
	path, err := exec.LookPath(argv[0])
	if err != nil {
		return 0, notRun{err}
	}
	if path, err = filepath.Abs(path); err != nil {
		return 0, err
	}
	dir, err := os.Getwd()
	if err != nil {
		return 0, err
	}
	c, err := dialControl(l.spec.Dir)
	if err != nil {
		return 0, err
	}
	defer c.Close()
	streams, err := openStreams(stdin, stdout, stderr)
	if err != nil {
		return 0, err
	}
	defer streams.close()
	r := request{Op: "exec", Name: place, Argv: append([]string{path}, argv[1:]...), Env: os.Environ(), Dir: dir}
	if err := sendFiles(c, r, streams.files[:]); err != nil {
		return 0, err
	}
	streams.handOver()
	stop := context.AfterFunc(ctx, func() { c.Close() })
	defer stop()
	done := make(chan struct{})
	defer close(done)
	go forwardSignals(c, signals, done)
	resp, err := answer(json.NewDecoder(c))
	if ctx.Err() != nil {
		return 0, ctx.Err()
	}
	streams.drain()
	return resp.Exit, err
}

func forwardSignals(w io.Writer, signals <-chan os.Signal, done <-chan struct{}) {
	out := json.NewEncoder(w)
	for {
		select {
		case s := <-signals:
			if n, ok := s.(syscall.Signal); ok {
				_ = out.Encode(signalMessage{Signal: int(n)})
			}
		case <-done:
			return
		}
	}
}

// Watch tells if the lab ends by itself before ctx does.
func (l *Lab) Watch(ctx context.Context, tell func(error)) {
	go func() {
		select {
		case <-l.Done():
			tell(errors.New("the lab ended by itself"))
		case <-ctx.Done():
		}
	}()
}

// Done is closed when a lab that this process started has ended. It is nil,
// which blocks for ever, for one found with Open.
func (l *Lab) Done() <-chan struct{} {
	if l.proc == nil {
		return nil
	}
	return l.proc.done()
}

// Close ends the lab and returns when nothing of it runs any more.
func (l *Lab) Close() error {
	l.once.Do(func() {
		if l.proc != nil {
			l.err = l.proc.close()
			return
		}
		l.err = l.down()
	})
	return l.err
}

// down ends a lab that another process started.
func (l *Lab) down() error {
	ctx, cancel := context.WithTimeout(context.Background(), closePatience)
	defer cancel()
	c, err := dialControl(l.spec.Dir)
	if err != nil {
		return err
	}
	defer c.Close()
	stop := context.AfterFunc(ctx, func() { c.Close() })
	defer stop()
	if _, err := ask(c, request{Op: "down"}); err != nil {
		return err
	}
	_, _ = io.Copy(io.Discard, c) // until its end closes the socket
	if ctx.Err() != nil {
		return fmt.Errorf("the lab in %s has not ended after %s", l.spec.Dir, closePatience)
	}
	return nil
}
