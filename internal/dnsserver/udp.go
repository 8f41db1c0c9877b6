package dnsserver

import (
	"context"
	"errors"
	"net"
	"time"
)

const (
	maxPacket = 2048 // how much of a UDP query is read; more is cut off and FORMERR
	slack     = 1024 // room for the record that turns out not to fit
)

// serveUDP answers until the socket is closed: many packets a system call where
// the system can, else one.
func (s *Server) serveUDP(ctx context.Context, conn *net.UDPConn) {
	for {
		err := s.serveSocket(conn)
		if errors.Is(err, net.ErrClosed) || ctx.Err() != nil {
			return
		}
		s.cfg.Log.Warn("dns: reading from UDP failed", "error", err)
		if !pause(ctx) {
			return
		}
	}
}

// servePackets reads and answers one packet at a time until reading fails.
func (s *Server) servePackets(conn *net.UDPConn) error {
	p := responder{guard: &s.guard}
	in, out, control := make([]byte, maxPacket), make([]byte, 0, maxUDP+slack), make([]byte, controlSize)
	for {
		n, controls, _, from, err := conn.ReadMsgUDPAddrPort(in, control)
		if err != nil {
			return err
		}
		p.now = time.Now()
		answer, code, why := p.respond(out, s.current.Load(), in[:n], from.Addr().Unmap(), false)
		if why != answered {
			s.metrics.drops[why].Add(1)
			continue
		}
		s.metrics.count(overUDP, p.query.qtype, code)
		if _, _, err = conn.WriteMsgUDPAddrPort(answer, sourceControl(control[:controls]), from); err != nil {
			s.metrics.drops[dropSend].Add(1)
		}
	}
}
