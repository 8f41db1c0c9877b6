package xds

import (
	"slices"
	"time"
)

// usable tells whether a client that is sent something using ref can use it
// at once. It waits only for what will come: what the view lacks, what the
// client did not ask for and what it rejected is not waited for.
func (s *Session) usable(ref rowID) bool {
	t := &s.topics[ref.kind]
	res := s.get(ref.kind, ref.id)
	if res == nil || ref.kind == secret {
		return true
	}
	switch ref.kind {
	case cluster:
		if !t.wants(ref.id) {
			return true
		}
		if !t.arrived(ref.id) {
			return s.refused(cluster, ref.id, res)
		}
		return s.allUsable(res)
	case assignment:
		return s.refused(assignment, ref.id, res) || t.arrived(ref.id)
	default: // what the client has already was gated when it was sent
		return t.arrived(ref.id) || s.allUsable(res)
	}
}

// arrived tells whether the client is known to hold some version.
func (t *topic) arrived(id uint32) bool {
	version, stale := t.staleVersion(id)
	return t.has.has(id) && (!stale || version != "")
}

// refused tells whether the client, or enough others before it, rejected the
// current version: it will not come, nor will the client ask for what it uses.
// (What is on its way may be another version, after a change back and forth.)
func (s *Session) refused(k kind, id uint32, res *resource) bool {
	t := &s.topics[k]
	if q, own := t.quarantine[id]; own && q.version == res.Version {
		return !t.inFlight(id)
	}
	return s.content.rollout.bars(s, k, id) && !t.current(id, res) && !t.inFlight(id)
}

func (s *Session) allUsable(res *resource) bool {
	for _, r := range res.refs() {
		if !s.usable(r) {
			return false
		}
	}
	return true
}

// usesHeld tells whether a resource uses a cluster that may be there, only that
// it is held, and that the client does not have: its old version serves better.
func (s *Session) usesHeld(res *resource) bool {
	t := &s.topics[cluster]
	return slices.ContainsFunc(res.refs(), func(ref rowID) bool {
		return ref.kind == cluster && s.get(cluster, ref.id) == nil && !t.arrived(ref.id) &&
			t.wants(ref.id) && s.content.isHeld(cluster, s.content.name(cluster, ref.id))
	})
}

// lacksClusters tells whether the upsert of a gated type has to wait now.
func (s *Session) lacksClusters(now time.Time, k kind, id uint32, res *resource) bool {
	if k != listener && k != scope && k != routes || s.world != nil {
		return false
	}
	t := &s.topics[k]
	if s.allUsable(res) && (!t.arrived(id) || !s.usesHeld(res)) {
		return false
	}
	return s.gate(now, k, id)
}

// gate has an upsert wait; false: it has waited for long enough.
func (s *Session) gate(now time.Time, k kind, id uint32) bool {
	t := &s.topics[k]
	since, waiting := t.gated[id]
	if !waiting {
		if t.gated == nil {
			t.gated = map[uint32]time.Time{}
		}
		t.gated[id] = now
		t.waiting.clear(id)
		return true
	}
	if now.Sub(since) < s.limits.GateTimeout {
		return true
	}
	s.late++
	return false
}

// ungate has the next Ready look again at what waits for clusters: once,
// however many clusters came or went.
func (s *Session) ungate() { s.ungating = true }

// openGates looks again at what waits for clusters, if there is a reason.
func (s *Session) openGates() {
	if !s.ungating {
		return
	}
	s.ungating = false
	for _, k := range gatedKinds {
		t := &s.topics[k]
		for id := range t.gated {
			t.dirty.set(id)
		}
	}
}
