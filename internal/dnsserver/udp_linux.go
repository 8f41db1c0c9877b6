package dnsserver

import (
	"context"
	"net"
	"net/netip"
	"runtime"
	"syscall"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// controlSize is room for one packet information message, of IPv4 or IPv6.
const controlSize = 64

// cores is one socket a core: the system spreads clients over sockets that share
// a port, and each socket has a goroutine.
func cores() int { return runtime.GOMAXPROCS(0) }

// listenUDP opens a socket, which others may share if shared. On a wildcard
// address it asks for the address each packet was sent to, to answer from it.
func listenUDP(a netip.AddrPort, shared bool) (*net.UDPConn, error) {
	options := func(fd int) error {
		if shared {
			if err := unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_REUSEPORT, 1); err != nil {
				return err
			}
		}
		switch {
		case !a.Addr().IsUnspecified():
			return nil
		case a.Addr().Is4():
			return unix.SetsockoptInt(fd, unix.IPPROTO_IP, unix.IP_PKTINFO, 1)
		}
		return unix.SetsockoptInt(fd, unix.IPPROTO_IPV6, unix.IPV6_RECVPKTINFO, 1)
	}
	lc := net.ListenConfig{Control: func(_, _ string, raw syscall.RawConn) (err error) {
		if failed := raw.Control(func(fd uintptr) { err = options(int(fd)) }); failed != nil {
			return failed
		}
		return err
	}}
	conn, err := lc.ListenPacket(context.Background(), network("udp", a), a.String())
	if err != nil {
		return nil, err
	}
	return conn.(*net.UDPConn), nil
}

// sourceControl turns the packet information of a query into that of its
// answer, in place: the same local address. The interface is left to the routing
// table, but for a link-local address, which means nothing without it.
func sourceControl(control []byte) []byte {
	if len(control) == 0 {
		return nil
	}
	h, data, _, err := unix.ParseOneSocketControlMessage(control)
	switch {
	case err != nil:
		return nil
	case h.Level == unix.IPPROTO_IP && h.Type == unix.IP_PKTINFO && len(data) >= unix.SizeofInet4Pktinfo:
		clear(data[:4])
	case h.Level == unix.IPPROTO_IPV6 && h.Type == unix.IPV6_PKTINFO && len(data) >= unix.SizeofInet6Pktinfo:
		if local := netip.AddrFrom16([16]byte(data)); !local.IsLinkLocalUnicast() {
			clear(data[16:20])
		}
	default:
		return nil
	}
	return control
}

// batchSize is how many packets one system call moves at most. Most of the cost
// of a query is the system call.
const batchSize = 32

// message is struct mmsghdr.
type message struct {
	header unix.Msghdr
	length uint32
}

// batch is the memory for one recvmmsg and the sendmmsg that answers it.
type batch struct {
	in, out  [batchSize]message
	inVec    [batchSize]unix.Iovec
	outVec   [batchSize]unix.Iovec
	names    [batchSize]unix.RawSockaddrInet6 // room for IPv4, too
	controls [batchSize][controlSize]byte
	packets  [batchSize][maxPacket]byte
	answers  [batchSize][maxUDP + slack]byte
}

// serveSocket reads, answers and writes batches until reading fails.
func (s *Server) serveSocket(conn *net.UDPConn) error {
	raw, err := conn.SyscallConn()
	if err != nil {
		return err
	}
	p := responder{guard: &s.guard}
	b := new(batch)
	io := batchIO{readable: raw.Read, writable: raw.Write}
	for {
		n, err := io.read(b)
		if err != nil {
			return err
		}
		answers, snap := 0, s.current.Load()
		p.now = time.Now()
		for i := range n {
			packet := b.packets[i][:b.in[i].length]
			answer, code, why := p.respond(b.answers[answers][:0], snap, packet, b.from(i), false)
			if why != answered {
				s.metrics.drops[why].Add(1)
				continue
			}
			s.metrics.count(overUDP, p.query.qtype, code)
			b.address(answers, i, answer)
			answers++
		}
		s.metrics.drops[dropSend].Add(uint64(io.write(b, answers)))
	}
}

// from is the address of the sender of packet i.
func (b *batch) from(i int) netip.Addr {
	name := &b.names[i]
	if name.Family == unix.AF_INET {
		return netip.AddrFrom4((*unix.RawSockaddrInet4)(unsafe.Pointer(name)).Addr)
	}
	return netip.AddrFrom16(name.Addr).Unmap()
}

// address makes answer number a the answer to packet i.
func (b *batch) address(a, i int, answer []byte) {
	b.outVec[a].Base = &answer[0]
	b.outVec[a].SetLen(len(answer))
	in, out := &b.in[i].header, &b.out[a].header
	*out = unix.Msghdr{Name: in.Name, Namelen: in.Namelen, Iov: &b.outVec[a]}
	out.SetIovlen(1)
	if control := sourceControl(b.controls[i][:in.Controllen]); control != nil {
		out.Control = &control[0]
		out.SetControllen(len(control))
	}
}

// batchIO makes the system calls. It keeps the closures that the runtime's
// poller wants, so that a call allocates nothing.
type batchIO struct {
	readable func(func(fd uintptr) bool) error
	writable func(func(fd uintptr) bool) error
	call     func(fd uintptr) bool
	messages []message
	trap     uintptr
	n        int
	errno    syscall.Errno
}

func (c *batchIO) run(trap uintptr, messages []message, wait func(func(uintptr) bool) error) (int, error) {
	if c.call == nil {
		c.call = func(fd uintptr) bool {
			// It does not block, and a batch takes some 0.1 ms. Told of it, the
			// runtime would take the processor away and give it back each time.
			n, _, errno := syscall.RawSyscall6(c.trap, fd, uintptr(unsafe.Pointer(&c.messages[0])), uintptr(len(c.messages)), unix.MSG_DONTWAIT, 0, 0)
			c.n, c.errno = int(n), errno
			return errno != syscall.EAGAIN
		}
	}
	c.trap, c.messages = trap, messages
	for {
		if err := wait(c.call); err != nil {
			return 0, err
		}
		if c.errno == 0 {
			return c.n, nil
		}
		if c.errno != syscall.EINTR {
			return 0, c.errno
		}
	}
}

func (c *batchIO) read(b *batch) (int, error) {
	for i := range b.in {
		b.inVec[i].Base = &b.packets[i][0]
		b.inVec[i].SetLen(maxPacket)
		h := &b.in[i].header
		h.Name, h.Namelen = (*byte)(unsafe.Pointer(&b.names[i])), uint32(unsafe.Sizeof(b.names[i]))
		h.Iov, h.Control, h.Flags = &b.inVec[i], &b.controls[i][0], 0
		h.SetIovlen(1)
		h.SetControllen(controlSize)
	}
	return c.run(unix.SYS_RECVMMSG, b.in[:], c.readable)
}

// write sends the first n answers and returns how many the system refused:
// those are skipped, a client that cannot be reached must not stop the others.
func (c *batchIO) write(b *batch, n int) (refused int) {
	for at := 0; at < n; {
		sent, err := c.run(unix.SYS_SENDMMSG, b.out[at:n], c.writable)
		if err != nil {
			sent = 1
			refused++
		}
		at += sent
	}
	return refused
}
