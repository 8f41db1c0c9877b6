package dnsserver

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/netip"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/miekg/dns"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/spillway-dev/spillway/internal/zone"
)

const soa = "g.example. 20 IN SOA ns1.g.example. hostmaster.example. 7 1 2 3 20"

func TestAnswersOnTheWire(t *testing.T) {
	_, addr := start(t, Config{}, world(t, 0))
	for _, c := range []struct {
		q    *dns.Msg
		want string
	}{
		{question("shop.g.example.", dns.TypeA), "NOERROR aa | shop.g.example. 30 IN A 203.0.0.0 | |"},
		{question("shop.g.example.", dns.TypeAAAA), "NOERROR aa | shop.g.example. 30 IN AAAA 2001:db8:: | |"},
		{question("any.wild.g.example.", dns.TypeA), "NOERROR aa | any.wild.g.example. 30 IN A 203.0.0.0 | |"},
		{question("shop.g.example.", dns.TypeTXT), "NOERROR aa | | " + soa + " |"},
		{question("shop.g.example.", dns.TypeANY), `NOERROR aa | shop.g.example. 30 IN HINFO "RFC8482" "" | |`},
		{question("none.g.example.", dns.TypeA), "NXDOMAIN aa | | " + soa + " |"},
		{question("late.g.example.", dns.TypeA), "SERVFAIL | | |"},
		{question("g.example.", dns.TypeSOA), "NOERROR aa | " + strings.Replace(soa, "20 IN", "600 IN", 1) + " | |"},
		{question("g.example.", dns.TypeNS), "NOERROR aa | g.example. 600 IN NS ns1.g.example. g.example. 600 IN NS ns.elsewhere.test. | | ns1.g.example. 600 IN A 192.0.2.53 ns1.g.example. 600 IN AAAA 2001:db8::53"},
		{question("ns1.g.example.", dns.TypeA), "NOERROR aa | ns1.g.example. 600 IN A 192.0.2.53 | |"},
		{question("example.", dns.TypeA), "REFUSED | | |"},
		{question(".", dns.TypeNS), "REFUSED | | |"},
		{question("g.example.", dns.TypeAXFR), "REFUSED | | |"},
	} {
		for _, network := range []string{"udp", "tcp"} {
			c.q.RecursionDesired, c.q.CheckingDisabled = network == "udp", network == "tcp"
			r := ask(t, network, addr, c.q)
			if got := show(r); got != c.want {
				t.Errorf("%s %v\n got %s\nwant %s", network, c.q.Question, got, c.want)
			}
			if r.RecursionDesired != c.q.RecursionDesired || r.CheckingDisabled != c.q.CheckingDisabled || r.RecursionAvailable || r.AuthenticatedData {
				t.Errorf("%s %v: flags %v", network, c.q.Question, r.MsgHdr)
			}
		}
	}
}

func TestCaseOfTheQuestionIsKept(t *testing.T) {
	_, addr := start(t, Config{}, world(t, 0))
	r := ask(t, "udp", addr, question("sHoP.G.eXample.", dns.TypeA))
	if r.Question[0].Name != "sHoP.G.eXample." || len(r.Answer) != 1 || r.Answer[0].Header().Name != "sHoP.G.eXample." {
		t.Fatalf("%v", r)
	}
}

