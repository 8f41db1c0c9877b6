package xds

import (
	"slices"
	"time"
)

// retry is a part of a rejected response to be sent again.
type retry struct {
	ids      []uint32
	removals bool
}

// parts is into how many parts a rejected response is cut, again and again,
// until single resources are left: one culprit among n costs about
// parts*log(n) responses, and the rest goes on.
const parts = 8

// answer takes an ACK or NACK of the response in flight. Anything else, such
// as an answer from before, says nothing.
func (s *Session) answer(now time.Time, k kind, r Request) {
	t := &s.topics[k]
	f := t.flight
	if f == nil || f.nonce != r.Nonce {
		return
	}
	t.flight = nil
	s.content.rollout.heard(now, s, k, f.at)
	if r.Rejected {
		t.nacks++
		s.rejected(now, k, f, r.Error)
	} else {
		for _, it := range f.items {
			if !it.void {
				s.applied(now, k, f.seq, it)
			}
		}
	}
	for _, it := range f.items {
		s.content.unref(k, it.id)
	}
	if k == cluster || k == assignment || len(s.topics[listener].gated) > 0 {
		s.ungate()
	}
}

// applied records that the client has what an item carried.
func (s *Session) applied(now time.Time, k kind, seq uint64, it item) {
	t := &s.topics[k]
	id := it.id
	if k == listener && t.has.has(id) {
		s.replaced(now)
	}
	shed(&t.unknown, id)
	s.content.rollout.retract(s, k, id)
	if s.reports[k] {
		shed(&t.quarantine, id)
		s.verdict = append(s.verdict, Verdict{Type: k.url(), Name: s.content.name(k, id), Version: it.version})
	}
	res := s.get(k, id)
	if res == nil && it.version == "" || res != nil && res.Version == it.version {
		seq = s.nonces + 1 // it is current: whatever it used before it uses no more
		s.accept(k, id, it.version)
	}
	s.pardon(k, id, it.version)
	s.settled(now, k, id, seq)
	if it.version == "" {
		s.release(k, &t.has, id)
		t.unstale(id)
		t.moved.clear(id)
		shed(&t.released, id)
		if res != nil {
			t.dirty.set(id)
		} else if !t.sub.has(id) {
			s.drop(now, k, id)
		}
		return
	}
	if k == scope && !t.arrived(id) {
		s.bare.set(id)
	}
	s.hold(k, &t.has, id)
	s.place.wrong = s.place.wrong && !onTrial[k]
	if k == secret {
		s.reconsider(id)
	}
	if res != nil && res.Version == it.version {
		t.unstale(id)
		if !t.force.has(id) {
			t.dirty.clear(id)
		}
		return
	}
	t.setStale(id, it.version)
	t.dirty.set(id)
}

// rejected handles a NACK. Which resources of the response the client applied
// is not known (it depends on type, fault and order), so unless there is only
// one, they are sent again in parts.
func (s *Session) rejected(now time.Time, k kind, f *flight, said string) {
	t := &s.topics[k]
	longest := maxWords
	if len(t.quarantine) >= manyRefused {
		longest = fewWords
	}
	why := words(said, longest)
	if why == "" {
		why = "rejected without a reason"
	}
	var up, down []uint32
	for _, it := range f.items {
		if it.forced && !it.void {
			t.force.set(it.id) // whatever replaces it is needed as well
		}
		switch {
		case it.void:
		case len(f.items) > 1 && (s.get(k, it.id) == nil) != (it.version == ""): // changed meanwhile
			s.suppose(k, it.id)
			t.dirty.set(it.id)
		case it.version == "":
			t.doubt(it)
			down = append(down, it.id)
		default:
			t.doubt(it)
			up = append(up, it.id)
		}
	}
	switch {
	case len(down) == len(f.items): // a removal can't be wrong by itself: do not ask for ever
		for _, it := range f.items {
			s.applied(now, k, f.seq, it)
		}
		return
	case len(f.items) == 1 && len(up) == 1:
		s.quarantine(now, k, f.items[0], why)
		return
	}
	for part := range slices.Chunk(up, max(1, (len(up)+parts-1)/parts)) {
		t.retry = append(t.retry, retry{ids: slices.Clip(part)})
	}
	if len(down) > 0 {
		t.retry = append(t.retry, retry{ids: down, removals: true})
	}
}

// doubt records that the client may or may not have applied an item. Two
// doubted versions of one name are as good as any.
func (t *topic) doubt(it item) {
	if t.unknown == nil {
		t.unknown = map[uint32]string{}
	}
	version := it.version
	if v, doubted := t.unknown[it.id]; doubted && v != version {
		version = ""
	}
	t.unknown[it.id] = version
}

// quarantine keeps a version from being sent again. The client still has
// what it had before.
func (s *Session) quarantine(now time.Time, k kind, it item, words string) {
	t := &s.topics[k]
	if t.quarantine == nil {
		t.quarantine = map[uint32]quarantined{}
	}
	if v, doubted := t.unknown[it.id]; doubted && v != it.version {
		s.suppose(k, it.id)
	}
	shed(&t.unknown, it.id)
	t.quarantine[it.id] = quarantined{it.version, words}
	if !t.has.has(it.id) { // it has none, so uses nothing by it
		s.settled(now, k, it.id, s.nonces+1)
	}
	res := s.get(k, it.id)
	if res != nil && res.Version == it.version {
		s.content.rollout.refuse(s, k, it.id)
	} else {
		s.say(k, it.id, true)
	}
	switch {
	case res == nil && !t.has.has(it.id) && !t.sub.has(it.id):
		s.drop(now, k, it.id)
	case res == nil || res.Version != it.version:
		t.dirty.set(it.id)
	case t.has.has(it.id):
		if _, known := t.staleVersion(it.id); !known { // a forced copy of what it has was refused
			t.setStale(it.id, it.version)
		}
	}
}
