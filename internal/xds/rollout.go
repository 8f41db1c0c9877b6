package xds

import "time"

// rollout decides for one view which streams may be sent a version that no
// client has answered for yet: one, the lead. When the lead acknowledges, all
// others may have it; when it rejects that resource alone, no other stream is
// sent it, and each keeps what it has. The first answer decides, until there
// is another version. A lead that is silent for [Limits.Trial] is passed over:
// the next stream is asked.
//
// It is pure, and belongs to the view's catalog. Endpoints and secrets are not
// its business, nor are removals: what a client can do without is known.
type rollout struct {
	sessions []*Session // of the view
	joined   uint64     // counts them
	lead     *Session   // nil until somebody is asked
	last     uint64     // number of the last lead
	since    time.Time  // when the lead was asked or last answered; zero if nobody waits for it
	untried  [kinds]bitset
	open     int           // ids in untried
	refused  [kinds]bitset // whose current version was rejected
	guilty   [kinds]bitset // whose version before was, and nobody said since that this is over
	decided  [kinds]bitset // since the last settle
	news     bool          // there is something in decided
	lost     bool          // a cluster that was rejected, too
	stirred  bool          // some session is woken
}

// onTrial are the types that one stream is sent first.
var onTrial = [kinds]bool{cluster: true, listener: true, scope: true, routes: true}

func (r *rollout) join(s *Session) {
	r.joined++
	s.place = place{seat: len(r.sessions), number: r.joined}
	r.sessions = append(r.sessions, s)
}

func (r *rollout) leave(now time.Time, s *Session) {
	last := len(r.sessions) - 1
	if last < s.place.seat || r.sessions[s.place.seat] != s {
		return // it had no view
	}
	r.sessions[s.place.seat] = r.sessions[last]
	r.sessions[s.place.seat].place.seat = s.place.seat
	r.sessions[last] = nil
	r.sessions = r.sessions[:last]
	if r.lead == s {
		r.lead = nil
		r.next(now)
	}
}

// changed starts the trial of a row's new content, in place of an older one;
// a row that is gone needs none.
func (r *rollout) changed(at rowID, res *resource) {
	if !onTrial[at.kind] {
		return
	}
	r.guilty[at.kind].clear(at.id)
	if r.refused[at.kind].clear(at.id) && res != nil {
		r.guilty[at.kind].set(at.id)
	}
	if r.untried[at.kind].clear(at.id) {
		r.open--
	}
	if res != nil {
		r.untried[at.kind].set(at.id)
		r.open++
	}
}

// publishing makes sure that there is a lead that answers, before the sessions
// are told of changes.
func (r *rollout) publishing(now time.Time) {
	if r.open == 0 || len(r.sessions) == 0 {
		return
	}
	if r.lead == nil || r.lead.silent(now) {
		r.ask(now, r.pick(now, func(*Session) bool { return true }))
	}
}

// defers tells whether the current version of a row is not for this session yet.
func (r *rollout) defers(now time.Time, s *Session, k kind, id uint32) bool {
	if !r.untried[k].has(id) || r.lead == nil || r.lead == s || !r.lead.topics[k].wants(id) {
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
// rejection.
func (r *rollout) accept(k kind, id uint32) bool { return r.decide(k, id) && r.guilty[k].clear(id) }

// refuse: a client rejected the current version. It tells whether that decides.
func (r *rollout) refuse(k kind, id uint32) bool {
	if !r.decide(k, id) {
		return false
	}
	r.refused[k].set(id)
	r.guilty[k].clear(id)
	r.lost = r.lost || k == cluster
	return true
}

// decide ends a trial, if there is one.
func (r *rollout) decide(k kind, id uint32) bool {
	if !r.untried[k].clear(id) {
		return false
	}
	r.open--
	r.decided[k].set(id)
	r.news = true
	return true
}

// heard: a session answered for a type.
func (r *rollout) heard(now time.Time, s *Session, k kind) {
	if r.lead == s && onTrial[k] && !r.since.IsZero() {
		r.since = now
	}
}

// settle tells all sessions what was decided, at the end of a step.
func (r *rollout) settle() {
	if !r.news {
		return
	}
	for _, s := range r.sessions {
		s.decided(&r.decided, r.lost)
		r.stirred = r.stirred || s.place.woken
	}
	r.decided, r.news, r.lost = [kinds]bitset{}, false, false
	if r.open == 0 {
		r.since = time.Time{}
	}
}

// expire passes over a lead that was silent for too long.
func (r *rollout) expire(now time.Time, patience time.Duration) {
	if !r.since.IsZero() && now.Sub(r.since) >= patience {
		r.next(now)
	}
}

// deadline is when somebody else is asked; false if s need not see to that.
func (r *rollout) deadline(s *Session) (time.Time, bool) {
	if r.since.IsZero() || r.lead != s && !s.waits() {
		return time.Time{}, false
	}
	return r.since.Add(s.limits.Trial), true
}

// next asks the next of those that wait, if there is one.
func (r *rollout) next(now time.Time) {
	s := r.pick(now, (*Session).waits)
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
	r.stirred = r.stirred || s.place.woken
}

// pick returns the first that fits, in the order of joining and beginning after
// the last lead: if possible one that answers and is past its first load.
func (r *rollout) pick(now time.Time, fits func(*Session) bool) *Session {
	var best *Session
	var rank uint64
	for _, s := range r.sessions {
		if !fits(s) {
			continue
		}
		n := s.place.number - r.last - 1 // wraps: those before the last lead come last
		if best == nil || s.promises(now) && !best.promises(now) || s.promises(now) == best.promises(now) && n < rank {
			best, rank = s, n
		}
	}
	return best
}