func TestClientSubnet(t *testing.T) {
	_, addr := start(t, Config{}, world(t, 0))
	for _, c := range []struct {
		name, prefix, want string
		scope              uint8
	}{
		{"shop.g.example.", "198.51.100.0/24", "203.0.1.0", 24},
		{"shop.g.example.", "198.51.100.7/32", "203.0.1.0", 24},
		{"shop.g.example.", "198.51.0.0/16", "203.0.0.0", 18},
		{"shop.g.example.", "12.0.0.0/8", "203.0.0.0", 1},
		{"shop.g.example.", "10.0.0.0/8", "203.0.0.0", 8},
		{"shop.g.example.", "2001:db8::/56", "203.0.0.0", 0},
		{"shop.g.example.", "0.0.0.0/0", "203.0.0.0", 0},
		{"ns1.g.example.", "198.51.100.0/24", "192.0.2.53", 0},
	} {
		r := ask(t, "udp", addr, withSubnet(question(c.name, dns.TypeA), c.prefix))
		s := subnetOf(r)
		if s == nil || s.SourceScope != c.scope || len(r.Answer) != 1 || r.Answer[0].(*dns.A).A.String() != c.want {
			t.Errorf("%s for %s: %s, subnet %v", c.name, c.prefix, show(r), s)
			continue
		}
		if p := netip.MustParsePrefix(c.prefix); int(s.SourceNetmask) != p.Bits() || s.Address.String() != p.Addr().String() {
			t.Errorf("%s came back as %v", c.prefix, s)
		}
	}
	if r := ask(t, "udp", addr, question("shop.g.example.", dns.TypeA).SetEdns0(1232, false)); subnetOf(r) != nil {
		t.Errorf("a subnet that nobody sent: %v", r)
	}
}

func TestEDNS(t *testing.T) {
	_, addr := start(t, Config{}, world(t, 0))
	r := ask(t, "udp", addr, question("shop.g.example.", dns.TypeA).SetEdns0(4096, true))
	if opt := r.IsEdns0(); opt == nil || opt.UDPSize() != maxUDP || !opt.Do() || opt.Version() != 0 {
		t.Errorf("%v", r)
	}
	q := question("shop.g.example.", dns.TypeA).SetEdns0(4096, false)
	q.IsEdns0().SetVersion(1)
	if r = ask(t, "udp", addr, q); r.Rcode != dns.RcodeBadVers || len(r.Answer) != 0 || r.IsEdns0().Version() != 0 {
		t.Errorf("%v", r)
	}
	if r = ask(t, "udp", addr, question("shop.g.example.", dns.TypeA)); r.IsEdns0() != nil {
		t.Errorf("EDNS that nobody asked for: %v", r)
	}
}

func TestWhatDoesNotFitIsTruncated(t *testing.T) {
	_, addr := start(t, Config{}, world(t, 0))
	// 32 AAAA records: 18 + 32*28 bytes, more than 512 and less than 1232.
	for _, c := range []struct {
		network string
		size    uint16
		tc      bool
	}{{"udp", 0, true}, {"udp", 100, true}, {"udp", 800, true}, {"udp", 1232, false}, {"udp", 65535, false}, {"tcp", 0, false}} {
		q := question("a.many.example.", dns.TypeAAAA)
		if c.size > 0 {
			q.SetEdns0(c.size, false)
		}
		r := ask(t, c.network, addr, q)
		want := zone.MaxRecords
		if c.tc {
			want = 0
		}
		if r.Truncated != c.tc || len(r.Answer) != want {
			t.Errorf("%s %d: tc %v, %d records", c.network, c.size, r.Truncated, len(r.Answer))
		}
	}
}

