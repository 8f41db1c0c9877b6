package dnsserver

import (
	"bufio"
	"context"
	"encoding/binary"
	"errors"
	"io"
	"net"
	"sync"
	"time"
)

// sensible is how large a query is read without an allocation of its own. Padding
// may make one larger, up to the 64 KiB of a message.
const sensible = 4096

// serveTCP accepts connections until the listener is closed.
func (s *Server) serveTCP(ctx context.Context, l *net.TCPListener) {
	var wg sync.WaitGroup
	defer wg.Wait()
	for {
		accepted, err := l.AcceptTCP()
		if errors.Is(err, net.ErrClosed) || ctx.Err() != nil {
			if accepted != nil {
				accepted.Close()
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
		c := newConn(accepted, accepted.RemoteAddr().(*net.TCPAddr).AddrPort().Addr().Unmap())
		if s.conns.enter(c) != nil {
			s.metrics.drops[dropLimit].Add(1)
		}
		wg.Go(func() {
			defer s.conns.leave(c)
			s.metrics.connections.Add(1)
			defer s.metrics.connections.Add(-1)
			s.serveConn(ctx, c)
		})
	}
}

// serveConn answers the queries of a connection in their order, which RFC 7766,
// 6.2.1.1, allows, and writes the answers of pipelined ones together. It closes
// the connection when the client is idle, slow, done, or there for long while
// others want in, or when the context ends.
func (s *Server) serveConn(ctx context.Context, c *conn) {
	defer c.Close()
	defer context.AfterFunc(ctx, func() { c.Close() })()
	in := bufio.NewReaderSize(c, 2+sensible)
	var out []byte
	p := responder{guard: &s.guard}
	for served := 1; ; served++ {
		p.now = time.Now()
		if c.SetDeadline(p.now.Add(s.cfg.IdleTimeout)) != nil {
			return // closed already
		}
		packet, err := nextMessage(in)
		if err != nil {
			return
		}
		p.now = time.Now()
		c.active.Store(p.now.UnixNano())
		before := len(out)
		answer, code, why := p.respond(append(out, 0, 0), s.current.Load(), packet, c.from, true)
		if why == answered {
			s.metrics.count(overTCP, p.query.qtype, code)
			out = answer
			binary.BigEndian.PutUint16(out[before:], uint16(len(out)-before-2))
		} else {
			s.metrics.drops[why].Add(1)
		}
		last := why != answered || served >= s.cfg.MaxQueries || p.now.Sub(c.opened) >= s.cfg.Lifetime && s.conns.crowded()
		if !last && hasMessage(in) && len(out) < maxTCP {
			continue
		}
		if _, err = c.Write(out); err != nil || last {
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
	if _, err = in.Discard(2); err != nil {
		return nil, err
	}
	if n > sensible {
		message, err := io.ReadAll(io.LimitReader(in, int64(n)))
		if err == nil && len(message) < n {
			err = io.ErrUnexpectedEOF
		}
		return message, err
	}
	message, err := in.Peek(n)
	if err != nil {
		return nil, err
	}
	_, err = in.Discard(n) // the bytes stay where they are until the next read
	return message, err
}
