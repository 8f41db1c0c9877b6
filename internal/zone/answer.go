package zone

import (
	"bytes"
	"encoding/binary"
	"math/bits"
	"net/netip"

	"github.com/spillway-dev/spillway/internal/model"
)

// Question is what is asked. Name is in wire form and lower case; it is not kept.
type Question struct {
	Name  []byte
	Type  Type
	Class Class
}

// Client is who asks. Subnet is what a resolver said about its client (RFC
// 7871), invalid if it said nothing; Addr is the resolver itself, which counts
// where there is no subnet.
type Client struct {
	Addr   netip.Addr
	Subnet netip.Prefix
}

// How precisely a client subnet is used: bits of IPv4 and IPv6 (RFC 7871, 11.1).
const (
	SubnetBits4 = 24
	SubnetBits6 = 56
)

// Response is what to say. Answer, Authority and Additional hold records in
// order; Additional may be left out by who sends it, the others may not.
type Response struct {
	RCode         RCode
	Authoritative bool
	Zone          Name // whose answer it is; empty: no zone of ours
	// Scope is how many leading bits of the client's subnet the answer depends
	// on; 0: on none of them, every client gets this answer.
	Scope                         int
	Answer, Authority, Additional []Record
}

// MaxRecords is how many address records an answer has at most. So many AAAA
// records fit, with the longest name, into the 1232 bytes of a UDP message.
const MaxRecords = 32

// noAnswer are the types that no data can have.
var noAnswer = map[Type]RCode{
	TypeAXFR: Refused, TypeIXFR: Refused, TypeMAILA: NotImp, TypeMAILB: NotImp,
	TypeOPT: FormErr, TypeTKEY: FormErr, TypeTSIG: FormErr,
}

// Answer answers a question from a snapshot. A nil snapshot, from before the
// first was published, answers SERVFAIL.
func Answer(s *Snapshot, q Question, c Client) Response { return AnswerInto(nil, s, q, c) }

// AnswerInto is Answer with the records in space, which it overwrites. With
// room for MaxRecords it allocates nothing.
func AnswerInto(space []Record, s *Snapshot, q Question, c Client) Response {
	if s == nil {
		return Response{RCode: ServFail}
	}
	if q.Class != ClassIN {
		return Response{RCode: Refused}
	}
	if q.Type >= TypeTKEY || q.Type == TypeOPT {
		if code, ok := noAnswer[q.Type]; ok {
			return Response{RCode: code}
		}
	}
	z := s.zoneOf(q)
	if z == nil && s.held {
		return Response{RCode: ServFail}
	}
	if z == nil {
		return Response{RCode: Refused}
	}
	r := s.answer(space[:0], z, q, c)
	r.Zone = z.spec.Apex
	return r
}

// answer answers for a name inside a zone.
func (s *Snapshot) answer(space []Record, z *Zone, q Question, c Client) Response {
	isApex := len(q.Name) == len(z.spec.Apex)
	addresses := q.Type == TypeA || q.Type == TypeAAAA
	switch {
	case isApex && q.Type == TypeSOA:
		return positive(append(space, z.soa))
	case isApex && q.Type == TypeNS:
		return z.answerNS(space)
	case z.isServer(q.Name):
		return z.answerServer(space, q)
	}
	set, exists := s.find(z, q.Name)
	exists = exists || isApex || set != nil || z.above(q.Name)
	switch {
	case !exists && z.spec.Held:
		return Response{RCode: ServFail}
	case !exists:
		return z.negative(space, NXDomain)
	case addresses && set == nil && z.spec.Held, addresses && set != nil && set.held:
		return Response{RCode: ServFail}
	case addresses && set != nil:
		return s.answerSet(space, z, set, q.Type, c)
	case q.Type == TypeANY && (set != nil || isApex):
		return positive(append(space, Record{Type: TypeHINFO, TTL: z.spec.TTL}))
	}
	return z.negative(space, NoError)
}

// answerSet names the edges of a host that are nearest to the client.
func (s *Snapshot) answerSet(space []Record, z *Zone, set *RecordSet, t Type, c Client) Response {
	var at model.Place
	bits := 0
	if len(set.edges) > 1 {
		at, bits = s.locate(c)
	}
	var picked [MaxAnswers + 1]*Edge
	ttl := z.spec.TTL
	if set.brief {
		ttl = min(ttl, BriefTTL)
	}
	for _, e := range picked[:nearest(&picked, set.edges, t, at, z.answers)] {
		for _, a := range e.Addresses(t) {
			if len(space) < MaxRecords {
				space = append(space, Record{Type: t, TTL: ttl, Addr: a})
			}
		}
	}
	switch {
	case len(space) > 0:
		r := positive(space)
		r.Scope = bits
		return r
	case set.brief:
		return Response{RCode: NoError, Authoritative: true, Authority: append(space, z.brief)}
	}
	return z.negative(space, NoError) // whoever asks: no edge has this family
}

