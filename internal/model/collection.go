package model

import (
	"cmp"
	"strings"
	"unique"
)

// Kind is what a collection has, by what its bytes depend on. 0: none.
type Kind uint8

// Front is what classes have, wherever it is: scopes, routes, secrets, and
// clusters but for Lookups. Sockets is listeners, Lookups the clusters that carry
// their endpoints, Pools the assignments of a vantage, and Clients what gRPC
// clients of a view get, but for assignments.
const (
	_       Kind = iota
	Front        // by classes
	Sockets      // by classes and IPv6
	Lookups      // by classes and vantage
	Pools        // by vantage
	Clients      // by view
)

var kindNames = [...]string{Front: "front", Sockets: "sockets", Lookups: "lookups", Pools: "pools", Clients: "clients"}

// CollectionKey is all that the content of a collection depends on. What does
// not matter to its kind is blank.
type CollectionKey struct {
	Kind Kind
	ViewKey
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

// FrontOf is what some classes have, sorted and joined by ",".
func FrontOf(classes string) Collection {
	return CollectionKey{Front, ViewKey{Classes: classes}}.Collection()
}

// SocketsOf is what a front listens on.
func SocketsOf(front Collection, ipv6 bool) Collection {
	return CollectionKey{Sockets, ViewKey{Classes: front.Classes(), IPv6: ipv6}}.Collection()
}

// LookupsOf is the clusters of a front that carry their endpoints, as seen from
// a vantage.
func LookupsOf(front Collection, at Vantage) Collection {
	return CollectionKey{Lookups, ViewKey{Classes: front.Classes(), VantageKey: at.Key()}}.Collection()
}

// Pools is the assignments at a vantage.
func (a Vantage) Pools() Collection {
	return CollectionKey{Pools, ViewKey{VantageKey: a.Key()}}.Collection()
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

// Classes are the names of its classes, sorted and joined by ",".
func (a Collection) Classes() string { return a.Key().Classes }

// Vantage is from where its members are dialled, if it depends on that.
func (a Collection) Vantage() Vantage {
	if a == (Collection{}) {
		return Vantage{}
	}
	return a.h.Value().at
}

// Needs are the front and the pools without which a collection is not whole:
// itself, or what its rows follow.
func (a Collection) Needs() []Collection {
	switch a.Kind() {
	case Sockets:
		return []Collection{FrontOf(a.Classes())}
	case Lookups, Clients:
		return []Collection{FrontOf(a.Classes()), a.Vantage().Pools()}
	}
	return []Collection{a}
}

// Compare orders by kind, place, classes, networks and IPv6.
func (a Collection) Compare(b Collection) int {
	if a == b {
		return 0
	}
	x, y := a.Key(), b.Key()
	return cmp.Or(
		cmp.Compare(x.Kind, y.Kind), x.Place.Compare(y.Place), strings.Compare(x.Classes, y.Classes),
		strings.Compare(x.Networks, y.Networks), boolCompare(x.IPv6, y.IPv6),
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
	if k.Kind != Pools {
		s += " classes=" + k.Classes
	}
	if k.IPv6 {
		s += " ipv6"
	}
	return s
}
