package dnsserver

import (
	"context"
	"encoding/binary"
	"errors"
	"io"
	"net"
	"net/netip"
	"testing"
	"testing/synctest"
	"time"

	"github.com/miekg/dns"
	"github.com/prometheus/client_golang/prometheus"
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
		s := &Server{cfg: cfg.withDefaults()}
		s.Publish(world(t, 0))
		client, server := net.Pipe()
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		done := make(chan struct{})
		go func() { defer close(done); s.serveConn(ctx, server, netip.MustParseAddr("192.0.2.1")) }()
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

func TestHugeQueryClosesTheConnection(t *testing.T) {
	onPipe(t, Config{}, func(t *testing.T, client net.Conn, _ context.CancelFunc) {
		go client.Write([]byte{0xff, 0xff, 1})
		if _, err := client.Read(make([]byte, 1)); !errors.Is(err, io.EOF) {
			t.Fatalf("%v", err)
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

func TestConnectionLimits(t *testing.T) {
	c := clients{max: 8}
	a, b := netip.MustParseAddr("192.0.2.1"), netip.MustParseAddr("192.0.2.2")
	for i := range 3 {
		if got := c.enter(a); got != (i < 2) {
			t.Fatalf("connection %d of one client: %v", i, got)
		}
	}
	for i := range 8 {
		c.enter(netip.AddrFrom4([4]byte{10, 0, 0, byte(i)}))
	}
	if c.all != 8 || c.enter(b) {
		t.Fatalf("%d connections, and one more", c.all)
	}
	c.leave(a)
	if !c.enter(b) {
		t.Fatal("no room after one left")
	}
	c.leave(a)
	if _, known := c.each[a]; known {
		t.Fatal("a client that left is remembered")
	}
}

func TestConnectionOverTheLimitIsClosed(t *testing.T) {
	_, addr := start(t, Config{MaxConnections: 1}, world(t, 0))
	c := dns.Client{Net: "tcp"}
	first, err := c.Dial(addr)
	if err != nil {
		t.Fatal(err)
	}
	defer first.Close()
	if _, _, err = c.ExchangeWithConn(question("shop.g.example.", dns.TypeA), first); err != nil {
		t.Fatal(err)
	}
	second, err := net.Dial("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	defer second.Close()
	if n, err := second.Read(make([]byte, 1)); err == nil {
		t.Fatalf("read %d bytes", n)
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
