package dnsserver

import (
	"encoding/binary"

	"github.com/spillway-dev/spillway/internal/zone"
)

// maxUDP is the largest answer over UDP: what fits into a packet everywhere
// (DNS flag day 2020). It is what we tell clients that we take, too.
const maxUDP = 1232

// reply writes a message. Names are compressed against the question only.
type reply struct {
	b    []byte
	base int // where the message begins in b
	q    *query
}

// appendReply appends the answer to q, at most limit bytes long, to dst. If the
// answer and authority sections do not fit both are left out and TC is set;
// additional records that do not fit are left out silently.
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
		counts[3] = w.records(r.Additional, end)
	}
	if q.edns {
		w.opt(r)
		counts[3]++
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
		w.name(r.Host)
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

// name appends a name, as a pointer into the question from the first label on
// that is there too. The empty name is the question's.
func (w *reply) name(n zone.Name) {
	if n == "" {
		w.uint16(0xc000 | headerSize)
		return
	}
	for len(n) > 1 {
		if at := w.q.indexOf(n); at >= 0 {
			w.uint16(0xc000 | uint16(headerSize+at))
			return
		}
		label := 1 + int(n[0])
		w.b = append(w.b, n[:label]...)
		n = n[label:]
	}
	w.b = append(w.b, 0)
}

// indexOf is where in the question's name the name n begins, or -1.
func (q *query) indexOf(n zone.Name) int {
	at := 0
	for len(q.name)-at > len(n) {
		at += 1 + int(q.name[at])
	}
	if string(q.name[at:]) == string(n) {
		return at
	}
	return -1
}

// optSize is the size of the OPT record to come.
func (w *reply) optSize() int {
	switch {
	case !w.q.edns:
		return 0
	case w.q.subnet == nil:
		return 11
	}
	return 11 + 4 + len(w.q.subnet)
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
	if w.q.subnet == nil {
		return
	}
	w.uint16(optSubnet)
	w.uint16(uint16(len(w.q.subnet)))
	w.b = append(w.b, w.q.subnet...)
	scope := len(w.b) - len(w.q.subnet) + 3
	w.b[scope] = byte(r.Scope)
}

func (w *reply) uint16(v uint16) { w.b = binary.BigEndian.AppendUint16(w.b, v) }
func (w *reply) uint32(v uint32) { w.b = binary.BigEndian.AppendUint32(w.b, v) }
