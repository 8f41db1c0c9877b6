package dnsserver

import (
	"bufio"
	"context"
	"encoding/binary"
	"errors"
	"io"
	"net"
	"net/netip"
	"sync"
	"time"
)

// maxQuery is the largest query we read over TCP; a sensible one has 300 bytes.
const maxQuery = 4096

// serveTCP accepts connections until the listener is closed.
func (s *Server) serveTCP(ctx context.Context, l *net.TCPListener) {
	var wg sync.WaitGroup
	defer wg.Wait()
	for {
		conn, err := l.AcceptTCP()
		if errors.Is(err, net.ErrClosed) || ctx.Err() != nil {
			if conn != nil {
				conn.Close()
			}
			return
		}
		if err != nil { // out of file descriptors, or the client is gone already
			s.cfg.Log.Warn("dns: accept failed", "error", err)
			if !pause(ctx) {
				return
			}
			continue
		}
		from := conn.RemoteAddr().(*net.TCPAddr).AddrPort().Addr().Unmap()
		if !s.clients.enter(from) {
			s.metrics.drops[dropLimit].Add(1)
			conn.Close()
			continue
		}
		wg.Go(func() {
			defer s.clients.leave(from)
			s.metrics.connections.Add(1)
			defer s.metrics.connections.Add(-1)
			s.serveConn(ctx, conn, from)
		})
	}
}

// serveConn answers the queries of a connection in their order, which RFC 7766,
// 6.2.1.1, allows, and writes the answers of pipelined ones together. It closes
// the connection when the client is idle, slow, done, or the context ends.
func (s *Server) serveConn(ctx context.Context, conn net.Conn, from netip.Addr) {
	defer conn.Close()
	defer context.AfterFunc(ctx, func() { conn.Close() })()
	in := bufio.NewReaderSize(conn, 2+maxQuery)
	var out []byte
	var p responder
	for served := 1; ; served++ {
		if conn.SetDeadline(time.Now().Add(s.cfg.IdleTimeout)) != nil {
			return // closed already
		}
		packet, err := nextMessage(in)
		if err != nil {
			return
		}
		before := len(out)
		answer, code, ok := p.respond(append(out, 0, 0), s.current.Load(), packet, from, true)
		if ok {
			s.metrics.count(overTCP, p.query.qtype, code)
			out = answer
			binary.BigEndian.PutUint16(out[before:], uint16(len(out)-before-2))
		} else {
			s.metrics.drops[dropMalformed].Add(1)
		}
		if _, err = in.Discard(2 + len(packet)); err != nil {
			return
		}
		last := !ok || served >= s.cfg.MaxQueries
		if !last && hasMessage(in) && len(out) < maxTCP {
			continue
		}
		if _, err = conn.Write(out); err != nil || last {
			return
		}
		out = out[:0]
	}
}

// hasMessage reports whether the next message can be had without waiting.
func hasMessage(in *bufio.Reader) bool {
	if in.Buffered() < 2 {
		return false
	}
	length, err := in.Peek(2)
	return err == nil && in.Buffered() >= 2+int(binary.BigEndian.Uint16(length))
}

// nextMessage is the next message, without its length; it is valid until the next read.
func nextMessage(in *bufio.Reader) ([]byte, error) {
	length, err := in.Peek(2)
	if err != nil {
		return nil, err
	}
	n := int(binary.BigEndian.Uint16(length))
	if n > maxQuery {
		return nil, io.ErrShortBuffer
	}
	message, err := in.Peek(2 + n)
	if err != nil {
		return nil, err
	}
	return message[2:], nil
}

// clients counts open connections by client, so that one alone can't take all.
type clients struct {
	mu   sync.Mutex
	max  int
	all  int
	each map[netip.Addr]int
}

func (c *clients) enter(a netip.Addr) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.all >= c.max || c.each[a] >= max(1, c.max/4) {
		return false
	}
	if c.each == nil {
		c.each = map[netip.Addr]int{}
	}
	c.all++
	c.each[a]++
	return true
}

func (c *clients) leave(a netip.Addr) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.all--
	if c.each[a]--; c.each[a] == 0 {
		delete(c.each, a)
	}
}
