package sandbox

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/spillway-dev/spillway/internal/lab/kubelet"
	"github.com/spillway-dev/spillway/internal/lab/netns"
)

// Runtime makes pods. Root is an empty folder that every container mounts its
// own root on; nothing of it is seen outside.
type Runtime struct {
	Router *netns.Router
	Root   string
}

// Sandbox makes a pod's namespaces and attaches them.
func (r *Runtime) Sandbox(hostname string, addrs []netip.Addr) (kubelet.Sandbox, error) {
	s, err := netns.New(hostname)
	if err != nil {
		return nil, err
	}
	if err := r.Router.Attach(s, addrs...); err != nil {
		s.Close()
		return nil, err
	}
	return &pod{space: s, root: r.Root, hostname: hostname, running: map[*process]bool{}}, nil
}

// pod is one sandbox.
type pod struct {
	space    *netns.Space
	root     string
	hostname string

	mu      sync.Mutex
	closed  bool
	running map[*process]bool
}

func (p *pod) Dial(ctx context.Context, to netip.AddrPort) (net.Conn, error) {
	return p.space.Dial(ctx, netip.Addr{}, to)
}

// Close kills what runs and waits for its end.
func (p *pod) Close() {
	p.mu.Lock()
	p.closed = true
	var all []*process
	for r := range p.running {
		all = append(all, r)
	}
	p.mu.Unlock()
	for _, r := range all {
		r.Kill()
	}
	for _, r := range all {
		<-r.done
	}
	p.space.Close()
}

// Start runs a program in a Space of its own beside the pod's.
func (p *pod) Start(prog kubelet.Program) (kubelet.Running, error) {
	space, err := p.space.Sibling(p.hostname)
	if err != nil {
		return nil, err
	}
	cmd, err := p.command(space, prog)
	if err != nil {
		space.Close()
		return nil, err
	}
	r := &process{cmd: cmd, space: space, done: make(chan struct{})}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		space.Close()
		return nil, errors.New("the pod has ended")
	}
	if err := r.start(prog.Log); err != nil {
		space.Close()
		return nil, fmt.Errorf("start %s: %w", prog.Argv[0], err)
	}
	p.running[r] = true
	go func() {
		r.wait()
		p.mu.Lock()
		delete(p.running, r)
		p.mu.Unlock()
	}()
	return r, nil
}

// command prepares the root and describes the process.
func (p *pod) command(space *netns.Space, prog kubelet.Program) (*exec.Cmd, error) {
	path, err := lookPath(prog.Argv[0], prog.Env)
	if err != nil {
		return nil, err
	}
	if err := space.Do(func() error { return buildRoot(p.root, prog.Mounts) }); err != nil {
		return nil, fmt.Errorf("root folder: %w", err)
	}
	dir := prog.Dir
	if dir == "" {
		dir = "/"
	}
	return &exec.Cmd{
		Path: path, Args: prog.Argv, Env: prog.Env, Dir: dir,
		SysProcAttr: &syscall.SysProcAttr{Chroot: p.root, Cloneflags: unix.CLONE_NEWPID, Pdeathsig: syscall.SIGKILL, Setsid: true},
	}, nil
}

// lookPath finds a program in the container's PATH; the root has the same
// files as the machine.
func lookPath(name string, env []string) (string, error) {
	if strings.Contains(name, "/") {
		return name, nil
	}
	for _, e := range env {
		path, ok := strings.CutPrefix(e, "PATH=")
		if !ok {
			continue
		}
		for _, dir := range filepath.SplitList(path) {
			full := filepath.Join(dir, name)
			if st, err := os.Stat(full); err == nil && st.Mode().IsRegular() && st.Mode()&0o111 != 0 {
				return full, nil
			}
		}
	}
	return "", fmt.Errorf("program %s: %w", name, exec.ErrNotFound)
}

// process is one running program.
type process struct {
	cmd   *exec.Cmd
	space *netns.Space
	done  chan struct{}
	exit  kubelet.Exit
}

func (r *process) start(logFile string) error {
	if logFile != "" {
		log, err := os.OpenFile(logFile, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
		if err != nil {
			return err
		}
		defer log.Close()
		r.cmd.Stdout, r.cmd.Stderr = log, log
	}
	return r.space.Start(r.cmd)
}

func (r *process) wait() {
	_ = r.cmd.Wait()
	r.exit = exitOf(r.cmd.ProcessState)
	r.space.Close()
	close(r.done)
}

func exitOf(st *os.ProcessState) kubelet.Exit {
	if ws, ok := st.Sys().(syscall.WaitStatus); ok && ws.Signaled() {
		return kubelet.Exit{Code: 128 + int(ws.Signal()), Signal: int(ws.Signal())}
	}
	return kubelet.Exit{Code: st.ExitCode()}
}

func (r *process) Done() <-chan struct{} { return r.done }
func (r *process) Exit() kubelet.Exit    { return r.exit }
func (r *process) Terminate()            { _ = r.cmd.Process.Signal(syscall.SIGTERM) }
func (r *process) Kill()                 { _ = r.cmd.Process.Kill() }
