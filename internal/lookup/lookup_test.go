package lookup

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/miekg/dns"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// servers is a fake world of DNS: records by name and type, or what goes wrong.
type servers struct {
	mu      sync.Mutex
	records map[string][]string // "NAME TYPE" to records
	fails   map[string]bool     // servers that do not answer
	asked   int
}

func (s *servers) set(key string, records ...string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.records[key] = records
}

func (s *servers) ask(_ context.Context, q *dns.Msg, server string) (*dns.Msg, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.asked++
	if s.fails[server] {
		return nil, errors.New("timeout")
	}
	key := strings.TrimSuffix(q.Question[0].Name, ".") + " " + dns.TypeToString[q.Question[0].Qtype]
	out := new(dns.Msg).SetReply(q)
	for _, text := range s.records[key] {
		if code, ok := dns.StringToRcode[text]; ok {
			out.Rcode = code
			continue
		}
		rr, err := dns.NewRR(text)
		if err != nil {
			return nil, err
		}
		out.Answer = append(out.Answer, rr)
	}
	return out, nil
}

// bubble runs a keeper over a fake world and a fake clock. after lets the clock run, and
// returns what was reported meanwhile.
func bubble(t *testing.T, cfg Config, f func(s *servers, k *Keeper, after func(time.Duration) []string)) {
	synctest.Test(t, func(t *testing.T) {
		s := &servers{records: map[string][]string{}, fails: map[string]bool{}}
		var mu sync.Mutex
		var said []string
		cfg.Servers, cfg.ask = []string{"one", "two"}, s.ask
		cfg.Report = func(name string, all []netip.Addr) {
			mu.Lock()
			defer mu.Unlock()
			said = append(said, fmt.Sprint(name, " ", all))
		}
		ctx, cancel := context.WithCancel(t.Context())
		k := New(ctx, cfg)
		f(s, k, func(d time.Duration) []string {
			<-time.After(d)
			synctest.Wait()
			mu.Lock()
			defer mu.Unlock()
			out := said
			said = nil
			return out
		})
		cancel()
		k.Wait()
	})
}

func expect(t *testing.T, what string, got []string, want ...string) {
	t.Helper()
	if !slices.Equal(got, want) {
		t.Errorf("%s: %q, want %q", what, got, want)
	}
}

func TestWhatIsFoundIsReportedWhenItChanges(t *testing.T) {
	bubble(t, Config{}, func(s *servers, k *Keeper, after func(time.Duration) []string) {
		s.set("lb.net A", "lb.net. 60 CNAME a.lb.net.", "a.lb.net. 20 A 192.0.2.2", "a.lb.net. 20 A 192.0.2.1", "b.lb.net. 20 A 192.0.2.9")
		s.set("lb.net AAAA", "lb.net. 60 CNAME a.lb.net.", "a.lb.net. 20 AAAA 2001:db8::1")
		k.Set([]string{"lb.net"})
		expect(t, "the first answer", after(time.Second), "lb.net [192.0.2.1 192.0.2.2 2001:db8::1]")
		before := s.asked
		expect(t, "it is used for its TTL", after(15*time.Second))
		if s.asked != before {
			t.Errorf("asked %d times within the TTL", s.asked-before)
		}
		s.set("lb.net A", "lb.net. 20 A 192.0.2.3")
		expect(t, "it changed", after(10*time.Second), "lb.net [192.0.2.3 2001:db8::1]")
	})
}

