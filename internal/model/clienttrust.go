package model

import (
	"crypto/sha256"
	"encoding/hex"
	"slices"
	"unique"
)

// Validation is what a Gateway says of the certificates of clients on a port: with
// neither a bundle nor anything broken, that none is asked for.
type Validation struct {
	Port     uint16   // 0: all that no other says something of
	Bundles  []Object // with the certificates of the authorities
	Fallback bool     // clients without a certificate, or with one that is not good, are let in, too
	Broken   Refusal  // why some reference is not resolved whatever else there is
}

// Equal reports whether both say the same.
func (a Validation) Equal(b Validation) bool {
	return a.Port == b.Port && slices.Equal(a.Bundles, b.Bundles) && a.Fallback == b.Fallback && a.Broken == b.Broken
}

// ClientTrustKey says which clients a port lets in by their certificates.
type ClientTrustKey struct {
	CA       string // certificates of the authorities, PEM
	Fallback bool   // as of Validation
}

// ClientTrust is an interned ClientTrustKey, 8 bytes; the zero value: clients are not
// asked for certificates.
type ClientTrust struct{ h unique.Handle[namedTrust] }

// namedTrust is a key with what orders it.
type namedTrust struct {
	ClientTrustKey
	name string
}

// ClientTrust interns the key.
func (k ClientTrustKey) ClientTrust() ClientTrust {
	sum := sha256.Sum256([]byte(k.CA))
	return ClientTrust{unique.Make(namedTrust{k, hex.EncodeToString(sum[:8]) + map[bool]string{true: " or not"}[k.Fallback]})}
}

// Key is what it was made of.
func (a ClientTrust) Key() ClientTrustKey {
	if a == (ClientTrust{}) {
		return ClientTrustKey{}
	}
	return a.h.Value().ClientTrustKey
}

// String is a digest of the authorities, and whether they decide; empty: there are none.
func (a ClientTrust) String() string {
	if a == (ClientTrust{}) {
		return ""
	}
	return a.h.Value().name
}
