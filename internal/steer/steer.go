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
	Stale    bool // its API has been away for so long that others are better
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
	Place  model.Spot
	Tier   int    // by distance, 0 is the nearest; a later tier gets what the ones before can't take
	Weight uint32 // relative to the other shares of the tier; at least 1 where State is Serving, else 0
	State  State
	// Terminating: it serves with endpoints that terminate, because nobody has others.
	Terminating bool
}

// Plan is the decision for one backend seen from one place: the shares that
// serve, then those that failed, then those that are drained, each in the order
// of (tier, distance, member, zone). In a tier there may be none that serves.
type Plan struct {
	Shares []Share
	Room   Room // of those that serve; NoRoom: nobody does
	Unsure bool // a member that was never read may change it: see Unread
}

// Equal reports whether both plans are the same.
func (a Plan) Equal(b Plan) bool {
	return a.Room == b.Room && a.Unsure == b.Unsure && slices.Equal(a.Shares, b.Shares)
}

// Serves reports whether somebody gets requests.
func (a Plan) Serves() bool { return len(a.Shares) > 0 && a.Shares[0].State == Serving }

// servesBeside reports whether somebody gets requests who is none of these.
func (a Plan) servesBeside(old []model.Member) bool {
	return slices.ContainsFunc(a.Shares, func(s Share) bool { return s.State == Serving && !slices.Contains(old, s.Member) })
}

// Wait is how long a member has been waited for that was never read.
type Wait uint8

// The waits, in the order of what they hold back.
const (
	NoWait  Wait = iota // there is no such member
	Overdue             // for longer than it is worth keeping old endpoints: see Unread.Changes
	Waiting
)

// Unread says which members there are that a place could dial, that once had
// something and of which no row is known, or none but old ones. Those that are
// tainted are left out: they can't serve.
type Unread struct {
	Serving Wait // the longest of those that may get new requests
	Drained Wait // the longest of those that drain
}

// Equal reports whether both are the same.
func (u Unread) Equal(v Unread) bool { return u == v }

// Changes reports whether what these members have could change a plan. Of some
// members in the plan old rows alone may be known.
//
//	they are                 the plan changes
//	waited for, serving      always: they may add endpoints
//	waited for, drained      if all known are drained too, or worse: a drained last place serves
//	overdue                  if nobody serves, or by old rows alone: that is never better than what was there
func (u Unread) Changes(a Plan, old []model.Member) bool {
	switch {
	case u.Serving == Waiting, u.Drained == Waiting && a.Room >= drained:
		return true
	case u.Serving == Overdue, u.Drained == Overdue:
		return !a.servesBeside(old)
	}
	return false
}
