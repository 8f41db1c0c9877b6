package dnsserver

import (
	"encoding/binary"
	"encoding/hex"
	"net"
	"net/netip"
	"testing"
	"time"

	"github.com/miekg/dns"
	"github.com/spillway-dev/spillway/internal/zone"
)

// guarded is a responder with limits whose time stands still.
func guarded(cfg Config) *responder {
	return &responder{guard: &newServer(cfg).guard, now: time.Now()}
}

// tally asks n times and counts whole answers, those with TC, and none.
func tally(t *testing.T, p *responder, s *zone.Snapshot, m *dns.Msg, from string, n int, tcp bool) (whole, cut, none int) {
	t.Helper()
	packet, err := m.Pack()
	if err != nil {
		t.Fatal(err)
	}
	for range n {
		out, _, why := p.respond(nil, s, packet, netip.MustParseAddr(from), tcp)
		var got dns.Msg
		switch {
		case why == dropRate:
			none++
			continue
		case why != answered || got.Unpack(out) != nil:
			t.Fatalf("%v, % x", why, out)
		case got.Truncated:
			cut++
			if len(out) > len(packet)+16 {
				t.Fatalf("%d bytes for %d", len(out), len(packet))
			}
		default:
			whole++
		}
	}
	return whole, cut, none
}

// TestRateLimit: a network gets its share a second of each kind of answer from
// each zone, then eight times as many with TC, then none.
func TestRateLimit(t *testing.T) {
	s := world(t, 10)
	p := guarded(Config{RateLimit: 100})
	shop, other := question("shop.g.example.", dns.TypeA), question("h1.g.example.", dns.TypeA)
	for _, c := range []struct {
		what             string
		m                *dns.Msg
		from             string
		n                int
		tcp              bool
		whole, cut, none int
	}{
		{"a network", shop, "192.0.2.1", 300, false, 100, 200, 0},
		{"another address of it, another name", other, "192.0.2.200", 700, false, 0, 600, 100},
		{"over TCP", shop, "192.0.2.1", 300, true, 300, 0, 0},
		{"another network", shop, "192.0.3.1", 1000, false, 100, 800, 100},
		{"names that nobody has", question("none.g.example.", dns.TypeA), "192.0.2.1", 150, false, 100, 0, 50},
		{"no data", question("shop.g.example.", dns.TypeTXT), "192.0.2.1", 150, false, 100, 0, 50},
		{"another zone", question("a.many.example.", dns.TypeA), "192.0.2.1", 30, false, 0, 30, 0},
		{"large answers count more", question("a.many.example.", dns.TypeAAAA).SetEdns0(1232, false), "192.0.4.1", 150, false, 25, 125, 0},
		{"what we refuse has no record to cut", question("elsewhere.test.", dns.TypeA), "192.0.2.1", 1000, false, 900, 0, 100},
		{"IPv6", shop, "2001:db8::1", 200, false, 100, 100, 0},
		{"the same /56", shop, "2001:db8:0:ff::1", 200, false, 0, 200, 0},
		{"another /56", shop, "2001:db8:0:100::1", 200, false, 100, 100, 0},
		{"loopback", shop, "127.0.0.1", 2000, false, 2000, 0, 0},
	} {
		whole, cut, none := tally(t, p, s, c.m, c.from, c.n, c.tcp)
		if whole != c.whole || cut != c.cut || none != c.none {
			t.Errorf("%s: %d whole, %d cut, %d none", c.what, whole, cut, none)
		}
	}
	p.now = p.now.Add(100 * time.Millisecond)
	if whole, _, _ := tally(t, p, s, shop, "192.0.2.1", 200, false); whole != 10 {
		t.Errorf("a tenth of a second earned %d", whole)
	}
	p.now = p.now.Add(time.Hour)
	if whole, _, _ := tally(t, p, s, shop, "192.0.2.1", 200, false); whole != 100 {
		t.Errorf("an hour earned %d", whole)
	}
	if whole, _, _ := tally(t, guarded(Config{RateLimit: -1}), s, shop, "192.0.2.1", 5000, false); whole != 5000 {
		t.Errorf("without a limit %d of 5000", whole)
	}
}

