package model

import (
	"cmp"
	"net/netip"
	"strconv"
	"strings"
	"unique"
)

// Kind is what a collection has, by what its bytes depend on. 0: none.
type Kind uint8

// Front is what a class has in a table, wherever that is: scopes, routes and
// secrets, and the clusters of its hosts but for Lookups. What several classes
// say something about is not there but in Contest and Disputes, of those that
// share a table or present certificates on demand at some edges. Wildcards is by
// what requests find those of any depth, of the classes that have some in a table.
// Names is by what the listeners of a port are told apart, of all its classes.
// Sockets is one listener and the code of its walk, which is the same for all,
// Lookups the clusters of a class that carry their endpoints, Pools the assignments
// of a vantage, and Clients what gRPC clients of a view get, but for assignments.
const (
	_         Kind = iota
	Front          // by class and table
	Contest        // by classes and table: scopes and routes
	Disputes       // by classes: secrets
	Wildcards      // by classes and table: a scope and its route configuration
	Sockets        // by address, port, family, table and trusted hops, and by classes where their certificates are in it
	Lookups        // by class and vantage
	Pools          // by vantage
	Clients        // by view
	Names          // by classes and table: a scope and its route configuration
)

// OwnTable is the table of a class where it has addresses of its own.
func OwnTable(c Class) string { return ownTable + string(c) }

// OwnerOf is the class of such a table.
func OwnerOf(table string) (Class, bool) {
	class, own := strings.CutPrefix(table, ownTable)
	return Class(class), own
}

// ownTable is what these tables' names begin with, and no other's.
const ownTable = "@"

var kindNames = [...]string{Front: "front", Contest: "contest", Disputes: "disputes", Wildcards: "wildcards", Sockets: "sockets", Lookups: "lookups", Pools: "pools", Clients: "clients", Names: "names"}

// CollectionKey is all that the content of a collection depends on. What does
// not matter to its kind is blank.
type CollectionKey struct {
	Kind Kind
	ViewKey
	Table string // name of one; empty: the main one, too
	Socket
}

// Socket is what a listener is, but for its family.
type Socket struct {
	Number   uint16
	Traffic  Traffic
	TLS      bool        // clients speak TLS; of Connections without it no name is known
	OnDemand bool        // certificates: proxies ask for each by the name a client asks for
	Clients  ClientTrust // which clients are let in by their certificates
	Deep     bool        // requests are looked for among wildcards of any depth, too
	Bind     netip.Addr  // of a class that has an address of its own; zero: all of the family
}

// Shares reports whether who wants the one can have the other: how certificates come is
// nothing that requests notice.
func (a Socket) Shares(b Socket) bool {
	a.OnDemand, a.Deep = b.OnDemand, b.Deep
	return a == b
}

// Collection names resources that many views share: a view holds those of all
// its collections. It is an interned CollectionKey, 8 bytes; the zero value is
// none.
type Collection struct {
	h unique.Handle[placedCollection]
}

// placedCollection is a key with what is asked for often.
type placedCollection struct {
	CollectionKey
	at Vantage
}

// Collection interns the key.
func (k CollectionKey) Collection() Collection {
	if k == (CollectionKey{}) {
		return Collection{}
	}
	return Collection{unique.Make(placedCollection{k, k.Vantage()})}
}

// FrontOf is what a class has in a table.
func FrontOf(class Class, table string) Collection {
	return CollectionKey{Kind: Front, ViewKey: ViewKey{Classes: string(class)}, Table: table}.Collection()
}

// LookupsOf is the clusters of a class that carry their endpoints, as seen from
// a vantage.
func LookupsOf(class Class, at Vantage) Collection {
	return CollectionKey{Kind: Lookups, ViewKey: ViewKey{Classes: string(class), VantageKey: at.Key()}}.Collection()
}

// Pools is the assignments at a vantage.
func (a Vantage) Pools() Collection {
	return CollectionKey{Kind: Pools, ViewKey: ViewKey{VantageKey: a.Key()}}.Collection()
}

// Key is what the collection was made of.
func (a Collection) Key() CollectionKey {
	if a == (Collection{}) {
		return CollectionKey{}
	}
	return a.h.Value().CollectionKey
}

// Kind is what it has.
func (a Collection) Kind() Kind { return a.Key().Kind }

// Class is the only one of its classes.
func (a Collection) Class() Class { return Class(a.Classes()) }

// Classes are the names of its classes, joined by ",".
func (a Collection) Classes() string { return a.Key().Classes }

// Vantage is from where its members are dialled, if it depends on that.
func (a Collection) Vantage() Vantage {
	if a == (Collection{}) {
		return Vantage{}
	}
	return a.h.Value().at
}

// Compare orders by kind, place, classes, networks, table and socket.
func (a Collection) Compare(b Collection) int {
	if a == b {
		return 0
	}
	x, y := a.Key(), b.Key()
	return cmp.Or(
		cmp.Compare(x.Kind, y.Kind), x.Place.Compare(y.Place), strings.Compare(x.Classes, y.Classes),
		strings.Compare(x.Networks, y.Networks), strings.Compare(x.Table, y.Table), cmp.Compare(x.Number, y.Number),
		cmp.Compare(x.Traffic, y.Traffic), boolCompare(x.IPv6, y.IPv6), boolCompare(x.TLS, y.TLS), boolCompare(x.OnDemand, y.OnDemand), strings.Compare(x.Clients.String(), y.Clients.String()), boolCompare(x.Deep, y.Deep),
		x.Bind.Compare(y.Bind), cmp.Compare(x.TrustedHops, y.TrustedHops), x.Edge.Compare(y.Edge),
	)
}

// String is "pools eu/fra networks=default", with all that the key has: no two
// collections have the same.
func (a Collection) String() string {
	k := a.Key()
	s := kindNames[k.Kind]
	if k.VantageKey != (VantageKey{}) {
		s += " " + k.Place.full() + " networks=" + k.Networks
	}
	if k.Kind != Pools && (k.Kind != Sockets || k.Classes != "") {
		s += " classes=" + k.Classes
	}
	if k.Number != 0 {
		s += " port=" + strconv.Itoa(int(k.Number))
	}
	if k.Bind.IsValid() {
		s += " bind=" + k.Bind.String()
	}
	for _, f := range []struct {
		has  bool
		text string
	}{{k.Traffic == Connections, " tcp"}, {k.Traffic == Datagrams, " udp"}, {k.TLS, " tls"}, {k.OnDemand, " on demand"}, {k.Clients != (ClientTrust{}), " clients=" + k.Clients.String()}, {k.Deep, " deep"}, {k.IPv6, " ipv6"}, {k.Table != "", " table=" + k.Table}} {
		if f.has {
			s += f.text
		}
	}
	if k.TrustedHops != 0 {
		s += " hops=" + strconv.Itoa(int(k.TrustedHops))
	}
	if k.Edge != "" {
		s += " edge=" + string(k.Edge)
	}
	return s
}
