package xds

import "slices"

// roster is the sessions of a group that are asked, one by one, whether a row
// that changed is theirs. A session that subscribes to few names of a type is
// not in it: it is found by name, so that a change costs nothing to those that
// do not follow it, however many these are.
type roster struct{ sessions []*Session }

// fewNames is how many names of a type a session is found by.
const fewNames = 64

func (r *roster) add(s *Session, k kind) {
	s.place.rank[k] = len(r.sessions)
	r.sessions = append(r.sessions, s)
}

func (r *roster) remove(s *Session, k kind) {
	last := len(r.sessions) - 1
	moved := r.sessions[last]
	r.sessions[s.place.rank[k]] = moved
	moved.place.rank[k] = s.place.rank[k]
	r.sessions[last] = nil
	r.sessions = r.sessions[:last]
}

// lookUp has the session be found by a name more, or be in the roster.
func (s *Session) lookUp(k kind, id uint32) {
	t := &s.topics[k]
	if t.sub.count() >= fewNames {
		s.widen(k)
		return
	}
	few := &s.content.of[k].few
	if *few == nil {
		*few = map[uint32][]*Session{}
	}
	(*few)[id] = append((*few)[id], s)
}

// lookOff has a session be found by a name no more.
func (n *names) lookOff(k kind, id uint32, s *Session) {
	few := n.of[k].few
	if few[id] = slices.DeleteFunc(few[id], func(other *Session) bool { return other == s }); len(few[id]) == 0 {
		shed(&n.of[k].few, id)
	}
}

// widen puts the session into the roster.
func (s *Session) widen(k kind) {
	t := &s.topics[k]
	if t.wide {
		return
	}
	t.sub.each(func(id uint32) bool {
		s.content.lookOff(k, id, s)
		return true
	})
	t.wide = true
	s.content.wide[k].add(s, k)
}

// seat puts a session that joins into the rosters that it belongs to, and unseat
// takes one that leaves out of them.
func (c *catalog) seat(s *Session) {
	for k := range c.wide {
		if s.topics[k].wide {
			c.wide[k].add(s, kind(k))
		}
	}
}

func (c *catalog) unseat(s *Session) {
	for k := range c.wide {
		if s.topics[k].wide {
			c.wide[k].remove(s, kind(k))
		}
	}
}
