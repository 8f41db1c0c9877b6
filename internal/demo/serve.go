package demo

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

// endPatience is how long `spillway serve` may take to end when asked to.
const endPatience = 10 * time.Second

// serve is the control plane: a child process that is started and killed as the
// story wants. It dies with this process.
type serve struct {
	path   string
	args   []string
	log    string
	failed func(error) // called when it ends though nobody asked for it

	mu     sync.Mutex
	cmd    *exec.Cmd
	wanted bool
	gone   chan struct{} // closed when cmd has ended
}

// start starts it; its output is appended to the log.
func (s *serve) start() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.wanted {
		return nil
	}
	out, err := os.OpenFile(s.log, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	defer out.Close()
	cmd := exec.CommandContext(context.Background(), s.path, s.args...) // ended by end
	cmd.Stdout, cmd.Stderr = out, out
	ended, err := startTied(cmd)
	if err != nil {
		return fmt.Errorf("start spillway serve: %w", err)
	}
	s.cmd, s.wanted, s.gone = cmd, true, make(chan struct{})
	go s.reap(ended, s.gone)
	return nil
}

func (s *serve) reap(ended <-chan error, gone chan struct{}) {
	err := <-ended
	s.mu.Lock()
	unasked := s.wanted
	s.wanted = false
	s.mu.Unlock()
	close(gone)
	if unasked {
		s.failed(fmt.Errorf("spillway serve ended by itself (%s): %s (log: %s)", ending(err), lastLine(s.log), s.log))
	}
}

// ending says how a process ended.
func ending(err error) string {
	if err == nil {
		return "exit status 0"
	}
	return err.Error()
}

// kill ends it as a crash would.
func (s *serve) kill() error { return s.end(syscall.SIGKILL) }

// stop ends it in peace.
func (s *serve) stop() error { return s.end(syscall.SIGTERM) }

func (s *serve) end(sig syscall.Signal) error {
	s.mu.Lock()
	if !s.wanted {
		s.mu.Unlock()
		return nil
	}
	s.wanted = false
	cmd, gone := s.cmd, s.gone
	s.mu.Unlock()
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
		return fmt.Errorf("spillway serve did not end within %s and was killed", endPatience)
	}
}

// lastLine is the end of a log, for an error message.
func lastLine(path string) string {
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
