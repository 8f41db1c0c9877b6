package model

import (
	"cmp"
	"net/netip"
	"slices"
	"strings"

	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"
)

// PoolAddress is an address of an edge that one class may have for itself.
type PoolAddress struct {
	Address netip.Addr // what clients reach it by
	Bind    netip.Addr // what proxies listen on, of the same family
}

// PoolEntry is an address of an edge's pool, and who may have it.
type PoolEntry struct {
	PoolAddress
	OnRequest bool   // only who asks for it by its address
	Scope     string // from where it is reachable (Gateway API, routability): only who asks for that. Empty: it has none
}

// Compare orders by address.
func (a PoolEntry) Compare(b PoolEntry) int { return a.PoolAddress.Compare(b.PoolAddress) }

// ClusterScope is that of the ClusterIP of a Service (Gateway API, GEP-5093).
const ClusterScope = string(gatewayv1.GatewayAddressRoutabilityCluster)

// AddressRequest is an address that a Gateway asks for: this one, or any of a scope.
type AddressRequest struct {
	Address netip.Addr // zero: any
	Scope   string     // as of PoolEntry; empty: the Gateway does not say
}

// Named reports whether it is for a certain address.
func (a AddressRequest) Named() bool { return a.Address.IsValid() }

// Admits reports whether an address of a pool is what is asked for. Who does not say from
// where it is to be reachable may name one that has Cluster, but none with a scope of
// somebody's own (GEP-5093, "Spec Semantics").
func (a AddressRequest) Admits(e PoolEntry) bool {
	if a.Named() {
		return a.Address == e.Address && (a.Scope == e.Scope || a.Scope == "" && e.Scope == ClusterScope)
	}
	return a.Scope == e.Scope
}

// String is "192.0.2.1 of scope Cluster", or "any address".
func (a AddressRequest) String() string {
	out := "any address"
	if a.Named() {
		out = a.Address.String()
	}
	if a.Scope != "" {
		out += " of routability " + a.Scope
	}
	return out
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

// Lease is what of the pool of an edge a class has.
type Lease struct {
	LeaseID
	Has []PoolEntry // sorted by address, IPv4 first
}

// Equal reports whether both are the same.
func (a Lease) Equal(b Lease) bool { return a.LeaseID == b.LeaseID && slices.Equal(a.Has, b.Has) }

// String is "eu-1@web 192.0.2.1 2001:db8::1".
func (a Lease) String() string {
	out := a.LeaseID.String()
	for _, has := range a.Has {
		out += " " + has.Address.String()
		if has.Scope != "" {
			out += "(" + has.Scope + ")"
		}
	}
	return out
}

// Tenures are that of each address.
func (a Lease) Tenures() []TenureID {
	var out []TenureID
	for _, has := range a.Has {
		out = append(out, TenureID{a.LeaseID, has.PoolAddress})
	}
	return out
}

// Addresses are those that clients reach it by, IPv4 first.
func (a Lease) Addresses() []netip.Addr {
	var out []netip.Addr
	for _, has := range a.Has {
		out = append(out, has.Address)
	}
	return out
}

// Open are those of the addresses that anybody may be sent to: those without a scope, or
// all where each has one.
func (a Lease) Open() []netip.Addr {
	var out []netip.Addr
	for _, has := range a.Has {
		if has.Scope == "" {
			out = append(out, has.Address)
		}
	}
	if len(out) == 0 {
		return a.Addresses()
	}
	return out
}

// Compare orders by address and what proxies listen on.
func (a PoolAddress) Compare(b PoolAddress) int {
	return cmp.Or(a.Address.Compare(b.Address), a.Bind.Compare(b.Bind))
}
