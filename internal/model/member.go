package model

import (
	"cmp"
	"net/netip"
	"slices"
	"time"
)

// MemberSpec is what a MemberCluster says, without its connection.
type MemberSpec struct {
	Created    int64 // creationTimestamp on the hub, in Unix seconds
	Generation int64 // of the MemberCluster, for its status
	Place      Place
	Networks   []string // sorted
	Fenced     bool     // its endpoints may be in PodRanges only
	PodRanges  []netip.Prefix
	Labels     Labels   `cbor:",omitempty"`
	Taints     []string // with effect NoTraffic, "key" or "key=value", sorted
	Drain      bool
	Leaving    bool          // has a deletion timestamp
	Forced     bool          // leaves even if it is the last site of a hostname
	StaleAfter time.Duration // once it has been away for so long, it ranks behind fresh ones; 0: never
	Leaves     LeafAddresses `cbor:",omitzero"`  // what its controllers may name as their addresses
	Orphans    bool          `cbor:",omitempty"` // its leaves stay there when it leaves
	Prunes     bool          `cbor:",omitempty"` // somebody consents that many of its leaves are deleted
	Spaces     Spaces        `cbor:",omitempty"` // namespaces that it calls otherwise
	Makes      bool          `cbor:",omitempty"` // namespaces that it does not have may be made there
	Guarded    bool          `cbor:",omitempty"` // it may have leaves: our finalizer for these is on it
	Stays      bool          `cbor:",omitempty"` // until no traffic needs it: our finalizer for that is on it
	Seen       bool          // its status says that its objects were once read: what was made of them may be in the proxies
}

// Equal reports whether both say the same.
func (a MemberSpec) Equal(b MemberSpec) bool {
	return a.Created == b.Created && a.Generation == b.Generation && a.Place == b.Place && slices.Equal(a.Networks, b.Networks) &&
		a.Fenced == b.Fenced && slices.Equal(a.PodRanges, b.PodRanges) &&
		a.Labels.Equal(b.Labels) && slices.Equal(a.Taints, b.Taints) && a.Drain == b.Drain && a.Leaving == b.Leaving && a.Forced == b.Forced && a.StaleAfter == b.StaleAfter && a.Leaves.Equal(b.Leaves) && a.Orphans == b.Orphans && a.Prunes == b.Prunes && a.Guarded == b.Guarded && a.Stays == b.Stays && a.Spaces.Equal(b.Spaces) && a.Makes == b.Makes && a.Seen == b.Seen
}

// Serves reports whether the member may get new requests at all.
func (a MemberSpec) Serves() bool { return !a.Drains() && len(a.Taints) == 0 }

// Drains reports whether its traffic is moved away.
func (a MemberSpec) Drains() bool { return a.Drain || a.Leaving }

// Source is how well a member's objects are known. No row: nothing was ever
// read from this member, not even from a checkpoint.
type Source struct {
	Connected  bool  // /readyz answers and the watches run
	StaleSince int64 // Unix seconds since when its rows may be old; 0: they are fresh
}

// Equal reports whether both are the same.
func (a Source) Equal(b Source) bool { return a == b }

// ClusterID tells clusters apart: the UID of namespace kube-system, by convention
// (KEP-2149).
type ClusterID string

// Compare orders them as texts.
func (a ClusterID) Compare(b ClusterID) int { return cmp.Compare(a, b) }

// Contact is how well we can talk to a member's API, for its status. Unlike a
// Source it is there as soon as the MemberCluster is.
type Contact struct {
	Reason  string // a condition reason of api/v1alpha1, Connected if all is well
	Message string // what is wrong and what to do, without times or counters; with Connected: what is not safe
	Hidden  string `cbor:",omitempty"` // with Connected: what it does not let us see, and what to do
	Expiry  int64  // when the client certificate in use expires, in Unix seconds; 0: none, or not known
}

// Equal reports whether both are the same.
func (a Contact) Equal(b Contact) bool { return a == b }
