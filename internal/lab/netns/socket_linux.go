package netns

import (
	"context"
	"fmt"
	"net"
	"net/netip"
	"os"
	"time"

	"golang.org/x/sys/unix"
)

// Listen opens a TCP listener inside the Space.
func (s *Space) Listen(at netip.AddrPort) (net.Listener, error) {
	var l net.Listener
	err := s.Do(func() (err error) {
		l, err = new(net.ListenConfig).Listen(context.Background(), "tcp", at.String())
		return err
	})
	return l, err
}

// ListenPacket opens a UDP socket inside the Space.
func (s *Space) ListenPacket(at netip.AddrPort) (net.PacketConn, error) {
	var c net.PacketConn
	err := s.Do(func() (err error) {
		c, err = new(net.ListenConfig).ListenPacket(context.Background(), "udp", at.String())
		return err
	})
	return c, err
}

// DialUDP connects a UDP socket inside the Space, from an address when valid.
func (s *Space) DialUDP(from netip.Addr, to netip.AddrPort) (net.Conn, error) {
	var local *net.UDPAddr
	if from.IsValid() {
		local = net.UDPAddrFromAddrPort(netip.AddrPortFrom(from, 0))
	}
	var c net.Conn
	err := s.Do(func() (err error) {
		c, err = net.DialUDP("udp", local, net.UDPAddrFromAddrPort(to))
		return err
	})
	return c, err
}

// Dial connects over TCP from inside the Space, from an address when valid.
// Only the socket is made on the thread: a target that never answers holds up
// nobody else.
func (s *Space) Dial(ctx context.Context, from netip.Addr, to netip.AddrPort) (net.Conn, error) {
	fd := -1
	err := s.Do(func() (err error) {
		family := unix.AF_INET
		if to.Addr().Is6() {
			family = unix.AF_INET6
		}
		fd, err = unix.Socket(family, unix.SOCK_STREAM|unix.SOCK_NONBLOCK|unix.SOCK_CLOEXEC, unix.IPPROTO_TCP)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("dial %s in %s: %w", to, s.name, err)
	}
	f := os.NewFile(uintptr(fd), "dial")
	defer f.Close()
	if err := connect(ctx, f, fd, from, to); err != nil {
		return nil, fmt.Errorf("dial %s in %s: %w", to, s.name, err)
	}
	return net.FileConn(f)
}

func connect(ctx context.Context, f *os.File, fd int, from netip.Addr, to netip.AddrPort) error {
	if from.IsValid() {
		// Leave the port to connect, so that many connections may share it.
		if err := unix.SetsockoptInt(fd, unix.SOL_IP, unix.IP_BIND_ADDRESS_NO_PORT, 1); err != nil {
			return err
		}
		if err := unix.Bind(fd, sockaddr(netip.AddrPortFrom(from, 0))); err != nil {
			return err
		}
	}
	err := unix.Connect(fd, sockaddr(to))
	if err == nil {
		return nil
	}
	if err != unix.EINPROGRESS {
		return err
	}
	stop := context.AfterFunc(ctx, func() { _ = f.SetWriteDeadline(time.Unix(1, 0)) })
	defer stop()
	return connected(ctx, f)
}

// connected waits until a connect in progress has an outcome.
func connected(ctx context.Context, f *os.File) error {
	raw, err := f.SyscallConn()
	if err != nil {
		return err
	}
	var outcome error
	err = raw.Write(func(fd uintptr) bool {
		// Ask the kernel each time: the edge may have come before the wait.
		poll := []unix.PollFd{{Fd: int32(fd), Events: unix.POLLOUT}}
		if n, err := unix.Poll(poll, 0); n == 0 || err == unix.EINTR {
			return false
		}
		code, err := unix.GetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_ERROR)
		if err != nil {
			outcome = err
		} else if code != 0 {
			outcome = unix.Errno(code)
		}
		return true
	})
	if ctx.Err() != nil {
		return ctx.Err()
	}
	if err != nil {
		return err
	}
	return outcome
}

func sockaddr(at netip.AddrPort) unix.Sockaddr {
	if at.Addr().Is4() {
		return &unix.SockaddrInet4{Port: int(at.Port()), Addr: at.Addr().As4()}
	}
	return &unix.SockaddrInet6{Port: int(at.Port()), Addr: at.Addr().As16()}
}
