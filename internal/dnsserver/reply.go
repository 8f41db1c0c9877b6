package dnsserver

import (
	"encoding/binary"

	"github.com/spillway-dev/spillway/internal/zone"
)

// maxUDP is the largest answer over UDP: what fits into a packet everywhere
// (DNS flag day 2020). It is what we tell clients that we take, too.
const maxUDP = 1232

// reply writes a message. Names are compressed against the question and the
// hosts of NS records, which glue repeats.
type reply struct {
	b     []byte
	base  int // where the message begins in b
	q     *query
	hosts [maxHosts]written
	known int // of hosts
}

// written is a name in the message and where it begins there.
type written struct {
	name zone.Name
	at   int
}

const (
	maxHosts   = 13      // name servers of a DNSZone
	maxPointer = 1 << 14 // a pointer has so many bits (RFC 1035, 4.1.4)
)

// appendReply appends the answer to q, at most limit bytes long, to dst. If the
// answer and authority sections do not fit both are left out and TC is set;
// additional RRsets that do not fit are left out silently, each as a whole (RFC 2181, 9).
func appendReply(dst []byte, q *query, r *zone.Response, limit int) []byte {
	w := reply{b: dst, base: len(dst), q: q}
	flags := flagQR | q.opcode()<<11 | q.flags&(flagRD|flagCD) | uint16(r.RCode)&15
	if r.Authoritative {
		flags |= flagAA
	}
	w.b = append(w.b, make([]byte, headerSize)...)
	w.b = append(w.b, q.question...)
	end := w.base + limit - w.optSize()
	var counts [4]int
	if q.question != nil {
		counts[0] = 1
	}
	body := len(w.b)
	counts[1], counts[2] = w.records(r.Answer, end), w.records(r.Authority, end)
	if counts[1] < len(r.Answer) || counts[2] < len(r.Authority) {
		w.b = w.b[:body]
		counts[1], counts[2] = 0, 0
		flags |= flagTC
	} else {
		counts[3] = w.sets(r.Additional, end)
	}
	if q.edns {
		w.opt(r)
		counts[3]++
	}
	switch {
	case q.signed.key == nil || r.RCode != zone.NotAuth:
	case w.tsig(w.base + limit):
		counts[3]++
	default:
		flags |= flagTC
	}
	header := w.b[w.base:]
	binary.BigEndian.PutUint16(header, q.id)
	binary.BigEndian.PutUint16(header[2:], flags)
	for i, n := range counts {
		binary.BigEndian.PutUint16(header[4+2*i:], uint16(n))
	}
	return w.b
}

// records appends records as long as they end before end, and counts them.
func (w *reply) records(records []zone.Record, end int) int {
	for i := range records {
		before := len(w.b)
		w.record(&records[i])
		if len(w.b) > end {
			w.b = w.b[:before]
			return i
		}
	}
	return len(records)
}

// sets appends the RRsets that end before end, and counts their records.
func (w *reply) sets(records []zone.Record, end int) (count int) {
	for len(records) > 0 {
		n, before := 1, len(w.b)
		for n < len(records) && records[n].Owner == records[0].Owner && records[n].Type == records[0].Type {
			n++
		}
		if w.records(records[:n], end) == n {
			count += n
		} else {
			w.b = w.b[:before]
		}
		records = records[n:]
	}
	return count
}

func (w *reply) record(r *zone.Record) {
	w.name(r.Owner)
	w.uint16(uint16(r.Type))
	w.uint16(uint16(zone.ClassIN))
	w.uint32(r.TTL)
	size := len(w.b)
	w.uint16(0)
	switch r.Type {
	case zone.TypeA:
		a := r.Addr.As4()
		w.b = append(w.b, a[:]...)
	case zone.TypeAAAA:
		a := r.Addr.As16()
		w.b = append(w.b, a[:]...)
	case zone.TypeNS:
		w.host(r.Host)
	case zone.TypeSOA:
		w.name(r.SOA.MName)
		w.name(r.SOA.RName)
		for _, v := range [...]uint32{r.SOA.Serial, r.SOA.Refresh, r.SOA.Retry, r.SOA.Expire, r.SOA.Minimum} {
			w.uint32(v)
		}
	case zone.TypeHINFO:
		w.b = append(w.b, "\x07RFC8482\x00"...)
	}
	binary.BigEndian.PutUint16(w.b[size:], uint16(len(w.b)-size-2))
}

