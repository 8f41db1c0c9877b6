package app

import (
	"time"

	"github.com/spillway-dev/spillway/internal/cluster"
	"github.com/spillway-dev/spillway/internal/fleet"
	"github.com/spillway-dev/spillway/internal/inc"
	"github.com/spillway-dev/spillway/internal/leaf"
	"github.com/spillway-dev/spillway/internal/model"
)

// spares has what nothing refers to read no more: Services by members, and Secrets of the
// hub. It belongs to the loop's goroutine.
type spares struct {
	members  *cluster.Members // nil: everything is read
	hub      *cluster.Hub
	leaf     *leaf.Tables
	services spared[model.Service]
	secrets  spared[model.SecretID]
}

func newSpares(p *fleet.Program, t *leaf.Tables, now func() time.Time) *spares {
	s := &spares{leaf: t, services: newSpared[model.Service](now), secrets: newSpared[model.SecretID](now)}
	p.Backends.Watch(func(changes []inc.Change[model.Backend, fleet.Backend]) {
		for _, c := range changes {
			s.services.count(c.Key.Service(), c.Old == nil, c.New == nil)
		}
	})
	p.Imports.Watch(func(changes []inc.Change[model.Service, fleet.Import]) {
		for _, c := range changes {
			s.services.count(c.Key, c.Old == nil, c.New == nil)
		}
	})
	t.Secrets.Watch(func(changes []inc.Change[model.SecretID, model.There]) {
		var came []model.SecretID
		for _, c := range changes {
			if s.secrets.count(c.Key, c.Old == nil, c.New == nil); c.Old == nil && c.New != nil {
				came = append(came, c.Key)
			}
		}
		if s.hub != nil {
			s.hub.ReadSecrets(came) // most are read already, since the object waited for them
		}
	})
	return s
}

// due returns writes that have something be read no more, and when the next are.
func (s *spares) due(now time.Time) (writes []func(*inc.Tx), next time.Time) {
	services, secrets := s.services.due(now), s.secrets.due(now)
	if len(services) > 0 && s.members != nil {
		writes = append(writes, func(*inc.Tx) {
			s.services.spare(services, s.members.Spare)
			s.members.Sweep()
		})
	}
	if len(secrets) > 0 && s.hub != nil {
		writes = append(writes, func(*inc.Tx) { s.secrets.spare(secrets, s.hub.SpareSecret) })
	}
	return writes, sooner(s.services.ends.next(), s.secrets.ends.next())
}

// listed says that what API servers have is in the tables as of the next commit.
func (s *spares) listed(put func(key any, write func(*inc.Tx))) {
	type limitKey struct{}
	if s.members == nil {
		return
	}
	put(limitKey{}, func(*inc.Tx) {
		s.members.Limit()
		s.hub.LimitSecrets(s.leaf.Secrets.Keys())
	})
}

// spared is what has been read, and is to be no more some time after the last that
// referred to it.
type spared[T comparable] struct {
	now  func() time.Time
	uses map[T]int
	ends deadlines[T]
}

func newSpared[T comparable](now func() time.Time) spared[T] {
	return spared[T]{now: now, uses: map[T]int{}}
}

func (s *spared[T]) count(of T, came, went bool) {
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

// due returns what has been over for long enough.
func (s *spared[T]) due(now time.Time) (over []T) {
	for of, ok := s.ends.pop(now); ok; of, ok = s.ends.pop(now) {
		over = append(over, of)
	}
	return over
}

// spare has some be read no more, unless something refers to them again, or is about to.
func (s *spared[T]) spare(over []T, drop func(T) bool) {
	for _, of := range over {
		if s.uses[of] == 0 && !drop(of) {
			s.ends.set(of, s.now().Add(cluster.SpareAfter))
		}
	}
}
