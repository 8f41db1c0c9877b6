package dnsserver

import (
	"encoding/binary"
	"net/netip"

	"github.com/spillway-dev/spillway/internal/zone"
)

const (
	headerSize = 12
	optSubnet  = 8 // EDNS option code of the client subnet (RFC 7871, 6)

	flagQR = 1 << 15
	flagAA = 1 << 10
	flagTC = 1 << 9
	flagRD = 1 << 8
	flagCD = 1 << 4

	opcodeQuery  = 0
	opcodeNotify = 4
	opcodeUpdate = 5

	ednsDO = 1 << 15
)

// query is a parsed query message. Its slices point into the packet, but for
// name, which points into lower.
type query struct {
	id       uint16
	flags    uint16
	question []byte // as it came, so that the case of letters is kept; nil: could not be read
	name     []byte // wire form, lower case
	lower    [zone.MaxName]byte
	qtype    zone.Type
	class    zone.Class

	edns   bool
	size   uint16 // the UDP payload the client takes
	do     bool
	subnet []byte       // data of the client subnet option, family first; nil: none
	prefix netip.Prefix // what it says; invalid if it says "use none"
	cookie []byte       // data of the cookie option; nil: none
	signed tsig
	give   []byte // the cookie to answer with, set by who answers; nil: none
}

// tsig is what of a signature goes into the answer to it (RFC 8945, 5.3.2). We
// have no keys, so there is nothing to verify.
type tsig struct {
	key       []byte // its name; nil: not signed
	algorithm []byte // its name, the time and how far that may be off
}

// parse reads a query. ok is false for what deserves no answer: less than a
// header, or a response. Otherwise code is NoError for a question to be
// answered, or the error to answer with what could be read: EDNS is read in
// messages of all kinds, since their answers have it too (RFC 6891, 6.1.1).
func (q *query) parse(packet []byte) (code zone.RCode, ok bool) {
	*q = query{lower: q.lower}
	if len(packet) < headerSize {
		return 0, false
	}
	q.id, q.flags = binary.BigEndian.Uint16(packet), binary.BigEndian.Uint16(packet[2:])
	if q.flags&flagQR != 0 {
		return 0, false
	}
	code = q.parseSections(packet)
	switch op := q.opcode(); {
	case op == opcodeQuery || code == zone.NotAuth:
		return code, true
	case op == opcodeNotify || op == opcodeUpdate:
		return zone.Refused, true
	}
	return zone.NotImp, true
}

// parseSections reads what comes after the header. A query has one question (RFC
// 9619), or none if it only asks for a cookie (RFC 7873, 5.4).
func (q *query) parseSections(packet []byte) (code zone.RCode) {
	count := func(i int) int { return int(binary.BigEndian.Uint16(packet[4+2*i:])) }
	at, ok := headerSize, true
	switch count(0) {
	case 0:
	case 1:
		at, ok = q.parseQuestion(packet)
	default:
		ok = false
	}
	if !ok {
		return zone.FormErr
	}
	for section := 1; section <= 3; section++ {
		for range count(section) {
			if at, code = q.parseRecord(packet, at, section == 3); code != zone.NoError {
				return code
			}
		}
	}
	if at != len(packet) || q.question == nil && q.cookie == nil {
		return zone.FormErr
	}
	if q.signed.key != nil {
		return zone.NotAuth
	}
	return zone.NoError
}

func (q *query) opcode() uint16 { return q.flags >> 11 & 15 }

// parseQuestion reads the question after the header and returns where it ends.
func (q *query) parseQuestion(packet []byte) (end int, ok bool) {
	at := nameEnd(packet, headerSize) // nothing precedes a question that it could point to
	if at < 0 || at+4 > len(packet) {
		return 0, false
	}
	q.name = q.lower[:at-headerSize]
	for i, c := range packet[headerSize:at] {
		if 'A' <= c && c <= 'Z' { // a length is at most 63, before 'A'
			c += 'a' - 'A'
		}
		q.name[i] = c
	}
	q.qtype = zone.Type(binary.BigEndian.Uint16(packet[at:]))
	q.class = zone.Class(binary.BigEndian.Uint16(packet[at+2:]))
	q.question = packet[headerSize : at+4]
	return at + 4, true
}

// nameEnd is where a name without pointers ends, or -1.
func nameEnd(packet []byte, at int) int {
	for begin := at; at < len(packet); {
		n := int(packet[at])
		at++
		if n == 0 {
			return at
		}
		if at += n; n > 63 || at-begin >= zone.MaxName {
			break
		}
	}
	return -1
}

