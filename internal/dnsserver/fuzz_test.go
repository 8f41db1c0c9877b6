package dnsserver

import (
	"bytes"
	"net/netip"
	"strings"
	"testing"

	"github.com/miekg/dns"
	"github.com/spillway-dev/spillway/internal/model"
	"github.com/spillway-dev/spillway/internal/zone"
	"pgregory.net/rapid"
)

// FuzzServe gives the server any packet. The answer, if there is one, is bounded,
// can be read by another implementation, and echoes what that one read in the query.
func FuzzServe(f *testing.F) {
	for _, m := range []*dns.Msg{
		question("shop.g.example.", dns.TypeA), question("a.many.example.", dns.TypeAAAA), question("g.example.", dns.TypeNS),
		question("none.g.example.", dns.TypeANY), question("x.", dns.TypeAXFR).SetEdns0(512, true),
		withSubnet(question("shop.g.example.", dns.TypeA), "198.51.100.0/24"), withSubnet(question("shop.g.example.", dns.TypeA), "2001:db8::/56"),
		signed(question("shop.g.example.", dns.TypeA), "key.example."),
	} {
		b, err := m.Pack()
		if err != nil {
			f.Fatal(err)
		}
		f.Add(b)
		f.Add(append(b, 0))
		f.Add(b[:len(b)-1])
	}
	snap := world(f, 0)
	f.Fuzz(func(t *testing.T, packet []byte) {
		var p responder
		for _, tcp := range []bool{false, true} {
			before := bytes.Clone(packet)
			out, code, why := p.respond([]byte("before"), snap, packet, netip.MustParseAddr("192.0.2.1"), tcp)
			if !bytes.Equal(packet, before) || !bytes.HasPrefix(out, []byte("before")) {
				t.Fatal("it wrote where it should only read")
			}
			if why != answered {
				if len(packet) >= headerSize && packet[2]&0x80 == 0 {
					t.Fatal("a query without an answer")
				}
				continue
			}
			out = out[len("before"):]
			if most := p.query.limit(); !tcp && len(out) > most || len(out) > 2048 {
				t.Fatalf("%d bytes over tcp=%v", len(out), tcp)
			}
			compare(t, packet, out, code, &p.query)
		}
	})
}

