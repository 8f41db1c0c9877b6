package xds

import (
	"context"
	"encoding/binary"
	"net"
	"sync"
	"sync/atomic"

	"google.golang.org/grpc/peer"
)

// unreadBytes is what all clients together may have sent of requests that are
// not complete or that nobody read yet: eight first requests of the largest size.
const unreadBytes = 256 << 20

// unread bounds that. gRPC bounds one request, and the streams of an identity are
// counted, but together they may begin far more than a machine has room for, and
// leave it so. Over the limit the identity that sent most loses the connection on
// which it did.
type unread struct {
	most int64
	told func(who speaker, bytes int64) // of a connection that is closed
	all  atomic.Int64

	mu    sync.Mutex
	conns map[*connection]struct{}
}

func newUnread(told func(speaker, int64)) *unread {
	return &unread{most: unreadBytes, told: told, conns: map[*connection]struct{}{}}
}

func (u *unread) add(c *connection) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.conns[c] = struct{}{}
}

func (u *unread) remove(c *connection) {
	u.mu.Lock()
	defer u.mu.Unlock()
	delete(u.conns, c)
}

// shed closes connections until there is room.
func (u *unread) shed() {
	for c := u.excess(); c != nil; c = u.excess() {
		held := c.held()
		_ = c.raw.Close() // first: TLS would say goodbye, and wait for a client that does not read
		_ = c.Close()
		u.told(c.who, held)
	}
}

// excess is the connection with most, of the identity with most; nil while there
// is room. Both are looked at together: others may make room meanwhile.
func (u *unread) excess() (most *connection) {
	if u.all.Load() <= u.most {
		return nil
	}
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.all.Load() <= u.most {
		return nil
	}
	of := map[speaker]int64{}
	for c := range u.conns {
		of[c.who] += c.held()
	}
	for c := range u.conns {
		if most == nil || of[c.who] > of[most.who] || c.who == most.who && c.held() > most.held() {
			most = c
		}
	}
	return most
}

// connection is one of a client that proved who it is. It knows what came of
// requests, and tells when it is closed.
type connection struct {
	net.Conn
	raw    net.Conn // below TLS
	who    speaker
	unread *unread
	gone   func()

	frames frames // of who reads
	mu     sync.Mutex
	bytes  int64 // that came and were not taken
	closed bool
}

// RemoteAddr is how a stream finds its connection: see connectionOf.
func (c *connection) RemoteAddr() net.Addr { return connAddr{c.Conn.RemoteAddr(), c} }

type connAddr struct {
	net.Addr
	of *connection
}

// connectionOf is the connection of a stream, nil where none is counted.
func connectionOf(ctx context.Context) *connection {
	p, ok := peer.FromContext(ctx)
	if !ok {
		return nil
	}
	a, _ := p.Addr.(connAddr)
	return a.of
}

func (c *connection) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	if came := c.frames.data(p[:n]); came > 0 {
		c.count(int64(came))
		c.unread.shed()
	}
	return n, err
}

// messageHeader is what gRPC writes before each message: a flag and its length.
const messageHeader = 5

// took tells that a whole message of so many bytes was read. A nil connection
// counts none.
func (c *connection) took(bytes int) {
	if c != nil {
		c.count(-int64(bytes) - messageHeader)
	}
}

func (c *connection) count(n int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.closed {
		c.bytes += n
		c.unread.all.Add(n)
	}
}

func (c *connection) held() int64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.bytes
}

func (c *connection) Close() error {
	if c.end() {
		c.unread.remove(c)
		c.gone()
	}
	return c.Conn.Close()
}

// end reports whether it ends now.
func (c *connection) end() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return false
	}
	c.closed = true
	c.unread.all.Add(-c.bytes)
	return true
}

// HTTP/2 (RFC 9113): a client begins with a preface (3.4), then come frames, each
// with a header (4.1).
const (
	prefaceBytes = 24
	frameHeader  = 9
	dataFrame    = 0
)

// frames reads as much of HTTP/2 as tells how many bytes of what a client sends
// are content.
type frames struct {
	begun  bool
	skip   int // bytes until the next header
	isData bool
	header [frameHeader]byte
	have   int // bytes of the header
}

// data counts bytes of DATA frames, without their headers.
func (f *frames) data(p []byte) (bytes int) {
	if !f.begun {
		f.begun, f.skip = true, prefaceBytes
	}
	for len(p) > 0 {
		if f.skip > 0 {
			n := min(f.skip, len(p))
			if f.isData {
				bytes += n
			}
			f.skip -= n
			p = p[n:]
			continue
		}
		n := copy(f.header[f.have:], p)
		f.have += n
		p = p[n:]
		if f.have == frameHeader {
			f.skip = int(binary.BigEndian.Uint32(f.header[:]) >> 8)
			f.isData, f.have = f.header[3] == dataFrame, 0
		}
	}
	return bytes
}