// parseRecord skips a record, or reads it if it is the OPT of EDNS or a signature.
func (q *query) parseRecord(packet []byte, at int, additional bool) (end int, code zone.RCode) {
	if q.signed.key != nil { // it is the last record (RFC 8945, 5.1)
		return 0, zone.FormErr
	}
	begin, isRoot := at, at < len(packet) && packet[at] == 0
	at = skipName(packet, at)
	if at < 0 || at+10 > len(packet) {
		return 0, zone.FormErr
	}
	fixed := packet[at : at+10]
	at += 10
	end = at + int(binary.BigEndian.Uint16(fixed[8:]))
	if end > len(packet) {
		return 0, zone.FormErr
	}
	switch zone.Type(binary.BigEndian.Uint16(fixed)) {
	case zone.TypeTSIG:
		if key := nameEnd(packet, begin); !additional || key < 0 || !q.parseTSIG(packet[begin:key], packet[at:end]) {
			return 0, zone.FormErr
		}
		return end, zone.NoError
	case zone.TypeOPT:
	default:
		return end, zone.NoError
	}
	if q.edns || !additional || !isRoot { // RFC 6891, 6.1.1
		return 0, zone.FormErr
	}
	q.edns = true
	q.size = binary.BigEndian.Uint16(fixed[2:])
	q.do = binary.BigEndian.Uint16(fixed[6:])&ednsDO != 0
	if version := fixed[5]; version != 0 {
		return 0, zone.BadVers
	}
	return end, q.parseOptions(packet[at:end])
}

// parseTSIG reads the data of a signature (RFC 8945, 4.2): algorithm, time and
// fudge, and the signature, the query's ID, an error and other data after lengths.
func (q *query) parseTSIG(key, data []byte) bool {
	const times, rest = 8, 6 // ID, error, length of other data
	at := nameEnd(data, 0)
	if at < 0 || at+times+2 > len(data) {
		return false
	}
	mac := at + times + 2 + int(binary.BigEndian.Uint16(data[at+times:]))
	if mac+rest > len(data) || mac+rest+int(binary.BigEndian.Uint16(data[mac+rest-2:])) != len(data) {
		return false
	}
	q.signed = tsig{key, data[:at+times]}
	return true
}

// skipName returns where a name ends, or -1. What a pointer points to is of no interest.
func skipName(packet []byte, at int) int {
	for at < len(packet) {
		n := int(packet[at])
		switch {
		case n == 0:
			return at + 1
		case n >= 0xc0:
			return at + 2
		case n > 63:
			return -1
		}
		at += 1 + n
	}
	return -1
}

func (q *query) parseOptions(data []byte) zone.RCode {
	for len(data) > 0 {
		if len(data) < 4 {
			return zone.FormErr
		}
		option, n := binary.BigEndian.Uint16(data), int(binary.BigEndian.Uint16(data[2:]))
		if len(data) < 4+n {
			return zone.FormErr
		}
		value := data[4 : 4+n]
		switch {
		case option == optSubnet && (q.subnet != nil || !q.parseSubnet(value)):
			q.subnet = nil
			return zone.FormErr
		case option == optCookie && q.cookie == nil: // the first counts
			if n != clientCookie && (n < 16 || n > 40) { // RFC 7873, 5.2.2
				return zone.FormErr
			}
			q.cookie = value
		}
		data = data[4+n:]
	}
	return zone.NoError
}

// parseSubnet reads a client subnet: family, source and scope prefix length,
// address cut to the source (RFC 7871, 6). What is not exactly that is refused,
// as 7.1.2 asks for. A source of 0 asks for an answer that uses no subnet.
func (q *query) parseSubnet(data []byte) bool {
	if len(data) < 4 {
		return false
	}
	family, source, scope := binary.BigEndian.Uint16(data), int(data[2]), data[3]
	var buf [16]byte
	size := map4or6(family)
	address := data[4:]
	if scope != 0 || source > 8*size || len(address) != (source+7)/8 || family > 2 {
		return false
	}
	q.subnet = data
	if source == 0 {
		return true
	}
	copy(buf[:], address)
	ip := netip.AddrFrom16(buf)
	if size == 4 {
		ip = netip.AddrFrom4([4]byte(buf[:4]))
	}
	q.prefix = netip.PrefixFrom(ip, source)
	return q.prefix == q.prefix.Masked()
}

// map4or6 is the size of an address of a family: 1 is IPv4, 2 IPv6, 0 says none.
func map4or6(family uint16) int {
	switch family {
	case 1:
		return 4
	case 2:
		return 16
	}
	return 0
}

// limit is how large the answer over UDP may be.
func (q *query) limit() int {
	if !q.edns {
		return 512
	}
	return min(max(int(q.size), 512), maxUDP)
}