func withCookie(m *dns.Msg, cookie string) *dns.Msg {
	if m.IsEdns0() == nil {
		m.SetEdns0(1232, false)
	}
	m.IsEdns0().Option = []dns.EDNS0{&dns.EDNS0_COOKIE{Code: dns.EDNS0COOKIE, Cookie: cookie}}
	return m
}

func cookieOf(m *dns.Msg) string {
	if opt := m.IsEdns0(); opt != nil {
		for _, o := range opt.Option {
			if c, ok := o.(*dns.EDNS0_COOKIE); ok {
				return c.Cookie
			}
		}
	}
	return ""
}

// TestCookies: whoever sends back the cookie it got has no limit, until it is old.
func TestCookies(t *testing.T) {
	s := world(t, 0)
	p := guarded(Config{RateLimit: 100})
	tally(t, p, s, question("shop.g.example.", dns.TypeA), "192.0.2.1", 99, false) // one is left
	const client = "0123456789abcdef"
	exchange := func(cookie, from string) (*dns.Msg, drop) {
		t.Helper()
		packet, err := withCookie(question("shop.g.example.", dns.TypeA), cookie).Pack()
		if err != nil {
			t.Fatal(err)
		}
		out, _, why := p.respond(nil, s, packet, netip.MustParseAddr(from), false)
		var got dns.Msg
		if why == answered && got.Unpack(out) != nil {
			t.Fatalf("% x", out)
		}
		return &got, why
	}
	first, _ := exchange(client, "192.0.2.1")
	cookie := cookieOf(first)
	if len(cookie) != 2*wholeCookie || cookie[:16] != client || len(first.Answer) != 1 {
		t.Fatalf("%v", first)
	}
	raw, _ := hex.DecodeString(client)
	ahead, _ := p.guard.cookies.answer(raw, netip.MustParseAddr("192.0.2.1"), p.now.Add(6*time.Minute))
	known := func(cookie, from string) bool {
		whole := 0
		for range 4 {
			if m, why := exchange(cookie, from); why == answered && !m.Truncated {
				whole++
			}
		}
		return whole == 4
	}
	for _, c := range []struct {
		what, cookie, from string
		later              time.Duration
		known, same        bool
	}{
		{"sent back", cookie, "192.0.2.1", 0, true, true},
		{"from another address", cookie, "192.0.2.2", 0, false, false},
		{"of another client", "1" + cookie[1:], "192.0.2.1", 0, false, false},
		{"with another hash", cookie[:46] + "00", "192.0.2.1", 0, false, false},
		{"with something in its reserved bytes", cookie[:18] + "01" + cookie[20:], "192.0.2.1", 0, false, false},
		{"longer than ours", cookie + "00", "192.0.2.1", 0, false, false},
		{"of another maker", client + "0011223344556677", "192.0.2.1", 0, false, false},
		{"from the future", hex.EncodeToString(ahead[:]), "192.0.2.1", 0, false, false},
		{"half an hour old", cookie, "192.0.2.1", 31 * time.Minute, true, false},
		{"an hour old", cookie, "192.0.2.1", time.Hour + time.Second, false, false},
	} {
		begin := p.now
		if p.now = p.now.Add(c.later); c.later > 0 { // the network has earned its share again: take it
			tally(t, p, s, question("shop.g.example.", dns.TypeA), "192.0.2.77", 100, false)
		}
		if got := known(c.cookie, c.from); got != c.known {
			t.Errorf("%s: known is %v", c.what, got)
		}
		got := ""
		if m, why := exchange(c.cookie, c.from); why == answered {
			got = cookieOf(m)
		}
		if (got == c.cookie) != c.same || len(got) != 2*wholeCookie || got[:16] != c.cookie[:16] {
			t.Errorf("%s: %s became %s", c.what, c.cookie, got)
		}
		p.now = begin
	}
	// The key is another one each day; a cookie from before midnight counts after it.
	midnight := p.now.Truncate(24 * time.Hour).Add(24 * time.Hour)
	p.now = midnight.Add(-time.Minute)
	m, _ := exchange(client, "198.51.100.9")
	p.now = midnight.Add(time.Minute)
	tally(t, p, s, question("shop.g.example.", dns.TypeA), "198.51.100.9", 100, false)
	if !known(cookieOf(m), "198.51.100.9") {
		t.Error("a cookie did not outlive midnight")
	}
}

