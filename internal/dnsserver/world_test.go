package dnsserver

import (
	"context"
	"fmt"
	"net/netip"
	"os"
	"strings"
	"testing"

	"github.com/miekg/dns"
	"github.com/spillway-dev/spillway/internal/model"
	"github.com/spillway-dev/spillway/internal/zone"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) {
	if os.Getenv(benchServer) != "" {
		serveForBench()
		return
	}
	goleak.VerifyTestMain(m)
}

func name(text string) zone.Name {
	n, err := zone.ParseName(text)
	if err != nil {
		panic(err)
	}
	return n
}

// edge makes an edge number i with n addresses of each family.
func edge(i, n int) *zone.Edge {
	var addrs []netip.Addr
	for j := range n {
		addrs = append(addrs, netip.AddrFrom4([4]byte{203, 0, byte(i), byte(j)}), netip.MustParseAddr(fmt.Sprintf("2001:db8:%x::%x", i, j)))
	}
	return zone.NewEdge(model.Edge(fmt.Sprintf("e%d", i)), model.Place{Region: fmt.Sprintf("r%d", i)}, addrs)
}

// world is a small snapshot: g.example with a few hosts, and places for TEST-NET-2.
func world(t testing.TB, hosts int) *zone.Snapshot {
	t.Helper()
	spec := zone.Spec{
		Apex: name("g.example"), TTL: 30, ServerTTL: 600, Answers: 1,
		SOA: zone.SOA{MName: name("ns1.g.example"), RName: name("hostmaster.example"), Serial: 7, Refresh: 1, Retry: 2, Expire: 3, Minimum: 20},
		NameServers: []zone.NameServer{
			{Host: name("ns1.g.example"), Addresses: []netip.Addr{netip.MustParseAddr("192.0.2.53"), netip.MustParseAddr("2001:db8::53")}},
			{Host: name("ns.elsewhere.test")},
		},
	}
	many := spec
	many.Apex, many.Answers = name("many.example"), 8
	s := (&zone.Snapshot{}).WithZone(zone.NewZone(spec)).WithZone(zone.NewZone(many))
	edges := []*zone.Edge{edge(0, 1), edge(1, 1)}
	set := zone.NewRecordSet(edges)
	for i := range hosts {
		s = s.WithHost(name(fmt.Sprintf("h%d.g.example", i)), set)
	}
	for i := 2; i < 10; i++ {
		edges = append(edges, edge(i, 8))
	}
	s = s.WithHost(name("shop.g.example"), set).WithHost(name("*.wild.g.example"), set).WithHost(name("late.g.example"), zone.HeldRecordSet())
	s = s.WithHost(name("a.many.example"), zone.NewRecordSet(edges[2:]))
	places, err := zone.NewPlaces([]zone.PlaceEntry{{Prefix: netip.MustParsePrefix("198.51.100.0/24"), Place: model.Place{Region: "r1"}}})
	if err != nil {
		t.Fatal(err)
	}
	return s.WithPlaces(places)
}

// start runs a server on a free port of the loopback until the test ends.
func start(t testing.TB, cfg Config, snap *zone.Snapshot) (*Server, string) {
	t.Helper()
	if cfg.Listen == nil {
		cfg.Listen = []string{"127.0.0.1:0"}
	}
	s, err := Listen(cfg)
	if err != nil {
		t.Fatal(err)
	}
	s.Publish(snap)
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() { defer close(done); s.Serve(ctx) }()
	t.Cleanup(func() { cancel(); <-done })
	return s, s.Addrs()[0].String()
}

// ask sends a query as dig would.
func ask(t testing.TB, network, addr string, m *dns.Msg) *dns.Msg {
	t.Helper()
	c := dns.Client{Net: network, UDPSize: 4096}
	r, _, err := c.Exchange(m, addr)
	if err != nil {
		t.Fatalf("%s %v: %v", network, m.Question, err)
	}
	return r
}

func question(text string, qtype uint16) *dns.Msg { return new(dns.Msg).SetQuestion(text, qtype) }

// withSubnet adds a client subnet.
func withSubnet(m *dns.Msg, prefix string) *dns.Msg {
	p := netip.MustParsePrefix(prefix)
	family := uint16(1)
	if p.Addr().Is6() {
		family = 2
	}
	m.SetEdns0(1232, false)
	opt := m.IsEdns0()
	opt.Option = append(opt.Option, &dns.EDNS0_SUBNET{Code: dns.EDNS0SUBNET, Family: family, SourceNetmask: uint8(p.Bits()), Address: p.Addr().AsSlice()})
	return m
}

func subnetOf(m *dns.Msg) *dns.EDNS0_SUBNET {
	if opt := m.IsEdns0(); opt != nil {
		for _, o := range opt.Option {
			if s, ok := o.(*dns.EDNS0_SUBNET); ok {
				return s
			}
		}
	}
	return nil
}

// show is the sections of a message without what every answer has.
func show(m *dns.Msg) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s", dns.RcodeToString[m.Rcode])
	if m.Authoritative {
		b.WriteString(" aa")
	}
	if m.Truncated {
		b.WriteString(" tc")
	}
	for _, section := range [][]dns.RR{m.Answer, m.Ns, m.Extra} {
		b.WriteString(" |")
		for _, rr := range section {
			if rr.Header().Rrtype != dns.TypeOPT {
				fmt.Fprintf(&b, " %s", strings.Join(strings.Fields(rr.String()), " "))
			}
		}
	}
	return b.String()
}
