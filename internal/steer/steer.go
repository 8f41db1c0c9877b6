// Package steer decides where traffic goes: policy, capacity and health in,
// shares out. It is pure and knows neither Envoy nor DNS, so that both carry
// out the same decision.
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
}

// State is what a share is for.
type State uint8

// The states of a share.
const (
	Serving State = iota // gets requests
	Failed               // the path to it is down: no requests, connections are closed
	Drained              // no new requests, those in flight end in peace
)

// Share is the part of a backend's traffic that one member's zone gets.
type Share struct {
	Member model.Member
	Place  model.Place
	Tier   int    // 0 first; a later tier gets what the ones before can't take
	Weight uint32 // relative to the other shares of the tier; at least 1 where State is Serving
	State  State
}

// Plan is the decision for one backend seen from one place, in the order of
// (tier, distance, member, zone).
type Plan struct{ Shares []Share }

// Equal reports whether both plans are the same.
func (a Plan) Equal(b Plan) bool { return slices.Equal(a.Shares, b.Shares) }
