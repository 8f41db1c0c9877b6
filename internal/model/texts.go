package model

import (
	"fmt"
	"slices"
	"strings"
	"unique"

	"github.com/fxamacker/cbor/v2"
)

// Texts is a list that many rows have alike. It is interned, 8 bytes; the zero
// value is the empty list.
type Texts struct{ h unique.Handle[string] } // each followed by a zero byte

const textEnd = "\x00"

// TextsOf is the list of these, none of which has a zero byte.
func TextsOf(list []string) Texts {
	if len(list) == 0 {
		return Texts{}
	}
	return Texts{unique.Make(strings.Join(list, textEnd) + textEnd)}
}

// List is the list, nil if it is empty.
func (a Texts) List() []string {
	if a == (Texts{}) {
		return nil
	}
	return strings.Split(strings.TrimSuffix(a.h.Value(), textEnd), textEnd)
}

// Len is how many there are.
func (a Texts) Len() int {
	if a == (Texts{}) {
		return 0
	}
	return strings.Count(a.h.Value(), textEnd)
}

// Has reports whether one of them is text.
func (a Texts) Has(text string) bool { return slices.Contains(a.List(), text) }

// String is "[a b]".
func (a Texts) String() string { return fmt.Sprint(a.List()) }

// MarshalCBOR is the list: a checkpoint can't hold what is interned.
func (a Texts) MarshalCBOR() ([]byte, error) { return cbor.Marshal(a.List()) }

// UnmarshalCBOR interns the list.
func (a *Texts) UnmarshalCBOR(data []byte) error {
	var list []string
	if err := cbor.Unmarshal(data, &list); err != nil {
		return fmt.Errorf("texts: %w", err)
	}
	*a = TextsOf(list)
	return nil
}
