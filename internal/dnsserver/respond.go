package dnsserver

import (
	"net/netip"

	"github.com/spillway-dev/spillway/internal/zone"
)

// responder turns packets into answers, one after the other, with memory of its
// own. It is what the sockets share and the fuzz test drives.
type responder struct {
	query   query
	records [4 * zone.MaxRecords]zone.Record
}

// maxTCP is the largest answer over TCP; nothing we say comes near.
const maxTCP = 1<<16 - 1

// respond appends the answer to a packet to dst; code is what it says. Not ok:
// there is to be no answer.
func (p *responder) respond(dst []byte, s *zone.Snapshot, packet []byte, from netip.Addr, tcp bool) (out []byte, code zone.RCode, ok bool) {
	q := &p.query
	code, ok = q.parse(packet)
	if !ok {
		return dst, code, false
	}
	limit := maxTCP
	if !tcp {
		limit = q.limit()
	}
	r := zone.Response{RCode: code}
	if code == zone.NoError {
		r = zone.AnswerInto(p.records[:0], s, zone.Question{Name: q.name, Type: q.qtype, Class: q.class}, zone.Client{Addr: from, Subnet: q.prefix})
	}
	return appendReply(dst, q, &r, limit), r.RCode, true
}
