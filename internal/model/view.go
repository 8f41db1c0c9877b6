package model

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"unique"
)

// ViewKey is all that the content of a view depends on.
type ViewKey struct {
	Classes string // names, sorted and joined by ","
	VantageKey
	IPv6 bool // its edges have an address for it
	// TrustedHops is how many proxies in front of its edges say who a client is.
	TrustedHops uint8 `json:",omitempty"`
	Edge        Edge  `json:",omitempty"` // the only one, if it has addresses for single classes; else empty
}

// View is what one kind of data plane should hold: what some classes have, as
// seen from a vantage. Edges with equal keys share it. It is an interned
// ViewKey, 8 bytes, since much is kept per view; the zero value is that of the
// zero key.
type View struct{ h unique.Handle[placedView] }

// placedView is a key with what is asked for often.
type placedView struct {
	ViewKey
	at Vantage
}

// View interns the key.
func (k ViewKey) View() View {
	if k == (ViewKey{}) {
		return View{}
	}
	return View{unique.Make(placedView{k, k.Vantage()})}
}

// Key is what the view was made of.
func (a View) Key() ViewKey {
	if a == (View{}) {
		return ViewKey{}
	}
	return a.h.Value().ViewKey
}

// Vantage is from where its edges dial members.
func (a View) Vantage() Vantage {
	if a == (View{}) {
		return Vantage{}
	}
	return a.h.Value().at
}

// Clients is what its gRPC clients get, but for assignments.
func (a View) Clients() Collection {
	return CollectionKey{Kind: Clients, ViewKey: a.Key()}.Collection()
}

// ClientCollections are those of its gRPC clients.
func (a View) ClientCollections() []Collection {
	return []Collection{a.Clients(), a.Vantage().Pools()}
}

// MarshalBinary is the key: a checkpoint can't hold what is interned.
func (a View) MarshalBinary() ([]byte, error) { return json.Marshal(a.Key()) }

// UnmarshalBinary interns the key.
func (a *View) UnmarshalBinary(data []byte) error {
	var k ViewKey
	if err := json.Unmarshal(data, &k); err != nil {
		return fmt.Errorf("view: %w", err)
	}
	*a = k.View()
	return nil
}

// Place is where the edges of the view are.
func (a View) Place() Place { return a.Key().Place }

// Classes are the names of its classes, sorted and joined by ",".
func (a View) Classes() string { return a.Key().Classes }

// IPv6 reports whether its proxies listen on IPv6 too.
func (a View) IPv6() bool { return a.Key().IPv6 }

// TrustedHops is how many proxies in front of its edges are trusted.
func (a View) TrustedHops() uint8 { return a.Key().TrustedHops }

// Edge is the only one with the view, if that has addresses for single classes.
func (a View) Edge() Edge { return a.Key().Edge }

// Compare orders views by place, classes, networks, IPv6, trusted hops and edge.
func (a View) Compare(b View) int {
	if a == b {
		return 0
	}
	x, y := a.Key(), b.Key()
	return cmp.Or(
		x.Place.Compare(y.Place), strings.Compare(x.Classes, y.Classes), strings.Compare(x.Networks, y.Networks), boolCompare(x.IPv6, y.IPv6),
		cmp.Compare(x.TrustedHops, y.TrustedHops), x.Edge.Compare(y.Edge),
	)
}

// String is "eu/fra classes=spillway networks=default", with all else that the
// key has: no two views have the same, so it can name one.
func (a View) String() string {
	k := a.Key()
	s := k.Place.full() + " classes=" + k.Classes + " networks=" + k.Networks
	if k.IPv6 {
		s += " ipv6"
	}
	if k.TrustedHops != 0 {
		s += " hops=" + strconv.Itoa(int(k.TrustedHops))
	}
	if k.Edge != "" {
		s += " edge=" + string(k.Edge)
	}
	return s
}

// HostKey is a host of a class: two classes may serve one name differently.
type HostKey struct {
	Class Class
	Host  Host
}

// Compare orders by class and host.
func (a HostKey) Compare(b HostKey) int {
	return cmp.Or(a.Class.Compare(b.Class), a.Host.Compare(b.Host))
}

// String is "spillway shop.example".
func (a HostKey) String() string { return string(a.Class) + " " + string(a.Host) }

// Streams counts the proxies of an edge.
type Streams struct {
	Connected int // with an open stream
	Synced    int // that have their first state and serve: they acknowledged a listener, or their view has none
}

// Equal reports whether both are the same.
func (a Streams) Equal(b Streams) bool { return a == b }

// Rejection is a recorded verdict of data planes: they refused this version of a
// resource, and none acknowledged it.
type Rejection struct {
	Version string
	Error   string    // in the words of the first
	By      []Refuser // one or more, sorted by node
}

// Refuser is a data plane of the edge that refused something.
type Refuser struct {
	Node    string
	Version string // of Envoy, or of the gRPC library
}

// Equal reports whether both are the same.
func (a Rejection) Equal(b Rejection) bool {
	return a.Version == b.Version && a.Error == b.Error && slices.Equal(a.By, b.By)
}

// RejectionID names a resource that data planes of an edge are sent, whichever
// view the edge has. A row without an edge is of a version that kept them by
// view: it says nothing.
type RejectionID struct {
	Edge Edge
	Type string // type URL
	Name string
	GRPC bool // of what gRPC clients of the edge get, not its proxies
}

// Compare orders by edge, type, name and who said so, proxies first.
func (a RejectionID) Compare(b RejectionID) int {
	return cmp.Or(a.Edge.Compare(b.Edge), strings.Compare(a.Type, b.Type), strings.Compare(a.Name, b.Name), boolCompare(a.GRPC, b.GRPC))
}

// String is "fra type name", and "grpc" if a gRPC client said so.
func (a RejectionID) String() string {
	text := string(a.Edge) + " " + a.Type + " " + a.Name
	if a.GRPC {
		text += " grpc"
	}
	return text
}

// Reachability is a witness about an edge's public addresses: our own probe of them.
type Reachability struct{ Health Health }

// Equal reports whether both are the same.
func (a Reachability) Equal(b Reachability) bool { return a == b }
