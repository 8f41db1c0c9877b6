package xds

import (
	"slices"
	"time"
)

// quorum is how many must reject a version that nobody accepted before it is
// kept from those that were not asked: so many identities, or so many nodes of
// the identity of the one that it is kept from. A client has one certificate and
// as many node names as it likes, so it never decides for those that prove to be
// somebody else.
const quorum = 2

// refusals are what clients of a view rejected, in the current version. They
// count as long as nobody holds that version. One ends when its stream leaves
// the view, when the client wants the name no more or takes it after all, and
// with the version. It is told, as a [Verdict], when a second identity agrees or
// nobody is left to be asked.
//
// A client that rejected what another one accepted has no voice until it
// accepts something: it is asked last, and counts for nothing.
type refusals struct {
	by      [kinds]map[uint32][]refusal
	doubted [kinds]bitset // rejected in some version, and nobody accepted one since
	untold  [kinds]bitset // of by: with refusals that are not told
	lone    [kinds]bitset // of by: somebody holds it
	weigh   [kinds]bitset // of by: to be looked at in the next settle
}

type refusal struct {
	session *Session
	told    bool
}

// forget ends the refusals of a row.
func (r *refusals) forget(k kind, id uint32) {
	if r.by[k] == nil {
		return
	}
	shed(&r.by[k], id)
	for _, set := range []*bitset{&r.untold[k], &r.lone[k], &r.weigh[k]} {
		set.clear(id)
	}
}

// refuse: a client rejected the current version of a row.
func (r *rollout) refuse(s *Session, k kind, id uint32) {
	if slices.ContainsFunc(r.by[k][id], func(x refusal) bool { return x.session == s }) {
		return
	}
	if r.by[k] == nil {
		r.by[k] = map[uint32][]refusal{}
	}
	r.by[k][id] = append(r.by[k][id], refusal{session: s})
	if !r.untried[k].has(id) && r.isHeld(k, id) {
		r.lone[k].set(id)
		r.mute(s, k)
		s.say(k, id, true)
		return
	}
	r.count(k, id)
}

// count has the refusals of a row count.
func (r *rollout) count(k kind, id uint32) {
	if onTrial[k] {
		r.untried[k].set(id) // whoever accepted it is gone
	}
	r.lone[k].clear(id)
	r.doubted[k].set(id)
	r.untold[k].set(id)
	r.weigh[k].set(id)
	r.decided[k].set(id) // those that wait for the one that refused are asked now
	r.news = true
}

// isHeld tells whether some client holds the current version of a row.
func (r *rollout) isHeld(k kind, id uint32) bool {
	return slices.ContainsFunc(r.sessions, func(s *Session) bool {
		t, res := &s.topics[k], s.content.get(k, id)
		return t.current(id, res) && t.quarantine[id].version != res.Version
	})
}

// retract ends a client's refusal of a row.
func (r *rollout) retract(s *Session, k kind, id uint32) {
	list := r.by[k][id]
	i := slices.IndexFunc(list, func(x refusal) bool { return x.session == s })
	if i < 0 {
		return
	}
	if list = slices.Delete(list, i, i+1); len(list) == 0 {
		r.forget(k, id)
	} else {
		r.by[k][id] = list
	}
	r.again[k].set(id)
	r.news = true
}

// withdraw ends all refusals of a client that leaves. It may be the one whose
// answer others waited for, or that held what they refuse.
func (r *rollout) withdraw(s *Session) {
	for k := range s.topics {
		for id := range s.topics[k].quarantine {
			r.retract(s, kind(k), id)
		}
		for _, set := range []*bitset{&r.untold[k], &r.lone[k]} {
			r.weigh[k].add(set)
			r.news = r.news || set.any()
		}
	}
}

// dropped: a client that might have been asked for a row, or that held it,
// wants it no more.
func (r *rollout) dropped(k kind, id uint32) {
	if r.untold[k].has(id) || r.lone[k].has(id) {
		r.weigh[k].set(id)
		r.news = true
	}
}

// contradict ends what the refusals of a row count for, since a client accepted
// it, and the voices of those that refused it.
func (r *rollout) contradict(k kind, id uint32) {
	list := r.by[k][id]
	if len(list) == 0 || !r.lone[k].set(id) {
		return
	}
	r.untold[k].clear(id)
	r.weigh[k].clear(id)
	r.again[k].set(id)
	r.news = true
	for i, x := range list {
		list[i].told = false
		r.mute(x.session, k)
		x.session.say(k, id, true) // also if it was told: what it says may be read later than who accepts
	}
}

