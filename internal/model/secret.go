package model

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"slices"
	"strings"
)

// Certificate is a TLS Secret, read. Its text form never shows the key.
type Certificate struct {
	Chain    []byte // PEM, leaf first
	Key      []byte // PEM
	Names    []string
	NotAfter int64  // Unix seconds
	Problem  string // why it can't be used; Chain and Key are empty then

	// To are the members that the Secret allows to have its key, sorted; AnyMember
	// stands for all. UID is that of the Secret, where it allows any.
	To  Texts  `cbor:",omitempty"`
	UID string `cbor:",omitempty"`
}

// AnyMember stands for all members where a Secret says who may have its key.
const AnyMember = "*"

// Equal reports whether both are the same.
func (a Certificate) Equal(b Certificate) bool {
	return bytes.Equal(a.Chain, b.Chain) && bytes.Equal(a.Key, b.Key) && slices.Equal(a.Names, b.Names) &&
		a.NotAfter == b.NotAfter && a.Problem == b.Problem && a.To == b.To && a.UID == b.UID
}

// String is a fingerprint of the chain, or the problem.
func (a Certificate) String() string {
	if a.Problem != "" {
		return "unusable: " + a.Problem
	}
	sum := sha256.Sum256(a.Chain)
	out := "certificate " + hex.EncodeToString(sum[:8])
	if a.To != (Texts{}) {
		out += " to " + strings.Join(a.To.List(), ",")
	}
	return out
}

// GoString is String: %#v must not show the key either.
func (a Certificate) GoString() string { return a.String() }
