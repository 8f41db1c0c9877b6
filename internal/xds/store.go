package xds

import (
	"cmp"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// Store holds the views. Its methods may be called from any goroutine and
// never wait for a client.
type Store struct {
	mu    sync.Mutex
	views map[string]*view
	seq   uint64
	now   func() time.Time

	few     int      // changes of one publish go before others that wait if they are not more
	aliases *Aliases // nil: there are none
	family  func(name string) string
}

// view is a catalog, its lock and the streams that follow it.
type view struct {
	id  string
	seq uint64 // order in which two views are locked
	few int    // as the store's

	mu        sync.Mutex
	content   catalog
	published bool // until then nothing is known to be absent
	held      func(TypeURL, string) bool
	members   []*member
}

// member is a session that follows a view.
type member struct {
	session *Session
	view    atomic.Pointer[view] // changed by its own stream only
	place   int                  // in view.members
	wake    func()               // has its stream look at the session; never waits
}

// fewChanges is what a publish of an edit or an endpoint does not exceed, unlike
// a portion of something large.
const fewChanges = 64

// NewStore returns a store without views.
func NewStore() *Store {
	return &Store{views: map[string]*view{}, now: time.Now, few: fewChanges}
}

// Families says how the family of a cluster or an assignment is found in its
// name (see Resource.Family). It must be pure, and given before the first view.
func (s *Store) Families(of func(name string) string) { s.family = of }

// view returns a view, and makes it if there is none. A view that was never
// published is held for everything.
func (s *Store) view(id string) *view {
	s.mu.Lock()
	defer s.mu.Unlock()
	v, ok := s.views[id]
	if !ok {
		s.seq++
		v = &view{id: id, seq: s.seq, few: s.few}
		v.content.held, v.content.family, v.content.aliases = v.isHeld, s.family, newAliases(s.aliases)
		s.views[id] = v
	}
	return v
}

// isHeld is called with v.mu held.
func (v *view) isHeld(t TypeURL, name string) bool {
	return !v.published || v.held != nil && v.held(t, name)
}

// Publish applies changes to a view as one step, and makes the view if there
// is none. Together the changes must leave no resource of the view using one
// that it lacks, unless the user asked for just that. It costs O(changes) and
// a bit test per change and stream of the view; only streams that follow a
// changed resource are woken, and of a change on trial only the one that is
// asked first. It returns the view's generation, the number of
// its publishes.
func (s *Store) Publish(viewID string, changes []Change) uint64 {
	v := s.view(viewID)
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.publish(s.now(), changes, !v.published)
}

// PublishHeld publishes changes together with the names whose absence is not
// known: nothing with such a name is removed from a client or said to be
// absent, and with name "*" no empty answer is given for the type. held must
// be pure and fast; nil holds nothing. What was held before is looked at
// again. It is one step: no stream sees that a name is no longer held before
// it sees the resource of that name.
func (s *Store) PublishHeld(viewID string, changes []Change, held func(t TypeURL, name string) bool) uint64 {
	v := s.view(viewID)
	v.mu.Lock()
	defer v.mu.Unlock()
	again := !v.published || v.held != nil
	v.held = held
	return v.publish(s.now(), changes, again)
}

// publish applies changes and what follows from them. v.mu is held.
func (v *view) publish(now time.Time, changes []Change, again bool) uint64 {
	v.published = true
	v.content.generation++
	rows := v.put(changes)
	again = again || v.content.ended
	v.content.ended = false
	v.tell(now, v.content.settleAliases(rows), again)
	return v.content.generation
}

// marked is a row that changed and the version it had.
type marked struct {
	row rowID
	old string
}

// put applies changes and returns the rows that they changed.
func (v *view) put(changes []Change) []marked {
	rows := make([]marked, 0, len(changes))
	for _, ch := range changes {
		if row, old, changed := v.content.put(ch); changed {
			rows = append(rows, marked{row, old})
		}
	}
	return rows
}

// tell marks rows for the members that follow them; with again, what was held
// is looked at again.
func (v *view) tell(now time.Time, rows []marked, again bool) {
	v.content.rollout.publishing(now)
	for _, m := range v.members {
		wake := again && m.session.rehold()
		for _, r := range rows {
			wake = m.session.mark(now, r.row, r.old) || wake
			if len(rows) <= v.few {
				m.session.hurry(r.row)
			}
		}
		if wake {
			m.wake()
		}
	}
	v.wake()
	v.content.sweep()
}

// Remove deletes a view. Streams that follow it keep what they have until
// they are given another view or closed.
func (s *Store) Remove(viewID string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.views, viewID)
}

