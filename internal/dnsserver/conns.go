package dnsserver

import (
	"net"
	"net/netip"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/spillway-dev/spillway/internal/zone"
)

// networkOf is what limits count as one client: a /24 or a /56, as providers
// give them to one customer and resolvers are run in one.
func networkOf(a netip.Addr) netip.Prefix {
	a, bits := a.Unmap(), zone.SubnetBits6
	if a.Is4() {
		bits = zone.SubnetBits4
	}
	p, _ := a.Prefix(bits) // never more bits than the family has
	return p
}

// conn is an open connection of a client.
type conn struct {
	net.Conn
	from   netip.Addr
	opened time.Time
	active atomic.Int64 // Unix nanoseconds of its last whole query, or of when it was opened
}

func newConn(c net.Conn, from netip.Addr) *conn {
	out := &conn{Conn: c, from: from, opened: time.Now()}
	out.active.Store(out.opened.UnixNano())
	return out
}

// conns are the open connections, at most max of them and a quarter of that of
// one network. A newcomer always gets in: where there is no room, the connection
// that has been idle for longest goes (RFC 7766, 6.2.3). It is one of the
// newcomer's network if that has its share, else of the network that has most,
// so that whoever holds many makes room before who holds one.
type conns struct {
	max  int
	mu   sync.Mutex
	open []*conn // in the order in which they came
	each map[netip.Prefix]int
}

// enter adds a connection and returns the one that had to go, closed; nil: none.
func (s *conns) enter(c *conn) (gone *conn) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.each == nil {
		s.each = map[netip.Prefix]int{}
	}
	own := networkOf(c.from)
	switch {
	case s.each[own] >= max(1, s.max/4):
		gone = s.idlest(func(n netip.Prefix) bool { return n == own })
	case len(s.open) >= s.max:
		most := 0
		for _, n := range s.each {
			most = max(most, n)
		}
		gone = s.idlest(func(n netip.Prefix) bool { return s.each[n] == most })
	}
	if gone != nil {
		s.remove(gone)
		gone.Close()
	}
	s.open = append(s.open, c)
	s.each[own]++
	return gone
}

// idlest is the connection, of those in some networks, whose last query is longest ago.
func (s *conns) idlest(in func(netip.Prefix) bool) (out *conn) {
	for _, c := range s.open {
		if in(networkOf(c.from)) && (out == nil || c.active.Load() < out.active.Load()) {
			out = c
		}
	}
	return out
}

// leave forgets a connection. One that had to go is forgotten already.
func (s *conns) leave(c *conn) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.remove(c)
}

func (s *conns) remove(c *conn) {
	i := slices.Index(s.open, c)
	if i < 0 {
		return
	}
	s.open = slices.Delete(s.open, i, i+1)
	own := networkOf(c.from)
	if s.each[own]--; s.each[own] == 0 {
		delete(s.each, own)
	}
}

// crowded reports whether three quarters of the room are taken.
func (s *conns) crowded() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return 4*len(s.open) >= 3*s.max
}
