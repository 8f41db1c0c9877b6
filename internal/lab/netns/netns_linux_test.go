package netns

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"sync"
	"syscall"
	"testing"
	"time"

	"go.uber.org/goleak"
	"golang.org/x/sys/unix"
)

// TestMain runs the tests in a user namespace of their own when they are not
// root's, as the lab does. Where that is not possible they skip by name, and
// fail in CI.
func TestMain(m *testing.M) {
	if os.Getuid() == 0 || os.Getenv("NETNS_TEST_INSIDE") != "" {
		goleak.VerifyTestMain(m)
	}
	cmd := exec.Command("/proc/self/exe", os.Args[1:]...)
	cmd.Env = append(os.Environ(), "NETNS_TEST_INSIDE=1")
	cmd.Stdout, cmd.Stderr = os.Stdout, os.Stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{
		Cloneflags:  unix.CLONE_NEWUSER | unix.CLONE_NEWNS,
		UidMappings: []syscall.SysProcIDMap{{HostID: os.Getuid(), Size: 1}},
		GidMappings: []syscall.SysProcIDMap{{HostID: os.Getgid(), Size: 1}},
	}
	err := cmd.Run()
	var exit *exec.ExitError
	switch {
	case err == nil:
		os.Exit(0)
	case errors.As(err, &exit):
		os.Exit(exit.ExitCode())
	case os.Getenv("CI") == "true":
		fmt.Fprintln(os.Stderr, "netns tests need user namespaces:", err)
		os.Exit(1)
	}
	fmt.Println("SKIP netns tests: no user namespaces here:", err)
}

// fixture is a router with two attached Spaces; an echo listener runs in b.
type fixture struct {
	r    *Router
	a, b *Space
	echo netip.AddrPort
}

var addrA = []netip.Addr{netip.MustParseAddr("10.1.1.1"), netip.MustParseAddr("fd00:10:1:1::1")}
var addrB = []netip.Addr{netip.MustParseAddr("10.2.1.1"), netip.MustParseAddr("fd00:10:2:1::1")}

func setup(t *testing.T) fixture {
	t.Helper()
	r, err := NewRouter("router")
	if err != nil {
		t.Skip("no network namespaces here:", err)
	}
	t.Cleanup(r.Close)
	var spaces [2]*Space
	for i, addrs := range [][]netip.Addr{addrA, addrB} {
		s, err := New(fmt.Sprint("s", i))
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(s.Close)
		if err := r.Attach(s, addrs...); err != nil {
			t.Fatal(err)
		}
		spaces[i] = s
	}
	f := fixture{r: r, a: spaces[0], b: spaces[1], echo: netip.AddrPortFrom(addrB[0], 7)}
	serve(t, f.b, f.echo)
	return f
}

func serve(t *testing.T, s *Space, at netip.AddrPort) {
	t.Helper()
	l, err := s.Listen(at)
	if err != nil {
		t.Fatal(err)
	}
	ctx, end := context.WithCancel(context.Background())
	var all sync.WaitGroup
	all.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			stop := context.AfterFunc(ctx, func() { _ = c.Close() }) // also where the other end fell silent
			all.Go(func() {
				_, _ = io.Copy(c, c)
				if stop() {
					_ = c.Close()
				}
			})
		}
	})
	t.Cleanup(func() {
		_ = l.Close()
		end()
		all.Wait()
	})
}

func (f fixture) dial(t *testing.T, to netip.AddrPort, wait time.Duration) (net.Conn, error) {
	ctx, cancel := context.WithTimeout(t.Context(), wait)
	defer cancel()
	return f.a.Dial(ctx, netip.Addr{}, to)
}

// ping writes and reads a byte.
func ping(c net.Conn, wait time.Duration) error {
	_ = c.SetDeadline(time.Now().Add(wait))
	if _, err := c.Write([]byte{42}); err != nil {
		return err
	}
	_, err := c.Read(make([]byte, 8))
	return err
}

