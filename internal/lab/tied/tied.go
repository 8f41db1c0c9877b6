// Package tied runs a program, such as `spillway serve`, as a child that is
// started and killed as a story wants and never outlives this process.
package tied

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"time"
)

// endPatience is how long the program may take to end when asked to.
const endPatience = 10 * time.Second

// Program is a child process that is started and ended on demand. Set the
// exported fields before the first Start.
type Program struct {
	Name   string // for messages
	Path   string
	Args   []string
	Log    string      // its output is appended to this file
	Failed func(error) // called when it ends though nobody asked for it

	mu     sync.Mutex
	cmd    *exec.Cmd
	wanted bool
	gone   chan struct{} // closed when cmd has ended
}

// Start starts it, if it does not run.
func (p *Program) Start() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.wanted {
		return nil
	}
	out, err := os.OpenFile(p.Log, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	defer out.Close()
	cmd := exec.CommandContext(context.Background(), p.Path, p.Args...) // ended by end
	cmd.Stdout, cmd.Stderr = out, out
	ended, err := start(cmd)
	if err != nil {
		return fmt.Errorf("start %s: %w", p.Name, err)
	}
	p.cmd, p.wanted, p.gone = cmd, true, make(chan struct{})
	go p.reap(ended, p.gone)
	return nil
}

func (p *Program) reap(ended <-chan error, gone chan struct{}) {
	err := <-ended
	p.mu.Lock()
	unasked := p.wanted
	p.wanted = false
	p.mu.Unlock()
	close(gone)
	if unasked {
		p.Failed(fmt.Errorf("%s ended by itself (%s): %s (log: %s)", p.Name, ending(err), LastLine(p.Log), p.Log))
	}
}

// ending says how a process ended.
func ending(err error) string {
	if err == nil {
		return "exit status 0"
	}
	return err.Error()
}

// PID is its process id, 0 while it does not run.
func (p *Program) PID() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.wanted {
		return 0
	}
	return p.cmd.Process.Pid
}

// Kill ends it as a crash would.
func (p *Program) Kill() error { return p.end(syscall.SIGKILL) }

// Stop ends it in peace.
func (p *Program) Stop() error { return p.end(syscall.SIGTERM) }

// Pause has it stand still until Resume, as a machine that sleeps does. It may be
// ended meanwhile by Kill alone.
func (p *Program) Pause() error { return p.signal(syscall.SIGSTOP) }

// Resume has it go on.
func (p *Program) Resume() error { return p.signal(syscall.SIGCONT) }

// signal sends one that does not end it.
func (p *Program) signal(sig syscall.Signal) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.wanted {
		return fmt.Errorf("%s does not run", p.Name)
	}
	return p.cmd.Process.Signal(sig)
}

func (p *Program) end(sig syscall.Signal) error {
	p.mu.Lock()
	if !p.wanted {
		p.mu.Unlock()
		return nil
	}
	p.wanted = false
	cmd, gone := p.cmd, p.gone
	p.mu.Unlock()
	if err := cmd.Process.Signal(sig); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return err
	}
	limited, cancel := context.WithTimeout(context.Background(), endPatience)
	defer cancel()
	select {
	case <-gone:
		return nil
	case <-limited.Done():
		_ = cmd.Process.Kill()
		<-gone
		return fmt.Errorf("%s did not end within %s and was killed", p.Name, endPatience)
	}
}

// LastLine is the end of a log, for an error message.
func LastLine(path string) string {
	f, err := os.Open(path)
	if err != nil {
		return "no log"
	}
	defer f.Close()
	if end, err := f.Seek(0, io.SeekEnd); err == nil {
		_, _ = f.Seek(max(0, end-4096), io.SeekStart)
	}
	text, _ := io.ReadAll(f)
	lines := strings.Split(string(bytes.TrimSpace(text)), "\n")
	return lines[len(lines)-1]
}
