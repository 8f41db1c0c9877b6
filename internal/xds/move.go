package xds

import (
	"slices"
	"time"
)

// Attach gives the session another content of the same store, in place of the
// one it has. The client is sent what differs; removals wait as they always do.
// It costs the collections that come or go.
func (s *Session) Attach(now time.Time, to *catalog) {
	from := s.content
	if from == to {
		return
	}
	from.rollout.leave(now, s)
	from.unseat(s)
	rows, aliased := s.differences(from, to), s.withoutAliases()
	from.endStep(now)
	s.content = to
	to.seat(s)
	for _, r := range rows {
		s.mark(now, r.row, r.version())
	}
	s.realias(now, aliased)
	s.regain()
	to.rollout.join(s)
	s.rehold()
	to.endStep(now)
}

// differences are the rows that are something else in another content, as far as
// the client follows or has them.
func (s *Session) differences(from, to *catalog) (out []marked) {
	others := func(a, b *catalog) (out []*collection) {
		for _, l := range a.list {
			if !slices.Contains(b.list, l) {
				out = append(out, l)
			}
		}
		return out
	}
	changed := slices.Concat(others(from, to), others(to, from))
	for k := range s.topics {
		if from.aliases.of(kind(k)) {
			continue // see withoutAliases
		}
		t := &s.topics[k]
		var seen bitset
		for _, l := range changed {
			l.kinds[k].ids.each(func(id uint32) bool {
				if t.wants(id) || t.has.has(id) {
					seen.set(id)
				}
				return true
			})
		}
		seen.each(func(id uint32) bool {
			old, now := from.get(kind(k), id), to.get(kind(k), id)
			if old != now && (old == nil || now == nil || !old.same(now.Resource)) {
				out = append(out, marked{rowID{kind(k), id}, old})
			}
			return true
		})
	}
	return out
}

// regain looks at what depends on those who follow the same content: what waits
// for them, and what was refused.
func (s *Session) regain() {
	for k := range s.topics {
		t := &s.topics[k]
		t.dirty.add(&t.waiting)
		t.waiting = bitset{}
		for id := range t.quarantine {
			t.dirty.set(id)
		}
	}
}

// vacate gives back what the session counts in its content, room names at most,
// and tells whether there is more. A session that left its group does nothing
// else.
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