// compare checks an answer with the other implementation's reading of both messages.
func compare(t *testing.T, packet, out []byte, code zone.RCode, q *query) {
	var answer, asked dns.Msg
	if err := answer.Unpack(out); err != nil {
		t.Fatalf("cannot read our answer: %v\n% x", err, out)
	}
	if !answer.Response || int(code)&15 != answer.Rcode&15 || answer.Id != q.id {
		t.Fatalf("%v, code %v", answer, code)
	}
	if asked.Unpack(packet) != nil || len(asked.Question) != 1 || answer.Opcode != dns.OpcodeQuery || q.question == nil {
		return
	}
	if len(answer.Question) != 1 || answer.Question[0] != asked.Question[0] {
		t.Fatalf("asked %v, answered %v", asked.Question, answer.Question)
	}
	if strings.ToLower(asked.Question[0].Name) != zone.Name(q.name).String() && !strings.Contains(asked.Question[0].Name, `\`) {
		t.Fatalf("read %q, want %q", zone.Name(q.name), asked.Question[0].Name)
	}
	opt := asked.IsEdns0()
	if code == zone.FormErr || opt == nil {
		return
	}
	if got := answer.IsEdns0(); got == nil || got.Do() != opt.Do() || q.size != opt.UDPSize() {
		t.Fatalf("asked with %v, answered with %v", opt, got)
	}
	if s := subnetOf(&asked); s != nil && code != zone.BadVers {
		if int(s.SourceNetmask) > 0 && (q.prefix.Bits() != int(s.SourceNetmask) || !bytes.Equal(q.prefix.Addr().AsSlice(), s.Address)) && s.Address.To4() == nil {
			t.Fatalf("read %v, want %v", q.prefix, s)
		}
		if got := subnetOf(&answer); got == nil || got.SourceNetmask != s.SourceNetmask || got.Family != s.Family || got.SourceScope > 56 {
			t.Fatalf("subnet %v became %v", s, got)
		}
	}
}

// TestRoundTrip writes random responses and reads them with the other implementation.
func TestRoundTrip(t *testing.T) {
	label := rapid.StringMatching("[a-z0-9_-]{1,9}|[a-z]{38}")
	drawName := rapid.Custom(func(t *rapid.T) string {
		return strings.Join(rapid.SliceOfN(label, 0, 3).Draw(t, "labels"), ".")
	})
	rapid.Check(t, func(t *rapid.T) {
		asked := drawName.Draw(t, "question")
		names := []string{asked, drawName.Draw(t, "name"), drawName.Draw(t, "left") + "x." + asked}
		if _, up, ok := strings.Cut(asked, "."); ok {
			names = append(names, up)
		}
		one := func() zone.Name { return name(rapid.SampledFrom(names).Draw(t, "a name")) }
		var r zone.Response
		for _, section := range []*[]zone.Record{&r.Answer, &r.Authority, &r.Additional} {
			for range rapid.IntRange(0, 3).Draw(t, "records") {
				rec := zone.Record{Owner: one(), Type: rapid.SampledFrom([]zone.Type{zone.TypeA, zone.TypeAAAA, zone.TypeNS, zone.TypeSOA, zone.TypeHINFO}).Draw(t, "type"), TTL: rapid.Uint32().Draw(t, "ttl"), Host: one()}
				rec.Addr = netip.AddrFrom4([4]byte{192, 0, 2, rapid.Byte().Draw(t, "byte")})
				if rec.Type == zone.TypeAAAA {
					rec.Addr = netip.AddrFrom16([16]byte{0x20, 1, 15: rapid.Byte().Draw(t, "byte")})
				}
				rec.SOA = &zone.SOA{MName: one(), RName: one(), Serial: 1, Refresh: 2, Retry: 3, Expire: 4, Minimum: rapid.Uint32().Draw(t, "minimum")}
				*section = append(*section, rec)
			}
		}
		packet, err := question(asked+".", dns.TypeA).Pack()
		if asked == "" {
			packet, err = question(".", dns.TypeA).Pack()
		}
		if err != nil {
			t.Fatal(err)
		}
		var q query
		if code, ok := q.parse(packet); code != zone.NoError || !ok {
			t.Fatal(code, ok)
		}
		var got dns.Msg
		if err = got.Unpack(appendReply(nil, &q, &r, maxTCP)); err != nil {
			t.Fatal(err)
		}
		for i, section := range [][]zone.Record{r.Answer, r.Authority, r.Additional} {
			rrs := [][]dns.RR{got.Answer, got.Ns, got.Extra}[i]
			if len(rrs) != len(section) {
				t.Fatalf("section %d has %d records, want %d", i, len(rrs), len(section))
			}
			for j, rec := range section {
				if have, want := rrs[j].String(), twinOf(rec).String(); have != want {
					t.Fatalf("wrote %s, want %s", have, want)
				}
			}
		}
	})
}

// twinOf is a record in the other implementation's types.
func twinOf(r zone.Record) dns.RR {
	h := dns.RR_Header{Name: r.Owner.String(), Rrtype: uint16(r.Type), Class: dns.ClassINET, Ttl: r.TTL}
	switch r.Type {
	case zone.TypeA:
		return &dns.A{Hdr: h, A: r.Addr.AsSlice()}
	case zone.TypeAAAA:
		return &dns.AAAA{Hdr: h, AAAA: r.Addr.AsSlice()}
	case zone.TypeNS:
		return &dns.NS{Hdr: h, Ns: r.Host.String()}
	case zone.TypeSOA:
		return &dns.SOA{Hdr: h, Ns: r.SOA.MName.String(), Mbox: r.SOA.RName.String(), Serial: r.SOA.Serial, Refresh: r.SOA.Refresh, Retry: r.SOA.Retry, Expire: r.SOA.Expire, Minttl: r.SOA.Minimum}
	}
	return &dns.HINFO{Hdr: h, Cpu: "RFC8482"}
}

// nowhere locates nobody.
type nowhere struct{}

func (nowhere) Locate(netip.Addr, int) (model.Place, int, bool) { return model.Place{}, 0, false }
