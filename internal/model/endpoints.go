package model

import (
	"encoding/binary"
	"fmt"
	"iter"
	"net/netip"
	"slices"

	"github.com/fxamacker/cbor/v2"
)

// Endpoint is one address behind a Service.
type Endpoint struct {
	Addr  netip.Addr
	Zone  Zone
	Port  uint16 // in a Group, and in a Slice of one port; 0 in a Slice of several
	State EndpointState
}

// Endpoints is a list of endpoints in few bytes, since a fleet has many: 7 for one of
// IPv4 and 19 for one of IPv6, if they are in at most 15 zones. The zero value is the empty list.
type Endpoints struct {
	// text is empty, or their number, the bytes of an address (4 or 16), and for each its
	// address, its port, and its zone and state in one number. Equal lists have equal texts.
	text  string
	zones []Zone // that are known, in the order in which they are first met
}

// states is how many there may be: a later version may have more.
const states = 8

// EndpointsOf is the list of these. An address of IPv4 within IPv6 is one of IPv4, and
// an address of IPv6 has no scope.
func EndpointsOf(all ...Endpoint) Endpoints {
	if len(all) == 0 {
		return Endpoints{}
	}
	width := 4
	if slices.ContainsFunc(all, func(e Endpoint) bool { return !e.Addr.Unmap().Is4() }) {
		width = 16
	}
	var out Endpoints
	text := make([]byte, 0, 4+len(all)*(width+3))
	text = append(binary.AppendUvarint(text, uint64(len(all))), byte(width))
	for i := range all {
		e := &all[i]
		ip := e.Addr.As16()
		text = append(text, ip[16-width:]...)
		text = binary.BigEndian.AppendUint16(text, e.Port)
		text = binary.AppendUvarint(text, out.number(e.Zone)*states+uint64(e.State))
	}
	out.text = string(text)
	return out
}

// number is that of a zone, noted if it is new; 0: it is not known.
func (a *Endpoints) number(z Zone) uint64 {
	if z == (Zone{}) {
		return 0
	}
	i := slices.Index(a.zones, z)
	if i < 0 {
		i = len(a.zones)
		a.zones = append(a.zones, z)
	}
	return uint64(i) + 1
}

// Len is how many there are.
func (a Endpoints) Len() int {
	n, _ := uvarint(a.text)
	return int(n)
}

// All are the endpoints, in order.
func (a Endpoints) All() iter.Seq[Endpoint] {
	return func(yield func(Endpoint) bool) {
		if a.text == "" {
			return
		}
		_, text := uvarint(a.text)
		width := int(text[0])
		for text = text[1:]; text != ""; {
			var e Endpoint
			if e, text = a.next(text, width); !yield(e) {
				return
			}
		}
	}
}

// next reads an endpoint, and returns what is left of the text.
func (a Endpoints) next(text string, width int) (Endpoint, string) {
	var e Endpoint
	if width == 4 {
		e.Addr = netip.AddrFrom4([4]byte([]byte(text[:4])))
	} else {
		e.Addr = netip.AddrFrom16([16]byte([]byte(text[:16]))).Unmap()
	}
	e.Port = uint16(text[width])<<8 | uint16(text[width+1])
	number, left := uvarint(text[width+2:])
	e.State = EndpointState(number % states)
	if zone := number / states; zone > 0 {
		e.Zone = a.zones[zone-1]
	}
	return e, left
}

// uvarint is binary.Uvarint of text, and what is left of it; 0 if it is empty.
func uvarint(text string) (n uint64, left string) {
	for i := range len(text) {
		b := text[i]
		n |= uint64(b&0x7f) << (7 * i)
		if b < 0x80 {
			return n, text[i+1:]
		}
	}
	return n, ""
}

// List are the endpoints, nil if there are none.
func (a Endpoints) List() []Endpoint {
	if a.text == "" {
		return nil
	}
	return slices.AppendSeq(make([]Endpoint, 0, a.Len()), a.All())
}

// Has reports whether one of them is so.
func (a Endpoints) Has(so func(Endpoint) bool) bool {
	for e := range a.All() {
		if so(e) {
			return true
		}
	}
	return false
}

// Without leaves out those that are so; the list itself, if none is.
func (a Endpoints) Without(so func(Endpoint) bool) Endpoints {
	if !a.Has(so) {
		return a
	}
	return EndpointsOf(slices.DeleteFunc(a.List(), so)...)
}

// Equal reports whether both are the same.
func (a Endpoints) Equal(b Endpoints) bool {
	return a.text == b.text && slices.Equal(a.zones, b.zones)
}

// keptEndpoint is an Endpoint in a checkpoint, which can't hold what is interned.
type keptEndpoint struct {
	Addr  netip.Addr
	Zone  string
	Port  uint16
	State EndpointState
}

// String is the list.
func (a Endpoints) String() string { return fmt.Sprint(a.List()) }

// MarshalCBOR is the list.
func (a Endpoints) MarshalCBOR() ([]byte, error) {
	list := make([]keptEndpoint, 0, a.Len())
	for e := range a.All() {
		list = append(list, keptEndpoint{e.Addr, e.Zone.String(), e.Port, e.State})
	}
	return cbor.Marshal(list)
}

// UnmarshalCBOR is the inverse.
func (a *Endpoints) UnmarshalCBOR(data []byte) error {
	var list []keptEndpoint
	if err := cbor.Unmarshal(data, &list); err != nil {
		return fmt.Errorf("endpoints: %w", err)
	}
	all := make([]Endpoint, len(list))
	for i, e := range list {
		if !e.Addr.IsValid() || e.State >= states {
			return fmt.Errorf("endpoints: %v is none", e)
		}
		all[i] = Endpoint{e.Addr, ZoneOf(e.Zone), e.Port, e.State}
	}
	*a = EndpointsOf(all...)
	return nil
}