// TestEveryLimitIsKept asks for answers of all sizes with all limits.
func TestEveryLimitIsKept(t *testing.T) {
	spec := zone.Spec{Apex: name("large.example"), TTL: 30}
	for i := range 60 {
		host := name(fmt.Sprintf("a-rather-long-name-of-a-server-%d.large.example", i))
		spec.NameServers = append(spec.NameServers, zone.NameServer{Host: host, Addresses: []netip.Addr{netip.MustParseAddr("192.0.2.53")}})
	}
	large := world(t, 0).WithZone(zone.NewZone(spec))
	spec.Apex, spec.NameServers = name("glue.example"), nil
	for i := range 9 {
		host := name(fmt.Sprintf("a-rather-long-name-of-a-server-%d.glue.example", i))
		spec.NameServers = append(spec.NameServers, zone.NameServer{Host: host, Addresses: []netip.Addr{netip.MustParseAddr("192.0.2.53"), netip.MustParseAddr("2001:db8::1")}})
	}
	large = large.WithZone(zone.NewZone(spec))
	var p responder
	for _, c := range []struct {
		name     string
		qtype    uint16
		most     int // answer records without TC
		subnet   bool
		complete bool // fits into 1232
	}{
		{"a.many.example.", dns.TypeAAAA, zone.MaxRecords, true, true},
		{"a.many.example.", dns.TypeA, zone.MaxRecords, false, true},
		{"large.example.", dns.TypeNS, 60, true, false},
		{"glue.example.", dns.TypeNS, 9, true, true},
	} {
		for size := 500; size <= 1400; size++ {
			q := question(c.name, c.qtype).SetEdns0(uint16(size), false)
			if c.subnet {
				q = withSubnet(question(c.name, c.qtype), "2001:db8::/56")
				q.IsEdns0().SetUDPSize(uint16(size))
			}
			packet, err := q.Pack()
			if err != nil {
				t.Fatal(err)
			}
			out, _, _ := p.respond(nil, large, packet, netip.Addr{}, false)
			var got dns.Msg
			if err = got.Unpack(out); err != nil {
				t.Fatal(err)
			}
			if limit := min(max(size, 512), maxUDP); len(out) > limit {
				t.Fatalf("%s: %d bytes for a client that takes %d", c.name, len(out), size)
			}
			if got.Truncated == (len(got.Answer) > 0) || !got.Truncated && len(got.Answer) != c.most {
				t.Fatalf("%s: tc %v with %d records", c.name, got.Truncated, len(got.Answer))
			}
			if size >= maxUDP && got.Truncated == c.complete {
				t.Fatalf("%s: tc %v for a client that takes %d", c.name, got.Truncated, size)
			}
		}
	}
}

// TestGlueIsLeftOutByRRset: what is left out of the additional section is whole
// RRsets (RFC 2181, 9), and names are compressed well enough for most.
func TestGlueIsLeftOutByRRset(t *testing.T) {
	spec := zone.Spec{Apex: name("glue.example"), TTL: 30}
	for i := range 13 {
		ns := zone.NameServer{Host: name(fmt.Sprintf("server%d.dns.glue.example", i))}
		for j := range 4 {
			ns.Addresses = append(ns.Addresses, netip.AddrFrom4([4]byte{192, 0, byte(i), byte(j)}), netip.AddrFrom16([16]byte{0x20, 1, 14: byte(i), 15: byte(j)}))
		}
		spec.NameServers = append(spec.NameServers, ns)
	}
	snap := world(t, 0).WithZone(zone.NewZone(spec))
	var p responder
	for size := 512; size <= maxUDP; size++ {
		packet, err := question("glue.example.", dns.TypeNS).SetEdns0(uint16(size), false).Pack()
		if err != nil {
			t.Fatal(err)
		}
		out, _, _ := p.respond(nil, snap, packet, netip.Addr{}, false)
		var got dns.Msg
		if err = got.Unpack(out); err != nil || got.Truncated || len(got.Answer) != 13 || len(out) > size {
			t.Fatalf("%d: %v, %d bytes, %v", size, err, len(out), got)
		}
		sets := map[string]int{}
		for _, rr := range got.Extra {
			sets[fmt.Sprint(rr.Header().Name, rr.Header().Rrtype)]++
		}
		for set, n := range sets {
			if n != 4 && set != ".41" {
				t.Fatalf("%d: %d records of %s", size, n, set)
			}
		}
		if size == maxUDP && len(got.Extra) < 36 {
			t.Errorf("%d records", len(got.Extra))
		}
	}
	packet, _ := question("glue.example.", dns.TypeNS).Pack()
	if out, _, _ := p.respond(nil, snap, packet, netip.Addr{}, true); len(out) > 3000 {
		t.Errorf("%d bytes over TCP", len(out))
	}
}

