package app

import (
	"slices"
	"time"

	"github.com/spillway-dev/spillway/internal/fleet"
	"github.com/spillway-dev/spillway/internal/inc"
	"github.com/spillway-dev/spillway/internal/model"
)

// kept ends the holds of members whose Service is gone, when their time has come. It
// belongs to the loop's goroutine.
type kept struct {
	p      *fleet.Program
	now    func() time.Time
	listed func() bool // is it known what members have now? No hold ends before
	ends   deadlines[fleet.GroupID]
}

func newKept(p *fleet.Program, now func() time.Time, listed func() bool) *kept {
	k := &kept{p: p, now: now, listed: listed}
	p.Kept.Watch(func(changes []inc.Change[model.Backend, fleet.Kept]) {
		for _, c := range changes {
			k.changed(c)
		}
	})
	return k
}

// changed has the deadlines of a backend's members follow what is said of them.
func (k *kept) changed(c inc.Change[model.Backend, fleet.Kept]) {
	was, is := new(fleet.Kept), new(fleet.Kept)
	if c.Old != nil {
		was = c.Old
	}
	if c.New != nil {
		is = c.New
	}
	for _, m := range was.Held {
		if !slices.Contains(is.Held, m) {
			k.ends.drop(fleet.GroupID{Backend: c.Key, Member: m})
		}
	}
	for _, m := range is.Held {
		id := fleet.GroupID{Backend: c.Key, Member: m}
		place, _ := is.Places.Find(m)
		if place.Since == 0 || place.Over {
			k.ends.drop(id)
			continue
		}
		// A clock that was set back holds nobody for longer than it would be from now.
		k.ends.set(id, time.UnixMilli(min(place.Since, k.now().UnixMilli())).Add(is.Hold))
	}
}

// adopt forgets who had places of backends that are gone, as after a process that ended
// before it could.
func (k *kept) adopt(tx *inc.Tx) {
	for _, b := range k.p.In.Kept.Keys() {
		if _, ok := k.p.Kept.Get(nil, b); !ok {
			k.p.In.Kept.Delete(tx, b)
		}
	}
}

// due returns writes that end what is over, and when the next one is.
func (k *kept) due(now time.Time) (writes []func(*inc.Tx), next time.Time) {
	if !k.listed() {
		return nil, time.Time{}
	}
	for id, ok := k.ends.pop(now); ok; id, ok = k.ends.pop(now) {
		writes = append(writes, func(tx *inc.Tx) {
			k.p.In.Kept.Edit(tx, id.Backend, func(was model.Kept, ok bool) (model.Kept, bool) { return was.Ended(id.Member), ok })
		})
	}
	return writes, k.ends.next()
}
