package app

import (
	"slices"
	"time"

	"github.com/spillway-dev/spillway/internal/cluster"
	"github.com/spillway-dev/spillway/internal/inc"
	"github.com/spillway-dev/spillway/internal/model"
)

// restore registers the rows that outlive the process and goes on from those of
// the last one, if there are any. What they came from counts as stale until it
// was read again. It runs before the loop. API servers are watched as soon as it
// is known what was read of them: lists come while the tables are computed.
func (s *server) restore(watch func()) {
	if s.state == nil {
		watch()
		return
	}
	facts := s.facts()
	for _, i := range slices.Concat(facts, s.feedback()) {
		if i.save != nil {
			i.save(s.state)
		}
	}
	at, _ := s.state.Found()
	if !s.state.Load() {
		watch()
		return
	}
	past := cluster.Past{}
	for _, i := range facts {
		if i.tell != nil {
			i.tell(s.state, past)
		}
	}
	s.source.Adopt(past)
	if s.spares.members != nil {
		s.spares.members.Remember(past)
	}
	s.members.Adopt(past, at)
	s.mail.Release()
	said := s.mail.Take() // of the past: it goes before what is read now, and is written down
	watch()
	s.state.Restore(s.graph)
	s.graph.Commit(func(tx *inc.Tx) {
		for _, write := range said {
			write(tx)
		}
	})
	s.members.Adopted()
	s.log.Info("went on from the checkpoint", "written", at.UTC().Format(time.RFC3339), "hosts", s.prog.Hosts.Len(), "members", s.prog.In.Members.Len())
	s.evidence.adopt(s.now())
	s.acks.adopt()
	s.graph.Commit(s.kept.adopt)
	s.graph.Commit(s.rollouts.adopt)
	s.graph.Commit(s.names.adopt)
	s.known = true
	s.unread.began()
	s.wake() // publish
}

// awaitLists has proxies wait until what API servers say now is committed.
func (s *server) awaitLists() {
	s.unlisted = true
	s.first = first{hub: func() bool { return s.source.State().Known }, members: s.members.Told, over: s.readLists, patience: firstPatience}
	if !s.known {
		s.mail.Hold()
		return
	}
	s.first.until, s.first.patience = s.now().Add(hubPatience), savedPatience
	type unlistedKey struct{}
	s.put(unlistedKey{}, func(tx *inc.Tx) { s.zones.Unlisted.Set(tx, model.All{}, model.There{}) })
}

// readLists has the lists committed, and then proxies come.
func (s *server) readLists() {
	if !s.known {
		s.mail.Release()
	}
	type listedKey struct{}
	// Bulk keeps its order, so every row of the lists is in the tables when this commit ends.
	s.mail.Put(cluster.Bulk, listedKey{}, func(tx *inc.Tx) {
		s.unlisted = false
		s.spares.listed(s.put)
		s.wake() // what could not end before may be over
		s.zones.Unlisted.Delete(tx, model.All{})
	})
}

// complete says that all kinds of the hub are known. It runs inside a commit.
func (s *server) complete(tx *inc.Tx) {
	if !s.known {
		s.known = true
		s.unread.await(tx, s.members.Wanted())
		s.unread.began()
	}
	s.leaves.listed = true
	if s.state != nil {
		s.state.Complete()
	}
}