// TestEveryAnswerHasEDNS: whatever is wrong with a query that has OPT, its answer
// has it (RFC 6891, 6.1.1), and the question, if there was one.
func TestEveryAnswerHasEDNS(t *testing.T) {
	_, addr := start(t, Config{}, world(t, 0))
	for _, c := range []struct {
		opcode, questions, rcode int
	}{
		{dns.OpcodeQuery, 1, dns.RcodeSuccess}, {dns.OpcodeQuery, 0, dns.RcodeFormatError},
		{dns.OpcodeNotify, 1, dns.RcodeRefused}, {dns.OpcodeUpdate, 1, dns.RcodeRefused}, {dns.OpcodeUpdate, 0, dns.RcodeRefused},
		{dns.OpcodeStatus, 0, dns.RcodeNotImplemented}, {dns.OpcodeIQuery, 1, dns.RcodeNotImplemented},
	} {
		q := question("shop.g.example.", dns.TypeSOA).SetEdns0(1232, true)
		q.Opcode = c.opcode
		q.Question = q.Question[:c.questions]
		for _, network := range []string{"udp", "tcp"} {
			r := ask(t, network, addr, q)
			if opt := r.IsEdns0(); r.Rcode != c.rcode || r.Opcode != c.opcode || len(r.Question) != c.questions || opt == nil || !opt.Do() {
				t.Errorf("%s %+v: %v", network, c, r)
			}
		}
	}
}

// signed adds a signature by a key that we don't have.
func signed(m *dns.Msg, key string) *dns.Msg {
	m.Extra = append(m.Extra, &dns.TSIG{
		Hdr:       dns.RR_Header{Name: key, Rrtype: dns.TypeTSIG, Class: dns.ClassANY},
		Algorithm: dns.HmacSHA256, TimeSigned: 1_900_000_000, Fudge: 300, MACSize: 32, MAC: strings.Repeat("ab", 32), OrigId: m.Id,
	})
	return m
}

// TestSigned: whatever is signed is told that we don't have the key, by a record
// without a signature, and gets nothing else (RFC 8945, 5.2.1).
func TestSigned(t *testing.T) {
	_, addr := start(t, Config{}, world(t, 0))
	for _, c := range []struct {
		what    string
		network string
		opcode  int
		edns    bool
		change  func(m *dns.Msg)
		rcode   int
		tsig    bool
	}{
		{"a query", "udp", dns.OpcodeQuery, false, nil, dns.RcodeNotAuth, true},
		{"a query with EDNS", "udp", dns.OpcodeQuery, true, nil, dns.RcodeNotAuth, true},
		{"over TCP", "tcp", dns.OpcodeQuery, true, nil, dns.RcodeNotAuth, true},
		{"an update", "udp", dns.OpcodeUpdate, false, nil, dns.RcodeNotAuth, true},
		{"not the last record", "udp", dns.OpcodeQuery, false, func(m *dns.Msg) { m.SetEdns0(1232, false) }, dns.RcodeFormatError, false},
		{"twice", "udp", dns.OpcodeQuery, false, func(m *dns.Msg) { signed(m, "key.example.") }, dns.RcodeFormatError, false},
		{"in the answer section", "udp", dns.OpcodeQuery, false, func(m *dns.Msg) { m.Answer, m.Extra = m.Extra, nil }, dns.RcodeFormatError, false},
	} {
		q := question("shop.g.example.", dns.TypeA)
		q.Opcode = c.opcode
		if c.edns {
			q.SetEdns0(1232, false)
		}
		if signed(q, "key.example."); c.change != nil {
			c.change(q)
		}
		packet, err := q.Pack()
		if err != nil {
			t.Fatal(err)
		}
		conn, err := dns.Dial(c.network, addr)
		if err != nil {
			t.Fatal(err)
		}
		conn.Write(packet)
		answer, err := conn.ReadMsgHeader(nil)
		conn.Close()
		r := new(dns.Msg)
		if err := errors.Join(err, r.Unpack(answer)); err != nil {
			t.Fatalf("%s: %v", c.what, err)
		}
		if r.Rcode != c.rcode || r.Opcode != c.opcode || r.Truncated || len(r.Answer) != 0 || (r.IsEdns0() != nil) != (c.edns) && c.tsig {
			t.Errorf("%s: %v", c.what, r)
		}
		is := r.IsTsig()
		if (is != nil) != c.tsig {
			t.Errorf("%s: %v", c.what, r)
		}
		if is != nil && (is.Hdr.Name != "key.example." || is.Algorithm != dns.HmacSHA256 || is.TimeSigned != 1_900_000_000 || is.MACSize != 0 || is.OrigId != q.Id || is.Error != dns.RcodeBadKey) {
			t.Errorf("%s: %v", c.what, is)
		}
	}
	// What does not fit is over TCP.
	long := strings.Repeat(strings.Repeat("k", 60)+".", 4)
	packet, err := signed(question(strings.Repeat(strings.Repeat("h", 60)+".", 4), dns.TypeA), long).Pack()
	if err != nil {
		t.Fatal(err)
	}
	var p responder
	for _, tcp := range []bool{false, true} {
		out, code, _ := p.respond(nil, world(t, 0), packet, netip.Addr{}, tcp)
		var r dns.Msg
		if err := r.Unpack(out); err != nil || code != zone.NotAuth || r.Truncated == tcp || (r.IsTsig() != nil) != tcp {
			t.Errorf("tcp %v: %v, %v", tcp, err, &r)
		}
	}
}

