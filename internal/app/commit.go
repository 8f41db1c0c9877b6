package app

import (
	"maps"
	"slices"

	"github.com/spillway-dev/spillway/internal/xds"
)

// commit is one step: no stream sees a part of it.
type commit struct {
	Contents []content // what changed in collections
	Views    []viewOf  // what views are made of
	Edges    []edgeOf  // which view an edge's proxies have from now on
}

// content is what changed in a collection.
type content struct {
	Collection string
	Changes    []xds.Change
	Held       func(xds.TypeURL, string) bool // whose absence says nothing, "*" for a type as a whole; nil: nobody's
	Gone       bool
}

// viewOf is the collections of a view; none: it is gone.
type viewOf struct {
	ID          string
	Collections []string
}

// edgeOf is the view of an edge; empty: it has none.
type edgeOf struct{ Edge, View string }

// unions gives each view of a store the union of its collections.
type unions struct {
	store *xds.Store
	moved func() // asks which view each edge has
	rows  map[string]map[xds.Ref]xds.Change
	held  map[string]func(xds.TypeURL, string) bool
	views map[string]*union
}

// union is a view. Until all its collections are whole for the first time it has
// no listeners: a proxy without any would answer 404 for hosts to come.
type union struct {
	of   []string
	open bool
}

func newUnions(store *xds.Store, moved func()) *unions {
	return &unions{store: store, moved: moved, rows: map[string]map[xds.Ref]xds.Change{},
		held: map[string]func(xds.TypeURL, string) bool{}, views: map[string]*union{}}
}

// commit publishes contents before edges move to them, and views go after they
// left.
func (u *unions) commit(c commit) {
	changed := map[string][]xds.Change{}
	for _, each := range c.Contents {
		changed[each.Collection] = each.Changes
		u.take(each)
	}
	var gone []string
	fresh := map[string]bool{}
	for _, v := range c.Views {
		if len(v.Collections) == 0 {
			gone = append(gone, v.ID)
			delete(u.views, v.ID)
			continue
		}
		u.views[v.ID], fresh[v.ID] = &union{of: v.Collections}, true
	}
	for _, id := range slices.Sorted(maps.Keys(u.views)) {
		view := u.views[id]
		touched := func(c string) bool { _, ok := changed[c]; return ok }
		if fresh[id] || slices.ContainsFunc(view.of, touched) {
			u.publish(id, view, changed, fresh[id])
		}
	}
	if len(c.Edges)+len(c.Views) > 0 {
		u.moved()
	}
	for _, id := range gone {
		u.store.Remove(id)
	}
}

func (u *unions) take(c content) {
	if c.Gone {
		delete(u.rows, c.Collection)
		delete(u.held, c.Collection)
		return
	}
	u.held[c.Collection] = c.Held
	if u.rows[c.Collection] == nil {
		u.rows[c.Collection] = map[xds.Ref]xds.Change{}
	}
	for _, ch := range c.Changes {
		ref := xds.Ref{Type: ch.Type, Name: ch.Name}
		if ch.Resource == nil {
			delete(u.rows[c.Collection], ref)
		} else {
			u.rows[c.Collection][ref] = ch
		}
	}
}

func (u *unions) publish(id string, view *union, changed map[string][]xds.Change, fresh bool) {
	var held []func(xds.TypeURL, string) bool
	partial := false
	for _, c := range view.of {
		if h := u.held[c]; h != nil {
			held = append(held, h)
			partial = partial || h(xds.Listener, "*")
		}
	}
	opens := !view.open && !partial
	view.open = view.open || opens
	var changes []xds.Change
	for _, c := range view.of {
		if !fresh {
			changes = append(changes, changed[c]...)
		}
		for ref, row := range u.rows[c] {
			if fresh || opens && ref.Type == xds.Listener {
				changes = append(changes, row)
			}
		}
	}
	if !view.open {
		changes = slices.DeleteFunc(changes, func(c xds.Change) bool { return c.Type == xds.Listener })
	}
	if len(held) == 0 {
		u.store.PublishHeld(id, changes, nil)
		return
	}
	u.store.PublishHeld(id, changes, func(t xds.TypeURL, name string) bool {
		return slices.ContainsFunc(held, func(h func(xds.TypeURL, string) bool) bool { return h(t, name) })
	})
}
