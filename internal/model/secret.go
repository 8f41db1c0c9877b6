package model

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"slices"
)

// Certificate is a TLS Secret, read. Its text form never shows the key.
type Certificate struct {
	Chain    []byte // PEM, leaf first
	Key      []byte // PEM
	Names    []string
	NotAfter int64  // Unix seconds
	Problem  string // why it can't be used; Chain and Key are empty then
}

// Equal reports whether both are the same.
func (a Certificate) Equal(b Certificate) bool {
	return bytes.Equal(a.Chain, b.Chain) && bytes.Equal(a.Key, b.Key) && slices.Equal(a.Names, b.Names) &&
		a.NotAfter == b.NotAfter && a.Problem == b.Problem
}

// String is a fingerprint of the chain, or the problem.
func (a Certificate) String() string {
	if a.Problem != "" {
		return "unusable: " + a.Problem
	}
	sum := sha256.Sum256(a.Chain)
	return "certificate " + hex.EncodeToString(sum[:8])
}

// GoString is String: %#v must not show the key either.
func (a Certificate) GoString() string { return a.String() }
