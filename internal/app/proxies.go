package app

import (
	"maps"
	"slices"

	"github.com/spillway-dev/spillway/internal/envoy"
	"github.com/spillway-dev/spillway/internal/fleet"
	"github.com/spillway-dev/spillway/internal/inc"
	"github.com/spillway-dev/spillway/internal/model"
	"github.com/spillway-dev/spillway/internal/xds"
)

// proxies carries changes of resources to the xDS store, collection by
// collection: of Envoy, and of gRPC clients. It belongs to the loop's goroutine.
//
// A held resource, one that Envoy would refuse, is not published: a proxy that
// has some version of it keeps that, and its name says nothing by being absent.
// Of a collection that is not whole no name does.
type proxies struct {
	types []envoy.Type
	gaps  *gaps
	store *xds.Store
	moved func() // asks which view each edge has

	views map[string][]model.Collection         // those that there are, by their ids in the store
	after map[string]string                     // views that edges had before others, in this commit
	wants map[string][]model.Collection         // what views will be made of, that still have old listeners
	names map[model.Collection]string           // of those that some view has
	users map[model.Collection]int              // views that have it
	left  map[model.Collection]bool             // nobody's any more; the tables may have some of it still
	held  map[model.Collection]map[xds.Ref]bool // resources
	parts map[model.Collection]bool             // not whole when last published
	next  xds.Commit                            // views and edges
	anew  map[model.Collection]bool             // to be published with all rows
	dirty map[model.Collection]bool             // to be published, even without changes
	rows  map[model.Collection][]xds.Change     // to be published
}

func newProxies(p *fleet.Program, t *envoy.Tables, gaps *gaps, store *xds.Store, reassign func()) *proxies {
	store.Alias(xds.Aliases{Type: xds.Secret, For: envoy.CertificateNames, Covers: envoy.CertificateCovers, Body: envoy.RenameSecret})
	store.Families(envoy.FamilyOf)
	x := &proxies{gaps: gaps, store: store, moved: reassign,
		views: map[string][]model.Collection{}, wants: map[string][]model.Collection{}, names: map[model.Collection]string{}, users: map[model.Collection]int{}, left: map[model.Collection]bool{},
		held: map[model.Collection]map[xds.Ref]bool{}, parts: map[model.Collection]bool{}}
	x.reset()
	p.Views.Watch(x.edges)
	p.Collections.Watch(x.defined)
	t.Clients.Views.Watch(x.clients)
	x.types = slices.Concat(t.Types(), slices.DeleteFunc(t.Clients.Types(), func(of envoy.Type) bool { return of.URL == envoy.AssignmentType }))
	for _, typ := range x.types {
		typ.Table.Watch(func(changes []inc.Change[envoy.Key, envoy.Resource]) { x.resources(xds.TypeURL(typ.URL), changes) })
	}
	return x
}

func (x *proxies) reset() {
	x.next, x.after = xds.Commit{}, map[string]string{}
	x.anew, x.dirty, x.rows = map[model.Collection]bool{}, map[model.Collection]bool{}, map[model.Collection][]xds.Change{}
}

// edges notes which views edges have.
func (x *proxies) edges(changes []inc.Change[model.Edge, fleet.View]) {
	for _, c := range changes {
		now := xds.EdgeOf{Edge: string(c.Key)}
		if c.New != nil {
			now.View = c.New.Key.String()
			if c.Old != nil {
				x.after[now.View] = c.Old.Key.String()
			}
		}
		x.next.Edges = append(x.next.Edges, now)
	}
}

// defined notes which views there are, and what they are made of. What comes goes
// before what is left, so that what both have stays.
func (x *proxies) defined(changes []inc.Change[model.View, inc.List[model.Collection]]) {
	x.gaps.look()
	for _, c := range changes {
		if c.New != nil {
			x.define(c.Key.String(), *c.New)
		}
	}
	for _, c := range changes {
		if c.New == nil {
			delete(x.wants, c.Key.String())
			x.has(c.Key.String(), nil)
		}
	}
}

// define says what a view is made of. A listener that changes its table waits
// until the table has all hosts: proxies keep the old one.
func (x *proxies) define(id string, want []model.Collection) {
	delete(x.wants, id)
	now := x.views[id]
	if now == nil {
		now = x.views[x.after[id]]
	}
	old, _ := split(now)
	if sockets, rest := split(want); len(now) > 0 && x.lacks(want) && !slices.Equal(old, sockets) {
		x.wants[id] = want
		want = slices.Concat(old, rest)
	}
	x.has(id, want)
}

// lacks tells whether a front of a list has not got all its hosts.
func (x *proxies) lacks(list []model.Collection) bool {
	return slices.ContainsFunc(list, func(c model.Collection) bool { return x.gaps.open[c] && c.Kind() == model.Front })
}

// split tells listeners from the rest of a list.
func split(list []model.Collection) (sockets, rest []model.Collection) {
	for _, c := range list {
		if c.Kind() == model.Sockets {
			sockets = append(sockets, c)
		} else {
			rest = append(rest, c)
		}
	}
	return sockets, rest
}

