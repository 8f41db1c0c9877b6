package model

import (
	"cmp"
	"fmt"
	"unique"
)

// DialKey is how hosts of a front connect to backends.
type DialKey struct {
	Connect int64    // timeout in milliseconds; 0: the usual one
	Client  SecretID // certificate that is shown to who is spoken to over TLS; zero: none
	HTTP2   bool     // is spoken, whatever the port of the Service says
}

// Dial is an interned DialKey, 8 bytes; the zero value: as usual.
type Dial struct{ h unique.Handle[DialKey] }

// Dial interns the key.
func (k DialKey) Dial() Dial {
	if k == (DialKey{}) {
		return Dial{}
	}
	return Dial{unique.Make(k)}
}

// Key is what it was made of.
func (a Dial) Key() DialKey {
	if a == (Dial{}) {
		return DialKey{}
	}
	return a.h.Value()
}

// Compare orders by timeout, certificate and protocol.
func (a Dial) Compare(b Dial) int {
	if a == b {
		return 0
	}
	x, y := a.Key(), b.Key()
	return cmp.Or(cmp.Compare(x.Connect, y.Connect), x.Client.Compare(y.Client), boolCompare(x.HTTP2, y.HTTP2))
}

// OverHTTP2 connects so, and speaks HTTP/2.
func (a Dial) OverHTTP2() Dial {
	k := a.Key()
	k.HTTP2 = true
	return k.Dial()
}

// String is "200ms", whose certificate is shown, and the protocol.
func (a Dial) String() string {
	k := a.Key()
	out := fmt.Sprintf("%dms", k.Connect)
	if k.Client != (SecretID{}) {
		out += " as " + k.Client.String()
	}
	if k.HTTP2 {
		out += " over HTTP/2"
	}
	return out
}
