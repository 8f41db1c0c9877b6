package zone

import (
	"cmp"
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"github.com/spillway-dev/spillway/internal/model"
)

// The numbers are those of the IANA registry "Domain Name System (DNS) Parameters".
type (
	// Type is the type of a resource record or of a question.
	Type uint16
	// Class is the class of a question.
	Class uint16
	// RCode is a response code, with the upper bits that EDNS adds.
	RCode uint16
)

// The types we have data for, and those that ask for something else than data.
const (
	TypeA     Type = 1
	TypeNS    Type = 2
	TypeSOA   Type = 6
	TypeHINFO Type = 13
	TypeAAAA  Type = 28
	TypeOPT   Type = 41
	TypeDS    Type = 43
	TypeTKEY  Type = 249
	TypeTSIG  Type = 250
	TypeIXFR  Type = 251
	TypeAXFR  Type = 252
	TypeMAILB Type = 253
	TypeMAILA Type = 254
	TypeANY   Type = 255

	ClassIN Class = 1
)

// The response codes that we give.
const (
	NoError  RCode = 0
	FormErr  RCode = 1
	ServFail RCode = 2
	NXDomain RCode = 3
	NotImp   RCode = 4
	Refused  RCode = 5
	NotAuth  RCode = 9
	BadVers  RCode = 16
)

var typeNames = map[Type]string{
	TypeA: "A", TypeNS: "NS", TypeSOA: "SOA", TypeHINFO: "HINFO", TypeAAAA: "AAAA", TypeANY: "ANY",
	TypeDS: "DS", TypeAXFR: "AXFR", TypeIXFR: "IXFR", 5: "CNAME", 15: "MX", 16: "TXT", 33: "SRV", 65: "HTTPS", 257: "CAA",
}

// String is the mnemonic of the types above, TYPEn of others (RFC 3597).
func (t Type) String() string {
	if name, ok := typeNames[t]; ok {
		return name
	}
	return fmt.Sprintf("TYPE%d", uint16(t))
}

var rcodeNames = map[RCode]string{
	NoError: "NOERROR", FormErr: "FORMERR", ServFail: "SERVFAIL", NXDomain: "NXDOMAIN",
	NotImp: "NOTIMP", Refused: "REFUSED", NotAuth: "NOTAUTH", BadVers: "BADVERS",
}

// String is the mnemonic.
func (r RCode) String() string { return rcodeNames[r] }

// Record is one resource record of class IN. Which fields after TTL hold its
// data follows from Type: Addr for A and AAAA, Host for NS, SOA for SOA, none
// for HINFO, which is always the one of RFC 8482, 4.2.
type Record struct {
	Owner Name // empty: the name of the question
	Type  Type
	TTL   uint32 // seconds
	Addr  netip.Addr
	Host  Name
	SOA   *SOA
}

// SOA is the data of a start of authority (RFC 1035, 3.3.13). Times in seconds.
type SOA struct {
	MName, RName                            Name
	Serial, Refresh, Retry, Expire, Minimum uint32
}

// RecordSet is what a host has in DNS: the edges to choose from.
type RecordSet struct {
	edges []*Edge // sorted by name, each with an address
	held  bool
	brief bool // its answers are for BriefTTL at most
}

// BriefTTL is how long an answer may be kept, in seconds, of which nobody is
// sure yet that it is all there is.
const BriefTTL = 5

// NewRecordSet makes the record set of a host from its candidates; those
// without an address are left out. None left: the host is live, its answers
// are empty.
func NewRecordSet(edges []*Edge) *RecordSet {
	kept := slices.DeleteFunc(slices.Clone(edges), func(e *Edge) bool { return len(e.v4)+len(e.v6) == 0 })
	slices.SortFunc(kept, func(a, b *Edge) int { return cmp.Compare(a.name, b.name) })
	return &RecordSet{edges: slices.Clip(kept)}
}

// HeldRecordSet is the set of a host that is live while nobody knows yet which
// edges serve it: SERVFAIL.
func HeldRecordSet() *RecordSet { return &RecordSet{held: true} }

