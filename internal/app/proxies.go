package app

import (
	"maps"
	"slices"
	"strings"

	"github.com/spillway-dev/spillway/internal/envoy"
	"github.com/spillway-dev/spillway/internal/fleet"
	"github.com/spillway-dev/spillway/internal/inc"
	"github.com/spillway-dev/spillway/internal/model"
	"github.com/spillway-dev/spillway/internal/xds"
)

// proxies carries changes of the resources of one kind of data plane to the xDS
// store, view by view: of Envoy, or of gRPC clients. It belongs to the loop's
// goroutine.
//
// A held resource, one made without rows that should be there, is not
// published: a proxy that has some version of it keeps that, and its name says
// nothing by being absent.
type proxies struct {
	id       func(model.View) string // of a view in the store
	store    *xds.Store
	reassign func() // asks which view each edge has

	pending map[model.View][]xds.Change
	touched map[model.View]bool // views to publish even without changes
	gone    map[model.View]bool // views that there are no more
	moved   bool                // some edge has another view
	held    map[model.View]map[xds.Ref]bool
	holds   map[model.View]bool
}

func newProxies(p *fleet.Program, t *envoy.Tables, store *xds.Store, reassign func()) *proxies {
	store.Lend(xds.Lender{Type: xds.Secret, For: envoy.CertificateNames, As: lent})
	x := carry(t.Types(), t.Holds, store, reassign, model.View.String)
	p.Views.Watch(func([]inc.Change[model.Edge, fleet.View]) { x.moved = true })
	p.Fills.Watch(x.views)
	return x
}

func carry(types []envoy.Type, holds *inc.Table[model.View, envoy.Hold], store *xds.Store, reassign func(), id func(model.View) string) *proxies {
	x := &proxies{id: id, store: store, reassign: reassign, held: map[model.View]map[xds.Ref]bool{}, holds: map[model.View]bool{}}
	x.reset()
	for _, typ := range types {
		typ.Table.Watch(func(changes []inc.Change[envoy.Key, envoy.Resource]) { x.resources(xds.TypeURL(typ.URL), changes) })
	}
	holds.Watch(func(changes []inc.Change[model.View, envoy.Hold]) {
		for _, c := range changes {
			x.holds[c.Key] = c.New != nil
			x.touched[c.Key] = true
		}
	})
	return x
}

func (x *proxies) reset() {
	x.pending, x.touched, x.gone, x.moved = map[model.View][]xds.Change{}, map[model.View]bool{}, map[model.View]bool{}, false
}

// views publishes a view when it comes, be it empty, and removes it when it is
// gone. Until then it has what the tables have of it, whoever follows it.
func (x *proxies) views(changes []inc.Change[model.View, fleet.Fill]) {
	for _, c := range changes {
		switch {
		case c.New == nil:
			x.gone[c.Key] = true
		case c.Old == nil:
			delete(x.gone, c.Key)
			x.touched[c.Key] = true
		}
	}
}

func (x *proxies) resources(typ xds.TypeURL, changes []inc.Change[envoy.Key, envoy.Resource]) {
	for _, c := range changes {
		ref := xds.Ref{Type: typ, Name: c.Key.Name}
		x.touched[c.Key.View] = true
		if c.New != nil && c.New.Held {
			if x.held[c.Key.View] == nil {
				x.held[c.Key.View] = map[xds.Ref]bool{}
			}
			x.held[c.Key.View][ref] = true
			continue
		}
		delete(x.held[c.Key.View], ref)
		change := xds.Change{Type: typ, Name: c.Key.Name}
		if c.New != nil {
			change.Resource = published(c.New)
		}
		x.pending[c.Key.View] = append(x.pending[c.Key.View], change)
	}
}

// published is a resource as the store wants it.
func published(r *envoy.Resource) *xds.Resource {
	out := &xds.Resource{Name: r.Name, Version: r.Version, Body: r.Body, Refs: make([]xds.Ref, len(r.Refs))}
	for i, ref := range r.Refs {
		out.Refs[i] = xds.Ref{Type: xds.TypeURL(ref.Type), Name: ref.Name}
	}
	return out
}

// lent is a secret for a name that a client asked for.
func lent(r *xds.Resource, name string) *xds.Resource {
	version, body := envoy.RenameSecret(r.Body, name)
	return &xds.Resource{Name: name, Version: version, Body: body}
}

// flush publishes what changed since the last flush. New content comes before
// edges move to it, and views go after they left.
func (x *proxies) flush() {
	for _, view := range slices.SortedFunc(maps.Keys(x.touched), model.View.Compare) {
		if x.gone[view] {
			continue
		}
		x.store.PublishHeld(x.id(view), x.pending[view], x.hold(view))
	}
	if x.moved {
		x.reassign()
	}
	for view := range x.gone {
		x.store.Remove(x.id(view))
		delete(x.held, view)
		delete(x.holds, view)
	}
	x.reset()
}

// hold reports for which names of a view absence says nothing: all of them
// while a member's rows are missing, and those that are held back. Secrets are
// not made of members' rows, and clients may ask for names without end.
func (x *proxies) hold(view model.View) func(xds.TypeURL, string) bool {
	names := maps.Clone(x.held[view])
	if !x.holds[view] && len(names) == 0 {
		return nil
	}
	whole := x.holds[view]
	return func(t xds.TypeURL, name string) bool {
		return whole && t != xds.Secret || names[xds.Ref{Type: t, Name: name}]
	}
}

