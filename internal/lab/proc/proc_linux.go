package proc

import (
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"sync"
	"syscall"
	"time"

	"github.com/spillway-dev/spillway/internal/lab/netns"
)

const (
	firstBackoff = 200 * time.Millisecond
	maxBackoff   = 5 * time.Second
	soundAfter   = 10 * time.Second // a run of this length resets the back-off
)

// Config says what to run. Path must be absolute.
type Config struct {
	Name    string
	Space   *netns.Space // where
	Path    string
	Args    []string // without the program's name
	Env     []string // nil: the lab's own
	LogFile string   // takes stdout and stderr; appended to
	Log     *slog.Logger
	Changed func(running bool) // after every start and end, from one goroutine
}

// State is what a Process does now.
type State struct {
	Running  bool
	Paused   bool // it stands still
	PID      int  // in the host's process namespace, 0 unless running
	Restarts int  // starts after the first that nobody asked for
	LastExit string
}

// wish asks for a running or a dead program; done is closed once it is so, or
// once a start has failed and will be tried again.
type wish struct {
	running bool
	done    chan struct{}
}

// Process is one program. Make it with Start.
type Process struct {
	cfg  Config
	want chan wish
	quit chan struct{}
	gone chan struct{}
	once sync.Once

	mu    sync.Mutex
	state State
	cmd   *exec.Cmd
}

// Start starts the program; it is an error when the first start fails.
func Start(cfg Config) (*Process, error) {
	p := &Process{cfg: cfg, want: make(chan wish), quit: make(chan struct{}), gone: make(chan struct{})}
	ended, err := p.start()
	if err != nil {
		return nil, err
	}
	go p.run(ended)
	return p, nil
}

// State returns what the process does now.
func (p *Process) State() State {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.state
}

// Kill ends the program with SIGKILL; it stays dead until Resume.
func (p *Process) Kill() { p.set(false) }

// Pause has the program stand still (SIGSTOP) until Resume.
func (p *Process) Pause() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.state.Running {
		return fmt.Errorf("%s does not run", p.cfg.Name)
	}
	p.state.Paused = true
	return p.cmd.Process.Signal(syscall.SIGSTOP)
}

// proceed has a program that stands still go on.
func (p *Process) proceed() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.state.Paused {
		p.state.Paused = false
		_ = p.cmd.Process.Signal(syscall.SIGCONT) // it may have ended meanwhile
	}
}

// Resume starts a killed program again, and has one that stands still go on.
func (p *Process) Resume() { p.set(true) }

func (p *Process) set(running bool) {
	w := wish{running: running, done: make(chan struct{})}
	select {
	case p.want <- w:
		<-w.done
	case <-p.gone:
	}
}

// Close ends the program for good and waits until it is gone.
func (p *Process) Close() {
	p.once.Do(func() { close(p.quit) })
	<-p.gone
}

// run is the only goroutine that starts and ends the program.
func (p *Process) run(ended <-chan error) {
	defer close(p.gone)
	want, backoff, began := true, firstBackoff, time.Now()
	retry := time.NewTimer(0)
	<-retry.C
	defer retry.Stop()
	restart := func() {
		retry.Stop()
		var err error
		began = time.Now()
		if ended, err = p.start(); err != nil {
			p.cfg.Log.Warn("start failed", "process", p.cfg.Name, "error", err)
			ended = nil
			retry.Reset(backoff)
		}
	}
	for {
		select {
		case err := <-ended:
			ended = nil
			p.stopped(err, want)
			if want {
				if time.Since(began) > soundAfter {
					backoff = firstBackoff
				}
				retry.Reset(backoff)
				backoff = min(2*backoff, maxBackoff)
			}
		case <-retry.C:
			p.mu.Lock()
			p.state.Restarts++
			p.mu.Unlock()
			restart()
		case w := <-p.want:
			switch {
			case w.running == want:
				p.proceed()
			case w.running:
				backoff = firstBackoff
				restart()
			default:
				retry.Stop()
				p.kill(ended)
				ended = nil
			}
			want = w.running
			close(w.done)
		case <-p.quit:
			p.kill(ended)
			return
		}
	}
}

// kill ends the running program, if any, and waits for its end.
func (p *Process) kill(ended <-chan error) {
	if ended == nil {
		return
	}
	_ = p.cmd.Process.Kill()
	p.stopped(<-ended, false)
}

func (p *Process) start() (<-chan error, error) {
	log, err := os.OpenFile(p.cfg.LogFile, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", p.cfg.Name, err)
	}
	defer log.Close()
	pidfd := -1
	cmd := &exec.Cmd{
		Path: p.cfg.Path, Args: append([]string{p.cfg.Path}, p.cfg.Args...), Env: p.cfg.Env, Stdout: log, Stderr: log,
		SysProcAttr: &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL, PidFD: &pidfd},
	}
	if err := p.cfg.Space.Start(cmd); err != nil {
		return nil, fmt.Errorf("start %s: %w", p.cfg.Name, err)
	}
	p.mu.Lock()
	p.cmd = cmd
	p.state.Running, p.state.Paused, p.state.PID = true, false, HostPID(pidfd, cmd.Process.Pid)
	p.mu.Unlock()
	if pidfd >= 0 {
		syscall.Close(pidfd)
	}
	if p.cfg.Changed != nil {
		p.cfg.Changed(true)
	}
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	return ended, nil
}

func (p *Process) stopped(err error, unwanted bool) {
	exit := "exit status 0"
	if err != nil {
		exit = err.Error()
	}
	p.mu.Lock()
	p.state.Running, p.state.Paused, p.state.PID, p.state.LastExit = false, false, 0, exit
	p.mu.Unlock()
	if unwanted {
		p.cfg.Log.Warn("process ended by itself", "process", p.cfg.Name, "exit", exit)
	}
	if p.cfg.Changed != nil {
		p.cfg.Changed(false)
	}
}