// TestCookieOfTheStandard is the first test vector of RFC 9018, appendix A.
func TestCookieOfTheStandard(t *testing.T) {
	whole, _ := hex.DecodeString("2464c4abcf10c957010000005cf79f111f8130c3eee29480")
	secret, _ := hex.DecodeString("e5e973e5a6b2a43f48e7dc849e37bfcf")
	got := hashWith(binary.LittleEndian.Uint64(secret), binary.LittleEndian.Uint64(secret[8:]), (*[wholeCookie]byte)(whole), netip.MustParseAddr("198.51.100.100"))
	if want := binary.LittleEndian.Uint64(whole[cookieTime+4:]); got != want {
		t.Fatalf("%x, want %x", got, want)
	}
}

// TestCookiesOnTheWire: malformed ones are FORMERR, and one may ask for a cookie alone.
func TestCookiesOnTheWire(t *testing.T) {
	_, addr := start(t, Config{}, world(t, 0))
	for size := range 42 {
		r := ask(t, "udp", addr, withCookie(question("shop.g.example.", dns.TypeA), hex.EncodeToString(make([]byte, size))))
		good := size == 8 || size >= 16 && size <= 40
		if (r.Rcode == dns.RcodeFormatError) == good || good != (len(cookieOf(r)) == 2*wholeCookie) {
			t.Errorf("%d bytes: %v", size, r)
		}
	}
	alone := withCookie(new(dns.Msg), "0123456789abcdef")
	for _, network := range []string{"udp", "tcp"} {
		if r := ask(t, network, addr, alone); r.Rcode != dns.RcodeSuccess || len(cookieOf(r)) != 2*wholeCookie || len(r.Question)+len(r.Answer)+len(r.Ns) != 0 {
			t.Errorf("%s: %v", network, r)
		}
	}
	if r := ask(t, "udp", addr, question("shop.g.example.", dns.TypeA).SetEdns0(1232, false)); cookieOf(r) != "" {
		t.Errorf("a cookie that nobody asked for: %v", r)
	}
}

// TestHonestClientUnderAForgedFlood: queries in its name take its answers over
// UDP away, so it comes again over TCP; a cookie makes that unnecessary.
func TestHonestClientUnderAForgedFlood(t *testing.T) {
	s, addr := start(t, Config{RateLimit: 50, Unlimited: []netip.Prefix{}, Sockets: 2}, world(t, 0))
	flood, err := net.Dial("udp", addr)
	if err != nil {
		t.Fatal(err)
	}
	defer flood.Close()
	packet, err := question("shop.g.example.", dns.TypeA).Pack()
	if err != nil {
		t.Fatal(err)
	}
	for s.metrics.drops[dropRate].Load() == 0 { // until its share is gone
		flood.Write(packet)
	}
	client := dns.Client{Timeout: 10 * time.Second}
	r, _, err := client.Exchange(withCookie(new(dns.Msg), "0123456789abcdef"), addr)
	if err != nil {
		t.Fatal(err)
	}
	cookie := cookieOf(r)
	for range 200 {
		flood.Write(packet)
		if r, _, err = client.Exchange(withCookie(question("shop.g.example.", dns.TypeA), cookie), addr); err != nil || r.Truncated || len(r.Answer) != 1 {
			t.Fatalf("%v %v", err, r)
		}
	}
	if r = ask(t, "tcp", addr, question("shop.g.example.", dns.TypeA)); len(r.Answer) != 1 {
		t.Fatalf("%v", r)
	}
}
