package model

import (
	"cmp"
	"net/netip"
	"slices"
)

// ZoneSpec is what a DNSZone says.
type ZoneSpec struct {
	Origin      Origin
	Generation  int64 // of the DNSZone, for its status
	Domain      Host  // without a trailing dot
	NameServers []NameServer
	SOA         SOA
	TTL         uint32   // seconds, of address records
	ServerTTL   uint32   // seconds, of NS and SOA records and of glue
	Namespaces  []string // whose objects may have hosts in the zone, sorted; empty: all
	Delegates   []string // whose zones may be below this one, beside its own namespace, sorted
	Answers     int      // how many edges an answer names at most; 0: one
}

// DefaultServerTTL is the TTL of NS and SOA records and of glue, in seconds.
const DefaultServerTTL = 3600

// Complete gives its default to what versions before did not write down.
func (a *ZoneSpec) Complete() { a.ServerTTL = cmp.Or(a.ServerTTL, DefaultServerTTL) }

// NameServer is a server of a zone; addresses make glue if its name is inside.
type NameServer struct {
	Host      Host
	Addresses []netip.Addr
}

// SOA holds the fields of the SOA record that a user may set (RFC 1035, 3.3.13). In seconds.
type SOA struct {
	MName, RName                    string
	Refresh, Retry, Expire, Minimum uint32
}

// Equal reports whether both say the same.
func (a ZoneSpec) Equal(b ZoneSpec) bool {
	same := func(a, b NameServer) bool { return a.Host == b.Host && slices.Equal(a.Addresses, b.Addresses) }
	return a.Origin == b.Origin && a.Generation == b.Generation && slices.Equal(a.Namespaces, b.Namespaces) && slices.Equal(a.Delegates, b.Delegates) && a.Domain == b.Domain && slices.EqualFunc(a.NameServers, b.NameServers, same) &&
		a.SOA == b.SOA && a.TTL == b.TTL && a.ServerTTL == b.ServerTTL && a.Answers == b.Answers
}
