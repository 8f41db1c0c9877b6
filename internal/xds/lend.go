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
	order  []string       // oldest first
	looked map[string]int // how many of them look at a name, whether it is there or not
}

type loan struct{ source, version string }

// Lend makes the store's views lend. It is called before any view is used.
func (s *Store) Lend(l Lender) {
	if l.Limit == 0 {
		l.Limit = lendLimit
	}
	s.lender = &l
}

func newLoans(l *Lender) loans {
	if l == nil {
		return loans{}
	}
	return loans{lender: l, kind: kindOf[l.Type], of: map[string]loan{}, looked: map[string]int{}}
}

// take takes a part of the request that was put to a face, and tells whether
// there is more. The lock of m's view is held.
func (m *member) take(now time.Time, f face) (more bool, err error) {
	v, room := m.view.Load(), namesAtOnce
	if t := m.session.taking.Type; v.lender != nil && t == v.lender.Type {
		room = lentAtOnce
		v.demand(now, t, m.session.upcoming(room))
	}
	return f.Take(now, room)
}

// demand lends to the names that a client subscribes to, so that the first
// answer about them is what there is. v.mu is held.
func (v *view) demand(now time.Time, t TypeURL, names []string) {
	if v.lender == nil || t != v.lender.Type {
		return
	}
	var rows []marked
	for _, name := range names {
		if v.present(name) == nil {
			rows = v.lendTo(name, rows)
		}
	}
	v.tell(now, v.shrink(rows), false)
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

// lendTo puts what there is for a name, and adds the row if that is new.
func (v *view) lendTo(name string, rows []marked) []marked {
	old, lent := v.of[name]
	for from := range v.lender.For(name) {
		source := v.present(from)
		if _, itself := v.of[from]; source == nil || itself {
			continue
		}
		now := loan{from, source.Version}
		if now == old {
			return rows
		}
		if !lent {
			v.order = append(v.order, name)
			v.look(name, 1)
		}
		v.of[name] = now
		return v.put(rows, []Change{{v.lender.Type, name, v.lender.As(source.Resource, name)}})
	}
	if lent {
		v.end(name)
		rows = v.put(rows, []Change{{Type: v.lender.Type, Name: name}})
	}
	return rows
}

func (v *view) look(name string, by int) {
	for from := range v.lender.For(name) {
		if v.looked[from] += by; v.looked[from] == 0 {
			delete(v.looked, from)
		}
	}
}

// end forgets a loan but for its place in order.
func (v *view) end(name string) {
	if _, lent := v.of[name]; lent {
		delete(v.of, name)
		v.look(name, -1)
	}
}

// shrink withdraws the oldest names beyond the limit.
func (v *view) shrink(rows []marked) []marked {
	for len(v.order) > v.lender.Limit {
		rows = v.put(rows, []Change{{Type: v.lender.Type, Name: v.order[0]}})
		v.end(v.order[0])
		v.order = v.order[1:]
	}
	return rows
}

// settleLoans is called when a publish changed the content: what is published
// itself is not lent any more, what was lent follows its source, and names that
// somebody waits for or lost may have a source now. It adds the rows that change.
func (v *view) settleLoans(rows []marked, published []Change) []marked {
	ours := func(ch Change) bool { return ch.Type == v.lender.Type }
	if v.lender == nil || !slices.ContainsFunc(published, ours) {
		return rows
	}
	for _, ch := range published {
		if ours(ch) {
			v.end(ch.Name)
		}
	}
	if slices.ContainsFunc(published, func(ch Change) bool { return ours(ch) && v.looked[ch.Name] > 0 }) {
		for _, name := range v.order {
			if _, lent := v.of[name]; lent {
				rows = v.lendTo(name, rows)
			}
		}
	}
	if len(v.order) > len(v.of) {
		v.order = slices.DeleteFunc(v.order, func(name string) bool { _, lent := v.of[name]; return !lent })
	}
	if !slices.ContainsFunc(rows, v.comesOrGoes) { // what was there for a name is all there is
		return v.shrink(rows)
	}
	for _, r := range v.content.tables[v.kind].rows {
		if r.refs > 0 && r.res == nil {
			rows = v.lendTo(r.name, rows)
		}
	}
	return v.shrink(rows)
}

// comesOrGoes tells whether a resource that may be lent is new or gone.
func (v *view) comesOrGoes(m marked) bool {
	return m.row.kind == v.kind && (m.old == "" || v.content.get(m.row.kind, m.row.id) == nil)
}
