package model

import (
	"cmp"
	"net/netip"
	"strings"
)

// PoolAddress is an address of an edge that one class may have for itself.
type PoolAddress struct {
	Address netip.Addr // what clients reach it by
	Bind    netip.Addr // what proxies listen on, of the same family
}

// LeaseID is a class, or a Gateway (Class.Tenant), at an edge where it has addresses
// of its own.
type LeaseID struct {
	Edge  Edge
	Class Class
}

// Compare orders by edge and class.
func (a LeaseID) Compare(b LeaseID) int {
	return cmp.Or(a.Edge.Compare(b.Edge), a.Class.Compare(b.Class))
}

// String is "eu-1@web". Neither name has an "@".
func (a LeaseID) String() string { return string(a.Edge) + "@" + string(a.Class) }

// Seat is what DNS answers for the class there, as it answers an edge.
func (a LeaseID) Seat() Edge { return Edge(a.String()) }

// Leased is the class that has a seat for itself; false: it is an edge.
func (a Edge) Leased() (LeaseID, bool) {
	edge, class, ok := strings.Cut(string(a), "@")
	return LeaseID{Edge(edge), Class(class)}, ok
}

// Lease is what of the pool of an edge a class has: an address of each family
// that the pool has enough of. The zero PoolAddress is none.
type Lease struct {
	LeaseID
	IPv4, IPv6 PoolAddress
}

// Compare orders by edge, class and addresses.
func (a Lease) Compare(b Lease) int {
	return cmp.Or(a.LeaseID.Compare(b.LeaseID), a.IPv4.Compare(b.IPv4), a.IPv6.Compare(b.IPv6))
}

// Equal reports whether both are the same.
func (a Lease) Equal(b Lease) bool { return a == b }

// String is "eu-1@web 192.0.2.1 2001:db8::1".
func (a Lease) String() string {
	out := a.LeaseID.String()
	for _, has := range a.List() {
		out += " " + has.Address.String()
	}
	return out
}

// List is what it has, IPv4 first.
func (a Lease) List() []PoolAddress {
	var out []PoolAddress
	for _, has := range []PoolAddress{a.IPv4, a.IPv6} {
		if has != (PoolAddress{}) {
			out = append(out, has)
		}
	}
	return out
}

// Tenures are that of each address.
func (a Lease) Tenures() []TenureID {
	var out []TenureID
	for _, has := range a.List() {
		out = append(out, TenureID{a.LeaseID, has})
	}
	return out
}

// Addresses are those that clients reach it by, IPv4 first.
func (a Lease) Addresses() []netip.Addr {
	var out []netip.Addr
	for _, has := range a.List() {
		out = append(out, has.Address)
	}
	return out
}

// Compare orders by address and what proxies listen on.
func (a PoolAddress) Compare(b PoolAddress) int {
	return cmp.Or(a.Address.Compare(b.Address), a.Bind.Compare(b.Bind))
}
