package xds

import (
	"slices"
	"time"
)

// looksAtOnce is how many names one Ready looks at, of all types together, while
// others wait for the view: some 300 ns each.
const looksAtOnce = 8192

// Ready returns the responses to send now, at most one per type served, in
// the order in which they must be sent. [Session.More] tells whether to call it
// again.
func (s *Session) Ready(now time.Time) []Response {
	out := s.foreign
	s.foreign = nil
	s.room, s.more = s.looks, false
	s.content.rollout.expire(now)
	s.leave(now)
	for _, k := range gatedKinds {
		s.expireGates(now, k)
	}
	for _, k := range order {
		if slices.Contains(gatedKinds[:], k) {
			s.openGates()
		}
		if r, ok := s.build(now, k); ok {
			out = append(out, r)
		}
	}
	s.content.endStep(now)
	return out
}

// More tells whether the last Ready left something to the next one, so that it
// took no longer.
func (s *Session) More() bool { return s.more }

// full tells whether a response takes no more, or Ready looks at no more.
func (s *Session) full(k kind, b *batch, size int) bool {
	if s.whole(k) {
		return false
	}
	s.more = s.more || s.room <= 0
	return s.room <= 0 || b.size >= size
}

func (s *Session) expireGates(now time.Time, k kind) {
	t := &s.topics[k]
	if len(t.gated) == 0 {
		return
	}
	for id, since := range t.gated {
		if now.Sub(since) >= s.limits.GateTimeout {
			t.dirty.set(id)
		}
	}
}

// batch collects one response.
type batch struct {
	items     []item
	resources []*Resource
	urgent    int // how many of the resources
	removed   []string
	size      int
}

func (s *Session) build(now time.Time, k kind) (Response, bool) {
	t := &s.topics[k]
	if !t.asked || t.flight != nil || t.idle() || s.undecided(now, k) {
		return Response{}, false
	}
	b := batch{resources: s.content.parcels.gather}
	defer func() { s.content.parcels.gathered(b.resources) }()
	t.retried = len(t.retry) > 0 && !t.retried && s.again(now, k, &b)
	if !t.retried {
		s.fresh(now, k, &b)
		if len(b.items) == 0 && len(t.retry) > 0 {
			t.retried = s.again(now, k, &b)
			if !t.retried { // all of it changed meanwhile
				s.fresh(now, k, &b)
			}
		}
	}
	if len(b.items) == 0 && (!t.owed || s.more || t.waiting.any() || len(t.gated) > 0 || s.untold(k)) {
		return Response{}, false
	}
	t.owed = false
	r := Response{Type: k.url(), Nonce: s.nonce(), Removed: b.removed}
	r.Resources, r.parcels = s.content.parcels.pack(k, b.resources[:b.urgent], b.resources[b.urgent:])
	t.flight = &flight{nonce: r.Nonce, seq: s.nonces, at: now, items: b.items}
	for _, it := range b.items {
		s.content.ref(k, it.id)
	}
	t.responses++
	t.sentResources += uint64(len(b.resources))
	t.sentBytes += uint64(b.size)
	return r, true
}

// idle tells whether there is nothing to say.
func (t *topic) idle() bool { return !t.dirty.any() && !t.owed && len(t.retry) == 0 }

// fresh takes what changed: first what the client already has a version of,
// so that a change does not wait behind a bulk load; and of that first what
// changed with few others, so that it does not wait behind a bulk change.
//
// Where more changes than the client can take, nothing waits for ever: each of
// these three has a part of the response, and begins where its last one ended.
func (s *Session) fresh(now time.Time, k kind, b *batch) {
	t := &s.topics[k]
	limit := s.limits.responseBytes(k)
	var gone []uint32
	cut, rest := false, false
	look := func(q queue, size int) {
		last := t.next[q]
		t.dirty.eachFrom(last, t.queued(q), func(id uint32) bool {
			switch {
			case !t.dirty.has(id):
				return true
			case s.full(k, b, size) || rest && b.size >= limit/2 && id/pageIDs != last/pageIDs:
				t.next[q], cut = id, true
				return false
			}
			last = id
			t.first.clear(id)
			s.room--
			if s.consider(now, k, id, b) {
				gone = append(gone, id)
				t.dirty.clear(id)
			}
			return true
		})
	}
	look(urgent, limit/2)
	b.urgent = len(b.resources)
	look(changed, b.size+limit/4)
	look(added, b.size+limit/4)
	if cut { // to its part: others may have left some of theirs
		rest = true
		look(urgent, limit)
		look(changed, limit)
		look(added, limit)
	}
	if len(gone) > 0 {
		s.depart(now, k, gone)
	}
}

