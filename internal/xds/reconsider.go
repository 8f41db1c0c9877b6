package xds

import "slices"

// reconsider sends again what was refused and what uses this secret, and tells
// whether there is such a thing here. Envoy keeps a certificate that it
// refuses, and with it refuses each listener that uses it, until there is a
// better one; the listener itself does not change by that.
func (s *Session) reconsider(id uint32) (found bool) {
	for _, k := range removals[secret] {
		t := &s.topics[k]
		uses := func(res *resource) bool { return res != nil && slices.Contains(res.refs(), rowID{secret, id}) }
		for user, q := range t.quarantine {
			if res := s.content.get(k, user); uses(res) && q.version == res.Version {
				t.quarantine[user] = quarantined{err: q.err} // no version, until it is answered
				t.dirty.set(user)
				found = true
			}
		}
		s.content.retry(k, uses)
	}
	return found
}

// retry starts the trial of what some client rejected again.
func (c *catalog) retry(k kind, fits func(*resource) bool) {
	var again []uint32
	for id := range c.rollout.by[k] {
		if fits(c.get(k, id)) {
			again = append(again, id)
		}
	}
	slices.Sort(again)
	for _, id := range again {
		c.rollout.forget(k, id)
		for _, s := range c.rollout.sessions {
			s.topics[k].dirty.set(id)
			s.stir()
		}
	}
}