// Has reports whether an edge is among those to choose from. s may be nil.
func (s *RecordSet) Has(e model.Edge) bool {
	return s != nil && slices.ContainsFunc(s.edges, func(x *Edge) bool { return x.name == e })
}

// Brief makes the answers of a set short-lived: see BriefTTL.
func (s *RecordSet) Brief() *RecordSet {
	s.brief = true
	return s
}

// Equal reports whether both hold the same. Either may be nil.
func (s *RecordSet) Equal(o *RecordSet) bool {
	if s == o || s == nil || o == nil {
		return s == o
	}
	return s.held == o.held && s.brief == o.brief && slices.EqualFunc(s.edges, o.edges, (*Edge).Equal)
}

// String is the names of the edges, "held" or "-".
func (s *RecordSet) String() string {
	if s.held {
		return "held"
	}
	names := make([]string, 0, len(s.edges))
	for _, e := range s.edges {
		names = append(names, string(e.name))
	}
	if s.brief {
		names = append(names, "briefly")
	}
	return cmp.Or(strings.Join(names, " "), "-")
}

// Spec is what a zone says about itself.
type Spec struct {
	Apex        Name
	SOA         SOA
	NameServers []NameServer
	TTL         uint32 // seconds, of the addresses of hosts
	ServerTTL   uint32 // seconds, of NS and SOA records and the name servers' addresses
	Answers     int    // how many edges an answer names: 0 means DefaultAnswers, at most MaxAnswers
	Held        bool   // hosts may be missing: a name that is not here is SERVFAIL, not NXDOMAIN
}

// NameServer is a server of a zone. Addresses of one inside the zone are glue
// at the parent and answered by us; of one outside they are ignored.
type NameServer struct {
	Host      Name
	Addresses []netip.Addr
}

// DefaultAnswers is one edge an answer. Resolvers shuffle records, so a second
// edge would take half of the clients away from their nearest one; an edge with
// two addresses gives a client something to fall back on without that.
const DefaultAnswers = 1

// MaxAnswers bounds Spec.Answers; MaxRecords bounds the addresses of these edges.
const MaxAnswers = 16

// Zone is a Spec made ready to answer from. It is immutable.
type Zone struct {
	spec    Spec
	soa     Record // with the zone's TTL
	denial  Record // the SOA of a negative answer, with the TTL for which that is kept (RFC 2308, 5)
	brief   Record // the same for a set that is brief
	ns      []Record
	glue    []Record // of name servers inside the zone, in their order
	answers int
}

// NewZone makes a zone. A host named like one of its name servers is shadowed
// by the name server: without it nothing of the zone could be found.
func NewZone(spec Spec) *Zone {
	spec.NameServers = slices.Clone(spec.NameServers)
	z := &Zone{spec: spec, answers: spec.Answers}
	if z.answers <= 0 {
		z.answers = DefaultAnswers
	}
	z.answers = min(z.answers, MaxAnswers)
	z.soa = Record{Owner: spec.Apex, Type: TypeSOA, TTL: spec.ServerTTL, SOA: &z.spec.SOA}
	z.denial = z.soa
	z.denial.TTL = min(spec.TTL, spec.SOA.Minimum)
	z.brief = z.denial
	z.brief.TTL = min(z.denial.TTL, BriefTTL)
	for _, ns := range spec.NameServers {
		z.ns = append(z.ns, Record{Owner: spec.Apex, Type: TypeNS, TTL: spec.ServerTTL, Host: ns.Host})
		if !ns.Host.within(spec.Apex) {
			continue
		}
		e := NewEdge(model.Edge(""), model.Place{}, ns.Addresses)
		for _, a := range e.v4 {
			z.glue = append(z.glue, Record{Owner: ns.Host, Type: TypeA, TTL: spec.ServerTTL, Addr: a})
		}
		for _, a := range e.v6 {
			z.glue = append(z.glue, Record{Owner: ns.Host, Type: TypeAAAA, TTL: spec.ServerTTL, Addr: a})
		}
	}
	return z
}