// queue is a part of what is dirty.
type queue int

const (
	urgent  queue = iota
	changed       // but with many others
	added         // the client has no version of it
	queues
)

// queued are the ids of a part, a bit each of those from 64*w on.
func (t *topic) queued(q queue) func(w uint32) uint64 {
	switch q {
	case urgent:
		return func(w uint32) uint64 { return t.first.word(w) & t.has.word(w) }
	case changed:
		return func(w uint32) uint64 { return t.has.word(w) &^ t.first.word(w) }
	}
	return func(w uint32) uint64 { return ^t.has.word(w) }
}

// pageIDs is how many ids the responses of a large change begin at multiples of,
// where these are neither too few nor too much for one: so streams that were sent
// other things meanwhile come back to the same ones. See parcel.
const pageIDs = 64

// consider decides on one dirty id. It returns true if the id is to be
// removed later.
func (s *Session) consider(now time.Time, k kind, id uint32, b *batch) bool {
	t := &s.topics[k]
	if _, doubt := t.unknown[id]; doubt {
		t.dirty.clear(id) // its retry carries what is current then
		return false
	}
	if res := s.get(k, id); res != nil {
		t.dirty.clear(id)
		if s.refused(k, id, res) {
			s.withhold(now, k, id, res, b)
			return false
		}
		_, other := t.staleVersion(id)
		if !t.needs(id, res) {
			if other && s.reports[k] { // it came back before the client was told to drop it: who forgot what was said hears it again
				s.verdict = append(s.verdict, Verdict{Type: k.url(), Name: s.content.name(k, id), Version: res.Version})
			}
			shed(&t.gated, id)
			t.sated(id)
			t.guess.put(id, res.Unsure())
			s.accept(k, id, res.Version)
			s.pardon(k, id, res.Version)
			s.settled(now, k, id, s.nonces+1)
			return false
		}
		if s.keeps(k, id, res) || s.early(k, id) {
			shed(&t.gated, id)
			t.held.set(id)
			return false
		}
		if !s.mustWait(now, k, id, res) {
			s.put(k, id, res, b)
		}
		return false
	}
	return s.considerAbsent(now, k, id, b)
}

func (s *Session) considerAbsent(now time.Time, k kind, id uint32, b *batch) bool {
	t := &s.topics[k]
	shed(&t.gated, id)
	if last := t.last[id]; last != nil {
		s.put(k, id, last, b) // looked at again when it is answered
		return false
	}
	name := s.content.name(k, id)
	if s.content.isHeld(k, name) {
		t.dirty.clear(id)
		shed(&t.leaving, id)
		shed(&t.released, id)
		t.held.set(id)
		return false
	}
	has := t.has.has(id)
	if !has && !t.sub.has(id) {
		s.drop(now, k, id)
		return false
	}
	_, released := t.released[id]
	if has && !released && s.staysAwhile(now, k, id) {
		return true
	}
	t.dirty.clear(id)
	t.sated(id)
	s.withdraw(k, id, b)
	return false
}

// needs tells whether a present resource that is not refused has to be sent.
func (t *topic) needs(id uint32, res *resource) bool {
	if !t.has.has(id) || t.force.has(id) {
		return true
	}
	old, stale := t.staleVersion(id)
	if stale && old == res.Version {
		t.unstale(id)
		return false
	}
	return stale
}

func (s *Session) put(k kind, id uint32, res *resource, b *batch) {
	t := &s.topics[k]
	shed(&t.gated, id)
	t.waiting.clear(id)
	t.dirty.clear(id) // it may be so again: a session that is asked first looks at all that waited
	t.guess.put(id, res.Unsure())
	b.items = append(b.items, item{id: id, version: res.Version, forced: t.sated(id)})
	sent := s.content.rendered(res)
	b.resources = append(b.resources, sent)
	b.size += len(sent.Name) + len(sent.Version) + sent.Size() + 16
	if k == cluster {
		s.follow(res)
	}
}

