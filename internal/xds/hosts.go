package xds

import "time"

// A listener that is new looks for its hosts in a table that the client may not have
// yet, and one that changed in another table than the one that it replaces: it waits
// until the client has the scopes that there are by then, and what they lead to.
// Without that, requests would be answered 404 until these come.
//
// A client that reconnects says first which scopes and routes it has.
//
// Only what was there when the listener changed is waited for, so that hosts which
// come and come do not keep it for ever, and for no longer than for clusters. To a
// client without any they go first, as it is by these that Envoy asks for scopes.

// lacksHosts tells whether a listener has to wait now.
func (s *Session) lacksHosts(now time.Time, k kind, id uint32) bool {
	if k != listener || s.world != nil || !s.listens() {
		return false
	}
	if s.surveys(now) {
		ids := s.lacking()
		s.bare.add(&ids)
	}
	if s.surveyed && !s.awaitsHosts() {
		return false
	}
	wait := s.gate(now, k, id)
	if !wait {
		s.bare = bitset{} // in vain; other listeners need not wait for the same
	}
	return wait
}

// listens tells whether the client has, or may have, some version of a listener.
func (s *Session) listens() bool {
	t := &s.topics[listener]
	return len(t.unknown) > 0 || t.has.any()
}

// surveys tells whether it is to be seen now which scopes the client lacks: once
// after listeners changed, and not before the client said what it has.
func (s *Session) surveys(now time.Time) bool {
	if s.surveyed {
		return false
	}
	t, resumes := &s.topics[scope], !s.resumed.IsZero() && now.Before(s.resumed.Add(s.limits.Resume))
	if resumes && !t.asked {
		return false
	}
	if resumes {
		s.bare.add(&t.has) // their routes
	}
	s.surveyed = true
	return true
}

// lacking are the scopes that are on their way to the client, which is not
// known to have any version of them.
func (s *Session) lacking() (out bitset) {
	t := &s.topics[scope]
	add := func(id uint32) bool {
		if !t.arrived(id) {
			out.set(id)
		}
		return true
	}
	t.dirty.each(add)
	t.waiting.each(add)
	for id := range t.gated {
		add(id)
	}
	for id := range t.unknown {
		add(id)
	}
	if t.flight != nil {
		for _, it := range t.flight.items {
			add(it.id)
		}
	}
	return out
}

// What of bare is gone, or is another name by now, is found out when it is looked at:
// within a commit a scope may go with one collection and come with another.

// awaitsHosts tells whether a scope that a listener waits for is not of use yet.
func (s *Session) awaitsHosts() bool {
	s.bare.each(func(id uint32) bool {
		if s.bears(id) {
			return false
		}
		s.bare.clear(id)
		return true
	})
	return s.bare.any()
}

// bears tells whether a scope or its routes will come, and have not.
func (s *Session) bears(id uint32) bool {
	t, res := &s.topics[scope], s.get(scope, id)
	if res == nil || !t.wants(id) || s.refused(scope, id, res) {
		return false
	}
	if !t.arrived(id) {
		return true
	}
	for _, ref := range res.refs() {
		if s.get(ref.kind, ref.id) != nil && !s.topics[ref.kind].arrived(ref.id) && !s.refused(ref.kind, ref.id, s.get(ref.kind, ref.id)) {
			return true
		}
	}
	return false
}
