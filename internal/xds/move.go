package xds

import (
	"slices"
	"time"
)

// Attach gives the session another content of the same store, in place of the
// one it has. The client is sent what differs; removals wait as they always do.
// It costs what differs, and the first of a group what the collections have that
// come or go.
func (s *Session) Attach(now time.Time, to *catalog) {
	from := s.content
	if from == to {
		return
	}
	from.rollout.leave(now, s)
	from.unseat(s)
	var rows []marked
	if s.asked() {
		rows = from.differences(to)
	}
	aliased := s.withoutAliases()
	from.endStep(now)
	s.content = to
	to.seat(s)
	for _, r := range rows {
		s.mark(now, r)
	}
	s.realias(now, aliased)
	s.regain()
	to.rollout.join(s)
	s.rehold()
	to.endStep(now)
}

// asked tells whether the client said anything yet.
func (s *Session) asked() bool {
	for k := range s.topics {
		if s.topics[k].asked {
			return true
		}
	}
	return false
}

// ahead is what differs in another catalog, as long as neither changes: the
// streams of a group follow one another there.
type ahead struct {
	to       *catalog
	from, at edition // of both
	rows     []marked
}

// differences are the rows that are something else in another content, but for
// those that may be aliases: see withoutAliases.
func (c *catalog) differences(to *catalog) []marked {
	from, at := c.edition(), to.edition()
	if c.ahead.to != to || c.ahead.from != from || c.ahead.at != at {
		c.ahead = ahead{to, from, at, c.compare(to)}
	}
	return c.ahead.rows
}

func (c *catalog) compare(to *catalog) (out []marked) {
	out = make([]marked, 0, len(c.ahead.rows)) // after a commit it is much the same
	changed := slices.Concat(without(c.list, to.list), without(to.list, c.list))
	for k := range kinds {
		if c.aliases.of(k) {
			continue
		}
		var seen bitset
		for _, l := range changed {
			seen.add(&l.kinds[k].ids)
		}
		seen.each(func(id uint32) bool {
			old, now := c.get(k, id), to.get(k, id)
			if old != now && (old == nil || now == nil || !old.same(now.Resource)) {
				row := marked{row: rowID{k, id}, old: old, moved: true}
				row.note(now)
				out = append(out, row)
			}
			return true
		})
	}
	return out
}

// without are those of a that b has not.
func without(a, b []*collection) (out []*collection) {
	a, b = apart(a, b)
	if len(a) == 0 || len(b) == 0 {
		return a
	}
	has := make(map[*collection]bool, len(b))
	for _, l := range b {
		has[l] = true
	}
	for _, l := range a {
		if !has[l] {
			out = append(out, l)
		}
	}
	return out
}

// apart is what is left of both but for how they begin and end alike: of long
// lists that differ in few places it is next to nothing.
func apart(a, b []*collection) (restA, restB []*collection) {
	for len(a) > 0 && len(b) > 0 && a[0] == b[0] {
		a, b = a[1:], b[1:]
	}
	for len(a) > 0 && len(b) > 0 && a[len(a)-1] == b[len(b)-1] {
		a, b = a[:len(a)-1], b[:len(b)-1]
	}
	return a, b
}

// remake gives a group another list of collections, in place of the one it has:
// a view that is something else now, or another view. Its streams are told what
// differs; that costs the collections that come or go.
func (g *group) remake(now time.Time, list []*collection, few int) {
	c := &g.content
	gone, came := without(c.list, list), without(list, c.list)
	var rows []marked
	for k := range kinds {
		var seen bitset
		for _, l := range gone {
			seen.add(&l.kinds[k].ids)
		}
		for _, l := range came {
			seen.add(&l.kinds[k].ids)
		}
		seen.each(func(id uint32) bool {
			rows = append(rows, marked{row: rowID{k, id}, old: c.get(k, id), moved: true})
			return true
		})
	}
	for _, l := range gone {
		l.groups = slices.DeleteFunc(l.groups, func(other *group) bool { return other == g })
	}
	for _, l := range came {
		l.groups = append(l.groups, g)
	}
	c.list, c.weighed = list, false
	c.remade++
	g.tell(now, rows, true, few)
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
