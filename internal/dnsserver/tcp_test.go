package dnsserver

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/miekg/dns"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/spillway-dev/spillway/internal/zone"
)

func framed(t testing.TB, m *dns.Msg) []byte {
	t.Helper()
	b, err := m.Pack()
	if err != nil {
		t.Fatal(err)
	}
	return append(binary.BigEndian.AppendUint16(nil, uint16(len(b))), b...)
}

// onPipe runs serveConn on one end of a pipe with a fake clock.
func onPipe(t *testing.T, cfg Config, f func(t *testing.T, client net.Conn, cancel context.CancelFunc)) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer(cfg)
		s.Publish(world(t, 0))
		client, server := net.Pipe()
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		done := make(chan struct{})
		go func() { defer close(done); s.serveConn(ctx, newConn(server, netip.MustParseAddr("192.0.2.1"))) }()
		f(t, client, cancel)
		client.Close()
		<-done
	})
}

func TestPipelinedQueriesAreAnsweredInOrder(t *testing.T) {
	onPipe(t, Config{}, func(t *testing.T, client net.Conn, _ context.CancelFunc) {
		var all []byte
		const n = 50
		for i := range n {
			q := question("shop.g.example.", dns.TypeA)
			q.Id = uint16(i)
			all = append(all, framed(t, q)...)
		}
		half := len(all) - 5 // the last query is cut: the others must not wait for its rest
		go client.Write(all[:half])
		for i := range n - 1 {
			if m := readMessage(t, client); m.Id != uint16(i) || len(m.Answer) != 1 {
				t.Fatalf("answer %d: %v", i, m)
			}
		}
		go client.Write(all[half:])
		if m := readMessage(t, client); m.Id != n-1 {
			t.Fatalf("%v", m)
		}
	})
}

func TestIdleConnectionIsClosed(t *testing.T) {
	onPipe(t, Config{IdleTimeout: 3 * time.Second}, func(t *testing.T, client net.Conn, _ context.CancelFunc) {
		begin := time.Now()
		go client.Write([]byte{0, 40, 1, 2, 3}) // a part of a query is as good as none
		if _, err := client.Read(make([]byte, 1)); !errors.Is(err, io.EOF) {
			t.Fatalf("%v", err)
		}
		if took := time.Since(begin); took != 3*time.Second {
			t.Fatalf("closed after %v", took)
		}
	})
}

func TestConnectionWithoutEndIsClosed(t *testing.T) {
	onPipe(t, Config{MaxQueries: 2}, func(t *testing.T, client net.Conn, _ context.CancelFunc) {
		q := framed(t, question("shop.g.example.", dns.TypeA))
		go client.Write(append(append(append([]byte{}, q...), q...), q...))
		readMessage(t, client)
		readMessage(t, client)
		if _, err := client.Read(make([]byte, 1)); !errors.Is(err, io.EOF) {
			t.Fatalf("%v", err)
		}
	})
}

func TestNonsenseClosesTheConnectionAfterTheAnswersBefore(t *testing.T) {
	onPipe(t, Config{}, func(t *testing.T, client net.Conn, _ context.CancelFunc) {
		q, begin := framed(t, question("shop.g.example.", dns.TypeA)), time.Now()
		go client.Write(append(append([]byte{}, q...), 0, 3, 1, 2, 3))
		readMessage(t, client)
		if _, err := client.Read(make([]byte, 1)); !errors.Is(err, io.EOF) || !time.Now().Equal(begin) {
			t.Fatalf("%v after %v", err, time.Since(begin))
		}
	})
}

// TestPaddedQueryIsAnswered: a query may have all of the 64 KiB of a message, and
// the one after it is where it belongs.
func TestPaddedQueryIsAnswered(t *testing.T) {
	onPipe(t, Config{}, func(t *testing.T, client net.Conn, _ context.CancelFunc) {
		for _, size := range []int{4000, 4090, 5000, 60000} {
			q := question("shop.g.example.", dns.TypeA).SetEdns0(1232, false)
			q.IsEdns0().Option = append(q.IsEdns0().Option, &dns.EDNS0_PADDING{Padding: make([]byte, size)})
			go client.Write(append(framed(t, q), framed(t, question("a.many.example.", dns.TypeA))...))
			if m := readMessage(t, client); len(m.Answer) != 1 {
				t.Fatalf("%d: %v", size, m)
			}
			if m := readMessage(t, client); len(m.Answer) != zone.MaxRecords {
				t.Fatalf("%d: %v", size, m)
			}
		}
	})
}

func TestEndOfContextClosesConnections(t *testing.T) {
	onPipe(t, Config{}, func(t *testing.T, client net.Conn, cancel context.CancelFunc) {
		synctest.Wait()
		cancel()
		if _, err := client.Read(make([]byte, 1)); !errors.Is(err, io.EOF) {
			t.Fatalf("%v", err)
		}
	})
}

