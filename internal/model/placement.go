package model

import (
	"hash/fnv"
	"slices"
	"strings"
	"time"
)

// PlacementKind is the kind of our objects that say which members serve others.
const PlacementKind = "Placement"

// PlacementSpec is what a Placement says.
type PlacementSpec struct {
	Created    int64 // Unix seconds
	Generation int64
	Targets    []Object      // objects of the hub, sorted, each once
	Limited    bool          // by selector or names: else every member fits
	Selector   string        // of labels of members, canonical text; empty: it selects none
	Everyone   bool          // the selector is there and asks for nothing: it selects all
	Names      []string      // of members, sorted
	Count      int           // at most so many members for each Service; 0: all that fit
	Hold       time.Duration // for which a member whose Service is gone keeps its place; 0: none
	Tolerates  []Toleration
	Rollout    *RolloutSpec `cbor:",omitempty"` // how edits of roots with leaves go out; nil: at once
	Broken     bool         // a part of what it says of members can't be read: nobody fits
	Published  Texts        // what its status says of its targets, by us: see ParentTexts
	Ours       bool         // it says something by us
}

// Equal reports whether both say the same.
func (a PlacementSpec) Equal(b PlacementSpec) bool {
	return a.Created == b.Created && a.Generation == b.Generation && slices.Equal(a.Targets, b.Targets) && a.Limited == b.Limited &&
		a.Selector == b.Selector && a.Everyone == b.Everyone && slices.Equal(a.Names, b.Names) && a.Count == b.Count && a.Hold == b.Hold &&
		slices.Equal(a.Tolerates, b.Tolerates) && a.Broken == b.Broken && a.Published == b.Published && a.Ours == b.Ours && a.Rollout.Equal(b.Rollout)
}

// Origin is the age and the name of the Placement.
func (a PlacementSpec) Origin(o Object) Origin { return Origin{Created: a.Created, Object: o} }

// Toleration lets members fit in spite of taints, as that of a pod does with nodes.
type Toleration struct {
	Key   string // empty, with Any: every key
	Value string
	Any   bool // whatever the value
}

// Tolerates reports whether a taint of a member, as MemberSpec has it, keeps nobody away.
func (a Toleration) Tolerates(taint string) bool {
	key, value, _ := strings.Cut(taint, "=")
	return (a.Key == key || a.Key == "" && a.Any) && (a.Any || a.Value == value)
}

// Tolerated reports whether every one of a member's taints is.
func (a PlacementSpec) Tolerated(taints []string) bool {
	return !slices.ContainsFunc(taints, func(taint string) bool {
		return !slices.ContainsFunc(a.Tolerates, func(t Toleration) bool { return t.Tolerates(taint) })
	})
}

// Placed names the object whose Placement limits a backend: "HTTPRoute.shop.web", or
// "Namespace.shop" of what has no namespace. Empty: none does. Its workspace is that of
// the backend. Only a name may have more dots.
type Placed string

// PlacedAt is the name of an object.
func PlacedAt(o Object) Placed {
	if o.Namespace == "" {
		return Placed(o.Kind + "." + o.Name)
	}
	return Placed(o.Kind + "." + o.Namespace + "." + o.Name)
}

// Object is the inverse of PlacedAt.
func (a Placed) Object(workspace string) Object {
	parts := strings.SplitN(string(a), ".", 3)
	o := Object{Workspace: workspace, Kind: parts[0], Name: parts[len(parts)-1]}
	if len(parts) == 3 {
		o.Namespace = parts[1]
	}
	return o
}

// Rank is the place of a member in the order that an object has for all members: the
// lower, the sooner it is chosen. No other member has a say in it, so one that comes or
// goes moves nothing but its own place (rendezvous hashing).
func Rank(target Object, m Member) uint64 {
	h := fnv.New64a()
	for _, part := range [...]string{target.Workspace, target.Namespace, target.Name, target.Kind, string(m)} {
		_, _ = h.Write([]byte(part)) // never fails
		_, _ = h.Write([]byte{0})
	}
	return mixed(h.Sum64())
}

// mixed spreads a hash: FNV leaves the high bits of texts that differ at their end alike.
func mixed(x uint64) uint64 {
	x = (x ^ x>>33) * 0xff51afd7ed558ccd
	x = (x ^ x>>33) * 0xc4ceb9fe1a85ec53
	return x ^ x>>33
}
