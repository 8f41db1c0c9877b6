package model

import (
	"slices"
	"strings"
)

// Spaces are the namespaces that a member calls otherwise than others do, sorted by Of,
// each once. Those that are not listed it calls as MemberNamespace does.
type Spaces []Space

// Space is one of them.
type Space struct {
	Of string // as other members call it
	As string // in this member; empty: it has none, since what is said of it can't be used
}

// Equal reports whether both say the same.
func (a Spaces) Equal(b Spaces) bool { return slices.Equal(a, b) }

// In is what the member calls a namespace, given as others do; false: it has none. A name
// that another one was given is that one's.
func (a Spaces) In(of string) (string, bool) {
	if i, ok := slices.BinarySearchFunc(a, of, func(s Space, of string) int { return strings.Compare(s.Of, of) }); ok {
		return a[i].As, a[i].As != ""
	}
	_, taken := a.Has(of)
	return of, !taken
}

// Has is the namespace to which the map gives a name, as other members call it.
func (a Spaces) Has(as string) (string, bool) {
	i := slices.IndexFunc(a, func(s Space) bool { return s.As == as })
	if i < 0 {
		return "", false
	}
	return a[i].Of, true
}

// Back is which namespace a name of the member's is, as other members call it; false: none.
func (a Spaces) Back(as string) (string, bool) {
	if of, ok := a.Has(as); ok {
		return of, true
	}
	where, ok := a.In(as)
	return as, ok && where == as
}

// NoSpace is no member's namespace: where a reference leads that must lead nowhere.
const NoSpace = "spillway---0"
