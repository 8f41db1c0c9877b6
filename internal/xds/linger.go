package xds

import "time"

// When scopes leave. Envoy looks a scope up by a key that a listener makes of the
// request, so nothing says which listener uses which scopes; each may use all.
//
// A scope that goes alone is a host that nobody has any more: a request for it is
// to be answered 404, and it leaves at once. It waits only for listeners that are
// under way, with a grace, since a listener may look for its hosts elsewhere from
// the same commit on.
//
// A scope that goes with its collection is mostly a host that is in another table
// from now on, and listeners follow. The scope stays for those that the client has
// not replaced yet, be it since it refuses to, and after that as long as they drain.

// staysAwhile tells whether the removal of what a client has must wait.
func (s *Session) staysAwhile(now time.Time, k kind, id uint32) bool {
	if k != scope {
		return len(removals[k]) > 0
	}
	if s.topics[scope].moved.has(id) {
		return now.Before(s.drained) || s.anyPending(listener)
	}
	users := s.underWay(listener)
	return users.any()
}

// users are what a removal waits for: listeners that the client keeps do not
// hold up scopes that go alone.
func (s *Session) users(k kind, d *departure) bitset {
	if d.passing {
		return s.underWay(k)
	}
	return s.pending(k)
}

// divide tells the scopes that go alone from those that go with their collection.
func (s *Session) divide(ids []uint32) (alone, together []uint32) {
	for _, id := range ids {
		if s.topics[scope].moved.has(id) {
			together = append(together, id)
		} else {
			alone = append(alone, id)
		}
	}
	return alone, together
}

// close begins the last wait of a removal.
func (s *Session) close(now time.Time, k kind, d *departure) {
	d.at = now.Add(s.limits.Grace)
	if k == scope && !d.passing && d.at.Before(s.drained) {
		d.at = s.drained
	}
}

// pass takes off the barriers of scopes that go alone the listeners that are not
// under way any more, since the client refused them or keeps what it has.
func (s *Session) pass(now time.Time) {
	for _, d := range s.topics[scope].departures {
		if !d.passing || !d.closed() {
			continue
		}
		still := s.underWay(listener)
		d.barrier[listener].each(func(id uint32) bool {
			if !still.has(id) {
				d.barrier[listener].clear(id)
			}
			return true
		})
		if !d.closed() {
			s.close(now, scope, d)
		}
	}
}

// replaced: the client has another version of a listener than it had. What uses
// the old one ends when it has drained.
func (s *Session) replaced(now time.Time) { s.drained = now.Add(s.limits.Drain) }