// relisten gives views their listeners that waited.
func (x *proxies) relisten() {
	for _, id := range slices.Sorted(maps.Keys(x.wants)) {
		want := x.wants[id]
		if x.lacks(want) {
			continue
		}
		for _, c := range want {
			if !slices.Contains(x.views[id], c) {
				x.anew[c] = true // what the tables have of it was not noted
			}
		}
		delete(x.wants, id)
		x.has(id, want)
	}
}

// clients does so for the views of gRPC clients.
func (x *proxies) clients(changes []inc.Change[model.View, model.There]) {
	for _, c := range changes {
		if c.New != nil {
			x.has(c.Key.String()+clientView, c.Key.ClientCollections())
		}
	}
	for _, c := range changes {
		if c.New == nil {
			x.has(c.Key.String()+clientView, nil)
		}
	}
}

// has says what a view is made of; nothing: it is gone.
func (x *proxies) has(id string, of []model.Collection) {
	view := xds.ViewOf{ID: id}
	for _, c := range of {
		view.Collections = append(view.Collections, x.name(c))
		if x.users[c]++; x.users[c] == 1 {
			x.come(c)
		}
	}
	for _, c := range x.views[id] {
		if x.users[c]--; x.users[c] == 0 {
			x.leave(c)
		}
	}
	if x.views[id] = of; of == nil {
		delete(x.views, id)
	}
	x.next.Views = append(x.next.Views, view)
}

// name is the id of a collection in the store. A view has many, most of them for
// long.
func (x *proxies) name(c model.Collection) string {
	if s, ok := x.names[c]; ok {
		return s
	}
	s := c.String()
	x.names[c] = s
	return s
}

// come publishes a collection, be it empty.
func (x *proxies) come(c model.Collection) {
	x.dirty[c] = true
	if x.left[c] {
		delete(x.left, c)
		x.anew[c] = true
	}
}

// leave removes one that nobody has. What the tables have of it goes later, and
// nobody is told.
func (x *proxies) leave(c model.Collection) {
	x.left[c] = true
	x.next.Contents = append(x.next.Contents, xds.Content{Collection: x.name(c), Gone: true})
	delete(x.names, c)
	delete(x.users, c)
	delete(x.held, c)
	delete(x.parts, c)
	delete(x.anew, c)
	delete(x.dirty, c)
	delete(x.rows, c)
}

func (x *proxies) resources(typ xds.TypeURL, changes []inc.Change[envoy.Key, envoy.Resource]) {
	for _, c := range changes {
		if x.users[c.Key.Collection] > 0 && !x.anew[c.Key.Collection] {
			x.note(typ, c.Key, c.New)
		}
	}
}

// note has a resource published, or nothing under its name.
func (x *proxies) note(typ xds.TypeURL, k envoy.Key, now *envoy.Resource) {
	ref := xds.Ref{Type: typ, Name: k.Name}
	x.dirty[k.Collection] = true
	if now != nil && now.Held() {
		if x.held[k.Collection] == nil {
			x.held[k.Collection] = map[xds.Ref]bool{}
		}
		x.held[k.Collection][ref] = true
		return
	}
	delete(x.held[k.Collection], ref)
	change := xds.Change{Type: typ, Name: k.Name}
	if now != nil {
		change.Resource = now.Resource
	}
	x.rows[k.Collection] = append(x.rows[k.Collection], change)
}

// reread notes all rows of collections that are wanted again before the tables
// were rid of them.
func (x *proxies) reread() {
	if len(x.anew) == 0 {
		return
	}
	for _, typ := range x.types {
		for _, k := range typ.Table.Keys() {
			if x.anew[k.Collection] {
				res, _ := typ.Table.Get(nil, k)
				x.note(xds.TypeURL(typ.URL), k, &res)
			}
		}
	}
}

// flush publishes what changed since the last flush.
func (x *proxies) flush() {
	x.gaps.look()
	if !x.gaps.wait {
		clear(x.left)
	}
	x.relisten()
	x.reread()
	if x.gaps.any() || len(x.parts) > 0 {
		for c := range x.users {
			if x.gaps.whole(c) == x.parts[c] {
				x.dirty[c] = true
			}
		}
	}
	step := x.next
	for _, c := range slices.SortedFunc(maps.Keys(x.dirty), model.Collection.Compare) {
		step.Contents = append(step.Contents, xds.Content{Collection: x.name(c), Changes: x.rows[c], Held: x.hold(c)})
	}
	x.reset()
	if len(step.Contents)+len(step.Views)+len(step.Edges) > 0 {
		x.store.Commit(step)
	}
	if len(step.Edges) > 0 {
		x.moved()
	}
}

// hold reports for which names of a collection absence says nothing.
func (x *proxies) hold(c model.Collection) func(xds.TypeURL, string) bool {
	if !x.gaps.whole(c) {
		x.parts[c] = true
		if c.Kind() == model.Sockets { // it lacks certificates: of hosts that says nothing
			return func(t xds.TypeURL, _ string) bool { return t == xds.Listener }
		}
		return func(xds.TypeURL, string) bool { return true }
	}
	delete(x.parts, c)
	names := maps.Clone(x.held[c])
	if len(names) == 0 {
		return nil
	}
	return func(t xds.TypeURL, name string) bool { return names[xds.Ref{Type: t, Name: name}] }
}
