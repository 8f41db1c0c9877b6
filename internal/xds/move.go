package xds

import (
	"time"
)

// carried is what a session knows of one name, apart from any view.
type carried struct {
	name    string
	version string // what the client has
	bad     quarantined

	sub, has, force, follows, doubt, first bool
}

// Attach gives the session a view's content, in place of the one it has. The
// client is sent the differences; removals wait as they always do.
func (s *Session) Attach(now time.Time, to *catalog) {
	if s.content == to {
		return
	}
	from := s.content
	from.rollout.leave(now, s)
	var loads [kinds][]carried
	for k := range s.topics {
		loads[k] = s.unload(kind(k))
	}
	from.endStep(now)
	s.content = to
	to.rollout.join(s)
	for k := range s.topics {
		s.load(now, kind(k), loads[k])
	}
	to.endStep(now)
}

// unload takes a topic's names out of the present content.
func (s *Session) unload(k kind) []carried {
	t := &s.topics[k]
	var out []carried
	var all bitset
	for _, ids := range []*bitset{&t.sub, &t.has, &t.follows} {
		all.add(ids)
	}
	for id := range t.unknown {
		all.set(id)
	}
	for id := range t.quarantine {
		all.set(id)
	}
	all.each(func(id uint32) bool {
		c := carried{
			name: s.content.name(k, id), bad: t.quarantine[id],
			sub: t.sub.has(id), has: t.has.has(id), force: t.force.has(id), follows: t.follows.has(id), first: t.first.has(id),
		}
		_, c.doubt = t.unknown[id]
		if c.has {
			c.version = t.version(id, s.get(k, id))
		}
		out = append(out, c)
		return true
	})
	if f := t.flight; f != nil {
		f.index = nil
		for i := range f.items {
			it := &f.items[i]
			it.name = s.content.name(k, it.id)
			s.content.unref(k, it.id)
		}
	}
	for _, c := range out {
		id := s.content.tables[k].ids[c.name]
		s.unwant(k, id)
		s.release(k, &t.sub, id)
		s.release(k, &t.has, id)
		s.release(k, &t.follows, id)
	}
	return out
}

// vacate gives back what the session counts in its content, room names at most,
// and tells whether there is more. A session that left its view does nothing else.
func (s *Session) vacate(room int) (more bool) {
	for k := range s.topics {
		t := &s.topics[k]
		for _, ids := range []*bitset{&t.sub, &t.has, &t.follows} {
			ids.each(func(id uint32) bool {
				if room--; room < 0 {
					return false
				}
				s.unwant(kind(k), id)
				s.release(kind(k), ids, id)
				return true
			})
		}
		for t.flight != nil && len(t.flight.items) > 0 && room > 0 {
			last := len(t.flight.items) - 1
			s.content.unref(kind(k), t.flight.items[last].id)
			t.flight.items = t.flight.items[:last]
			room--
		}
	}
	s.content.sweep()
	return room <= 0
}

// version returns what the client has, given the current resource.
func (t *topic) version(id uint32, res *resource) string {
	if v, stale := t.stale[id]; stale {
		return v
	}
	if res != nil {
		return res.Version
	}
	return ""
}

// load puts names into the new content and marks everything for a look.
func (s *Session) load(now time.Time, k kind, names []carried) {
	old := &s.topics[k]
	s.topics[k] = topic{
		asked: old.asked, wild: old.wild, owed: old.owed, flight: old.flight,
		sentResources: old.sentResources, sentBytes: old.sentBytes, responses: old.responses, nacks: old.nacks,
	}
	t := &s.topics[k]
	for _, c := range names {
		if !s.carries(k, c) {
			continue
		}
		id := s.content.intern(k, c.name)
		if c.sub {
			s.hold(k, &t.sub, id)
			s.want(now, k, id)
		}
		if c.force {
			t.force.set(id)
		}
		if c.follows {
			s.hold(k, &t.follows, id)
		}
		if c.has || c.doubt {
			s.hold(k, &t.has, id)
			t.setStale(id, c.version)
		}
		if c.doubt {
			t.setStale(id, "")
		}
		if c.bad.version != "" {
			if t.quarantine == nil {
				t.quarantine = map[uint32]quarantined{}
			}
			t.quarantine[id] = c.bad
		}
		if t.wild || c.sub {
			t.dirty.set(id)
			if c.first {
				t.first.set(id)
			}
		}
	}
	if f := t.flight; f != nil {
		for i := range f.items {
			it := &f.items[i]
			it.id = s.content.intern(k, it.name)
			it.name = ""
			s.content.ref(k, it.id)
		}
	}
	if t.wild {
		s.subscribeAll(k, t.owed)
	}
}

// carries tells whether a name has a place in the new content. If not, it was
// only known as rejected, and that is over.
func (s *Session) carries(k kind, c carried) bool {
	if c.sub || c.has || c.doubt || c.follows {
		return true
	}
	if id, ok := s.content.tables[k].ids[c.name]; ok && s.get(k, id) != nil {
		return true
	}
	s.verdict = append(s.verdict, Verdict{Type: k.url(), Name: c.name})
	return false
}