// nearest fills out with the n nearest edges in order. If none of them has an
// address of the type, the nearest edge that has one comes after them: a client
// with one family alone must not be left with nothing, and resolvers keep a
// negative answer for all of their clients, near which edge ever (RFC 7871, 7.4).
func nearest(out *[MaxAnswers + 1]*Edge, edges []*Edge, t Type, at model.Place, n int) int {
	var ranks [MaxAnswers]rank
	var best *Edge // with the type
	var bestRank rank
	point := pointOf(at)
	have, some := 0, false
	for _, e := range edges {
		r := e.rankOf(at, point)
		if len(e.Addresses(t)) > 0 && (best == nil || r.before(bestRank)) {
			best, bestRank = e, r
		}
		i := have
		for i > 0 && r.before(ranks[i-1]) {
			i--
		}
		if i == n {
			continue
		}
		have = min(have+1, n)
		copy(out[i+1:have], out[i:have-1])
		copy(ranks[i+1:have], ranks[i:have-1])
		out[i], ranks[i] = e, r
	}
	for _, e := range out[:have] {
		some = some || len(e.Addresses(t)) > 0
	}
	if !some && best != nil {
		out[have] = best
		have++
	}
	return have
}

// locate says where the client is and how many bits of its subnet that took. A
// subnet that nobody can place says less than the resolver's own address.
func (s *Snapshot) locate(c Client) (model.Place, int) {
	limit := 0
	if c.Subnet.IsValid() && c.Subnet.Bits() > 0 {
		limit = SubnetBits6
		if c.Subnet.Addr().Is4() {
			limit = SubnetBits4
		}
		cut, _ := c.Subnet.Addr().Prefix(min(c.Subnet.Bits(), limit)) // never more bits than the family has
		least, apart := local(cut.Addr())
		place, bits, ok := s.lookup(cut.Addr(), least)
		if ok { // by an entry that may have local networks in it
			return place, min(max(bits, apart), limit)
		}
		limit = min(bits, limit)
	}
	place, _, _ := s.lookup(c.Addr.Unmap(), 0)
	return place, limit
}

// lookup asks who can place an address, by a network of at least so many bits.
func (s *Snapshot) lookup(addr netip.Addr, least int) (model.Place, int, bool) {
	bits := least
	for _, l := range [...]Locator{s.places, s.geo} {
		if l == nil {
			continue
		}
		place, used, ok := l.Locate(addr, least)
		if bits = max(bits, used); ok {
			return place, bits, true
		}
	}
	return model.Place{}, bits, false
}

// local4 and local6 are networks that say nothing of where on the Internet a client
// is (IANA special-purpose address registries). Resolvers that are behind one with
// their clients send it all the same.
var local4, local6 = prefixes("0.0.0.0/8", "10.0.0.0/8", "100.64.0.0/10", "127.0.0.0/8", "169.254.0.0/16", "172.16.0.0/12", "192.168.0.0/16", "224.0.0.0/3"),
	prefixes("::/8", "fc00::/7", "fe80::/9", "ff00::/8")

// network is one of them, whose first 64 bits tell it from others.
type network struct {
	netip.Prefix
	first uint64
}

func prefixes(texts ...string) (out []network) {
	for _, text := range texts {
		p := netip.MustParsePrefix(text)
		out = append(out, network{p, first64(p.Addr())})
	}
	return out
}

// first64 are the first bits of an address, followed by zeros for IPv4.
func first64(a netip.Addr) uint64 {
	if a.Is4() {
		b := a.As4()
		return uint64(binary.BigEndian.Uint32(b[:])) << 32
	}
	b := a.As16()
	return binary.BigEndian.Uint64(b[:8])
}

