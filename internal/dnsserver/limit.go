package dnsserver

import (
	"hash/maphash"
	"net/netip"
	"slices"
	"sync/atomic"
	"time"

	"github.com/spillway-dev/spillway/internal/zone"
)

// DefaultRateLimit is far above what a network of resolvers asks of one zone, and
// at 1232 bytes an answer at most 250 KB/s to a victim in whose name others ask.
const DefaultRateLimit = 1000

var loopback = []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8"), netip.MustParsePrefix("::1/128")}

// kind is what answers are counted by, beside the zone, so that a flood of names
// that nobody has takes no answer away from those who ask for a host.
type kind byte

const (
	positive kind = iota
	noData
	noName
	failure
	truncated
)

// share is what becomes of an answer.
type share int

const (
	whole   share = iota
	cut           // TC and no record, about as large as what was asked: a client that is no forgery comes again over TCP, or with the cookie that it got
	silence       // nothing
)

func kindOf(r *zone.Response) kind {
	switch {
	case r.RCode == zone.NXDomain:
		return noName
	case r.RCode != zone.NoError:
		return failure
	case len(r.Answer) == 0:
		return noData
	}
	return positive
}

const (
	limitSlots = 1 << 16
	limitBurst = time.Second // what a network may have at once that asked for nothing before
	limitUnit  = 256         // an answer counts once for each so many bytes begun
	limitCut   = 8           // as many times the limit is answered with TC, before there is silence
)

// limiter bounds what each network is sent over UDP in answers of one kind from
// one zone: whoever asks in the name of a victim makes us send to it, and large
// answers more than it cost to ask. Its memory is fixed and there is no lock.
// Keys that fall on the same slot share their limit, which takes two that ask a
// lot; which they are, nobody outside can know.
type limiter struct {
	seed      maphash.Seed
	every     time.Duration // what an answer takes of a second; 0: no limit
	unlimited []netip.Prefix
	began     time.Time
	due       [limitSlots]atomic.Int64
}

func (l *limiter) init(rate int, unlimited []netip.Prefix) {
	l.seed, l.unlimited, l.began = maphash.MakeSeed(), unlimited, time.Now()
	if rate > 0 {
		l.every = max(limitCut, time.Second/time.Duration(rate))
	}
}

// allows decides about an answer of so many bytes, and counts it.
func (l *limiter) allows(to netip.Addr, r *zone.Response, size int, at time.Time) share {
	if l.every == 0 || slices.ContainsFunc(l.unlimited, func(p netip.Prefix) bool { return p.Contains(to) }) {
		return whole
	}
	now, units := at.Sub(l.began), time.Duration((size+limitUnit-1)/limitUnit)
	switch {
	case l.take(l.key(to, kindOf(r), r.Zone), units*l.every, now):
		return whole
	case l.take(l.key(to, truncated, r.Zone), l.every/limitCut, now):
		return cut
	}
	return silence
}

// key is the slot of an answer.
func (l *limiter) key(to netip.Addr, k kind, z zone.Name) int {
	var buf [1 + 8 + zone.MaxName]byte
	whole := to.As16() // IPv4 stands at its end
	buf[0] = byte(k)
	if to.Is4() {
		copy(buf[1:], whole[12:12+zone.SubnetBits4/8])
		buf[8] = 4
	} else {
		copy(buf[1:], whole[:zone.SubnetBits6/8])
	}
	n := copy(buf[9:], z)
	return int(maphash.Bytes(l.seed, buf[:9+n]) % limitSlots)
}

// take reports whether what costs so much is still within the limit at a time
// since the start, and counts it if so. A slot holds the time at which all that
// was taken will have been earned (the generic cell rate algorithm).
func (l *limiter) take(slot int, cost, now time.Duration) bool {
	at := &l.due[slot]
	for {
		due := at.Load()
		next := max(due, int64(now)) + int64(cost)
		if next-int64(now) > int64(limitBurst) {
			return false
		}
		if at.CompareAndSwap(due, next) {
			return true
		}
	}
}