// mute takes the voice of a client that refused what another one accepted: what
// was kept from others by it is open again.
func (r *rollout) mute(s *Session, k kind) {
	if s.place.wrong || !onTrial[k] {
		return
	}
	s.place.wrong = true
	for k := range s.topics {
		for id := range s.topics[k].quarantine {
			if len(r.by[k][id]) >= quorum {
				r.again[k].set(id)
				r.news = true
			}
		}
	}
}

// bars tells whether the current version of a row is kept from a session that
// was not asked: enough others refused it, one of them of its Envoy version.
func (r *rollout) bars(s *Session, k kind, id uint32) bool {
	list := r.by[k][id]
	if !onTrial[k] || len(list) < quorum || r.lone[k].has(id) {
		return false
	}
	var identities, own voices
	for _, x := range list {
		c := &x.session.client
		if x.session.place.wrong {
			continue
		}
		same := c.Version == s.client.Version
		identities.add(Client{Identity: c.Identity}, same)
		if c.Identity == s.client.Identity {
			own.add(Client{Node: c.Node}, same)
		}
	}
	return identities.decide() || own.decide()
}

// voices are those of clients that refused, as far as their names differ.
type voices struct {
	first Client
	some  bool
	two   bool // at least: a quorum
	same  bool // one is of the Envoy version in question
}

func (v *voices) add(name Client, same bool) {
	v.two = v.two || v.some && name != v.first
	v.first, v.some, v.same = name, true, v.same || same
}

func (v *voices) decide() bool { return v.two && v.same }

// refused tells whether some client refuses what may use a secret.
func (r *refusals) refused() bool {
	return slices.ContainsFunc(removals[secret], func(k kind) bool { return len(r.by[k]) > 0 })
}

// agreed tells whether enough with a voice refused, as different as name makes
// them.
func agreed(list []refusal, name func(Client) Client) bool {
	var v voices
	for _, x := range list {
		if !x.session.place.wrong {
			v.add(name(x.session.client), true)
		}
	}
	return v.decide()
}

func identityOf(c Client) Client { return Client{Identity: c.Identity} }
func nodeOf(c Client) Client     { return Client{Identity: c.Identity, Node: c.Node} }

// judge tells the refusals that nobody is left to contradict, and has another
// one asked for the others. It is a part of settle.
func (r *rollout) judge(now time.Time) {
	for k := range r.weigh {
		r.weigh[k].each(func(id uint32) bool {
			if r.lone[k].has(id) {
				if r.isHeld(kind(k), id) {
					return true
				}
				r.count(kind(k), id)
			}
			list := r.by[k][id]
			if onTrial[k] && agreed(list, nodeOf) { // for some, if not for all
				r.lost = r.lost || kind(k) == cluster
				r.again[k].set(id) // what is on its way to the client stays so; what waits is kept from it
			}
			if onTrial[k] && !agreed(list, identityOf) && r.hopeful(kind(k), id) {
				r.second(now, kind(k), id)
			} else {
				r.tell(kind(k), id)
			}
			return true
		})
		r.weigh[k] = bitset{}
	}
}

// tell reports the refusals of a row.
func (r *rollout) tell(k kind, id uint32) {
	list := r.by[k][id]
	for i := range list {
		if !list[i].told {
			list[i].told = true
			list[i].session.say(k, id, false)
		}
	}
	r.untold[k].clear(id)
}

// hopeful tells whether somebody that it is not kept from may yet accept what
// others refused.
func (r *rollout) hopeful(k kind, id uint32) bool {
	return slices.ContainsFunc(r.sessions, func(s *Session) bool { return s.answersFor(k, id) && !r.bars(s, k, id) })
}

// second has somebody else asked for what the lead refused: of another identity
// than those that refused, if there is one. So many names cost no more than one.
func (r *rollout) second(now time.Time, k kind, id uint32) {
	if r.lead != nil && r.lead.answersFor(k, id) {
		return
	}
	waits := func(s *Session) bool { return s.topics[k].waiting.has(id) && s.answersFor(k, id) }
	s := r.pick(now, func(s *Session) bool { return waits(s) && !r.spoken(s.client.Identity, k, id) })
	if s == nil {
		s = r.pick(now, waits)
	}
	if s != nil {
		r.ask(now, s)
	}
}

// spoken tells whether an identity refused a row.
func (r *rollout) spoken(identity string, k kind, id uint32) bool {
	return slices.ContainsFunc(r.by[k][id], func(x refusal) bool { return x.session.client.Identity == identity })
}