// local is the size of the local network that an address is in, 0 for none, and how
// many bits tell the address from those that are in another one, or in none. Such a
// one is placed by an entry for that network or for a part of it, not by one for the
// whole world (RFC 7871, 11.3).
func local(a netip.Addr) (least, apart int) {
	of := local6
	if a.Is4() {
		of = local4
	}
	x := first64(a)
	for i := range of {
		same, size := bits.LeadingZeros64(x^of[i].first), of[i].Bits()
		if same >= size {
			return size, size
		}
		apart = max(apart, same+1)
	}
	return 0, apart
}

// zoneOf is the zone with the longest apex that the name is in. The DS records
// of an apex belong to the zone above (RFC 4035, 3.1.4.1), if that is ours too.
func (s *Snapshot) zoneOf(q Question) *Zone {
	var starts [MaxName]int
	labels := 0
	for at := 0; q.Name[at] != 0; at += 1 + int(q.Name[at]) {
		starts[labels] = at
		labels++
	}
	starts[labels] = len(q.Name) - 1
	var apex *Zone
	for depth := min(labels, len(s.depths)-1); depth >= 0; depth-- {
		if s.depths[depth] == 0 {
			continue
		}
		z, ok := s.zones.get(q.Name[starts[labels-depth]:])
		if !ok {
			continue
		}
		if depth < labels || q.Type != TypeDS {
			return z
		}
		apex = z
	}
	return apex
}

// find is the records of a name: its own, else those of the wildcard one label
// up, else those of the closest wildcard of any depth, which the zone ends
// (model.Host.Wider). Exists is also true for a name that has nothing but names
// below it.
func (s *Snapshot) find(z *Zone, name []byte) (set *RecordSet, exists bool) {
	n, exists := s.names.get(name)
	if n.set != nil || len(name) == len(z.spec.Apex) {
		return n.set, exists
	}
	if z.spec.Held { // an exact host may be missing: the wildcard would be a guess
		return nil, exists
	}
	parent := name[1+int(name[0]):]
	up, _ := s.names.get(parent)
	if up.wild != nil && up.wild.one != nil {
		return up.wild.one, exists
	}
	if len(s.bases) == 0 {
		return nil, exists
	}
	return s.below(parent, len(z.spec.Apex)), exists
}

// below is the records of the closest wildcard of any depth below a name, or below
// one above it which is as long as apex or longer.
func (s *Snapshot) below(name []byte, apex int) *RecordSet {
	depth := 0
	for at := 0; name[at] != 0; at += 1 + int(name[at]) {
		depth++
	}
	for ; len(name) >= apex; name, depth = name[1+int(name[0]):], depth-1 {
		if depth < len(s.bases) && s.bases[depth] > 0 {
			if n, _ := s.names.get(name); n.wild != nil && n.wild.any != nil {
				return n.wild.any
			}
		}
		if len(name) == 1 { // the root
			break
		}
	}
	return nil
}

// isServer reports whether the name is that of a name server inside the zone.
func (z *Zone) isServer(name []byte) bool {
	for i := range z.glue {
		if string(z.glue[i].Owner) == string(name) {
			return true
		}
	}
	return false
}

// above reports whether a name server inside the zone is below the name.
func (z *Zone) above(name []byte) bool {
	for i := range z.glue {
		owner := z.glue[i].Owner
		for ; len(owner) > len(name); owner = owner.parent() {
		}
		if string(owner) == string(name) {
			return true
		}
	}
	return false
}

func (z *Zone) answerNS(space []Record) Response {
	if len(z.ns) == 0 {
		return z.negative(space, NoError)
	}
	space = append(append(space, z.ns...), z.glue...)
	r := positive(space[:len(z.ns)])
	r.Additional = space[len(z.ns):]
	return r
}

func (z *Zone) answerServer(space []Record, q Question) Response {
	if q.Type == TypeANY {
		return positive(append(space, Record{Type: TypeHINFO, TTL: z.spec.TTL}))
	}
	for i := range z.glue {
		if g := z.glue[i]; g.Type == q.Type && bytes.Equal(q.Name, []byte(g.Owner)) {
			g.Owner = ""
			space = append(space, g)
		}
	}
	if len(space) == 0 {
		return z.negative(space, NoError)
	}
	return positive(space)
}

func positive(records []Record) Response { return Response{Authoritative: true, Answer: records} }

// negative is NXDOMAIN, or NODATA with NoError (RFC 2308, 2), for every client:
// resolvers do not keep one for some of them only (RFC 7871, 7.4).
func (z *Zone) negative(space []Record, code RCode) Response {
	return Response{RCode: code, Authoritative: true, Authority: append(space, z.denial)}
}
