package netns

import (
	"errors"
	"fmt"
	"os/exec"
	"runtime"
	"sync"

	"golang.org/x/sys/unix"
)

// ErrClosed is returned by every use of a closed Space.
var ErrClosed = errors.New("namespace is closed")

// Space is a network, mount and host-name namespace and the thread that is in
// them. All methods are safe for concurrent use.
type Space struct {
	name string
	fd   int // the network namespace
	jobs chan func()
	quit chan struct{}
	once sync.Once
	gone chan struct{}
}

// Host returns a Space for the namespaces the process is in. Its thread exists
// so that children started on it have a parent thread that does not end.
func Host() (*Space, error) { return open("host", nil) }

// New makes a Space with namespaces of its own, loopback up. Mounts made in
// it are private to it.
func New(name string) (*Space, error) {
	return open(name, func() error {
		if err := unix.Unshare(unix.CLONE_NEWNET | unix.CLONE_NEWNS | unix.CLONE_NEWUTS); err != nil {
			return fmt.Errorf("unshare network, mount and uts namespaces: %w", err)
		}
		if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
			return fmt.Errorf("make mounts private: %w", err)
		}
		if err := unix.Sethostname([]byte(name)); err != nil {
			return fmt.Errorf("set host name: %w", err)
		}
		skipDetection()
		return loopbackUp()
	})
}

// Sibling makes a Space in the same network with a mount and host-name
// namespace of its own: one more container of a pod.
func (s *Space) Sibling(name string) (*Space, error) {
	return open(name, func() error {
		if err := unix.Setns(s.fd, unix.CLONE_NEWNET); err != nil {
			return fmt.Errorf("enter network of %s: %w", s.name, err)
		}
		if err := unix.Unshare(unix.CLONE_NEWNS | unix.CLONE_NEWUTS); err != nil {
			return fmt.Errorf("unshare mount and uts namespaces: %w", err)
		}
		if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
			return fmt.Errorf("make mounts private: %w", err)
		}
		return unix.Sethostname([]byte(name))
	})
}

func open(name string, enter func() error) (*Space, error) {
	s := &Space{name: name, fd: -1, jobs: make(chan func()), quit: make(chan struct{}), gone: make(chan struct{})}
	ready := make(chan error)
	go s.thread(enter, ready)
	if err := <-ready; err != nil {
		<-s.gone
		return nil, fmt.Errorf("namespace %s: %w", name, err)
	}
	return s, nil
}

// thread never unlocks: when it returns the runtime ends the operating-system
// thread, and with it the last reference to namespaces nobody else is in.
func (s *Space) thread(enter func() error, ready chan<- error) {
	runtime.LockOSThread()
	defer close(s.gone)
	err := error(nil)
	if enter != nil {
		err = enter()
	}
	if err == nil {
		s.fd, err = unix.Open("/proc/thread-self/ns/net", unix.O_RDONLY|unix.O_CLOEXEC, 0)
	}
	ready <- err
	if err != nil {
		return
	}
	defer unix.Close(s.fd)
	for {
		select {
		case job := <-s.jobs:
			job()
		case <-s.quit:
			return
		}
	}
}

// Name is what the Space was made as.
func (s *Space) Name() string { return s.name }

// Do runs f on the Space's thread and returns its error. Calls are served one
// at a time: f must not block on the network.
func (s *Space) Do(f func() error) error {
	done := make(chan error, 1)
	select {
	case s.jobs <- func() { done <- f() }:
		return <-done
	case <-s.quit:
		return fmt.Errorf("%s: %w", s.name, ErrClosed)
	}
}

// Start starts cmd in the Space. The command's parent is the Space's thread,
// so its Pdeathsig fires when the Space closes.
func (s *Space) Start(cmd *exec.Cmd) error { return s.Do(cmd.Start) }

// Close ends the thread. The namespaces vanish with their last process.
func (s *Space) Close() {
	s.once.Do(func() { close(s.quit) })
	<-s.gone
}
