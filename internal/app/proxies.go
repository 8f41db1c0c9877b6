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

	views map[string]list                       // those that there are, by their ids in the store
	ids   map[model.View]string                 // of those
	after map[string]string                     // views that edges had before others, in this commit
	going map[string]bool                       // those that end with this commit; false: another one has its list by now
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

// list is what a view is made of, and the ids of that in the store.
type list struct {
	of    []model.Collection
	names []string
}

func newProxies(p *fleet.Program, t *envoy.Tables, gaps *gaps, store *xds.Store, reassign func()) *proxies {
	store.Alias(xds.Aliases{Type: xds.Secret, For: envoy.CertificateNames, Covers: envoy.CertificateCovers, Body: envoy.RenameSecret})
	store.Families(envoy.FamilyOf)
	x := &proxies{gaps: gaps, store: store, moved: reassign,
		views: map[string]list{}, ids: map[model.View]string{}, wants: map[string][]model.Collection{}, names: map[model.Collection]string{}, users: map[model.Collection]int{}, left: map[model.Collection]bool{},
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
	x.next, x.after, x.going = xds.Commit{}, map[string]string{}, map[string]bool{}
	x.anew, x.dirty, x.rows = map[model.Collection]bool{}, map[model.Collection]bool{}, map[model.Collection][]xds.Change{}
}

// edges notes which views edges have.
func (x *proxies) edges(changes []inc.Change[model.Edge, fleet.View]) {
	for _, c := range changes {
		now := xds.EdgeOf{Edge: string(c.Key)}
		if c.New != nil {
			now.View = x.id(c.New.Key)
			if c.Old != nil {
				x.after[now.View] = x.id(c.Old.Key)
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
		if c.New == nil {
			x.going[x.id(c.Key)] = true
		}
	}
	for _, c := range changes {
		if c.New != nil {
			x.define(x.id(c.Key), *c.New)
		}
	}
	for _, c := range changes {
		if c.New == nil {
			delete(x.wants, x.id(c.Key))
			x.has(x.id(c.Key), nil)
			delete(x.ids, c.Key)
		}
	}
}

// id is that of a view in the store: long, where there are many classes.
func (x *proxies) id(v model.View) string {
	s, ok := x.ids[v]
	if !ok {
		s = v.String()
		x.ids[v] = s
	}
	return s
}

// define says what a view is made of. A listener that changes its table waits
// until the table has all hosts: proxies keep the old one.
func (x *proxies) define(id string, want []model.Collection) {
	delete(x.wants, id)
	now, ok := x.views[id]
	if !ok {
		now = x.views[x.after[id]]
	}
	if len(now.of) > 0 && x.lacks(want) {
		old, _ := split(now.of)
		if sockets, rest := split(want); !slices.Equal(old, sockets) {
			x.wants[id] = want
			want = slices.Concat(old, rest)
		}
	}
	x.has(id, want)
}

// lacks tells whether a front of a list has not got all its hosts.
func (x *proxies) lacks(list []model.Collection) bool {
	return len(x.gaps.open) > 0 && slices.ContainsFunc(list, func(c model.Collection) bool { return x.gaps.open[c] && c.Kind() == model.Front })
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
			if !slices.Contains(x.views[id].of, c) {
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

// has says what a view is made of; nothing: it is gone. It costs what differs from
// what it was made of before, or from a view that goes and that it comes after.
func (x *proxies) has(id string, of []model.Collection) {
	was, had := x.views[id]
	if own, ends := x.going[id]; ends && !own {
		was = list{}
	}
	if before := x.after[id]; !had && x.going[before] {
		was = x.views[before]
		x.going[before] = false
	}
	head, tail := alike(was.of, of)
	now := list{of, make([]string, len(of))}
	copy(now.names, was.names[:head])
	copy(now.names[len(of)-tail:], was.names[len(was.names)-tail:])
	for i := head; i < len(of)-tail; i++ {
		now.names[i] = x.name(of[i])
		if x.users[of[i]]++; x.users[of[i]] == 1 {
			x.come(of[i])
		}
	}
	for _, c := range was.of[head : len(was.of)-tail] {
		if x.users[c]--; x.users[c] == 0 {
			x.leave(c)
		}
	}
	if x.views[id] = now; of == nil {
		delete(x.views, id)
	}
	x.next.Views = append(x.next.Views, xds.ViewOf{ID: id, Collections: now.names})
}

// alike is how much two lists have in common where they begin and where they end.
func alike(a, b []model.Collection) (head, tail int) {
	least := min(len(a), len(b))
	for head < least && a[head] == b[head] {
		head++
	}
	for head+tail < least && a[len(a)-tail-1] == b[len(b)-tail-1] {
		tail++
	}
	return head, tail
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