// host appends a name and keeps in mind where it is.
func (w *reply) host(n zone.Name) {
	at := len(w.b) - w.base
	w.name(n)
	if w.known < maxHosts && at+len(n) < maxPointer {
		w.hosts[w.known] = written{n, at}
		w.known++
	}
}

// name appends a name, as a pointer from the first label on that is in the
// message already. The empty name is the question's.
func (w *reply) name(n zone.Name) {
	if n == "" {
		w.uint16(0xc000 | headerSize)
		return
	}
	for len(n) > 1 {
		if at := w.indexOf(n); at >= 0 {
			w.uint16(0xc000 | uint16(at))
			return
		}
		label := 1 + int(n[0])
		w.b = append(w.b, n[:label]...)
		n = n[label:]
	}
	w.b = append(w.b, 0)
}

// indexOf is where in the message the name n is, or -1. Hosts are asked in the
// order in which they were written: what one of them has as a pointer is, in
// letters, in the question or in one before it.
func (w *reply) indexOf(n zone.Name) int {
	if at := suffix(w.q.name, n); at >= 0 {
		return headerSize + at
	}
	for _, h := range w.hosts[:w.known] {
		if at := suffix(h.name, n); at >= 0 {
			return h.at + at
		}
	}
	return -1
}

// suffix is where in a name its last labels begin that are n, or -1.
func suffix[T zone.Name | []byte](name T, n zone.Name) int {
	at := 0
	for len(name)-at > len(n) {
		at += 1 + int(name[at])
	}
	if string(name[at:]) == string(n) {
		return at
	}
	return -1
}

// optSize is the size of the OPT record to come.
func (w *reply) optSize() int {
	if !w.q.edns {
		return 0
	}
	size := 11
	if w.q.subnet != nil {
		size += 4 + len(w.q.subnet)
	}
	if w.q.give != nil {
		size += 4 + len(w.q.give)
	}
	return size
}

// opt appends the OPT record (RFC 6891, 6.1.2). DO is copied (RFC 3225, 3), and
// so is the client subnet but for its scope.
func (w *reply) opt(r *zone.Response) {
	w.b = append(w.b, 0)
	w.uint16(uint16(zone.TypeOPT))
	w.uint16(maxUDP)
	flags := uint32(r.RCode>>4) << 24
	if w.q.do {
		flags |= ednsDO
	}
	w.uint32(flags)
	w.uint16(uint16(w.optSize() - 11))
	if w.q.subnet != nil {
		w.uint16(optSubnet)
		w.uint16(uint16(len(w.q.subnet)))
		w.b = append(w.b, w.q.subnet...)
		scope := len(w.b) - len(w.q.subnet) + 3
		w.b[scope] = byte(r.Scope)
	}
	if w.q.give != nil {
		w.uint16(optCookie)
		w.uint16(uint16(len(w.q.give)))
		w.b = append(w.b, w.q.give...)
	}
}

// tsig appends the record that says that we don't have the key: unsigned, and the
// last one (RFC 8945, 5.2.1 and 5.3.2). It reports whether that ends before end.
func (w *reply) tsig(end int) bool {
	const classANY, badKey = 255, 17
	s := &w.q.signed
	if len(w.b)+len(s.key)+len(s.algorithm)+18 > end {
		return false
	}
	w.b = append(w.b, s.key...)
	w.uint16(uint16(zone.TypeTSIG))
	w.uint16(classANY)
	w.uint32(0)
	w.uint16(uint16(len(s.algorithm) + 8))
	w.b = append(w.b, s.algorithm...)
	w.uint16(0) // no signature
	w.uint16(w.q.id)
	w.uint16(badKey)
	w.uint16(0)
	return true
}

func (w *reply) uint16(v uint16) { w.b = binary.BigEndian.AppendUint16(w.b, v) }
func (w *reply) uint32(v uint32) { w.b = binary.BigEndian.AppendUint32(w.b, v) }
