package app

import (
	"time"

	"github.com/spillway-dev/spillway/internal/fleet"
	"github.com/spillway-dev/spillway/internal/inc"
	"github.com/spillway-dev/spillway/internal/model"
	"github.com/spillway-dev/spillway/internal/zone"
)

// unreadFor is how long a proxy keeps what a member may be part of whose rows
// are missing, where others serve: their pods come and go meanwhile.
const unreadFor = 5 * time.Minute

// unread times what is done about members whose rows are missing. It belongs to
// the loop's goroutine.
type unread struct {
	p        *fleet.Program
	z        *zone.Tables
	now      func() time.Time
	put      func(key any, write func(*inc.Tx)) // has a write done in the next commit
	ends     deadlines[model.Member]
	starting time.Time // when the start is over for DNS; zero: it is, or has not begun
}

func newUnread(p *fleet.Program, z *zone.Tables, now func() time.Time, put func(key any, write func(*inc.Tx))) *unread {
	u := &unread{p: p, z: z, now: now, put: put}
	p.Missing.Watch(u.changed)
	type startKey struct{}
	put(startKey{}, func(tx *inc.Tx) { z.Starting.Set(tx, model.All{}, model.There{}) })
	return u
}

func (u *unread) changed(changes []inc.Change[model.Member, fleet.Missing]) {
	for _, c := range changes {
		switch {
		case c.New == nil:
			u.ends.drop(c.Key)
			u.forget(c.Key)
		case c.Old == nil:
			u.ends.set(c.Key, u.now().Add(unreadFor))
		}
	}
}

// forget drops what was noted of a member that was read, or is gone.
func (u *unread) forget(m model.Member) {
	type readKey struct{ member model.Member }
	u.put(readKey{m}, func(tx *inc.Tx) {
		if _, missing := u.p.Missing.Get(nil, m); missing {
			return // again, since
		}
		u.p.In.Awaited.Delete(tx, m)
		u.p.In.Overdue.Delete(tx, m)
	})
}

// await takes the members of a hub that was read without a checkpoint. Those
// whose status does not say that they were read may be new; or the hub was
// restored, without statuses. It runs inside the commit that makes their rows.
func (u *unread) await(tx *inc.Tx, all []model.Member) {
	for _, m := range all {
		if _, read := u.p.In.Sources.Get(nil, m); !read {
			u.p.In.Awaited.Set(tx, m, model.There{})
			u.forget(m) // if it was read meanwhile
		}
	}
}

// began says that the hub is known: from now on there are answers.
func (u *unread) began() { u.starting = u.now().Add(zone.StartingFor) }

// due returns what follows from time alone, and when the next of it is. What a
// member had that nobody remembers is no more expected when it is overdue.
func (u *unread) due(now time.Time) (writes []func(*inc.Tx), next time.Time) {
	for m, ok := u.ends.pop(now); ok; m, ok = u.ends.pop(now) {
		writes = append(writes, func(tx *inc.Tx) {
			u.p.In.Overdue.Set(tx, m, model.There{})
			u.p.In.Awaited.Delete(tx, m)
		})
	}
	next = u.ends.next()
	switch {
	case u.starting.IsZero():
	case now.Before(u.starting):
		next = sooner(next, u.starting)
	default:
		u.starting = time.Time{}
		writes = append(writes, func(tx *inc.Tx) { u.z.Starting.Delete(tx, model.All{}) })
	}
	return writes, next
}
