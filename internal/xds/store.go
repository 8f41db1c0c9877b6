package xds

import (
	"cmp"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// Store holds the collections and the sessions that follow them. Its methods may
// be called from any goroutine. Those that publish never wait for a client.
//
// A session takes each step holding the whole store, and none takes long: what a
// client asks for is taken in parts. What costs more is done beside it: gRPC and
// protobuf.
type Store struct {
	log log

	mu          sync.Mutex // see lock
	names       names
	parcels     parcels
	collections map[string]*collection
	views       map[string][]string // collections of each
	edges       map[string]string   // views of each
	groups      map[groupKey]*group
	outdated    bool // some of the groups may have other collections by now

	now     func() time.Time
	few     int      // changes of one publish go before others that wait if they are not more
	aliases *Aliases // nil: there are none
	family  func(name string) string
}

// member is a session that follows a view.
type member struct {
	store   *Store
	session *Session
	group   *group                 // nil: none; s.mu of its store is held
	view    atomic.Pointer[string] // of the group
	place   int                    // in group.members
	wake    func()                 // has its stream look at the session; never waits
}

// fewChanges is what a publish of an edit or an endpoint does not exceed, unlike
// a portion of something large.
const fewChanges = 64

// NewStore returns a store without content.
func NewStore() *Store {
	return &Store{collections: map[string]*collection{}, views: map[string][]string{}, edges: map[string]string{}, groups: map[groupKey]*group{},
		now: time.Now, few: fewChanges}
}

// Families says how the family of a cluster or an assignment is found in its
// name (see Resource.Family). It must be pure, and given before the first commit.
func (s *Store) Families(of func(name string) string) { s.family = of }

// Publish is a [Store.Commit] of one collection, which holds nothing.
func (s *Store) Publish(collection string, changes []Change) {
	s.PublishHeld(collection, changes, nil)
}

// PublishHeld is a [Store.Commit] of one collection.
func (s *Store) PublishHeld(collection string, changes []Change, held func(t TypeURL, name string) bool) {
	s.Commit(Commit{Contents: []Content{{Collection: collection, Changes: changes, Held: held}}})
}

// Remove is a [Store.Commit] by which a collection is gone.
func (s *Store) Remove(collection string) {
	s.Commit(Commit{Contents: []Content{{Collection: collection, Gone: true}}})
}

// ViewOf is the view that an edge has; empty: none.
func (s *Store) ViewOf(edge string) string {
	s.lock()
	defer s.unlock()
	return s.edges[edge]
}

// collection returns a collection, and makes it if there is none. One that was
// never published is held for everything.
func (s *Store) collection(id string) *collection {
	c, ok := s.collections[id]
	if !ok {
		c = &collection{id: id, names: &s.names, family: s.family}
		s.collections[id] = c
		s.outdated = true
	}
	return c
}

// commit makes one step. A commit costs its changes, for each group that has
// their collections; only streams that follow a changed resource are woken, and
// of a change on trial only the one that is asked first.
func (s *Store) commit(c Commit) {
	told := map[*group]*news{}
	var order []*group
	of := func(g *group) *news {
		if told[g] == nil {
			told[g] = new(news)
			order = append(order, g)
		}
		return told[g]
	}
	s.redefine(c.Views)
	s.assign(c.Edges)
	for _, content := range c.Contents {
		if content.Gone {
			s.remove(content.Collection)
			continue
		}
		s.put(content, of)
	}
	now := s.now()
	for _, g := range order {
		n := told[g]
		g.tell(now, n.rows(), n.again, s.few)
	}
	s.renew(now)
	s.names.sweep()
}

// news is what a commit is to a group.
type news struct {
	parts [][]marked // by collection
	again bool
}

// rows are all rows, each once, with what there was before the commit.
func (n *news) rows() []marked {
	if len(n.parts) < 2 {
		return slices.Concat(n.parts...)
	}
	seen := map[rowID]bool{}
	return slices.DeleteFunc(slices.Concat(n.parts...), func(m marked) bool {
		twice := seen[m.row]
		seen[m.row] = true
		return twice
	})
}

// put changes a collection, and tells what that is to the groups that have it.
func (s *Store) put(content Content, of func(*group) *news) {
	c := s.collection(content.Collection)
	again, open := !c.published || c.held != nil, c.open()
	c.published, c.held = true, content.Held
	c.generation++
	parts, leaves := make([][]marked, len(c.groups)), s.leaves(c)
	for _, ch := range content.Changes {
		row, was, changed := c.put(ch)
		for i, g := range c.groups {
			if changed {
				parts[i] = append(parts[i], marked{row: row, old: g.content.before(c, row, was), moved: leaves[i]})
			}
		}
	}
	for i, g := range c.groups {
		g.content.weighed = g.content.weighed && open == c.open()
		n := of(g)
		n.parts = append(n.parts, parts[i])
		n.again = n.again || again || c.ended
	}
	c.ended = false
}

// leaves tells which of its groups a collection leaves with this commit.
func (s *Store) leaves(c *collection) []bool {
	out := make([]bool, len(c.groups))
	for i, g := range c.groups {
		out[i] = s.outdated && !slices.Contains(s.listOf(g.key.view), c.id)
	}
	return out
}

func (s *Store) remove(id string) {
	c, ok := s.collections[id]
	if !ok {
		return
	}
	delete(s.collections, id)
	c.gone = true
	if len(c.groups) == 0 {
		c.release()
	}
}

// redefine has views be made of other collections.
func (s *Store) redefine(views []ViewOf) {
	for _, v := range views {
		if slices.Equal(s.views[v.ID], v.Collections) {
			continue
		}
		if s.views[v.ID] = v.Collections; len(v.Collections) == 0 {
			delete(s.views, v.ID)
		}
		s.outdated = true
	}
}

// assign gives edges their views. Streams of an edge go with it; whose stream
// asks again is told.
func (s *Store) assign(edges []EdgeOf) {
	for _, e := range edges {
		was := s.edges[e.Edge]
		if s.edges[e.Edge] = e.View; e.View == "" {
			delete(s.edges, e.Edge)
		}
		if g, ok := s.groups[groupKey{was, e.Edge}]; ok && e.View != "" && s.groups[groupKey{e.View, e.Edge}] == nil {
			s.rename(g, groupKey{e.View, e.Edge})
		}
	}
}

// rename has a group follow another view. It is remade by renew.
func (s *Store) rename(g *group, to groupKey) {
	if g.key == to {
		return
	}
	delete(s.groups, g.key)
	g.key = to
	s.groups[to] = g
	view := to.view // others read it without the lock
	for _, m := range g.members {
		m.view.Store(&view)
	}
	s.outdated = true
}

// renew gives the groups of a view what it is made of now: other collections, or
// one that is back.
func (s *Store) renew(now time.Time) {
	if !s.outdated {
		return
	}
	for _, g := range slices.SortedFunc(maps.Values(s.groups), compareGroups) {
		if s.isCurrent(g) {
			continue
		}
		old := g.content.list
		list := s.current(g)
		g.remake(now, list, s.few)
		for _, c := range without(old, list) {
			s.unused(c)
		}
	}
	s.outdated = false // collections that nobody published are no news
}

func compareGroups(a, b *group) int {
	return cmp.Or(cmp.Compare(a.key.view, b.key.view), cmp.Compare(a.key.name, b.key.name))
}

// isCurrent tells whether a group has the collections that its view is made of.
// What is gone, a view or one of these, has no successor yet.
func (s *Store) isCurrent(g *group) bool {
	implied := len(g.content.list) == 1 && g.content.list[0].id == g.key.view
	if _, defined := s.views[g.key.view]; !defined && !implied {
		return true
	}
	return slices.EqualFunc(g.content.list, s.listOf(g.key.view), func(c *collection, id string) bool {
		return c.id == id && (!c.gone || s.collections[id] == nil)
	})
}

// current is what the view of a group is made of. Most of it is where it was, from
// the beginning or from the end.
func (s *Store) current(g *group) []*collection {
	ids, old := s.listOf(g.key.view), g.content.list
	out := make([]*collection, len(ids))
	stays := func(at, was int) bool {
		c := old[was]
		if c.id != ids[at] || c.gone {
			return false
		}
		out[at] = c
		return true
	}
	head, tail, least := 0, 0, min(len(ids), len(old))
	for head < least && stays(head, head) {
		head++
	}
	for head+tail < least && stays(len(ids)-tail-1, len(old)-tail-1) {
		tail++
	}
	for i := head; i < len(ids)-tail; i++ {
		out[i] = s.collection(ids[i])
	}
	return out
}

// group returns the group of a view, and makes it if there is none.
func (s *Store) group(key groupKey) *group {
	if g, ok := s.groups[key]; ok {
		return g
	}
	g := &group{key: key}
	g.content.names, g.content.parcels, g.content.aliases = &s.names, &s.parcels, newAliases(s.aliases)
	for _, id := range s.listOf(key.view) {
		c := s.collection(id)
		c.groups = append(c.groups, g)
		g.content.list = append(g.content.list, c)
		g.content.rollout.begin(c)
	}
	s.groups[key] = g
	return g
}

func (s *Store) listOf(view string) []string {
	if list, ok := s.views[view]; ok {
		return list
	}
	return []string{view}
}

// abandon ends a group that has no member.
func (s *Store) abandon(g *group) {
	if s.groups[g.key] == g {
		delete(s.groups, g.key)
	}
	for _, c := range g.content.list {
		c.groups = slices.DeleteFunc(c.groups, func(other *group) bool { return other == g })
		s.unused(c)
	}
}

// unused ends a collection if no group has it and it is gone, or never came.
func (s *Store) unused(c *collection) {
	switch {
	case len(c.groups) > 0:
	case c.gone:
		c.release()
	case !c.published: // nobody but a group spoke of it
		delete(s.collections, c.id)
		c.gone = true
	}
}

// Views returns the ids of all views that were published, sorted.
func (s *Store) Views() []string {
	s.lock()
	defer s.unlock()
	part := map[string]bool{}
	for _, list := range s.views {
		for _, id := range list {
			part[id] = true
		}
	}
	out := slices.Collect(maps.Keys(s.views))
	for id := range s.collections {
		if !part[id] {
			out = append(out, id)
		}
	}
	slices.Sort(out)
	return out
}

// Each calls f for the resources of a view, by type and name, on a copy.
func (s *Store) Each(view string, f func(TypeURL, *Resource)) {
	for k := range kinds {
		for _, r := range s.resourcesOf(view, k) {
			f(k.url(), r)
		}
	}
}

// resourcesOf are the resources of a type, by name.
func (s *Store) resourcesOf(view string, k kind) []*Resource {
	s.lock()
	defer s.unlock()
	all := map[string]*Resource{}
	for _, id := range s.listOf(view) {
		if c, ok := s.collections[id]; ok {
			c.kinds[k].ids.each(func(id uint32) bool {
				res := c.get(k, id)
				all[res.Name] = res.Resource
				return true
			})
		}
	}
	return slices.SortedFunc(maps.Values(all), func(a, b *Resource) int { return cmp.Compare(a.Name, b.Name) })
}

// follow makes a member follow a view, in a group with others of its name, in
// place of what it follows.
func (s *Store) follow(m *member, view, name string) {
	s.lock()
	defer s.unlock()
	m.store = s
	s.move(s.now(), m, s.group(groupKey{view, name}))
}

// move puts a member into a group.
func (s *Store) move(now time.Time, m *member, to *group) {
	from := m.group
	if from == to {
		return
	}
	if from != nil {
		from.expel(m)
	}
	m.session.place.wake = m.wake
	m.session.Attach(now, &to.content)
	to.admit(m)
	if from != nil {
		from.wake()
		s.dissolve(from)
	}
	to.wake()
}

// dissolve ends a group if nobody is left.
func (s *Store) dissolve(g *group) {
	if len(g.members) == 0 {
		s.abandon(g)
	}
}

// leave ends a member. What it followed is given back in parts: a client that
// followed very much holds nobody up by going.
func (s *Store) leave(m *member) {
	g := s.depart(m)
	if g == nil {
		return
	}
	for more := true; more; {
		s.lock()
		more = m.session.vacate(namesAtOnce)
		if !more {
			s.dissolve(g)
		}
		s.unlock()
	}
}

// depart takes a member out of its group.
func (s *Store) depart(m *member) *group {
	s.lock()
	defer s.unlock()
	g := m.group
	if g == nil {
		return nil
	}
	g.expel(m)
	m.group = nil
	m.view.Store(nil)
	g.content.unseat(m.session)
	g.content.rollout.leave(s.now(), m.session)
	g.content.rollout.settle(s.now())
	g.wake()
	return g
}

func (g *group) admit(m *member) {
	m.group, m.place = g, len(g.members)
	view := g.key.view // others read it without the lock
	m.view.Store(&view)
	g.members = append(g.members, m)
}

func (g *group) expel(m *member) {
	last := len(g.members) - 1
	g.members[m.place] = g.members[last]
	g.members[m.place].place = m.place
	g.members[last] = nil
	g.members = g.members[:last]
}

// step runs f on the member's session. It has a group.
func (m *member) step(f func(*Session)) {
	m.store.lock()
	defer m.store.unlock()
	f(m.session)
	m.group.wake()
}
