package model

import "slices"

// Root is what a user's route object asks for as a whole, in the form that all
// route kinds share. What it asks for by host are Rules. It says nothing about
// members, edges or proxies.
type Root struct {
	Created   int64    // Unix seconds
	Classes   Classes  // by which it is served; empty: the default class
	Default   *Backend // serves unmatched paths of the root's own hosts; and unknown hosts, if it is the oldest of its class
	TLS       []TLS
	Published Texts // addresses in the object's status now, sorted: a recorded fact, see leaf
	Ours      bool  // Published was written by us, and by nobody else since

	// Route is what a route of the Gateway API says of its parents, which are what
	// serves it; nil of an Ingress.
	Route *RouteSpec `cbor:",omitempty"`

	// Admit is what a Route of OpenShift says of where it is exposed; nil of others.
	Admit *AdmitSpec `cbor:",omitempty"`
}

// TLS names the certificate to present for hosts.
type TLS struct {
	Hosts  []Host // as Host.TLSName has them; the empty host: those that nobody names
	All    bool   // they are all hosts of the root, since it names none
	Secret SecretID
	Field  Field
}

// SecretsOf are the Secrets that some name. A certificate that a Route has in itself is
// in none.
func SecretsOf(all []TLS) (out []SecretID) {
	for _, t := range all {
		if _, inline := t.Secret.Inline(); !inline {
			out = append(out, t.Secret)
		}
	}
	return out
}

// Equal reports whether both roots ask for the same.
func (a Root) Equal(b Root) bool {
	return a.Created == b.Created && a.Classes == b.Classes && EqualPtr(a.Default, b.Default) &&
		slices.EqualFunc(a.TLS, b.TLS, TLS.Equal) && a.Published == b.Published && a.Ours == b.Ours && a.Route.Equal(b.Route) && EqualPtr(a.Admit, b.Admit)
}

// Equal reports whether both name the same certificate for the same hosts.
func (a TLS) Equal(b TLS) bool {
	return slices.Equal(a.Hosts, b.Hosts) && a.All == b.All && a.Secret == b.Secret && a.Field == b.Field
}

// EqualPtr reports whether both are nil, or point at the same value.
func EqualPtr[T comparable](a, b *T) bool {
	return a == b || a != nil && b != nil && *a == *b
}
