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

// proxies carries changes of the resources of one kind of data plane to the xDS
// store, view by view: of Envoy, or of gRPC clients. It belongs to the loop's
// goroutine.
//
// A held resource, one that Envoy would refuse, is not published: a proxy that
// has some version of it keeps that, and its name says nothing by being absent.
type proxies struct {
	id       func(model.View) string // of a view in the store
	store    *xds.Store
	reassign func() // asks which view each edge has

	pending map[model.View][]xds.Change
	touched map[model.View]bool // views to publish even without changes
	gone    map[model.View]bool // views that there are no more
	moved   bool                // some edge has another view
	held    map[model.View]map[xds.Ref]bool
}

func newProxies(p *fleet.Program, t *envoy.Tables, store *xds.Store, reassign func()) *proxies {
	store.Alias(xds.Aliases{Type: xds.Secret, For: envoy.CertificateNames, Covers: envoy.CertificateCovers, Body: envoy.RenameSecret})
	store.Families(envoy.FamilyOf)
	x := carry(t.Types(), store, reassign, model.View.String)
	p.Views.Watch(func([]inc.Change[model.Edge, fleet.View]) { x.moved = true })
	p.Fills.Watch(x.views)
	return x
}

func carry(types []envoy.Type, store *xds.Store, reassign func(), id func(model.View) string) *proxies {
	x := &proxies{id: id, store: store, reassign: reassign, held: map[model.View]map[xds.Ref]bool{}}
	x.reset()
	for _, typ := range types {
		typ.Table.Watch(func(changes []inc.Change[envoy.Key, envoy.Resource]) { x.resources(xds.TypeURL(typ.URL), changes) })
	}
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
	out := &xds.Resource{Name: r.Name, Version: r.Version, Body: r.Body, Refs: make([]xds.Ref, len(r.Refs)), Unsure: r.Unsure, Family: r.Family}
	for i, ref := range r.Refs {
		out.Refs[i] = xds.Ref{Type: xds.TypeURL(ref.Type), Name: ref.Name}
	}
	return out
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
	}
	x.reset()
}

// hold reports for which names of a view absence says nothing: those that are
// held back.
func (x *proxies) hold(view model.View) func(xds.TypeURL, string) bool {
	names := maps.Clone(x.held[view])
	if len(names) == 0 {
		return nil
	}
	return func(t xds.TypeURL, name string) bool { return names[xds.Ref{Type: t, Name: name}] }
}
