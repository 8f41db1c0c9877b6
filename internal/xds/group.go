package xds

import (
	"slices"
	"time"
)

// group is the streams that follow one view and decide together what is sent to
// all of them: those of an edge. A refusal never crosses groups.
type group struct {
	key     groupKey
	content catalog
	members []*member
}

type groupKey struct{ view, name string }

// marked is a row that changed and what there was. What is noted of it is found
// once for all sessions that follow it: each has to reach for much else.
type marked struct {
	row  rowID
	old  *resource
	was  string // its version; empty: there was none
	same bool   // which it has now, too

	moved bool // if it is gone, its collection left; the host of a scope may be in another table
}

// note compares what there was with what there is now.
func (m *marked) note(now *resource) {
	if m.old != nil {
		m.was = m.old.Version
	}
	m.same = now != nil && now.Version == m.was
}

// tell marks rows for the sessions that follow them; with again, what was held
// is looked at again. few is the number of changes up to which they are urgent.
func (g *group) tell(now time.Time, rows []marked, again bool, few int) {
	c := &g.content
	rows = c.settleAliases(g.differ(rows))
	if slices.ContainsFunc(rows, func(r marked) bool { return onTrial[r.row.kind] }) {
		c.rollout.publishing(now)
	}
	if again {
		for _, m := range g.members {
			if m.session.rehold() {
				m.session.stir()
			}
		}
	}
	urgent := len(rows) <= few
	for _, r := range rows {
		r.note(c.get(r.row.kind, r.row.id))
		for _, s := range g.asked(r.row) {
			if s.mark(now, r) {
				s.stir()
			}
			if urgent {
				s.hurry(r.row)
			}
		}
	}
	g.wake()
}

// asked are the sessions that may have to do with a row.
func (g *group) asked(at rowID) []*Session {
	if at.kind == secret && g.content.rollout.refused() {
		return g.content.rollout.sessions // what they refuse may be for want of it
	}
	few := g.content.of[at.kind].few[at.id]
	if len(few) == 0 {
		return g.content.wide[at.kind].sessions
	}
	out := slices.Clone(g.content.wide[at.kind].sessions)
	for _, s := range few {
		if s.content == &g.content {
			out = append(out, s)
		}
	}
	return out
}

// differ leaves the rows that changed for the group, each once, and begins their
// trials.
func (g *group) differ(rows []marked) []marked {
	c := &g.content
	out := rows[:0]
	for _, r := range rows {
		res := c.get(r.row.kind, r.row.id)
		if res == r.old || res != nil && res.source() == nil && r.old != nil && r.old.source() == nil && r.old.same(res.Resource) {
			continue
		}
		if res == nil || r.old == nil || r.old.Version != res.Version {
			c.rollout.changed(r.row, res)
		}
		out = append(out, r)
	}
	return out
}

// wake has those look whom a step gave something to do.
func (g *group) wake() {
	woken := g.content.rollout.stirred
	g.content.rollout.stirred = nil
	for _, s := range woken {
		s.place.woken = false
		s.place.wake()
	}
}
