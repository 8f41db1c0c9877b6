package xds

import (
	"iter"
	"slices"
	"time"

	"github.com/spillway-dev/spillway/internal/model"
)

// Aliases say what a view has for names that it does not publish, out of those
// that it does: it is published once, under a pattern, and sent under each name
// that a client subscribes to. What a name has follows from the rows of the view
// and from nothing else, whoever asked for it before. The functions are pure and
// fast.
//
// It is decided here, and not by the loop with all else, because anybody who can
// open a connection to a proxy can make it ask for names: they cost the stream
// of that proxy, and no commit.
type Aliases struct {
	Type TypeURL
	// For names the published resources that answer for a name, best first, and
	// Covers tells whether one of them is this.
	For    func(name string) iter.Seq[string]
	Covers func(published, name string) bool
	// Body is that of a published resource under another name.
	Body func(body []byte, name string) []byte
	// Limit is how many names that the view does not publish a stream has at a
	// time: 4,096 if 0. For one more its oldest is withdrawn; a client that needs
	// that still asks again. So whoever makes a client ask for names can't make it
	// or us hold more, and takes nothing from other clients.
	Limit int
}

const aliasLimit = 4096

// Alias gives the store's views aliases. It is called before any view is used.
func (s *Store) Alias(a Aliases) {
	if a.Limit == 0 {
		a.Limit = aliasLimit
	}
	s.aliases = &a
}

// aliases is what a catalog knows of names that it does not publish and that
// sessions have.
type aliases struct {
	*Aliases // nil: there are none
	kind     kind
	users    map[uint32]int       // how many sessions have a name
	rows     map[uint32]*resource // what there is for these, if it is not published
}

func newAliases(a *Aliases) aliases {
	if a == nil {
		return aliases{}
	}
	return aliases{Aliases: a, kind: kindOf[a.Type], users: map[uint32]int{}, rows: map[uint32]*resource{}}
}

// of tells whether names of a type may be aliases.
func (a *aliases) of(k kind) bool { return a.Aliases != nil && k == a.kind }

// get is the alias under a name.
func (a *aliases) get(k kind, id uint32) *resource {
	if !a.of(k) {
		return nil
	}
	return a.rows[id]
}

// use counts a session that has a name, and unuse that it has it no more. What
// was there for it alone is gone then.
func (c *catalog) use(id uint32) {
	if c.aliases.users[id]++; c.aliases.users[id] == 1 {
		c.realias(id)
	}
}

func (c *catalog) unuse(id uint32) {
	if c.aliases.users[id]--; c.aliases.users[id] > 0 {
		return
	}
	delete(c.aliases.users, id)
	delete(c.aliases.rows, id)
}

// realias puts what there is for a name now, unless that is published. It
// returns what there was.
func (c *catalog) realias(id uint32) (old *resource, changed bool) {
	k := c.aliases.kind
	if c.published(k, id) != nil {
		delete(c.aliases.rows, id)
		return nil, false
	}
	old = c.aliases.rows[id]
	name := c.name(k, id)
	var now *resource
	for from := range c.aliases.For(name) {
		if source := c.publishedUnder(k, from); source != nil {
			now = &resource{Resource: &Resource{Name: name, Version: source.Version}, ref: [1]rowID{nowhere}, far: &far{source: source.Resource}}
			break
		}
	}
	switch {
	case now == nil && old == nil, now != nil && old != nil && old.Version == now.Version:
		return old, false
	case now == nil:
		delete(c.aliases.rows, id)
	default:
		c.aliases.rows[id] = now
	}
	return old, true
}

func (c *catalog) publishedUnder(k kind, name string) *resource {
	if id, ok := c.find(k, name); ok {
		return c.published(k, id)
	}
	return nil
}

// manyChanges are so many that each name is looked at again, without asking for
// each of them whether it covers that.
const manyChanges = 8

// settleAliases is called when a commit changed these rows. It adds the aliases
// that change by it.
func (c *catalog) settleAliases(rows []marked) []marked {
	if len(c.aliases.users) == 0 {
		return rows
	}
	var changed []string
	for _, r := range rows {
		if c.aliases.of(r.row.kind) {
			changed = append(changed, c.name(r.row.kind, r.row.id))
		}
	}
	if len(changed) == 0 {
		return rows
	}
	var again []uint32
	for id := range c.aliases.users {
		name := c.name(c.aliases.kind, id)
		covers := func(published string) bool { return c.aliases.Covers(published, name) }
		if len(changed) > manyChanges || slices.ContainsFunc(changed, covers) {
			again = append(again, id)
		}
	}
	slices.Sort(again)
	for _, id := range again {
		if old, changed := c.realias(id); changed {
			rows = append(rows, marked{row: rowID{c.aliases.kind, id}, old: old})
		}
	}
	return rows
}

// rendered is a resource as it is sent.
func (c *catalog) rendered(res *resource) *Resource {
	source := res.source()
	if source == nil {
		return res.Resource
	}
	return &Resource{Name: res.Name, Version: res.Version, Body: model.Bytes(c.aliases.Body(source.Bytes(), res.Name))}
}