// TestLongNames asks names around the limit of 255 bytes.
func TestLongNames(t *testing.T) {
	snap := world(t, 0)
	var p responder
	for size := 250; size <= 260; size++ {
		packet := append([]byte{0, 1, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0}, 63)
		for len(packet)-headerSize < size-1 {
			packet = append(packet, 'A')
			if at := len(packet) - headerSize; at%64 == 0 && at < size-1 {
				packet = append(packet, byte(min(63, size-2-at)))
			}
		}
		packet = append(packet, 0, 0, 1, 0, 1)
		want := zone.Refused
		if size > zone.MaxName {
			want = zone.FormErr
		}
		if _, code, why := p.respond(nil, snap, packet, netip.Addr{}, false); code != want || why != answered {
			t.Errorf("a name of %d bytes: %v, want %v", size, code, want)
		}
	}
}

func TestBeforeTheFirstSnapshotItFails(t *testing.T) {
	s, addr := start(t, Config{}, nil)
	if r := ask(t, "udp", addr, question("shop.g.example.", dns.TypeA)); r.Rcode != dns.RcodeServerFailure {
		t.Fatalf("%v", r)
	}
	s.SetGeo(nowhere{})
	if r := ask(t, "udp", addr, question("shop.g.example.", dns.TypeA)); r.Rcode != dns.RcodeServerFailure {
		t.Fatalf("%v", r)
	}
	s.Publish(world(t, 0))
	if r := ask(t, "udp", addr, question("shop.g.example.", dns.TypeA)); r.Rcode != dns.RcodeSuccess {
		t.Fatalf("%v", r)
	}
}