// Followed tells whether any stream follows a view.
func (s *Store) Followed(viewID string) bool {
	s.mu.Lock()
	v, ok := s.views[viewID]
	s.mu.Unlock()
	if !ok {
		return false
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	return len(v.members) > 0
}

// Views returns the ids of all views, sorted.
func (s *Store) Views() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	ids := make([]string, 0, len(s.views))
	for id := range s.views {
		ids = append(ids, id)
	}
	slices.Sort(ids)
	return ids
}

// Each calls f for the resources of a view, by type and name, on a copy.
func (s *Store) Each(viewID string, f func(TypeURL, *Resource)) {
	s.mu.Lock()
	v, ok := s.views[viewID]
	s.mu.Unlock()
	if !ok {
		return
	}
	for k := range kinds {
		v.mu.Lock()
		all := make([]*Resource, 0, v.content.tables[k].present)
		for _, r := range v.content.tables[k].rows {
			if r.res != nil {
				all = append(all, v.content.rendered(r.res))
			}
		}
		v.mu.Unlock()
		slices.SortFunc(all, func(a, b *Resource) int { return cmp.Compare(a.Name, b.Name) })
		for _, r := range all {
			f(k.url(), r)
		}
	}
}

// follow makes a member follow a view in place of the one it follows.
func (s *Store) follow(m *member, viewID string) {
	to := s.view(viewID)
	from := m.view.Load()
	if from == to {
		return
	}
	lockBoth(from, to)
	defer unlockBoth(from, to)
	if from != nil {
		from.expel(m)
	}
	m.session.Attach(s.now(), &to.content)
	m.place = len(to.members)
	to.members = append(to.members, m)
	m.view.Store(to)
	if from != nil {
		from.wake()
	}
	to.wake()
}

// leave ends a member. What it followed is given back in parts: a client that
// followed very much holds nobody up by going.
func (s *Store) leave(m *member) {
	v := m.view.Load()
	if v == nil {
		return
	}
	v.mu.Lock()
	v.expel(m)
	m.view.Store(nil)
	v.content.rollout.leave(s.now(), m.session)
	v.content.rollout.settle(s.now())
	v.wake()
	v.mu.Unlock()
	for more := true; more; {
		v.mu.Lock()
		more = m.session.vacate(namesAtOnce)
		v.mu.Unlock()
	}
}

func (v *view) expel(m *member) {
	last := len(v.members) - 1
	v.members[m.place] = v.members[last]
	v.members[m.place].place = m.place
	v.members[last] = nil
	v.members = v.members[:last]
}

// step runs f on the member's session under its view's lock.
func (m *member) step(f func(*Session)) {
	v := m.view.Load()
	v.mu.Lock()
	defer v.mu.Unlock()
	f(m.session)
	v.wake()
}

// wake has those look again to whom a step of another gave something to do.
func (v *view) wake() {
	if !v.content.rollout.stirred {
		return
	}
	v.content.rollout.stirred = false
	for _, m := range v.members {
		if m.session.place.woken {
			m.session.place.woken = false
			m.wake()
		}
	}
}

func lockBoth(a, b *view) {
	if a == nil {
		b.mu.Lock()
		return
	}
	if a.seq > b.seq {
		a, b = b, a
	}
	a.mu.Lock()
	b.mu.Lock()
}

func unlockBoth(a, b *view) {
	if a != nil {
		a.mu.Unlock()
	}
	b.mu.Unlock()
}
