package lab

import (
	"fmt"

	"github.com/miekg/dns"
)

// serveNames resolves the names of load balancers, if there are any. stop ends it.
func (s *supervisor) serveNames() (stop func(), err error) {
	names := s.spec.names()
	if len(names) == 0 {
		return func() {}, nil
	}
	conn, err := s.host.ListenPacket(s.spec.NamesAddress())
	if err != nil {
		return nil, fmt.Errorf("names of load balancers: %w: is another lab running? Give this one --loopback, such as 127.1", err)
	}
	server := &dns.Server{PacketConn: conn, Handler: dns.HandlerFunc(func(w dns.ResponseWriter, q *dns.Msg) { _ = w.WriteMsg(answerName(names, q)) })}
	go func() {
		if err := server.ActivateAndServe(); err != nil {
			s.log.Warn("names of load balancers are not resolved", "error", err)
		}
	}()
	return func() { _ = server.Shutdown() }, nil
}
