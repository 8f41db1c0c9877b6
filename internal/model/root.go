package model

import "slices"

// Root is what a user's route object asks for, in the form that all route
// kinds share. It says nothing about members, edges or proxies.
type Root struct {
	Origin     Origin
	Generation int64
	Class      Class // empty: the default class
	Rules      []Rule
	Default    *Backend // serves unmatched paths of the root's own hosts; and unknown hosts, if it is the oldest of its class
	TLS        []TLS
	Published  Texts // addresses in the object's status now, sorted: a recorded fact, see leaf
	Ours       bool  // Published was written by us, and by nobody else since
}

// Rule sends requests for one host that match to backends.
type Rule struct {
	Host     Host
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

// TLS names the certificate to present for hosts.
type TLS struct {
	Hosts  []Host // empty: all hosts of the root
	Secret SecretID
	Field  Field
}

// Equal reports whether both roots ask for the same.
func (a Root) Equal(b Root) bool {
	return a.Origin == b.Origin && a.Generation == b.Generation && a.Class == b.Class &&
		slices.EqualFunc(a.Rules, b.Rules, Rule.Equal) && equalPtr(a.Default, b.Default) &&
		slices.EqualFunc(a.TLS, b.TLS, TLS.Equal) && a.Published == b.Published &&
		a.Ours == b.Ours
}

// Equal reports whether both rules are the same.
func (a Rule) Equal(b Rule) bool {
	return a.Host == b.Host && a.Match == b.Match && slices.Equal(a.Backends, b.Backends) && a.Field == b.Field
}

// Equal reports whether both name the same certificate for the same hosts.
func (a TLS) Equal(b TLS) bool {
	return slices.Equal(a.Hosts, b.Hosts) && a.Secret == b.Secret && a.Field == b.Field
}

func equalPtr[T comparable](a, b *T) bool {
	return a == b || a != nil && b != nil && *a == *b
}
