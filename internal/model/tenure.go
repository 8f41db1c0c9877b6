package model

import (
	"cmp"
	"time"
)

// TenureID is an address of an edge's pool that a class has there for itself, or
// has left.
type TenureID struct {
	LeaseID
	PoolAddress
}

// Compare orders by edge, class and address.
func (a TenureID) Compare(b TenureID) int {
	return cmp.Or(a.LeaseID.Compare(b.LeaseID), a.PoolAddress.Compare(b.PoolAddress))
}

// String is "eu-1@web 192.0.2.1", with what proxies listen on where that is
// another address.
func (a TenureID) String() string {
	out := a.LeaseID.String() + " " + a.Address.String()
	if a.Bind != a.Address {
		out += "~" + a.Bind.String()
	}
	return out
}

// Tenure is what is remembered of one.
type Tenure struct {
	// Until is when nobody has the address of a resolver any more, in Unix seconds.
	// 0: the class has it, or has left it just now.
	Until int64
	// TTL is the largest of a zone while the class has it, in seconds.
	TTL uint32
}

// Equal reports whether both are the same.
func (a Tenure) Equal(b Tenure) bool { return a == b }

// How long resolvers are waited for: the TTL, of which only so much counts, and
// what DNS needs to stop naming an address, and clients to connect.
const (
	MaxTenureTTL = time.Hour
	TenureMargin = 30 * time.Second
)

// Ending is when a tenure ends whose class leaves its address now, in Unix seconds.
func (a Tenure) Ending(now time.Time) int64 {
	return now.Add(min(time.Duration(a.TTL)*time.Second, MaxTenureTTL) + TenureMargin).Unix()
}
