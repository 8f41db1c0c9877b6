package xds

import (
	"iter"
	"slices"
	"time"
)

// Lender says what a view has for names that it does not publish, out of those
// that it does: it is published once, under a pattern, and lent to each name
// that a client subscribes to. Its functions are pure and fast.
type Lender struct {
	Type TypeURL
	// For names the published resources that answer for a name, best first.
	For func(name string) iter.Seq[string]
	// As returns a resource under another name.
	As func(r *Resource, name string) *Resource
	// Limit is how many names a view lends to at a time: 4,096 if 0. For one
	// more the oldest is withdrawn from the clients; one that needs it still
	// asks again. Whoever can make clients ask for names can't make us or them
	// hold more.
	Limit int
}

const lendLimit = 4096

// loans is what a view lends: to each name, of what and in which version.
type loans struct {
	lender *Lender // nil: nothing is lent
	kind   kind
	of     map[string]loan
	order  []string // oldest first
}

type loan struct{ source, version string }

// Lend makes the store's views lend. It is called before any view is used.
func (s *Store) Lend(l Lender) {
	if l.Limit == 0 {
		l.Limit = lendLimit
	}
	s.loans = loans{lender: &l, kind: kindOf[l.Type]}
}

// request takes a client's request. The lock of m's view is held.
func (m *member) request(now time.Time, r Request) error {
	m.view.Load().demand(now, r.Type, r.Subscribe)
	return m.session.Request(now, r)
}

// demand lends to the names that a client subscribes to, so that the first
// answer about them is what there is. v.mu is held.
func (v *view) demand(now time.Time, t TypeURL, names []string) {
	if v.lender == nil || t != v.lender.Type {
		return
	}
	var changes []Change
	for _, name := range names {
		if v.present(name) == nil {
			changes = v.lendTo(name, changes)
		}
	}
	v.tell(now, v.put(nil, v.shrink(changes)), false)
}

// demandAll lends to all names that a session asked for in another view.
func (v *view) demandAll(now time.Time, s *Session) {
	if v.lender == nil {
		return
	}
	var names []string
	s.topics[v.kind].sub.each(func(id uint32) bool {
		names = append(names, s.content.name(v.kind, id))
		return true
	})
	v.demand(now, v.lender.Type, names)
}

// present returns what the view has under a name, published or lent.
func (v *view) present(name string) *resource {
	if id, ok := v.content.tables[v.kind].ids[name]; ok {
		return v.content.get(v.kind, id)
	}
	return nil
}

// lendTo adds what there is for a name, if it is not what the view has already.
func (v *view) lendTo(name string, changes []Change) []Change {
	old, lent := v.of[name]
	for from := range v.lender.For(name) {
		source := v.present(from)
		if _, itself := v.of[from]; source == nil || itself {
			continue
		}
		now := loan{from, source.Version}
		if now == old {
			return changes
		}
		if !lent {
			v.order = append(v.order, name)
		}
		v.of[name] = now
		return append(changes, Change{v.lender.Type, name, v.lender.As(source.Resource, name)})
	}
	if lent {
		v.forget(name)
		changes = append(changes, Change{Type: v.lender.Type, Name: name})
	}
	return changes
}

func (v *view) forget(name string) {
	delete(v.of, name)
	v.order = slices.DeleteFunc(v.order, func(n string) bool { return n == name })
}

// shrink withdraws the oldest names beyond the limit.
func (v *view) shrink(changes []Change) []Change {
	for len(v.order) > v.lender.Limit {
		changes = append(changes, Change{Type: v.lender.Type, Name: v.order[0]})
		delete(v.of, v.order[0])
		v.order = v.order[1:]
	}
	return changes
}

// settleLoans is called when a publish changed the content: what is published
// itself is not lent any more, what was lent follows its source, and names that
// somebody waits for or lost may have a source now. It returns what follows.
func (v *view) settleLoans(published []Change) []Change {
	if v.lender == nil || !slices.ContainsFunc(published, func(ch Change) bool { return ch.Type == v.lender.Type }) {
		return nil
	}
	for _, ch := range published {
		if _, lent := v.of[ch.Name]; lent && ch.Type == v.lender.Type {
			v.forget(ch.Name)
		}
	}
	var changes []Change
	for _, name := range slices.Clone(v.order) {
		changes = v.lendTo(name, changes)
	}
	for _, r := range v.content.tables[v.kind].rows {
		if r.refs > 0 && r.res == nil {
			changes = v.lendTo(r.name, changes)
		}
	}
	return v.shrink(changes)
}
