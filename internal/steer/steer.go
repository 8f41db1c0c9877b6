// Package steer decides where traffic goes: policy, capacity and health in,
// shares out. It is pure and knows neither Envoy nor DNS, so that both carry
// out the same decision.
//
// Who gets requests is decided by room, the kind of endpoints a candidate can
// offer; where they go first is decided by distance. See [Tiers].
package steer

import (
	"slices"

	"github.com/spillway-dev/spillway/internal/model"
)

// Candidate is what one member offers of a backend in one zone.
type Candidate struct {
	Member   model.Member
	Place    model.Place // the member's, with the zone of these endpoints
	Ready    int         // endpoints that take requests
	Draining int         // endpoints that terminate and still serve
	Health   model.Health
	Serves   bool // the member may get new requests: no drain, no taint
	Barred   bool // it is tainted: no new requests, not even as the last one left
}

// State is what a share is for.
type State uint8

// The states of a share.
const (
	Serving State = iota // gets requests
	Failed               // the path to it is down: no requests, connections are closed
	Drained              // no new requests, those in flight end in peace
)

// String is the name of the state.
func (s State) String() string { return [...]string{"Serving", "Failed", "Drained"}[s] }

// Share is the part of a backend's traffic that one member's zone gets.
type Share struct {
	Member model.Member
	Place  model.Place
	Tier   int    // 0 first; a later tier gets what the ones before can't take
	Weight uint32 // relative to the other shares of the tier; at least 1 where State is Serving, else 0
	State  State
	// Terminating: it serves with endpoints that terminate, because nobody has others.
	Terminating bool
}

// Plan is the decision for one backend seen from one place, in the order of
// (tier, distance, member, zone). Tiers have no gaps: those that serve, then
// one of what failed, then one of what is drained.
type Plan struct{ Shares []Share }

// Equal reports whether both plans are the same.
func (a Plan) Equal(b Plan) bool { return slices.Equal(a.Shares, b.Shares) }

// Serves reports whether somebody gets requests.
func (a Plan) Serves() bool { return len(a.Shares) > 0 && a.Shares[0].State == Serving }
