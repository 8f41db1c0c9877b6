package forward

import (
	"context"
	"errors"
	"io"
	"net"
	"os"
	"syscall"
	"testing"
	"time"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const patience = 10 * time.Second

// echoServer echoes until the other side is done, then half-closes.
func echoServer(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go func() { defer c.Close(); _, _ = io.Copy(c, c) }()
		}
	}()
	return l.Addr().String()
}

func forwarder(t *testing.T, target string) (*TCP, string) {
	t.Helper()
	probe, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	at := probe.Addr().String()
	probe.Close()
	f, err := ListenTCP(
		func() (net.Listener, error) { return net.Listen("tcp4", at) },
		func(ctx context.Context) (net.Conn, error) { return new(net.Dialer).DialContext(ctx, "tcp4", target) })
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(f.Close)
	return f, at
}

func dial(t *testing.T, at string) *net.TCPConn {
	t.Helper()
	c, err := net.DialTimeout("tcp4", at, patience)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return c.(*net.TCPConn)
}

func ask(c net.Conn, wait time.Duration) error {
	_ = c.SetDeadline(time.Now().Add(wait))
	if _, err := c.Write([]byte("x")); err != nil {
		return err
	}
	_, err := io.ReadFull(c, make([]byte, 1))
	return err
}

func isReset(err error) bool {
	return errors.Is(err, syscall.ECONNRESET) || errors.Is(err, syscall.EPIPE)
}

func TestCarry(t *testing.T) {
	_, at := forwarder(t, echoServer(t))
	c := dial(t, at)
	if _, err := c.Write([]byte("hello")); err != nil {
		t.Fatal(err)
	}
	_ = c.CloseWrite()
	_ = c.SetDeadline(time.Now().Add(patience))
	if got, err := io.ReadAll(c); string(got) != "hello" || err != nil {
		t.Errorf("got %q, %v", got, err)
	}
}

func TestDeadTarget(t *testing.T) {
	l, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	target := l.Addr().String()
	l.Close()
	_, at := forwarder(t, target)
	c, err := net.DialTimeout("tcp4", at, patience)
	if err == nil { // else the reset was faster than the dial
		defer c.Close()
		err = ask(c, patience)
	}
	if !isReset(err) {
		t.Errorf("got %v, want a reset", err)
	}
}

func TestDrop(t *testing.T) {
	f, at := forwarder(t, echoServer(t))
	old := dial(t, at)
	if err := ask(old, patience); err != nil {
		t.Fatal(err)
	}
	if err := f.Set(Drop); err != nil {
		t.Fatal(err)
	}
	fresh := dial(t, at)
	for name, c := range map[string]net.Conn{"old": old, "new": fresh} {
		if err := ask(c, 50*time.Millisecond); !errors.Is(err, os.ErrDeadlineExceeded) {
			t.Errorf("%s connection while dropped: %v", name, err)
		}
	}
	if err := f.Set(Open); err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]net.Conn{"old": old, "new": fresh} {
		if err := ask(c, patience); err != nil {
			t.Errorf("%s connection after healing: %v", name, err)
		}
	}
}

func TestRefuse(t *testing.T) {
	for _, before := range []Mode{Open, Drop} {
		f, at := forwarder(t, echoServer(t))
		c := dial(t, at)
		if err := ask(c, patience); err != nil {
			t.Fatal(err)
		}
		for _, mode := range []Mode{before, Refuse} {
			if err := f.Set(mode); err != nil {
				t.Fatal(err)
			}
		}
		if err := ask(c, patience); !isReset(err) {
			t.Errorf("old connection: %v", err)
		}
		if _, err := net.DialTimeout("tcp4", at, patience); !errors.Is(err, syscall.ECONNREFUSED) {
			t.Errorf("new connection: %v", err)
		}
		if err := f.Set(Open); err != nil {
			t.Fatal(err)
		}
		if err := ask(dial(t, at), patience); err != nil {
			t.Errorf("after healing: %v", err)
		}
	}
}

func TestCloseWhileDropped(t *testing.T) {
	f, at := forwarder(t, echoServer(t))
	c := dial(t, at)
	if err := f.Set(Drop); err != nil {
		t.Fatal(err)
	}
	_, _ = c.Write([]byte("x"))
	f.Close() // returns: goleak sees the rest
	if err := f.Set(Open); !errors.Is(err, net.ErrClosed) {
		t.Errorf("opened after Close: %v", err)
	}
}

func TestUDP(t *testing.T) {
	server, err := net.ListenPacket("udp4", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer server.Close()
	go func() {
		buf := make([]byte, 100)
		for {
			n, from, err := server.ReadFrom(buf)
			if err != nil {
				return
			}
			_, _ = server.WriteTo(buf[:n], from)
		}
	}()
	in, err := net.ListenPacket("udp4", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	f := ServeUDP(in, func() (net.Conn, error) { return net.Dial("udp4", server.LocalAddr().String()) })
	defer f.Close()
	for i := range udpSessions + 10 { // the oldest make room
		c, err := net.Dial("udp4", in.LocalAddr().String())
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		if err := ask(c, patience); err != nil {
			t.Fatalf("client %d: %v", i, err)
		}
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if len(f.out) != udpSessions || len(f.order) != udpSessions {
		t.Errorf("%d sessions, %d in order", len(f.out), len(f.order))
	}
}
