package model

import "cmp"

// TombstoneID names a MemberTombstone.
type TombstoneID string

// Compare orders by name.
func (a TombstoneID) Compare(b TombstoneID) int { return cmp.Compare(a, b) }

// String is the name.
func (a TombstoneID) String() string { return string(a) }

// TombstoneKind is the kind of what remembers leaves of a member that left.
const TombstoneKind = "MemberTombstone"

// Object is the MemberTombstone.
func (a TombstoneID) Object() Object { return Object{Kind: TombstoneKind, Name: string(a)} }

// Tombstone is what a MemberTombstone says: leaves were in a member when it left, which
// was away. Where its kubeconfig is no decision depends on, but which one is meant.
type Tombstone struct {
	Created    int64 // creationTimestamp on the hub, in Unix seconds
	Generation int64
	Member     Member    // the name that it had
	Secret     string    // of its kubeconfig
	Key        string    // in it
	Proxied    bool      // the kubeconfig may name a proxy
	Cluster    ClusterID // which cluster it is; empty: it never told
	Hub        string    // UID of the hub whose leaves they are
	Leaves     int       // that it had, as far as known; negative: not known
	Keys       int       `cbor:",omitempty"` // copies of Secrets that it may have, as far as known
	KeySpaces  Texts     `cbor:",omitzero"`  // namespaces in the member where these are, sorted
}

// Equal reports whether both say the same.
func (a Tombstone) Equal(b Tombstone) bool { return a == b }

// Digging is what became of the leaves that a tombstone is about.
type Digging struct {
	Reason  string // of api/v1alpha1: why they are not gone yet
	Message string
}

// Equal reports whether both say the same.
func (a Digging) Equal(b Digging) bool { return a == b }

// Holding is what is known of all leaves of a member, wanted or not.
type Holding struct {
	Leaves int   // that are there
	Over   bool  // more than are kept at once: somebody makes objects with our mark
	Last   Texts // it is being deleted, and stays: roots of which it has the last leaf
	Unread bool  // more objects of others ask for hosts than are looked at
	Stays  bool  // it is being deleted, and stays: leaves are left
}

// Equal reports whether both say the same.
func (a Holding) Equal(b Holding) bool { return a == b }