// unpublished are the names that a session subscribes to and that its view does
// not publish. It has each of them, or had to give it up for newer ones.
type unpublished struct {
	known   turns  // there is something for them
	unknown turns  // there is nothing: they take no room of those
	last    uint64 // turn
	givenUp bitset // until they are asked for again, or published
}

func (u *unpublished) has(id uint32) bool { return u.known.at[id]+u.unknown.at[id] > 0 }

// turns are names in the order in which they were asked for.
type turns struct {
	at    map[uint32]uint64
	order []turn // oldest first; may name some that are here no more
}

type turn struct {
	id uint32
	at uint64
}

func (t *turns) add(id uint32, at uint64) {
	if t.at == nil {
		t.at = map[uint32]uint64{}
	}
	t.at[id] = at
	t.order = append(t.order, turn{id, at})
}

func (t *turns) drop(id uint32) { delete(t.at, id) }

// beyond returns the oldest name if there are more than the limit.
func (t *turns) beyond(limit int) (id uint32, ok bool) {
	stale := func(x turn) bool { return t.at[x.id] != x.at }
	if len(t.order) > 2*limit {
		t.order = slices.DeleteFunc(t.order, stale)
	}
	if len(t.at) <= limit {
		return 0, false
	}
	at := slices.IndexFunc(t.order, func(x turn) bool { return !stale(x) })
	id, t.order = t.order[at].id, t.order[at+1:]
	return id, true
}

// get returns what there is for the client under a name: nothing if it gave that
// up, though others may have it.
func (s *Session) get(k kind, id uint32) *resource {
	res := s.content.get(k, id)
	if res != nil && res.source() != nil && s.unpublished.givenUp.has(id) {
		return nil
	}
	return res
}

// want takes a name that the client subscribes to, now or again, or of which it
// is news whether there is something. It tells whether it gave up another one
// for it.
func (s *Session) want(now time.Time, k kind, id uint32) bool {
	if !s.content.aliases.of(k) {
		return false
	}
	if res := s.content.get(k, id); res != nil && res.source() == nil {
		s.unwant(k, id)
		return false
	}
	u := &s.unpublished
	u.givenUp.clear(id)
	if !u.has(id) {
		s.content.use(id)
	}
	to, from := &u.known, &u.unknown
	if s.content.get(k, id) == nil {
		to, from = from, to
	}
	u.last++
	from.drop(id)
	to.add(id, u.last)
	oldest, over := to.beyond(s.content.aliases.Limit)
	return over && s.giveUp(now, k, oldest)
}

// unwant forgets a name: the client does not subscribe to it any more, or it is
// published.
func (s *Session) unwant(k kind, id uint32) {
	if !s.content.aliases.of(k) {
		return
	}
	u := &s.unpublished
	u.givenUp.clear(id)
	if u.has(id) {
		u.known.drop(id)
		u.unknown.drop(id)
		s.content.unuse(id)
	}
}

// giveUp gives a name up: to the client there is nothing under it. It tells
// whether there was something.
func (s *Session) giveUp(now time.Time, k kind, id uint32) bool {
	was := s.content.get(k, id)
	s.unwant(k, id)
	s.unpublished.givenUp.set(id)
	if was == nil {
		return false
	}
	m := marked{row: rowID{k, id}, old: was}
	m.note(s.get(k, id))
	return s.changed(now, m)
}

// withoutAliases takes the session out of those that have aliases, and returns
// what it has under each name of that type.
func (s *Session) withoutAliases() (out []marked) {
	k := s.content.aliases.kind
	if !s.content.aliases.of(k) {
		return nil
	}
	s.topics[k].sub.each(func(id uint32) bool {
		out = append(out, marked{row: rowID{k, id}, old: s.get(k, id)})
		return true
	})
	for _, m := range out {
		s.unwant(k, m.row.id)
	}
	return out
}

// realias gives it the aliases of another content in their place.
func (s *Session) realias(now time.Time, had []marked) {
	for _, m := range had {
		s.want(now, m.row.kind, m.row.id)
	}
	for _, m := range had {
		res := s.get(m.row.kind, m.row.id)
		if m.note(res); !m.same && (res != nil || m.was != "") {
			s.changed(now, m)
		}
	}
}

// unchanged tells whether a change of a row, of the type that has aliases, is none
// to the client, who gave that name up. If not, it has its place by what there is
// now; gaveUp says that another name lost it by that.
func (s *Session) unchanged(now time.Time, at rowID) (none, gaveUp bool) {
	res := s.content.get(at.kind, at.id)
	if s.unpublished.givenUp.has(at.id) && (res == nil || res.source() != nil) {
		return true, false
	}
	if _, known := s.unpublished.known.at[at.id]; known && res != nil && res.source() != nil {
		return false, false // another version
	}
	return false, s.want(now, at.kind, at.id)
}
