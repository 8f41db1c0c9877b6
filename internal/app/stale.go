package app

import (
	"time"

	"github.com/spillway-dev/spillway/internal/fleet"
	"github.com/spillway-dev/spillway/internal/inc"
	"github.com/spillway-dev/spillway/internal/model"
)

// stales times which members have been away for longer than their staleAfter. It
// belongs to the loop's goroutine.
type stales struct {
	p    *fleet.Program
	put  func(key any, write func(*inc.Tx)) // has a write done in the next commit
	ends deadlines[model.Member]
}

func newStales(p *fleet.Program, put func(key any, write func(*inc.Tx))) *stales {
	s := &stales{p: p, put: put}
	p.In.Members.Watch(func(changes []inc.Change[model.Member, model.MemberSpec]) {
		for _, c := range changes {
			s.look(c.Key)
		}
	})
	p.In.Sources.Watch(func(changes []inc.Change[model.Member, model.Source]) {
		for _, c := range changes {
			s.look(c.Key)
		}
	})
	return s
}

// look has a member's deadline follow what is said of it. One that is read again
// is as good as any in the next commit.
func (s *stales) look(m model.Member) {
	at, away := s.end(m)
	if away {
		s.ends.set(m, at)
		return
	}
	s.ends.drop(m)
	if _, stale := s.p.In.Stale.Get(nil, m); !stale {
		return
	}
	type freshKey struct{ member model.Member }
	s.put(freshKey{m}, func(tx *inc.Tx) {
		if _, away := s.end(m); !away {
			s.p.In.Stale.Delete(tx, m)
		}
	})
}

// end is when a member that is away has been so for too long.
func (s *stales) end(m model.Member) (at time.Time, away bool) {
	spec, _ := s.p.In.Members.Get(nil, m)
	source, _ := s.p.In.Sources.Get(nil, m)
	return time.Unix(source.StaleSince, 0).Add(spec.StaleAfter), spec.StaleAfter > 0 && source.StaleSince > 0
}

// due returns what follows from time alone, and when the next of it is.
func (s *stales) due(now time.Time) (writes []func(*inc.Tx), next time.Time) {
	for m, ok := s.ends.pop(now); ok; m, ok = s.ends.pop(now) {
		writes = append(writes, func(tx *inc.Tx) { s.p.In.Stale.Set(tx, m, model.There{}) })
	}
	return writes, s.ends.next()
}