func TestRouted(t *testing.T) {
	f := setup(t)
	serve(t, f.b, netip.AddrPortFrom(addrB[1], 7))
	for _, to := range addrB {
		if to.Is6() && !f.r.IPv6() {
			continue
		}
		c, err := f.dial(t, netip.AddrPortFrom(to, 7), 5*time.Second)
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		if err := ping(c, 5*time.Second); err != nil {
			t.Fatal(err)
		}
		if got := c.RemoteAddr().String(); got != netip.AddrPortFrom(to, 7).String() {
			t.Errorf("remote address %s", got)
		}
	}
	if _, err := f.dial(t, netip.AddrPortFrom(addrB[0], 8), 5*time.Second); !errors.Is(err, unix.ECONNREFUSED) {
		t.Errorf("closed port: %v", err)
	}
}

func TestCuts(t *testing.T) {
	f := setup(t)
	inside := netip.MustParsePrefix("10.2.0.0/16")
	open, err := f.dial(t, f.echo, 5*time.Second)
	if err != nil {
		t.Fatal(err)
	}
	defer open.Close()
	if err := ping(open, 5*time.Second); err != nil {
		t.Fatal(err)
	}
	// Dropped: neither the open connection nor a new one gets anything.
	if err := f.r.SetCuts([]Cut{{Inside: inside}}); err != nil {
		t.Fatal(err)
	}
	if err := ping(open, 100*time.Millisecond); !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("open connection, dropped: %v", err)
	}
	if _, err := f.dial(t, f.echo, 100*time.Millisecond); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("new connection, dropped: %v", err)
	}
	// Healed: the open connection goes on where it was.
	if err := f.r.SetCuts(nil); err != nil {
		t.Fatal(err)
	}
	_ = open.SetDeadline(time.Now().Add(10 * time.Second))
	if _, err := open.Write([]byte{42}); err != nil {
		t.Fatal(err)
	}
	if _, err := io.ReadFull(open, make([]byte, 2)); err != nil { // the lost echo comes too
		t.Errorf("open connection, healed: %v", err)
	}
	// Refused: both end at once.
	if err := f.r.SetCuts([]Cut{{Inside: inside, Refuse: true}}); err != nil {
		t.Fatal(err)
	}
	if _, err := f.dial(t, f.echo, 5*time.Second); !errors.Is(err, unix.ECONNREFUSED) {
		t.Errorf("new connection, refused: %v", err)
	}
	if err := ping(open, 5*time.Second); !errors.Is(err, unix.ECONNRESET) && !errors.Is(err, unix.EPIPE) && !errors.Is(err, io.EOF) {
		t.Errorf("open connection, refused: %v", err)
	}
	// A cut of another member changes nothing here.
	if err := f.r.SetCuts([]Cut{{Inside: netip.MustParsePrefix("10.3.0.0/16")}}); err != nil {
		t.Fatal(err)
	}
	if c, err := f.dial(t, f.echo, 5*time.Second); err != nil {
		t.Error(err)
	} else {
		c.Close()
	}
}

func TestProcessInSpace(t *testing.T) {
	f := setup(t)
	cat := exec.Command("cat", "/proc/self/net/fib_trie")
	var out bytes.Buffer
	cat.Stdout = &out
	if err := f.b.Start(cat); err != nil {
		t.Fatal(err)
	}
	if err := cat.Wait(); err != nil {
		t.Fatal(err)
	}
	if !bytes.Contains(out.Bytes(), []byte("10.2.1.1")) {
		t.Errorf("the process is elsewhere:\n%s", &out)
	}
	// A sibling shares the network only.
	sib, err := f.b.Sibling("container")
	if err != nil {
		t.Fatal(err)
	}
	serve(t, sib, netip.AddrPortFrom(addrB[0], 9))
	if c, err := f.dial(t, netip.AddrPortFrom(addrB[0], 9), 5*time.Second); err != nil {
		t.Error(err)
	} else {
		c.Close()
	}
	// Closing the Space takes its processes along.
	sleep := exec.Command("sleep", "1000")
	sleep.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL, Cloneflags: unix.CLONE_NEWPID}
	if err := sib.Start(sleep); err != nil {
		t.Fatal(err)
	}
	sib.Close()
	if err := sleep.Wait(); err == nil {
		t.Error("the process outlived its Space and ended well")
	}
	if err := sib.Do(func() error { return nil }); !errors.Is(err, ErrClosed) {
		t.Errorf("closed: %v", err)
	}
}
