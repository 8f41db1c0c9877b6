package echo

import (
	"bufio"
	"encoding/json"
	"io"
	"net"
	"sync"
)

const lineLimit = 64 << 10

// connSet holds the connections that nobody else would close.
type connSet struct {
	mu     sync.Mutex
	conns  map[io.Closer]bool
	closed bool
}

// add closes c and returns false when the set is closed already.
func (s *connSet) add(c io.Closer) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		c.Close()
		return false
	}
	if s.conns == nil {
		s.conns = map[io.Closer]bool{}
	}
	s.conns[c] = true
	return true
}

func (s *connSet) remove(c io.Closer) {
	c.Close()
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.conns, c)
}

func (s *connSet) close() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closed = true
	for c := range s.conns {
		c.Close()
	}
}

// serveTCP answers every line with one Answer on a line.
func (s *Server) serveTCP() {
	var wg sync.WaitGroup
	defer wg.Wait()
	for {
		c, err := s.tcp.Accept()
		if err != nil {
			return
		}
		if !s.conns.add(c) {
			return
		}
		wg.Go(func() {
			defer s.conns.remove(c)
			s.lines(c)
		})
	}
}

func (s *Server) lines(c net.Conn) {
	in := bufio.NewScanner(c)
	in.Buffer(nil, lineLimit)
	out := json.NewEncoder(c)
	for in.Scan() {
		a := Answer{Identity: s.cfg.Identity, Protocol: "TCP", Remote: c.RemoteAddr().String(), Received: in.Text()}
		if out.Encode(a) != nil {
			return
		}
	}
}

// serveUDP answers every datagram with one Answer.
func (s *Server) serveUDP() {
	buf := make([]byte, lineLimit)
	for {
		n, from, err := s.udp.ReadFrom(buf)
		if err != nil {
			return
		}
		a := Answer{Identity: s.cfg.Identity, Protocol: "UDP", Remote: from.String(), Received: string(buf[:n])}
		if b, err := json.Marshal(a); err == nil {
			_, _ = s.udp.WriteTo(b, from)
		}
	}
}