// follow makes the assignments of a cluster that is sent follow it: Envoy
// does not ask for those it is subscribed to already, and warms meanwhile. Until
// then it acknowledges no cluster at all, for as long as its initial fetch timeout;
// so what follows is there even if the view lacks it by then.
func (s *Session) follow(res *resource) {
	t := &s.topics[assignment]
	for _, r := range res.refs() {
		switch {
		case r.kind != assignment:
		case t.sub.has(r.id):
			t.force.set(r.id)
			t.dirty.set(r.id)
			t.keep(r.id, s.get(assignment, r.id))
		default: // on a new stream the client may say later that it has it
			s.hold(assignment, &t.follows, r.id)
		}
	}
}

// withdraw adds a removal. From now on the client may lack the resource.
// keep has a forced content sent even if there is none by then.
func (t *topic) keep(id uint32, res *resource) {
	if res == nil {
		return
	}
	if t.last == nil {
		t.last = map[uint32]*resource{}
	}
	t.last[id] = res
}

// sated: what was forced is sent, or not wanted any more. It tells whether
// something was.
func (t *topic) sated(id uint32) bool {
	shed(&t.last, id)
	return t.force.clear(id)
}

func (s *Session) withdraw(k kind, id uint32, b *batch) {
	t := &s.topics[k]
	if t.has.has(id) {
		t.setStale(id, "")
	}
	name := s.content.name(k, id)
	b.items = append(b.items, item{id: id})
	b.removed = append(b.removed, name)
	b.size += len(name) + 4
}

// again sends the next part of a rejected response.
func (s *Session) again(now time.Time, k kind, b *batch) bool {
	t := &s.topics[k]
	for len(t.retry) > 0 && len(b.items) == 0 {
		part := t.retry[0]
		t.retry = t.retry[1:]
		for _, id := range part.ids {
			if _, doubt := t.unknown[id]; !doubt {
				continue
			}
			s.retryOne(now, k, id, part.removals, b)
		}
	}
	if len(t.retry) == 0 {
		t.retry = nil
	}
	return len(b.items) > 0
}

func (s *Session) retryOne(now time.Time, k kind, id uint32, removal bool, b *batch) {
	t := &s.topics[k]
	res := s.get(k, id)
	switch {
	case res != nil && !removal && s.refused(k, id, res): // by another client, meanwhile
		s.suppose(k, id)
		t.dirty.set(id)
	case res != nil && !removal && s.mustWait(now, k, id, res): // it is not what was rejected, or another stream is asked now
		s.suppose(k, id)
		t.dirty.clear(id)
	case res != nil && !removal:
		t.dirty.clear(id)
		s.put(k, id, res, b)
	case res == nil && removal:
		t.dirty.clear(id)
		s.withdraw(k, id, b)
	default: // changed meanwhile
		s.suppose(k, id)
		t.dirty.set(id)
	}
}

// Deadline returns the next time at which Ready has something to decide
// without any other event; false if there is none.
func (s *Session) Deadline() (time.Time, bool) {
	var next time.Time
	sooner := func(t time.Time) {
		if next.IsZero() || t.Before(next) {
			next = t
		}
	}
	for k := range s.topics {
		t := &s.topics[k]
		switch {
		case t.flight != nil:
			sooner(t.flight.at.Add(s.limits.AckTimeout))
		case len(t.gated) > 0:
			for _, since := range t.gated {
				sooner(since.Add(s.limits.GateTimeout))
			}
		}
		for _, d := range t.departures {
			if !d.at.IsZero() {
				sooner(d.at)
			}
		}
	}
	if at, ok := s.content.rollout.deadline(s); ok {
		sooner(at)
	}
	return next, !next.IsZero()
}

// Overdue returns the type whose response has been unanswered for too long.
func (s *Session) Overdue(now time.Time) (TypeURL, bool) {
	for k := range s.topics {
		if f := s.topics[k].flight; f != nil && now.Sub(f.at) >= s.limits.AckTimeout {
			return kind(k).url(), true
		}
	}
	return "", false
}

// Quiet tells whether the client acknowledged everything it follows, apart
// from removals that wait and what it rejected.
func (s *Session) Quiet() bool {
	for k := range s.topics {
		t := &s.topics[k]
		if t.flight != nil || t.owed || len(t.gated) > 0 || len(t.retry) > 0 || t.dirty.any() || t.waiting.any() {
			return false
		}
	}
	return true
}

// Synced tells whether the client loaded its first state: it asked for
// listeners, which Envoy does when its clusters are ready, and is quiet.
func (s *Session) Synced() bool { return s.topics[listener].asked && s.Quiet() }
