package dnsserver

import (
	"net/netip"
	"sync/atomic"
	"time"

	"github.com/spillway-dev/spillway/internal/zone"
)

// guard is what all sockets know of clients.
type guard struct {
	limiter   limiter
	cookies   cookies
	truncated atomic.Uint64 // answers cut because of the limit
}

func (g *guard) init(cfg Config) {
	g.limiter.init(cfg.RateLimit, cfg.Unlimited)
	g.cookies.init()
}

// responder turns packets into answers, one after the other, with memory of its
// own. It is what the sockets share and the fuzz test drives.
type responder struct {
	guard   *guard    // nil: no limits and no cookies
	now     time.Time // set by who reads packets
	query   query
	cookie  [wholeCookie]byte
	records [4 * zone.MaxRecords]zone.Record
}

// maxTCP is the largest answer over TCP; nothing we say comes near.
const maxTCP = 1<<16 - 1

// respond appends the answer to a packet to dst; code is what it says, and why
// is answered or the reason for which there is to be none.
func (p *responder) respond(dst []byte, s *zone.Snapshot, packet []byte, from netip.Addr, tcp bool) (out []byte, code zone.RCode, why drop) {
	q := &p.query
	code, ok := q.parse(packet)
	if !ok {
		return dst, code, dropMalformed
	}
	limit := maxTCP
	if !tcp {
		limit = q.limit()
	}
	known := tcp
	if p.guard != nil && q.cookie != nil {
		var ours bool
		p.cookie, ours = p.guard.cookies.answer(q.cookie, from, p.now)
		q.give = p.cookie[:]
		known = known || ours
	}
	r := zone.Response{RCode: code}
	if code == zone.NoError && q.question != nil {
		r = zone.AnswerInto(p.records[:0], s, zone.Question{Name: q.name, Type: q.qtype, Class: q.class}, zone.Client{Addr: from, Subnet: q.prefix})
	}
	out = appendReply(dst, q, &r, limit)
	if known || p.guard == nil {
		return out, r.RCode, answered
	}
	switch p.guard.limiter.allows(from, &r, len(out)-len(dst), p.now) {
	case cut:
		p.guard.truncated.Add(1)
		out = appendReply(dst, q, &r, 0) // no record fits
	case silence:
		return dst, r.RCode, dropRate
	}
	return out, r.RCode, answered
}