// acks turns what proxies said into rows: which edge acknowledged which host,
// and which resource was refused. It belongs to the loop's goroutine.
type acks struct {
	p      *fleet.Program
	tables *envoy.Tables
	views  map[string]model.View // by their ids in the store
}

// newAcks returns acks without rows. put has a write done in the next commit.
func newAcks(p *fleet.Program, t *envoy.Tables, put func(key any, write func(*inc.Tx))) *acks {
	a := &acks{p: p, tables: t, views: map[string]model.View{}}
	p.Fills.Watch(func(changes []inc.Change[model.View, fleet.Fill]) {
		for _, c := range changes {
			if c.New == nil {
				delete(a.views, c.Key.String())
			} else {
				a.views[c.Key.String()] = c.Key
			}
		}
	})
	t.Routes.Watch(func(changes []inc.Change[envoy.Key, envoy.Resource]) {
		for _, c := range changes {
			// Other hosts in the same bytes: nothing is sent, so nobody will say more.
			if c.Old != nil && c.New != nil && c.Old.Version == c.New.Version {
				a.follow(c, put)
			}
		}
	})
	for _, typ := range t.Types() {
		typ.Table.Watch(func(changes []inc.Change[envoy.Key, envoy.Resource]) {
			for _, c := range changes {
				if c.New == nil {
					a.gone(model.RejectionID{View: c.Key.View, Type: typ.URL, Name: c.Key.Name}, put)
				}
			}
		})
	}
	return a
}

// gone forgets the rejection of a resource that is not there any more: the
// proxy that would say so may have gone before.
func (a *acks) gone(id model.RejectionID, put func(key any, write func(*inc.Tx))) {
	if _, ok := a.p.In.Rejections.Get(nil, id); !ok {
		return
	}
	put(id, func(tx *inc.Tx) {
		if _, back := a.tables.Resource(id.Type, envoy.Key{View: id.View, Name: id.Name}); !back {
			a.p.In.Rejections.Delete(tx, id)
		}
	})
}

// renamed names a resource that changed in what proxies are not told.
type renamed struct {
	edge model.Edge
	key  envoy.Key
}

// follow has the hosts of a resource acknowledged by the edges that acknowledged
// those it had before in the same bytes.
func (a *acks) follow(c inc.Change[envoy.Key, envoy.Resource], put func(key any, write func(*inc.Tx))) {
	for _, edge := range a.p.EdgesOfView.Keys(nil, c.Key.View) {
		knew := func(host model.HostKey) bool {
			_, ok := a.p.In.Acks.Get(nil, model.AckID{Edge: edge, Host: host})
			return ok
		}
		if slices.ContainsFunc(c.Old.Hosts, knew) {
			put(renamed{edge, c.Key}, func(tx *inc.Tx) { a.serve(tx, edge, c.New.Hosts) })
		}
	}
}

// serve notes that an edge serves hosts.
func (a *acks) serve(tx *inc.Tx, edge model.Edge, hosts []model.HostKey) {
	for _, host := range hosts {
		a.p.In.Acks.Set(tx, model.AckID{Edge: edge, Host: host}, model.Ack{})
	}
}

// apply writes the rows that follow from verdicts. What an edge acknowledged
// stays so: only a host that is gone loses its row, see forget.
func (a *acks) apply(tx *inc.Tx, verdicts []xds.ProxyVerdict) {
	for _, v := range verdicts {
		client := v.Class == xds.GRPC
		view, ok := a.views[v.View]
		if client {
			view, ok = a.views[strings.TrimSuffix(v.View, clientView)]
		}
		if !ok {
			continue
		}
		key, typ := envoy.Key{View: view, Name: v.Name}, string(v.Type)
		id := model.RejectionID{View: view, Type: typ, Name: v.Name, GRPC: client}
		if v.Error != "" {
			a.p.In.Rejections.Set(tx, id, model.Rejection{Version: v.Version, Error: v.Error})
			continue
		}
		if old, ok := a.p.In.Rejections.Get(nil, id); ok && old.Version != v.Version {
			a.p.In.Rejections.Delete(tx, id)
		}
		if client {
			continue // it serves nobody
		}
		a.acknowledged(tx, model.Edge(v.Edge), typ, key, v.Version)
	}
}

func (a *acks) acknowledged(tx *inc.Tx, edge model.Edge, typ string, key envoy.Key, version string) {
	now, ok := a.tables.Resource(typ, key)
	if ok && now.Version == version { // else its successor will be acknowledged too
		a.serve(tx, edge, now.Hosts)
	}
}

// forget drops the acknowledgements of hosts and edges that are gone.
func (a *acks) forget(tx *inc.Tx, hosts []model.HostKey, edges []model.Edge) {
	for _, host := range hosts {
		for _, edge := range a.p.In.Edges.Keys() {
			a.p.In.Acks.Delete(tx, model.AckID{Edge: edge, Host: host})
		}
	}
	if len(edges) == 0 {
		return
	}
	for _, id := range a.p.In.Acks.Keys() {
		if slices.Contains(edges, id.Edge) {
			a.p.In.Acks.Delete(tx, id)
		}
	}
}