func TestAFailureTakesNothingAway(t *testing.T) {
	bubble(t, Config{Refuse: func(name string) bool { return strings.HasSuffix(name, "ours") }}, func(s *servers, k *Keeper, after func(time.Duration) []string) {
		s.set("lb.net A", "lb.net. 1 A 192.0.2.1")
		s.set("lb.net AAAA", "lb.net. 1 AAAA 2001:db8::1")
		k.Set([]string{"lb.net", "none.net"})
		expect(t, "found", after(time.Second), "lb.net [192.0.2.1 2001:db8::1]")
		for _, c := range []struct {
			what     string
			a, aaaa  []string
			silent   []string
			reported []string
		}{
			{"NXDOMAIN", []string{"NXDOMAIN"}, []string{"NXDOMAIN"}, nil, nil},
			{"no data", nil, nil, nil, nil},
			{"SERVFAIL", []string{"SERVFAIL"}, []string{"SERVFAIL"}, nil, nil},
			{"it leads into a zone of ours", []string{"lb.net. 1 CNAME shop.ours.", "shop.ours. 1 A 192.0.2.66"}, []string{"lb.net. 1 CNAME shop.ours."}, nil, nil},
			{"aliases without an end", []string{"lb.net. 1 CNAME a.net.", "a.net. 1 CNAME lb.net."}, []string{"lb.net. 1 CNAME lb.net."}, nil, nil},
			{"nobody answers", nil, nil, []string{"one", "two"}, nil},
			{"one family can't be had, the other one moved", []string{"lb.net. 1 A 192.0.2.2"}, []string{"SERVFAIL"}, nil, []string{"lb.net [192.0.2.2 2001:db8::1]"}},
			{"one server is lost", []string{"lb.net. 1 A 192.0.2.3"}, []string{"SERVFAIL"}, []string{"one"}, []string{"lb.net [192.0.2.3 2001:db8::1]"}},
			{"a family is gone", []string{"lb.net. 1 A 192.0.2.3"}, nil, nil, []string{"lb.net [192.0.2.3]"}},
		} {
			s.set("lb.net A", c.a...)
			s.set("lb.net AAAA", c.aaaa...)
			s.mu.Lock()
			s.fails = map[string]bool{}
			for _, server := range c.silent {
				s.fails[server] = true
			}
			s.mu.Unlock()
			expect(t, c.what, after(2*Shortest), c.reported...)
		}
	})
}

func TestNamesComeAndGo(t *testing.T) {
	bubble(t, Config{Parallel: 1}, func(s *servers, k *Keeper, after func(time.Duration) []string) {
		s.set("a.net A", "a.net. 3600 A 192.0.2.1")
		s.set("b.net A", "b.net. 3600 A 192.0.2.2")
		k.Set([]string{"a.net"})
		expect(t, "one", after(time.Second), "a.net [192.0.2.1]")
		k.Set([]string{"b.net"})
		expect(t, "the other", after(time.Second), "b.net [192.0.2.2]")
		s.set("a.net A", "a.net. 3600 A 192.0.2.3")
		s.set("b.net A", "b.net. 3600 A 192.0.2.4")
		expect(t, "an hour of TTL is a minute", after(Longest), "b.net [192.0.2.4]")
		k.Set(nil)
		expect(t, "none", after(time.Hour))
	})
}

// listen opens a port for UDP and for TCP. The kernel gives a port that is
// free for UDP, and a connection of another program may have it for TCP.
func listen(t *testing.T) (net.PacketConn, net.Listener) {
	t.Helper()
	var failed error
	for range 100 {
		pc, err := net.ListenPacket("udp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		l, err := net.Listen("tcp", pc.LocalAddr().String())
		if err == nil {
			return pc, l
		}
		failed = err
		_ = pc.Close()
	}
	t.Fatal(failed)
	return nil, nil
}

// TestRealServers: over UDP, and over TCP what does not fit.
func TestRealServers(t *testing.T) {
	for _, truncated := range []bool{false, true} {
		pc, l := listen(t)
		var servers []*dns.Server
		var ready sync.WaitGroup
		for _, s := range []*dns.Server{{PacketConn: pc}, {Listener: l}} {
			tcp := s.Listener != nil
			s.Handler = dns.HandlerFunc(func(w dns.ResponseWriter, q *dns.Msg) {
				out := new(dns.Msg).SetReply(q)
				if out.Truncated = truncated && !tcp; !out.Truncated && q.Question[0].Qtype == dns.TypeA {
					rr, _ := dns.NewRR("lb.net. 60 A 192.0.2.1")
					out.Answer = []dns.RR{rr}
				}
				_ = w.WriteMsg(out)
			})
			ready.Add(1)
			s.NotifyStartedFunc = ready.Done
			servers = append(servers, s)
			go func() { _ = s.ActivateAndServe() }()
		}
		ready.Wait()
		found := make(chan string, 1)
		ctx, cancel := context.WithCancel(t.Context())
		k := New(ctx, Config{Servers: []string{pc.LocalAddr().String()}, Report: func(name string, all []netip.Addr) { found <- fmt.Sprint(name, all) }})
		k.Set([]string{"lb.net"})
		if got := <-found; got != "lb.net[192.0.2.1]" {
			t.Errorf("truncated %v: %s", truncated, got)
		}
		cancel()
		k.Wait()
		for _, s := range servers {
			_ = s.Shutdown()
		}
	}
}
