package xds

import (
	"slices"
	"time"
)

// rollout decides for one group which streams may be sent a version that no
// client has answered for yet: one, the lead. When a client acknowledges it,
// all may have it. When the lead rejects that resource alone, another stream is
// asked: one client does not decide for others. Only what clients of two
// identities rejected, or two nodes of its own, and nobody accepted, is kept from
// another client of their Envoy versions; see refusals. A lead that is silent for
// longer than its [Session.patience] is passed over: the next stream is asked.
//
// It is pure, and belongs to the group's catalog. Endpoints and secrets are not
// its business, nor are removals: what a client can do without is known.
type rollout struct {
	sessions []*Session // of the group
	joined   uint64     // counts them
	lead     *Session   // nil until somebody is asked
	last     uint64     // number of the last lead
	since    time.Time  // when the lead was asked or last answered; zero if nobody waits for it
	untried  [kinds]bitset
	refusals
	decided [kinds]bitset // since the last settle: what waits is looked at again
	again   [kinds]bitset // since the last settle: also what was kept from a session
	news    bool          // there is something for settle
	lost    bool          // a cluster that is kept from others, too
	stirred []*Session    // each once: they are to be woken
	waiters []*Session    // each once: for them something waits, or did
}

// onTrial are the types that one stream is sent first.
var onTrial = [kinds]bool{cluster: true, listener: true, scope: true, routes: true}

// begin puts all of a collection on trial.
func (r *rollout) begin(c *collection) {
	for k := range c.kinds {
		if onTrial[k] {
			r.untried[k].add(&c.kinds[k].ids)
		}
	}
}

// join adds a session. What its client holds need not be tried.
func (r *rollout) join(s *Session) {
	r.joined++
	s.place.seat, s.place.number = len(r.sessions), r.joined
	s.place.woken, s.place.waits = false, false
	r.sessions = append(r.sessions, s)
	for k := range r.untried {
		if t := &s.topics[k]; t.has.any() {
			r.untried[k].each(func(id uint32) bool {
				if res := s.get(kind(k), id); res != nil && t.current(id, res) && t.quarantine[id].version != res.Version {
					r.untried[k].clear(id)
				}
				return true
			})
		}
	}
}

// stir has a session be woken at the end of this step.
func (r *rollout) stir(s *Session) {
	if !s.place.woken {
		s.place.woken = true
		r.stirred = append(r.stirred, s)
	}
}

// leave takes a session and what it refused out of the rollout.
func (r *rollout) leave(now time.Time, s *Session) {
	last := len(r.sessions) - 1
	if last < s.place.seat || r.sessions[s.place.seat] != s {
		return // it had no view
	}
	r.sessions[s.place.seat] = r.sessions[last]
	r.sessions[s.place.seat].place.seat = s.place.seat
	r.sessions[last] = nil
	r.sessions = r.sessions[:last]
	isIt := func(x *Session) bool { return x == s }
	r.waiters, r.stirred = slices.DeleteFunc(r.waiters, isIt), slices.DeleteFunc(r.stirred, isIt)
	r.withdraw(s)
	if r.lead == s {
		r.lead = nil
		r.next(now)
	}
}

// changed starts the trial of a row's new content, in place of an older one;
// a row that is gone needs none.
func (r *rollout) changed(at rowID, res *resource) {
	r.forget(at.kind, at.id)
	if res == nil {
		r.doubted[at.kind].clear(at.id)
	}
	if !onTrial[at.kind] {
		return
	}
	r.untried[at.kind].put(at.id, res != nil)
}

// publishing makes sure that there is a lead that answers, before the sessions
// are told of changes. If nobody waits for the last one, it is another's turn.
func (r *rollout) publishing(now time.Time) {
	if len(r.sessions) == 0 {
		return
	}
	if r.lead == nil || r.since.IsZero() || r.lead.silent(now) {
		r.ask(now, r.pick(now, func(*Session) bool { return true }))
	}
}

