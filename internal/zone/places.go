package zone

import (
	"fmt"
	"net/netip"

	"github.com/spillway-dev/spillway/internal/model"
)

// Locator says where an address is. It is pure: the same address has the same
// place for the life of the Locator.
//
// bits is how many leading bits of the address the result depends on, found or
// not: every address that shares them gets the same result. An IPv4 address
// counts its own 32 bits. A network of fewer than least bits places nobody.
type Locator interface {
	Locate(addr netip.Addr, least int) (place model.Place, bits int, ok bool)
}

// Places is an immutable table from prefixes to places; the longest prefix
// counts. It is a binary trie in a slice.
type Places struct {
	nodes  []placeNode // 0: nothing, 1: root of IPv4, 2: root of IPv6
	places []model.Place
}

type placeNode struct {
	kids  [2]uint32 // index of the node for the next bit; 0: none
	place uint32    // index in places, plus 1; 0: none
}

// PlaceEntry is one row of a table of places.
type PlaceEntry struct {
	Prefix netip.Prefix
	Place  model.Place
}

// NewPlaces makes a table. A prefix that is given twice, or that has bits set
// after its length, is an error: which row was meant is not for us to guess.
func NewPlaces(entries []PlaceEntry) (*Places, error) {
	p := &Places{nodes: make([]placeNode, 3, 3+8*len(entries))}
	known := map[model.Place]uint32{}
	for _, e := range entries {
		if !e.Prefix.IsValid() || e.Prefix.Addr().Is4In6() || e.Prefix != e.Prefix.Masked() {
			return nil, fmt.Errorf("places: %v is not a network: want for example 192.0.2.0/24", e.Prefix)
		}
		at := p.insert(e.Prefix)
		if p.nodes[at].place != 0 {
			return nil, fmt.Errorf("places: %v is there twice", e.Prefix)
		}
		if known[e.Place] == 0 {
			p.places = append(p.places, e.Place)
			known[e.Place] = uint32(len(p.places))
		}
		p.nodes[at].place = known[e.Place]
	}
	return p, nil
}

// insert makes the path to a prefix and returns its node.
func (p *Places) insert(prefix netip.Prefix) uint32 {
	at := root(prefix.Addr())
	bytes := prefix.Addr().As16()
	first := 128 - prefix.Addr().BitLen()
	for i := first; i < first+prefix.Bits(); i++ {
		bit := bytes[i/8] >> (7 - i%8) & 1
		if p.nodes[at].kids[bit] == 0 {
			p.nodes[at].kids[bit] = uint32(len(p.nodes))
			p.nodes = append(p.nodes, placeNode{})
		}
		at = p.nodes[at].kids[bit]
	}
	return at
}

func root(a netip.Addr) uint32 {
	if a.Is4() {
		return 1
	}
	return 2
}

// Locate finds the longest prefix. bits is longer than that prefix where a more
// specific one is near: then fewer addresses share the result (RFC 7871, 7.2.1).
func (p *Places) Locate(addr netip.Addr, least int) (place model.Place, bits int, ok bool) {
	if p == nil || !addr.IsValid() {
		return place, 0, false
	}
	found := uint32(0)
	at := root(addr)
	bytes := addr.As16()
	first := 128 - addr.BitLen()
	for i := first; ; i++ {
		n := &p.nodes[at]
		if n.place != 0 && i-first >= least {
			found = n.place
		}
		if i == 128 || n.kids == [2]uint32{} {
			bits = i - first
			break
		}
		at = n.kids[bytes[i/8]>>(7-i%8)&1]
		if at == 0 {
			bits = i - first + 1
			break
		}
	}
	if found == 0 {
		return place, bits, false
	}
	return p.places[found-1], bits, true
}
