package zone

import (
	"slices"

	"github.com/spillway-dev/spillway/internal/model"
	"github.com/spillway-dev/spillway/internal/steer"
)

// Witness is one observer's verdict about an edge: the edge's own streams to us
// (Down: it had proxies that serve and has none, be they connected or not), or
// our probe of its public addresses (Down: none of them answered).
type Witness struct {
	Health model.Health
	Since  int64 // Unix seconds of the moment it became Down; 0 otherwise
	// Alone is set by a shell's timer once the witness has been Down for three
	// times as long as it takes to notice: then it needs no second one.
	Alone bool
}

// EdgeState is an edge as the question "may DNS name it for this host" sees it.
type EdgeState struct {
	Edge   model.Edge
	Room   steer.Room // how well its proxies serve the host, by their plans
	Unsure bool       // a member whose rows are missing may make that better
	Drain  bool       // an administrator takes it out
	Stream Witness
	Probe  Witness
}

// Reason says why an edge is in an answer or not.
type Reason string

// The reasons, first match first: Standing goes down this list.
const (
	NotServing Reason = "NotServing" // its proxies send requests for the host to nobody
	Draining   Reason = "Draining"   // its Edge says drain
	Serving    Reason = "Serving"    // a witness sees it, or none says that it is gone
	Gone       Reason = "Gone"       // both witnesses say so
	GoneAlone  Reason = "GoneAlone"  // one says so for long: of the other nothing is known, or it is a stream that is up
	Unproven   Reason = "Unproven"   // the same, not for long yet
)

// Standing is whether the edge is a candidate, and why.
//
//	stream   probe    candidate
//	any      up       yes
//	up       unknown  yes
//	up       down     once down for three times as long: no
//	down     down     no
//	down     unknown  once down for three times as long: no
//	unknown  down     the same
//	unknown  unknown  yes
func (e EdgeState) Standing() (in bool, why Reason) {
	down := func(w Witness) bool { return w.Health == model.Down }
	switch {
	case e.Room == steer.NoRoom:
		return false, NotServing
	case e.Drain:
		return false, Draining
	case e.Probe.Health == model.Up, e.Stream.Health == model.Up && !down(e.Probe):
		return true, Serving
	case down(e.Stream) && down(e.Probe):
		return false, Gone
	case down(e.Stream) && e.Stream.Alone, down(e.Probe) && e.Probe.Alone:
		return false, GoneAlone
	case down(e.Stream) || down(e.Probe):
		return true, Unproven
	}
	return true, Serving
}

// Candidates are the edges that may be named for a host, sorted: those with the
// best room of all that stand. So an edge whose proxies have nothing but a
// member that drains, or paths that are down, is named only where no other is
// better, as its proxies choose among members (see steer.Room).
func Candidates(edges []EdgeState) []model.Edge {
	best := steer.NoRoom
	for _, e := range edges {
		if in, _ := e.Standing(); in {
			best = min(best, e.Room)
		}
	}
	var out []model.Edge
	for _, e := range edges {
		if in, _ := e.Standing(); in && e.Room == best {
			out = append(out, e.Edge)
		}
	}
	slices.Sort(out)
	return out
}

// Keep is next, or if that is empty the last set: DNS that names nobody helps
// nobody.
func Keep(prev, next []model.Edge) []model.Edge {
	if len(next) == 0 {
		return prev
	}
	return next
}

// Step decides the edges of a host from those it had and the state of all its
// edges; an edge that is not among them exists no more and is never kept. One
// that was named and of which nobody is sure stays beside the others, however
// badly it serves as far as is known: ignorance takes no edge away.
//
// The last set is an input, not a memory: who runs Step stores its result as a
// row of an input table, if it is not empty and differs, and feeds it back. It
// is checkpointed with the other rows. Step(Step(p, e), e) is Step(p, e), so the
// row settles in one turn.
func Step(prev []model.Edge, edges []EdgeState) []model.Edge {
	next := Candidates(edges)
	var last []model.Edge
	for _, e := range edges {
		if !slices.Contains(prev, e.Edge) {
			continue
		}
		last = append(last, e.Edge)
		if e.stays() && !slices.Contains(next, e.Edge) {
			next = append(next, e.Edge)
		}
	}
	slices.Sort(last)
	slices.Sort(next)
	return Keep(last, next)
}

// stays tells whether an edge that was named stays so although it is worse than
// others as far as is known.
func (e EdgeState) stays() bool {
	best := e
	best.Room = steer.Best
	in, _ := best.Standing()
	return e.Unsure && in
}

// Trust is what the verdicts of one observer are worth together. If it lost more than
// half of all edges it knows, and at least two, within a window of so many
// seconds, then it is more likely that the observer is cut off than that they are:
// those verdicts become Unknown, for as long as they last.
func Trust(witnesses []Witness, window int64) []Witness {
	known := 0
	var lost []int64
	for _, w := range witnesses {
		if w.Health != model.Unknown {
			known++
		}
		if w.Health == model.Down {
			lost = append(lost, w.Since)
		}
	}
	slices.Sort(lost)
	out := slices.Clone(witnesses)
	for first := range lost {
		last := first
		for last+1 < len(lost) && lost[last+1]-lost[first] <= window {
			last++
		}
		if n := last - first + 1; n < 2 || 2*n <= known {
			continue
		}
		for i, w := range out {
			if w.Health == model.Down && lost[first] <= w.Since && w.Since <= lost[last] {
				out[i] = Witness{}
			}
		}
	}
	return out
}
