package xds

import "fmt"

// violated returns what is wrong with what a session keeps of its names; empty
// if nothing is. It is what the comment of topic promises.
func (s *Session) violated() string {
	for k := range s.topics {
		t := &s.topics[k]
		for id, name := range s.content.of[k].rows {
			if why := s.violation(kind(k), uint32(id)); why != "" {
				return fmt.Sprintf("%s %s: %s", kind(k).url().Short(), name.name, why)
			}
		}
		if t.holds != t.sub.count()+t.has.count()+t.follows.count() {
			return fmt.Sprintf("%s: %d names are counted", kind(k).url().Short(), t.holds)
		}
		if t.wide != !s.isFound(kind(k)) && t.sub.any() {
			return fmt.Sprintf("%s: wide is %v", kind(k).url().Short(), t.wide)
		}
	}
	return ""
}

// isFound tells whether the session is found by each name that it subscribes to.
func (s *Session) isFound(k kind) bool {
	all := true
	s.topics[k].sub.each(func(id uint32) bool {
		n := 0
		for _, other := range s.content.of[k].few[id] {
			if other == s {
				n++
			}
		}
		all = all && n == 1
		return all
	})
	return all
}

func (s *Session) violation(k kind, id uint32) string {
	t := &s.topics[k]
	_, stale := t.staleVersion(id)
	_, leaving := t.leaving[id]
	_, released := t.released[id]
	_, gated := t.gated[id]
	_, unknown := t.unknown[id]
	_, quarantined := t.quarantine[id]
	there := s.get(k, id) != nil
	moved := t.moved.has(id)
	dirty, waiting, held, has := t.dirty.has(id), t.waiting.has(id), t.held.has(id), t.has.has(id)
	counted := has || t.sub.has(id) || t.follows.has(id) || t.inFlight(id)
	for _, c := range []struct {
		holds bool
		text  string
	}{
		{!stale || has, "a version that it does not have"},
		{!leaving || !released, "leaves and may leave"},
		{!leaving && !released || has && !there, "leaves, but is there or not had"},
		{!released || dirty || unknown || t.inFlight(id), "may leave, and nobody looks"},
		{!moved || k == scope && !there, "is there, and left with its collection"},
		{!gated || !waiting, "waits for two things"},
		{!gated || there || dirty, "waits for clusters, and is not there"},
		{!waiting || there, "waits for another stream, and is not there"},
		{!held || !waiting, "is held and waits"},
		{!unknown || t.inFlight(id) || t.asksAgain(id), "in doubt, and not asked again"},
		{t.last[id] == nil || t.force.has(id) && t.wants(id), "is kept to be sent, and is not to be"},
		{!t.follows.has(id) || !t.sub.has(id), "will be subscribed to, and is"},
		{there || counted || !dirty && !waiting && !held && !gated && !quarantined && !t.force.has(id) && !t.guess.has(id) && !moved, "something is kept of it, and it is not counted"},
	} {
		if !c.holds {
			return c.text
		}
	}
	return ""
}

func (t *topic) asksAgain(id uint32) bool {
	for _, part := range t.retry {
		for _, other := range part.ids {
			if other == id {
				return true
			}
		}
	}
	return false
}
