package dnsserver

import (
	"crypto/rand"
	"encoding/binary"
	"net/netip"
	"time"

	"github.com/dchest/siphash"
)

// A cookie is 8 bytes of the client and 16 of ours (RFC 9018, 4): version,
// reserved, time and a hash, which only we can make for the client's address. Who
// sends one back has seen an answer of ours, so its address is no forgery.
const (
	optCookie     = 10 // EDNS option code (RFC 7873, 4)
	clientCookie  = 8
	wholeCookie   = clientCookie + 16
	cookieVersion = 1
	cookieTime    = clientCookie + 4 // where the time stands, and after it the hash

	// How old one may be, how far ahead of us, and how old it is kept (RFC 9018, 4.3).
	cookieOld   = 3600
	cookieAhead = 300
	cookieFresh = 1800

	// A key is used for a day (RFC 7873, 7.1, asks for 36 at most).
	cookieEpoch = 24 * 3600
)

// cookies makes and checks cookies. Its secret lives as long as the process.
type cookies struct{ secret [2]uint64 }

func (c *cookies) init() {
	var b [16]byte
	rand.Read(b[:]) // never fails
	c.secret = [2]uint64{binary.LittleEndian.Uint64(b[:]), binary.LittleEndian.Uint64(b[8:])}
}

// answer is the cookie to answer one with, and whether that one was ours. It is
// kept while it is fresh.
func (c *cookies) answer(asked []byte, from netip.Addr, now time.Time) (out [wholeCookie]byte, ours bool) {
	at := uint32(now.Unix())
	copy(out[:], asked)
	if len(asked) == wholeCookie && asked[clientCookie] == cookieVersion {
		made := binary.BigEndian.Uint32(asked[cookieTime:])
		age := int32(at - made) // serial number arithmetic (RFC 1982)
		ours = -cookieAhead <= age && age <= cookieOld && c.hash(&out, from) == binary.LittleEndian.Uint64(asked[cookieTime+4:])
		if ours && 0 <= age && age <= cookieFresh {
			return out, true
		}
	}
	clear(out[clientCookie:])
	out[clientCookie] = cookieVersion
	binary.BigEndian.PutUint32(out[cookieTime:], at)
	binary.LittleEndian.PutUint64(out[cookieTime+4:], c.hash(&out, from))
	return out, ours
}

// hash is that of all of a cookie before the hash, and of the client's address,
// with the key of the cookie's day, which is made from the secret.
func (c *cookies) hash(cookie *[wholeCookie]byte, from netip.Addr) uint64 {
	var day [8]byte
	binary.LittleEndian.PutUint32(day[:], binary.BigEndian.Uint32(cookie[cookieTime:])/cookieEpoch)
	k0 := siphash.Hash(c.secret[0], c.secret[1], day[:])
	day[7] = 1
	k1 := siphash.Hash(c.secret[0], c.secret[1], day[:])
	return hashWith(k0, k1, cookie, from)
}

// hashWith is the hash of RFC 9018, 4.4.
func hashWith(k0, k1 uint64, cookie *[wholeCookie]byte, from netip.Addr) uint64 {
	var buf [cookieTime + 4 + 16]byte
	n := copy(buf[:], cookie[:cookieTime+4])
	if from.Is4() {
		a := from.As4()
		n += copy(buf[n:], a[:])
	} else {
		a := from.As16()
		n += copy(buf[n:], a[:])
	}
	return siphash.Hash(k0, k1, buf[:n])
}
