package xds

import "time"

// A session's part in the rollout of its group: what waits until another stream
// answered.

// place is a session's place in the rollout.
type place struct {
	seat   int           // in rollout.sessions
	number uint64        // streams are asked in this order
	woken  bool          // it is among those stirred
	wake   func()        // has its stream look at it; never waits
	waits  bool          // it is among the waiters
	rank   [kinds]int    // in the group's rosters
	took   time.Duration // to answer, of late
	wrong  bool          // it rejected what another one accepted, and accepted nothing since
}

// wants tells whether the client follows a name.
func (t *topic) wants(id uint32) bool { return t.wild || t.sub.has(id) }

// current tells whether the client holds the view's version.
func (t *topic) current(id uint32, res *resource) bool {
	old, stale := t.staleVersion(id)
	return t.has.has(id) && (!stale || old == res.Version)
}

// mustWait tells whether an upsert has to wait now: for clusters, hosts, or the
// answer of a stream that is asked first.
func (s *Session) mustWait(now time.Time, k kind, id uint32, res *resource) bool {
	if s.lacksClusters(now, k, id, res) || s.lacksHosts(now, k, id) {
		return true
	}
	if s.content.rollout.lets(now, s, k, id) {
		return false
	}
	s.wait(k, id)
	return true
}

// waits tells whether anything waits for another stream's answer.
func (s *Session) waits() bool {
	for k := range s.topics {
		if s.topics[k].waiting.any() {
			return true
		}
	}
	return false
}

// unwait looks again at all that waits.
func (s *Session) unwait() {
	for k := range s.topics {
		t := &s.topics[k]
		if t.waiting.any() {
			t.dirty.add(&t.waiting)
			s.stir()
		}
		t.waiting = bitset{}
	}
}

// decided looks again at what waits and was decided on, and at what was kept
// from the client and may be no more; with lost, also at what waits for
// clusters, since some may not come.
func (s *Session) decided(ids, again *[kinds]bitset, lost bool) {
	for k := range s.topics {
		t := &s.topics[k]
		moved := t.waiting.move(&ids[k], &t.dirty)
		again[k].each(func(id uint32) bool {
			res := s.get(kind(k), id)
			if res != nil && t.wants(id) && !t.current(id, res) && t.quarantine[id].version != res.Version {
				t.waiting.clear(id)
				moved = t.dirty.set(id) || moved
			}
			return true
		})
		if moved || lost && len(t.gated) > 0 {
			s.stir()
		}
	}
	if lost {
		s.ungate()
	}
}

// accept: the client holds the view's version. This is said if it ends a
// refusal by a client that may be gone.
func (s *Session) accept(k kind, id uint32, version string) {
	if !s.content.rollout.accept(k, id) || s.reports[k] {
		return
	}
	if _, own := s.topics[k].quarantine[id]; !own {
		s.verdict = append(s.verdict, Verdict{Type: k.url(), Name: s.content.name(k, id), Version: version})
	}
}

// say reports that the client rejects the current version of a row.
func (s *Session) say(k kind, id uint32, lone bool) {
	q := s.topics[k].quarantine[id]
	s.verdict = append(s.verdict, Verdict{Type: k.url(), Name: s.content.name(k, id), Version: q.version, Error: q.err, Lone: lone})
	s.stir()
}

// stir has the session be woken at the end of the step that somebody takes.
func (s *Session) stir() { s.content.rollout.stir(s) }

// wait has a row wait for the answer of the stream that is asked first.
func (s *Session) wait(k kind, id uint32) {
	t := &s.topics[k]
	shed(&t.gated, id)
	t.waiting.set(id)
	if !s.place.waits {
		s.place.waits = true
		s.content.rollout.waiters = append(s.content.rollout.waiters, s)
	}
}

// silent tells whether a response has been unanswered for long.
func (s *Session) silent(now time.Time) bool {
	for k := range s.topics {
		if f := s.topics[k].flight; f != nil && now.Sub(f.at) >= s.patience() {
			return true
		}
	}
	return false
}

// promises tells whether an answer may be hoped for: the client is past its
// first load, and not silent.
func (s *Session) promises(now time.Time) bool {
	return s.topics[listener].asked && !s.silent(now)
}

// withhold keeps a rejected version from the client, which keeps what it has.
// If it has none and asked, it is told so, or it would wait for a timeout.
func (s *Session) withhold(now time.Time, k kind, id uint32, res *resource, b *batch) {
	t := &s.topics[k]
	shed(&t.gated, id)
	if q, own := t.quarantine[id]; own && q.version == res.Version {
		s.content.rollout.refuse(s, k, id) // if it is back, the client need not be asked
		return
	}
	if t.has.has(id) {
		return
	}
	s.settled(now, k, id, s.nonces+1) // it has none, so uses nothing by it
	if len(s.topics[listener].gated) > 0 {
		s.ungate()
	}
	switch {
	case !t.sub.has(id):
	case s.content.isHeld(k, res.Name):
		t.held.set(id)
	case t.sated(id):
		s.withdraw(k, id, b)
	}
}
