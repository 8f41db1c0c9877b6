package dnsserver

import (
	"net/netip"
	"slices"
	"sync/atomic"
	"time"

	"github.com/spillway-dev/spillway/internal/zone"
)

// guard is what all sockets know of clients.
type guard struct {
	limiter   limiter
	cookies   cookies
	unlimited []netip.Prefix
	began     time.Time
	truncated atomic.Uint64 // answers cut because of the limit
}

func (g *guard) init(cfg Config) {
	g.limiter.init(cfg.RateLimit)
	g.cookies.init()
	g.unlimited, g.began = cfg.Unlimited, time.Now()
}

// responder turns packets into answers, one after the other, with memory of its
// own. It is what the sockets share and the fuzz test drives.
type responder struct {
	guard   *guard    // nil: no limits and no cookies
	now     time.Time // set by who reads packets
	over    int       // answers over the limit so far
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
	if known || p.guard == nil || p.guard.takes(from, &r, len(out)-len(dst), p.now) {
		return out, r.RCode, answered
	}
	return p.slip(dst, q, &r)
}

// slip answers what is over the limit: every second time with no record and TC,
// which is hardly larger than what was asked. So a client that is no forgery comes again over
// TCP, or with the cookie it gets now.
func (p *responder) slip(dst []byte, q *query, r *zone.Response) ([]byte, zone.RCode, drop) {
	if p.over++; p.over%2 == 0 {
		return dst, r.RCode, dropRate
	}
	p.guard.truncated.Add(1)
	return appendReply(dst, q, r, 0), r.RCode, answered
}

// takes reports whether an answer to an address that may be forged is within the limit.
func (g *guard) takes(to netip.Addr, r *zone.Response, size int, now time.Time) bool {
	if g.limiter.every == 0 || slices.ContainsFunc(g.unlimited, func(p netip.Prefix) bool { return p.Contains(to) }) {
		return true
	}
	return g.limiter.take(g.limiter.key(to, kindOf(r), r.Zone), size, now.Sub(g.began))
}
