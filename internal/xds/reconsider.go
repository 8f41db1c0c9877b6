package xds

import "slices"

// reconsider sends again what the client refused and what uses this secret, and
// tells whether there is such a thing. Envoy keeps a certificate that it
// refuses, and with it refuses each listener that uses it, until there is a
// better one; the listener itself does not change by that.
func (s *Session) reconsider(id uint32) (found bool) {
	for _, k := range removals[secret] {
		t := &s.topics[k]
		for user, q := range t.quarantine {
			res := s.content.get(k, user)
			if res == nil || res.Version != q.version || !slices.Contains(res.refs, rowID{secret, id}) {
				continue
			}
			t.quarantine[user] = quarantined{err: q.err} // no version, until it is answered
			t.dirty.set(user)
			found = true
		}
	}
	return found
}