// TestConnectionsMakeRoom: who has most makes room first, then who is idle.
func TestConnectionsMakeRoom(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := conns{max: 8}
		open := func(ip string) *conn {
			a, b := net.Pipe()
			b.Close()
			time.Sleep(time.Second)
			return newConn(a, netip.MustParseAddr(ip))
		}
		enter := func(c, want *conn) {
			t.Helper()
			if gone := s.enter(c); gone != want {
				t.Fatalf("%v had to go, want %v", gone, want)
			}
		}
		honest := open("198.51.100.7")
		enter(honest, nil)
		a, b, c := open("192.0.2.1"), open("192.0.2.200"), open("192.0.2.77")
		enter(a, nil)
		enter(b, nil)
		a.active.Store(time.Now().UnixNano()) // as c, which came later
		enter(c, b)                           // a /24 has a quarter of the room
		var six []*conn
		for _, ip := range []string{"2001:db8:0:1::1", "2001:db8:0:2::1", "2001:db8:0:3::1"} {
			six = append(six, open(ip))
		}
		enter(six[0], nil)
		enter(six[1], nil)
		enter(six[2], six[0]) // a /56 has, too
		for _, ip := range []string{"10.0.0.1", "10.0.1.1", "10.0.2.1"} {
			enter(open(ip), nil)
		}
		enter(open("10.0.3.1"), a) // it is full: of those who have most, the most idle one
		enter(open("10.0.4.1"), six[1])
		enter(open("10.0.5.1"), honest) // all have one: the most idle one
		if len(s.open) != 8 || !s.crowded() {
			t.Fatalf("%d are open", len(s.open))
		}
		s.leave(a) // is gone already
		for _, c := range slices.Clone(s.open) {
			s.leave(c)
		}
		if len(s.open)+len(s.each) != 0 || s.crowded() {
			t.Fatalf("remembered: %v %v", s.open, s.each)
		}
	})
}

// TestIdleClientsMakeRoom: four networks hold all connections and ask now and
// then; whoever else comes is served, each time.
func TestIdleClientsMakeRoom(t *testing.T) {
	const room = 16
	s, addr := start(t, Config{MaxConnections: room}, world(t, 0))
	dial := func(from string) net.Conn {
		d := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(from)}}
		c, err := d.Dial("tcp", addr)
		if err != nil {
			t.Fatal(err)
		}
		return c
	}
	ask := func(c net.Conn) {
		t.Helper()
		if _, err := c.Write(framed(t, question("shop.g.example.", dns.TypeA))); err != nil {
			t.Fatal(err)
		}
		c.SetReadDeadline(time.Now().Add(10 * time.Second))
		if m := readMessage(t, c); len(m.Answer) != 1 {
			t.Fatalf("%v", m)
		}
	}
	for i := range room {
		c := dial(fmt.Sprintf("127.9.%d.%d", i%4, 1+i/4))
		defer c.Close()
		ask(c)
	}
	for range 2 * room {
		c := dial("127.0.0.1")
		ask(c)
		c.Close()
	}
	if n := s.metrics.drops[dropLimit].Load(); n < 1 || n > 2*room {
		t.Errorf("%d connections had to go", n)
	}
}

// TestBusyConnectionEndsWhileOthersWantIn: without others it may stay.
func TestBusyConnectionEndsWhileOthersWantIn(t *testing.T) {
	for room, stays := range map[int]bool{1: false, 8: true} {
		synctest.Test(t, func(t *testing.T) {
			s := newServer(Config{MaxConnections: room})
			s.Publish(world(t, 0))
			client, server := net.Pipe()
			c := newConn(server, netip.MustParseAddr("192.0.2.1"))
			s.conns.enter(c)
			done := make(chan struct{})
			go func() { defer close(done); s.serveConn(t.Context(), c) }()
			for range 24 {
				go client.Write(framed(t, question("shop.g.example.", dns.TypeA)))
				readMessage(t, client)
				time.Sleep(5 * time.Second)
			}
			go client.Write(framed(t, question("shop.g.example.", dns.TypeA)))
			readMessage(t, client) // the last one, after two minutes, is answered still
			client.SetReadDeadline(time.Now().Add(time.Second))
			if _, err := client.Read(make([]byte, 1)); errors.Is(err, io.EOF) == stays {
				t.Errorf("room for %d: %v", room, err)
			}
			client.Close()
			<-done
		})
	}
}

// gauge is the value of a metric without labels.
func gauge(t *testing.T, s *Server, want string) float64 {
	t.Helper()
	reg := prometheus.NewRegistry()
	reg.MustRegister(s.Metrics())
	families, err := reg.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range families {
		if f.GetName() == want {
			return f.GetMetric()[0].GetGauge().GetValue()
		}
	}
	t.Fatalf("no metric %s", want)
	return 0
}