// TestRaw sends what no client library would.
func TestRaw(t *testing.T) {
	_, addr := start(t, Config{}, world(t, 0))
	pack := func(m *dns.Msg) []byte {
		b, err := m.Pack()
		if err != nil {
			t.Fatal(err)
		}
		return b
	}
	plain := pack(question("shop.g.example.", dns.TypeA))
	edit := func(b []byte, at int, v ...byte) []byte {
		b = bytes.Clone(b)
		copy(b[at:], v)
		return b
	}
	ecs := pack(withSubnet(question("shop.g.example.", dns.TypeA), "198.51.100.0/24"))
	subnet := len(ecs) - 7 // family, source, scope and three bytes of address
	opt := pack(question("shop.g.example.", dns.TypeA).SetEdns0(1232, false))
	two := append(edit(opt, 11, 2), opt[len(opt)-11:]...)
	for _, c := range []struct {
		what   string
		packet []byte
		rcode  int // -1: no answer
	}{
		{"a good one", plain, dns.RcodeSuccess},
		{"empty", nil, -1},
		{"half a header", plain[:7], -1},
		{"a response", edit(plain, 2, 0x81), -1},
		{"only a header", plain[:12], dns.RcodeFormatError},
		{"half a question", plain[:20], dns.RcodeFormatError},
		{"no question", edit(plain[:12], 5, 0), dns.RcodeFormatError},
		{"two questions", append(edit(plain, 5, 2), plain[12:]...), dns.RcodeFormatError},
		{"something after the end", append(bytes.Clone(plain), 0), dns.RcodeFormatError},
		{"an answer that is not there", edit(plain, 7, 1), dns.RcodeFormatError},
		{"a pointer for a name", edit(plain, 12, 0xc0, 0x0c), dns.RcodeFormatError},
		{"a label of 64", edit(plain, 12, 64), dns.RcodeFormatError},
		{"notify", edit(plain, 2, opcodeNotify<<3), dns.RcodeRefused},
		{"update", edit(plain, 2, opcodeUpdate<<3), dns.RcodeRefused},
		{"status", edit(plain, 2, 2<<3), dns.RcodeNotImplemented},
		{"two OPT", two, dns.RcodeFormatError},
		{"OPT in the answer section", edit(opt, 7, 1, 0, 0, 0, 0), dns.RcodeFormatError},
		{"an option longer than OPT", edit(ecs, subnet-1, 200), dns.RcodeFormatError},
		{"a good subnet", ecs, dns.RcodeSuccess},
		{"a subnet of an unknown family", edit(ecs, subnet, 0, 9), dns.RcodeFormatError},
		{"a subnet with too much address", edit(ecs, subnet+2, 16), dns.RcodeFormatError},
		{"a subnet with too little address", edit(ecs, subnet+2, 25), dns.RcodeFormatError},
		{"a subnet with bits after its length", edit(ecs, subnet+2, 22, 0, 198, 51, 101), dns.RcodeFormatError},
		{"a subnet longer than an address", edit(ecs, subnet+2, 33), dns.RcodeFormatError},
		{"a subnet with a scope", edit(ecs, subnet+3, 24), dns.RcodeFormatError},
		{"class CHAOS", edit(plain, len(plain)-1, 3), dns.RcodeRefused},
		{"type OPT", edit(plain, len(plain)-3, 41), dns.RcodeFormatError},
		{"type MAILB", edit(plain, len(plain)-3, 253), dns.RcodeNotImplemented},
	} {
		conn, err := net.Dial("udp", addr)
		if err != nil {
			t.Fatal(err)
		}
		conn.Write(c.packet)
		conn.Write(edit(plain, 0, 0xff, 0xff)) // is answered after it, so that silence is seen without waiting
		answer := make([]byte, maxPacket)
		conn.SetReadDeadline(time.Now().Add(10 * time.Second))
		n, err := conn.Read(answer)
		conn.Close()
		if err != nil {
			t.Fatalf("%s: %v", c.what, err)
		}
		got := int(answer[3] & 15)
		if binary.BigEndian.Uint16(answer) == 0xffff {
			got = -1
		}
		if got != c.rcode {
			t.Errorf("%s: rcode %d, want %d", c.what, got, c.rcode)
		}
		if err = new(dns.Msg).Unpack(answer[:n]); err != nil {
			t.Errorf("%s: %v", c.what, err)
		}
	}
}

// TestSwapUnderLoad publishes all the time while clients ask: each answer is of
// one snapshot, and none is lost.
func TestSwapUnderLoad(t *testing.T) {
	a := world(t, 0)
	b := a.WithHost(name("shop.g.example"), zone.NewRecordSet([]*zone.Edge{edge(7, 3)}))
	s, addr := start(t, Config{Sockets: 2}, a)
	var stop atomic.Bool
	var publishers, askers sync.WaitGroup
	publishers.Go(func() {
		for i := 0; !stop.Load(); i++ {
			s.Publish([]*zone.Snapshot{a, b}[i%2])
		}
	})
	for range 4 {
		askers.Go(func() {
			c := dns.Client{}
			conn, err := c.Dial(addr)
			if err != nil {
				t.Error(err)
				return
			}
			defer conn.Close()
			for range 500 {
				r, _, err := c.ExchangeWithConn(question("shop.g.example.", dns.TypeA), conn)
				if err != nil {
					t.Error(err)
					return
				}
				first := r.Answer[0].(*dns.A).A.String()
				if whole := len(r.Answer) == 1 && first == "203.0.0.0" || len(r.Answer) == 3 && first == "203.0.7.0"; !whole {
					t.Errorf("%v", r.Answer)
				}
			}
		})
	}
	askers.Wait()
	stop.Store(true)
	publishers.Wait()
}

