package xds

import "time"

// departure is a set of removals of one type that wait: first, if settle,
// until the client said all it subscribes to; then for the answers in
// barrier; then for the grace.
type departure struct {
	ids     []uint32
	settle  bool
	passing bool // of scopes that go alone: see linger.go
	barrier [kinds]bitset
	seq     uint64    // nonce when the barrier was raised: older answers don't count
	at      time.Time // when settle or the grace is over; zero while the barrier stands
}

// maxDepartures bounds the sets per type; later removals join the last one.
const maxDepartures = 8

// depart makes removals wait.
func (s *Session) depart(now time.Time, k kind, ids []uint32) {
	if k != scope {
		s.departAs(now, k, &departure{ids: ids})
		return
	}
	alone, together := s.divide(ids)
	if len(alone) > 0 {
		s.departAs(now, k, &departure{ids: alone, passing: true})
	}
	if len(together) > 0 {
		s.departAs(now, k, &departure{ids: together})
	}
}

func (s *Session) departAs(now time.Time, k kind, d *departure) {
	t, ids := &s.topics[k], d.ids
	if n := len(t.departures); n >= maxDepartures {
		last := t.departures[n-1]
		last.ids = append(last.ids, ids...)
		last.passing = last.passing && d.passing
		last.at = time.Time{}
		d = last
	} else {
		t.departures = append(t.departures, d)
	}
	for _, id := range ids {
		t.setLeaving(id, d)
	}
	if d.settle = s.unsettled(now, k); d.settle {
		d.at = now.Add(s.limits.Grace)
		return
	}
	s.raiseBarrier(now, k, d)
}

func (t *topic) setLeaving(id uint32, d *departure) {
	if t.leaving == nil {
		t.leaving = map[uint32]*departure{}
	}
	t.leaving[id] = d
	t.dirty.clear(id)
}

// departInitial makes wait what a reconnecting client holds and the view
// lacks.
func (s *Session) departInitial(now time.Time, k kind) {
	if len(removals[k]) == 0 {
		return
	}
	var ids []uint32
	s.topics[k].has.each(func(id uint32) bool {
		if s.get(k, id) == nil {
			ids = append(ids, id)
			s.topics[k].moved.put(id, k == scope)
		}
		return true
	})
	s.depart(now, k, ids)
}

// resume takes the first request of a type. A client that reconnects asks for
// one type after the other: until it asked for all that may use a resource,
// it is not known what does.
func (s *Session) resume(now time.Time, r Request) {
	if len(r.Initial) > 0 && s.resumed.IsZero() {
		s.resumed = now
	}
	for i := range s.topics {
		for _, d := range s.topics[i].departures {
			if d.settle {
				d.at = now.Add(s.limits.Grace)
			}
		}
	}
}

// unsettled tells whether types are still to be asked for that may use
// resources of type k.
func (s *Session) unsettled(now time.Time, k kind) bool {
	if s.resumed.IsZero() || !now.Before(s.resumed.Add(s.limits.Resume)) {
		return false
	}
	for _, user := range removals[k] {
		if !s.topics[user].asked {
			return true
		}
	}
	return false
}

// raiseBarrier adds what the client may still use now to a barrier.
func (s *Session) raiseBarrier(now time.Time, k kind, d *departure) {
	for _, user := range removals[k] {
		ids := s.users(user, d)
		d.barrier[user].add(&ids)
	}
	d.seq = s.nonces
	if !d.closed() {
		s.close(now, k, d)
	}
}

func (d *departure) closed() bool {
	for k := range d.barrier {
		if d.barrier[k].any() {
			return true
		}
	}
	return false
}

// pending returns the ids of which the client may hold a content that is not
// the current one.
func (s *Session) pending(k kind) bitset {
	t, out := &s.topics[k], s.underWay(k)
	t.held.each(t.had(&out))
	for id := range s.content.rollout.by[k] {
		if s.refused(k, id, s.get(k, id)) {
			t.had(&out)(id)
		}
	}
	for id := range t.leaving {
		t.had(&out)(id)
	}
	for id := range t.quarantine {
		t.had(&out)(id)
	}
	return out
}

func (s *Session) anyPending(k kind) bool {
	ids := s.pending(k)
	return ids.any()
}

// underWay returns those of pending that are to be sent, or are on their way.
func (s *Session) underWay(k kind) (out bitset) {
	t := &s.topics[k]
	t.dirty.each(t.had(&out))
	t.waiting.each(t.had(&out))
	for id := range t.gated {
		t.had(&out)(id)
	}
	for id := range t.unknown {
		out.set(id)
	}
	if t.flight != nil {
		for _, it := range t.flight.items {
			if !it.void {
				out.set(it.id)
			}
		}
	}
	return out
}

// had adds to a set what the client has some version of.
func (t *topic) had(to *bitset) func(uint32) bool {
	return func(id uint32) bool {
		if t.has.has(id) {
			to.set(id)
		}
		return true
	}
}

// settled takes an id off the barriers raised before response seq was sent:
// the client answered that response, or dropped the name.
func (s *Session) settled(now time.Time, k kind, id uint32, seq uint64) {
	for i := range s.topics {
		for _, d := range s.topics[i].departures {
			if seq > d.seq && d.barrier[k].clear(id) && !d.closed() {
				s.close(now, kind(i), d)
			}
		}
	}
}

// leave releases the removals whose wait is over.
func (s *Session) leave(now time.Time) {
	s.pass(now)
	for k := range s.topics {
		t := &s.topics[k]
		if len(t.departures) == 0 {
			continue
		}
		kept := t.departures[:0]
		for _, d := range t.departures {
			switch {
			case d.at.IsZero() || now.Before(d.at):
				kept = append(kept, d)
			case d.settle && s.unsettled(now, kind(k)):
				d.at = s.resumed.Add(s.limits.Resume)
				kept = append(kept, d)
			case d.settle:
				d.settle, d.at = false, time.Time{}
				s.raiseBarrier(now, kind(k), d)
				kept = append(kept, d)
			default:
				t.release(d)
			}
		}
		clear(t.departures[len(kept):])
		t.departures = kept
	}
}

func (t *topic) release(d *departure) {
	for _, id := range d.ids {
		if t.leaving[id] != d {
			continue // came back, or was unsubscribed
		}
		shed(&t.leaving, id)
		if t.released == nil {
			t.released = map[uint32]struct{}{}
		}
		t.released[id] = struct{}{}
		t.dirty.set(id)
	}
}