// defers tells whether the current version of a row is not for this session yet.
func (r *rollout) defers(now time.Time, s *Session, k kind, id uint32) bool {
	if !r.untried[k].has(id) || r.lead == nil || r.lead == s || !r.lead.answersFor(k, id) {
		return false
	}
	if r.since.IsZero() {
		r.since = now
	}
	return true
}

// lets tells whether a session that is ready for the current version of a row
// may be sent it. If nobody can be asked in its place, it is the lead.
func (r *rollout) lets(now time.Time, s *Session, k kind, id uint32) bool {
	if r.defers(now, s, k, id) {
		return false
	}
	if r.untried[k].has(id) && r.lead != s {
		r.ask(now, s)
	}
	return true
}

// accept: a client holds the current version. It tells whether that ends a
// refusal.
func (r *rollout) accept(k kind, id uint32) bool {
	if r.untried[k].clear(id) {
		r.decided[k].set(id)
		r.news = true
	}
	r.contradict(k, id)
	return r.doubted[k].clear(id)
}

// heard: a session answered for a type what was sent to it at some time.
func (r *rollout) heard(now time.Time, s *Session, k kind, sent time.Time) {
	if !onTrial[k] {
		return
	}
	s.place.took = (s.place.took + now.Sub(sent)) / 2
	if r.lead == s && !r.since.IsZero() {
		r.since = now
	}
}

// settle tells all sessions what was decided, at the end of a step.
func (r *rollout) settle(now time.Time) {
	if !r.news {
		return
	}
	r.judge(now)
	for _, s := range r.concerned() {
		s.decided(&r.decided, &r.again, r.lost)
	}
	r.decided, r.again, r.news, r.lost = [kinds]bitset{}, [kinds]bitset{}, false, false
	if !r.anyWaits() {
		r.since = time.Time{}
	}
}

// concerned are the sessions to which what was decided may matter: those for
// which something waits, unless something is kept from some no more.
func (r *rollout) concerned() []*Session {
	if r.lost || anyOf(&r.again) {
		return r.sessions
	}
	return r.waiters
}

// anyWaits tells whether anything waits for the lead.
func (r *rollout) anyWaits() bool {
	r.waiters = slices.DeleteFunc(r.waiters, func(s *Session) bool {
		s.place.waits = s.waits()
		return !s.place.waits
	})
	return len(r.waiters) > 0
}

func anyOf(sets *[kinds]bitset) bool {
	return slices.ContainsFunc(sets[:], func(b bitset) bool { return b.any() })
}

// expire passes over a lead that was silent for too long.
func (r *rollout) expire(now time.Time) {
	if at, ok := r.overdue(); ok && !now.Before(at) {
		r.next(now)
	}
}

// overdue is when the lead is passed over; false if nobody waits for it.
func (r *rollout) overdue() (time.Time, bool) {
	if r.since.IsZero() || r.lead == nil {
		return r.since, !r.since.IsZero()
	}
	return r.since.Add(r.lead.patience()), true
}

// deadline is when somebody else is asked; false if s need not see to that.
func (r *rollout) deadline(s *Session) (time.Time, bool) {
	if r.lead != s && !s.waits() {
		return time.Time{}, false
	}
	return r.overdue()
}

// next asks the next of those that wait, if there is one.
func (r *rollout) next(now time.Time) {
	s := r.pick(now, func(s *Session) bool { return s != r.lead && s.waits() })
	if s == nil {
		r.since = time.Time{}
		return
	}
	r.ask(now, s)
}

func (r *rollout) ask(now time.Time, s *Session) {
	r.lead, r.last = s, s.place.number
	if !r.since.IsZero() {
		r.since = now
	}
	s.unwait()
}

// pick returns the best that fits by rank; of equals the next in the order of
// joining, beginning after the last lead.
func (r *rollout) pick(now time.Time, fits func(*Session) bool) *Session {
	var best *Session
	var bestRank, bestTurn uint64
	for _, s := range r.sessions {
		if !fits(s) {
			continue
		}
		rank, turn := s.rank(now), s.place.number-r.last-1 // wraps: those before the last lead come last
		if best == nil || rank < bestRank || rank == bestRank && turn < bestTurn {
			best, bestRank, bestTurn = s, rank, turn
		}
	}
	return best
}
