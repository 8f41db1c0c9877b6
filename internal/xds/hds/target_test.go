package hds

import (
	"net"
	"syscall"
	"testing"
)

// target is an endpoint that accepts connections, refuses them, or drops them
// silently as a cut network does.
type target struct {
	t    testing.TB
	addr *net.TCPAddr
	l    *net.TCPListener
	fill []int
}

func newTarget(t testing.TB) *target {
	t.Helper()
	x := &target{t: t, addr: &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1)}}
	x.accept()
	t.Cleanup(x.refuse)
	return x
}

// accept opens every connection, and closes it when the client does.
func (x *target) accept() {
	x.refuse()
	l, err := net.ListenTCP("tcp", x.addr)
	if err != nil {
		x.t.Fatal(err)
	}
	x.l, x.addr = l, l.Addr().(*net.TCPAddr)
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go func() {
				_, _ = c.Read(make([]byte, 1))
				_ = c.Close()
			}()
		}
	}()
}

// refuse closes the port.
func (x *target) refuse() {
	if x.l != nil {
		_ = x.l.Close()
		x.l = nil
	}
	for _, fd := range x.fill {
		_ = syscall.Close(fd)
	}
	x.fill = nil
}

// drop leaves the port open with a full queue: the kernel drops each SYN.
func (x *target) drop() {
	x.refuse()
	fd, err := syscall.Socket(syscall.AF_INET, syscall.SOCK_STREAM, 0)
	if err != nil {
		x.t.Fatal(err)
	}
	x.fill = append(x.fill, fd)
	sa := &syscall.SockaddrInet4{Port: x.addr.Port, Addr: [4]byte{127, 0, 0, 1}}
	for _, err := range []error{
		syscall.SetsockoptInt(fd, syscall.SOL_SOCKET, syscall.SO_REUSEADDR, 1), syscall.Bind(fd, sa), syscall.Listen(fd, 0),
	} {
		if err != nil {
			x.t.Fatal(err)
		}
	}
	for range 2 {
		c, err := syscall.Socket(syscall.AF_INET, syscall.SOCK_STREAM|syscall.SOCK_NONBLOCK, 0)
		if err != nil {
			x.t.Fatal(err)
		}
		x.fill = append(x.fill, c)
		_ = syscall.Connect(c, sa)
	}
}
