package model

import (
	"cmp"
	"fmt"
	"slices"
)

// Root is what a user's route object asks for as a whole, in the form that all
// route kinds share. What it asks for by host are Rules. It says nothing about
// members, edges or proxies.
type Root struct {
	Created   int64    // Unix seconds
	Class     Class    // empty: the default class
	Default   *Backend // serves unmatched paths of the root's own hosts; and unknown hosts, if it is the oldest of its class
	TLS       []TLS
	Published Texts // addresses in the object's status now, sorted: a recorded fact, see leaf
	Ours      bool  // Published was written by us, and by nobody else since
}

// RulesID names the rules that a root has for a host.
type RulesID struct {
	Root Object
	Host Host
}

// Compare orders by root and host.
func (a RulesID) Compare(b RulesID) int {
	return cmp.Or(a.Root.Compare(b.Root), a.Host.Compare(b.Host))
}

// String is "Ingress shop/web shop.example".
func (a RulesID) String() string { return a.Root.String() + " " + string(a.Host) }

// Rules are those that a root has for one host, in the order of the object: no
// two with one match.
type Rules []Rule

// Rule sends requests that match to backends.
type Rule struct {
	Match    Match
	Backends []WeightedBackend // none: answered as the kind's standard says
	Field    Field             // where the rule is written, for findings
}

// WeightedBackend is a backend and its part of a rule's traffic.
type WeightedBackend struct {
	Backend Backend
	Weight  uint32
}

// PathKind says how a path is compared.
type PathKind uint8

// The kinds of paths, in order of precedence: exact before prefix.
const (
	PathExact  PathKind = iota // the whole path is equal
	PathPrefix                 // equal element by element, split at "/"
)

// Match is a condition on a request. More conditions come with more kinds of
// routes; the zero value matches by exact path.
type Match struct {
	Kind PathKind
	Path string // begins with "/"; a prefix has no trailing "/" unless it is "/"
}

// Of describes what a match takes of a host, for messages.
func (m Match) Of(h Host) string {
	kind := "prefix"
	if m.Kind == PathExact {
		kind = "exact path"
	}
	return fmt.Sprintf("%s %s of %s", kind, m.Path, h.Described())
}

// TLS names the certificate to present for hosts.
type TLS struct {
	Hosts  []Host // the empty host: those that nobody names
	All    bool   // they are all hosts of the root, since it names none
	Secret SecretID
	Field  Field
}

// Equal reports whether both roots ask for the same.
func (a Root) Equal(b Root) bool {
	return a.Created == b.Created && a.Class == b.Class && EqualPtr(a.Default, b.Default) &&
		slices.EqualFunc(a.TLS, b.TLS, TLS.Equal) && a.Published == b.Published && a.Ours == b.Ours
}

// Equal reports whether both are the same.
func (a Rules) Equal(b Rules) bool { return slices.EqualFunc(a, b, Rule.Equal) }

// Equal reports whether both rules are the same.
func (a Rule) Equal(b Rule) bool {
	return a.Match == b.Match && slices.Equal(a.Backends, b.Backends) && a.Field == b.Field
}

// Equal reports whether both name the same certificate for the same hosts.
func (a TLS) Equal(b TLS) bool {
	return slices.Equal(a.Hosts, b.Hosts) && a.All == b.All && a.Secret == b.Secret && a.Field == b.Field
}

// EqualPtr reports whether both are nil, or point at the same value.
func EqualPtr[T comparable](a, b *T) bool {
	return a == b || a != nil && b != nil && *a == *b
}
