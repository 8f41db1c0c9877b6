package app

import (
	"time"

	"github.com/spillway-dev/spillway/internal/cluster"
	"github.com/spillway-dev/spillway/internal/fleet"
	"github.com/spillway-dev/spillway/internal/inc"
	"github.com/spillway-dev/spillway/internal/model"
)

// spares has members read no more to which Services nothing refers, some time after the
// last that did. It belongs to the loop's goroutine.
type spares struct {
	members *cluster.Members // nil: everything is read
	now     func() time.Time
	uses    map[model.Service]int // backends and imports of it
	ends    deadlines[model.Service]
}

func newSpares(p *fleet.Program, now func() time.Time) *spares {
	s := &spares{now: now, uses: map[model.Service]int{}}
	p.Backends.Watch(func(changes []inc.Change[model.Backend, fleet.Backend]) {
		for _, c := range changes {
			s.count(c.Key.Service(), c.Old == nil, c.New == nil)
		}
	})
	p.Imports.Watch(func(changes []inc.Change[model.Service, fleet.Import]) {
		for _, c := range changes {
			s.count(c.Key, c.Old == nil, c.New == nil)
		}
	})
	return s
}

func (s *spares) count(of model.Service, came, went bool) {
	switch {
	case came == went:
		return
	case came:
		s.uses[of]++
		s.ends.drop(of)
		return
	}
	if s.uses[of]--; s.uses[of] == 0 {
		delete(s.uses, of)
		s.ends.set(of, s.now().Add(cluster.SpareAfter))
	}
}

// due returns writes that have Services be read no more, and when the next are.
func (s *spares) due(now time.Time) (writes []func(*inc.Tx), next time.Time) {
	var over []model.Service
	for of, ok := s.ends.pop(now); ok; of, ok = s.ends.pop(now) {
		over = append(over, of)
	}
	if len(over) > 0 && s.members != nil {
		writes = append(writes, func(*inc.Tx) { s.spare(over) })
	}
	return writes, s.ends.next()
}

// listed says that what API servers have is in the tables as of the next commit.
func (s *spares) listed(put func(key any, write func(*inc.Tx))) {
	type limitKey struct{}
	if s.members != nil {
		put(limitKey{}, func(*inc.Tx) { s.members.Limit() })
	}
}

func (s *spares) spare(over []model.Service) {
	for _, of := range over {
		if s.uses[of] == 0 && !s.members.Spare(of) {
			s.ends.set(of, s.now().Add(cluster.SpareAfter))
		}
	}
	s.members.Sweep()
}
