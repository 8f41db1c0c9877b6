package model

import (
	"slices"
	"unique"
)

// BackendTLSSpec is what a BackendTLSPolicy says: how pods of Services are spoken to
// over TLS, and whom to trust.
type BackendTLSSpec struct {
	Created    int64 // Unix seconds
	Generation int64
	Targets    []Backend // Services; with a name of a port: that port alone
	Host       string    // sent as SNI; and of the pods' certificate, unless other names are said
	Names      Texts     // of the certificate, one of which it must have, sorted
	URIs       Texts     // the same
	System     bool      // the authorities are those that the proxy's machine trusts
	Bundles    []Object  // objects with the certificates of the authorities
	Refused    Refusal   // why it is not accepted whatever else there is
	Broken     Refusal   // why references of it are not resolved whatever else there is
	Published  Texts     // what its status says of it, by us: see ParentTexts
	Ours       bool      // it says something by us
}

// Equal reports whether both say the same.
func (a BackendTLSSpec) Equal(b BackendTLSSpec) bool {
	return a.Created == b.Created && a.Generation == b.Generation && slices.Equal(a.Targets, b.Targets) && a.Host == b.Host && a.Names == b.Names &&
		a.URIs == b.URIs && a.System == b.System && slices.Equal(a.Bundles, b.Bundles) && a.Refused == b.Refused && a.Broken == b.Broken &&
		a.Published == b.Published && a.Ours == b.Ours
}

// Origin is the age and the name of the policy.
func (a BackendTLSSpec) Origin(o Object) Origin { return Origin{Created: a.Created, Object: o} }

// UpstreamTLSKey is how a backend is spoken to over TLS.
type UpstreamTLSKey struct {
	Host   string // as of BackendTLSSpec; Names and URIs, too
	Names  Texts
	URIs   Texts
	CA     string // certificates of the authorities, PEM; empty: those that the proxy's machine trusts
	Broken bool   // nobody can be trusted, so that nothing is sent

	AnyName bool // whatever names a certificate has, it is good
}

// UpstreamTLS is an interned UpstreamTLSKey, 8 bytes; the zero value: without TLS.
type UpstreamTLS struct{ h unique.Handle[UpstreamTLSKey] }

// UpstreamTLS interns the key.
func (k UpstreamTLSKey) UpstreamTLS() UpstreamTLS { return UpstreamTLS{unique.Make(k)} }

// Key is what it was made of.
func (a UpstreamTLS) Key() UpstreamTLSKey {
	if a == (UpstreamTLS{}) {
		return UpstreamTLSKey{}
	}
	return a.h.Value()
}

// Broken reports whether nothing may be sent.
func (a UpstreamTLS) Broken() bool { return a.Key().Broken }

// String says to whom, not whom it trusts.
func (a UpstreamTLS) String() string {
	switch k := a.Key(); {
	case a == (UpstreamTLS{}):
		return "no TLS"
	case k.Broken:
		return "TLS with nobody"
	case k.CA == "":
		return "TLS with " + k.Host + " as the system trusts"
	default:
		return "TLS with " + k.Host
	}
}