func TestWildcardAddressAnswersFromTheAddressAsked(t *testing.T) {
	_, addr := start(t, Config{Listen: []string{":0"}}, world(t, 0))
	_, port, err := net.SplitHostPort(addr)
	if err != nil {
		t.Fatal(err)
	}
	for _, ip := range []string{"127.0.0.1", "127.0.0.2"} { // a connected socket hears only the address it asked
		if r := ask(t, "udp", net.JoinHostPort(ip, port), question("shop.g.example.", dns.TypeA)); len(r.Answer) != 1 {
			t.Errorf("%s: %v", ip, r)
		}
	}
}

func TestOnePacketAtATime(t *testing.T) {
	s, err := Listen(Config{Listen: []string{"127.0.0.1:0"}, Sockets: 1})
	if err != nil {
		t.Fatal(err)
	}
	s.Publish(world(t, 0))
	done := make(chan error)
	go func() { done <- s.servePackets(s.udp[0]) }()
	if r := ask(t, "udp", s.Addrs()[0].String(), question("shop.g.example.", dns.TypeA)); len(r.Answer) != 1 {
		t.Errorf("%v", r)
	}
	s.close()
	if err := <-done; err == nil {
		t.Error("no error from a closed socket")
	}
}

func TestListenSaysWhatToDo(t *testing.T) {
	_, addr := start(t, Config{}, nil)
	for listen, want := range map[string]string{
		addr:              "address already in use: stop what listens there, or choose another address with --dns-address",
		"192.0.2.1:1053":  "check that this machine has the address",
		"nonsense":        `cannot listen on "nonsense": want an IP address and a port`,
		"localhost:1053":  "want an IP address and a port",
		"127.0.0.1:99999": "want an IP address and a port",
	} {
		s, err := Listen(Config{Listen: []string{listen}, Sockets: 2})
		if err == nil {
			s.close()
			t.Errorf("%s: no error", listen)
			continue
		}
		if !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "\n") {
			t.Errorf("%s: %v", listen, err)
		}
	}
}

func TestMetricsAndLogsKnowNoClient(t *testing.T) {
	var log bytes.Buffer
	s, addr := start(t, Config{Log: slog.New(slog.NewTextHandler(&log, nil))}, world(t, 0))
	ask(t, "udp", addr, withSubnet(question("shop.g.example.", dns.TypeA), "198.51.100.0/24"))
	ask(t, "udp", addr, question("shop.g.example.", 9999))
	ask(t, "tcp", addr, question("none.g.example.", dns.TypeAAAA))
	want := `# HELP spillway_dns_queries_total DNS queries answered.
# TYPE spillway_dns_queries_total counter
spillway_dns_queries_total{rcode="NOERROR",transport="udp",type="A"} 1
spillway_dns_queries_total{rcode="NOERROR",transport="udp",type="other"} 1
spillway_dns_queries_total{rcode="NXDOMAIN",transport="tcp",type="AAAA"} 1
`
	if err := testutil.CollectAndCompare(s.Metrics(), strings.NewReader(want), "spillway_dns_queries_total"); err != nil {
		t.Error(err)
	}
	s.SetStale(time.Now().Add(-time.Hour))
	if v := gauge(t, s, "spillway_dns_stale_seconds"); v < 3600 {
		t.Errorf("stale for %v", v)
	}
	s.SetStale(time.Time{})
	if v := gauge(t, s, "spillway_dns_stale_seconds"); v != 0 {
		t.Errorf("stale for %v", v)
	}
	if strings.Contains(log.String(), "198.51") || strings.Count(log.String(), "\n") != 1 {
		t.Errorf("log: %s", log.String())
	}
}

func readMessage(t testing.TB, r io.Reader) *dns.Msg {
	t.Helper()
	var length [2]byte
	if _, err := io.ReadFull(r, length[:]); err != nil {
		t.Fatal(err)
	}
	b := make([]byte, binary.BigEndian.Uint16(length[:]))
	if _, err := io.ReadFull(r, b); err != nil {
		t.Fatal(err)
	}
	m := new(dns.Msg)
	if err := m.Unpack(b); err != nil {
		t.Fatal(err)
	}
	return m
}
