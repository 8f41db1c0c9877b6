package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"time"

	"github.com/miekg/dns"

	"github.com/spillway-dev/spillway/internal/lab/user"
)

// sources are the addresses that DNS is asked from: 127.66.0.1 and following,
// far from honest clients.
type sources struct {
	server  string
	sockets []net.Conn // UDP
}

const sourceCount = 250

func source(n int) net.IP { return net.IPv4(127, 66, byte(n/200%5), byte(1+n%200)) }

func newSources(server string) (*sources, error) {
	s := &sources{server: server}
	to, err := net.ResolveUDPAddr("udp", server)
	if err != nil {
		return nil, err
	}
	for i := range sourceCount {
		conn, err := net.DialUDP("udp", &net.UDPAddr{IP: source(i)}, to)
		if err != nil {
			return nil, errors.Join(fmt.Errorf("DNS from %s: %w", source(i), err), s.close())
		}
		s.sockets = append(s.sockets, conn)
	}
	return s, nil
}

func (s *sources) close() error {
	var errs []error
	for _, c := range s.sockets {
		errs = append(errs, c.Close())
	}
	return errors.Join(errs...)
}

// datagram sends one packet and reads nothing.
func (a *attackers) datagram(_ context.Context, n int) error {
	packet, err := question(n)
	if err == nil {
		_, err = a.sources.sockets[n%sourceCount].Write(packet)
	}
	return err
}

// question is a packet of one kind after another.
func question(n int) ([]byte, error) {
	q := new(dns.Msg)
	switch n % 5 {
	case 0:
		q.SetQuestion(fmt.Sprintf("n%d.broken.example.", n), dns.TypeA)
	case 1:
		q.SetQuestion("steady-0.example.", dns.TypeANY)
	case 2:
		q.SetQuestion("steady-1.example.", dns.TypeA)
		opt := &dns.OPT{Hdr: dns.RR_Header{Name: ".", Rrtype: dns.TypeOPT}}
		opt.SetUDPSize(65535)
		opt.Option = append(opt.Option, &dns.EDNS0_SUBNET{
			Code: dns.EDNS0SUBNET, Family: 1, SourceNetmask: 24, Address: net.IPv4(byte(1+n%223), byte(n>>8), byte(n>>16), 0),
		})
		q.Extra = append(q.Extra, opt)
	case 3:
		q.SetQuestion(fmt.Sprintf("n%d.elsewhere.invalid.", n), dns.TypeAXFR)
	default:
		out := make([]byte, rand.IntN(512))
		for i := range out {
			out[i] = byte(rand.Uint32())
		}
		return out, nil
	}
	return q.Pack()
}

// Connections that nobody needs.
const (
	idleLasts = 20 * time.Second
	askAgain  = 8 * time.Second
)

// idle holds a connection as long as it is let.
func (a *attackers) idle(ctx context.Context, n int) error {
	d := net.Dialer{LocalAddr: &net.TCPAddr{IP: source(n)}, Timeout: idleLasts}
	conn, err := d.DialContext(ctx, "tcp", a.sources.server)
	if err != nil {
		return err
	}
	defer conn.Close()
	stop := context.AfterFunc(ctx, func() { _ = conn.Close() })
	defer stop()
	ctx, cancel := context.WithTimeout(ctx, idleLasts)
	defer cancel()
	for ctx.Err() == nil {
		switch n % 3 {
		case 1:
			_, err = conn.Write([]byte{2, 0, 1, 2, 3}) // half of 512 bytes and less
		case 2:
			q := new(dns.Msg)
			q.SetQuestion("steady-2.example.", dns.TypeA)
			err = (&dns.Conn{Conn: conn}).WriteMsg(q)
		}
		if err != nil {
			return err
		}
		user.Rest(ctx, askAgain)
	}
	return nil
}
