package model

import (
	"cmp"
	"strings"
	"unique"
)

// VantageKey is all that the shares of members depend on, of what dials them.
type VantageKey struct {
	Networks string // names, sorted and joined by ","
	Place    Place
}

// Vantage is from where members are dialled: a place, and networks. What is
// decided about members there, in which order they get requests and which
// endpoints they have, is the same for every view at it. It is an interned
// VantageKey, 8 bytes; the zero value is that of the zero key.
type Vantage struct{ h unique.Handle[VantageKey] }

// Vantage interns the key.
func (k VantageKey) Vantage() Vantage {
	if k == (VantageKey{}) {
		return Vantage{}
	}
	return Vantage{unique.Make(k)}
}

// Key is what the vantage was made of.
func (a Vantage) Key() VantageKey {
	if a == (Vantage{}) {
		return VantageKey{}
	}
	return a.h.Value()
}

// Place is where it is.
func (a Vantage) Place() Place { return a.Key().Place }

// Networks are the names of its networks, sorted and joined by ",".
func (a Vantage) Networks() string { return a.Key().Networks }

// Compare orders vantages by place and networks.
func (a Vantage) Compare(b Vantage) int {
	if a == b {
		return 0
	}
	x, y := a.Key(), b.Key()
	return cmp.Or(x.Place.Compare(y.Place), strings.Compare(x.Networks, y.Networks))
}

// String is "eu/fra networks=default", with all else that the place has: no two
// vantages have the same.
func (a Vantage) String() string {
	k := a.Key()
	return k.Place.full() + " networks=" + k.Networks
}
