package forward

import (
	"net"
	"net/netip"
	"sync"
	"time"
)

const (
	udpIdle     = 30 * time.Second
	udpSessions = 512 // per forwarder; the oldest makes room
)

// UDP is one forwarded datagram port. Every client gets a socket of its own
// towards the target, so that answers find their way; a socket without traffic
// from its target for 30 seconds, or from the oldest client when 512 are open,
// is closed.
type UDP struct {
	in   net.PacketConn
	dial func() (net.Conn, error)
	wg   sync.WaitGroup

	mu     sync.Mutex
	out    map[netip.AddrPort]net.Conn
	order  []netip.AddrPort
	closed bool
}

// ServeUDP starts to forward what in receives. Close closes in.
func ServeUDP(in net.PacketConn, dial func() (net.Conn, error)) *UDP {
	f := &UDP{in: in, dial: dial, out: map[netip.AddrPort]net.Conn{}}
	f.wg.Go(f.receive)
	return f
}

// Close stops forwarding.
func (f *UDP) Close() {
	f.mu.Lock()
	f.closed = true
	f.in.Close()
	for _, c := range f.out {
		c.Close()
	}
	f.mu.Unlock()
	f.wg.Wait()
}

func (f *UDP) receive() {
	buf := make([]byte, 64<<10)
	for {
		n, from, err := f.in.ReadFrom(buf)
		if err != nil {
			f.mu.Lock()
			closed := f.closed
			f.mu.Unlock()
			if closed {
				return
			}
			continue // an ICMP error for an earlier answer
		}
		if c := f.session(from); c != nil {
			_, _ = c.Write(buf[:n])
		}
	}
}

// session returns the client's socket towards the target, nil when there can
// be none now: the datagram is lost, as datagrams are.
func (f *UDP) session(from net.Addr) net.Conn {
	key := from.(*net.UDPAddr).AddrPort()
	f.mu.Lock()
	defer f.mu.Unlock()
	if c := f.out[key]; c != nil || f.closed {
		return c
	}
	c, err := f.dial()
	if err != nil {
		return nil
	}
	if len(f.order) == udpSessions {
		f.out[f.order[0]].Close()
		delete(f.out, f.order[0])
		f.order = f.order[1:]
	}
	f.out[key], f.order = c, append(f.order, key)
	f.wg.Go(func() { f.answer(key, from, c) })
	return c
}

// answer carries the target's datagrams back to one client.
func (f *UDP) answer(key netip.AddrPort, to net.Addr, c net.Conn) {
	defer f.end(key, c)
	buf := make([]byte, 64<<10)
	for {
		_ = c.SetReadDeadline(time.Now().Add(udpIdle))
		n, err := c.Read(buf)
		if err != nil {
			return
		}
		_, _ = f.in.WriteTo(buf[:n], to)
	}
}

func (f *UDP) end(key netip.AddrPort, c net.Conn) {
	c.Close()
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.out[key] != c {
		return
	}
	delete(f.out, key)
	for i, k := range f.order {
		if k == key {
			f.order = append(f.order[:i:i], f.order[i+1:]...)
			return
		}
	}
}
