package envoy

import (
	"context"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/spillway-dev/spillway/internal/inc"
	"github.com/spillway-dev/spillway/internal/model"
	"github.com/spillway-dev/spillway/internal/xds"
	"github.com/spillway-dev/spillway/internal/xds/lrs"
)

// feed is a world whose resources a real control plane offers.
type feed struct {
	*world
	store   *xds.Store
	reports *xds.Reports
	server  *xds.Server  // the latest
	view    atomic.Value // the model.View that proxies follow
	pending map[model.Collection][]xds.Change
	rows    map[model.Collection]map[xds.Ref]xds.Change
	known   map[model.View]bool
}

// newFeed offers the resources of these types.
func newFeed(s sizes, types func(*Tables) []Type) *feed {
	f := &feed{world: newWorldOf(s), store: xds.NewStore(), reports: &xds.Reports{}, pending: map[model.Collection][]xds.Change{},
		rows: map[model.Collection]map[xds.Ref]xds.Change{}, known: map[model.View]bool{}}
	f.view.Store(testView)
	for _, typ := range types(f.t) {
		typ.Table.Watch(func(changes []inc.Change[Key, Resource]) { f.collect(typ.URL, changes) })
	}
	return f
}

func (f *feed) collect(typeURL string, changes []inc.Change[Key, Resource]) {
	for _, c := range changes {
		to, row := c.Key.Collection, change(typeURL, c)
		f.pending[to] = append(f.pending[to], row)
		if f.rows[to] == nil {
			f.rows[to] = map[xds.Ref]xds.Change{}
		}
		f.rows[to][xds.Ref{Type: row.Type, Name: row.Name}] = row
	}
}

// change is a changed resource as the store takes it.
func change(typeURL string, c inc.Change[Key, Resource]) xds.Change {
	out := xds.Change{Type: xds.TypeURL(typeURL), Name: c.Key.Name}
	if c.New != nil {
		out.Resource = c.New.Resource
	}
	return out
}

// commit applies a change and publishes what came of it.
func (f *feed) commit(apply func(*inc.Tx)) {
	f.g.Commit(apply)
	f.publish()
}

// publish gives each view what its collections have, or what became of it.
func (f *feed) publish() {
	for _, view := range f.p.EdgesOfView.Groups() {
		var changes []xds.Change
		for _, c := range append(view.Collections(), view.In(model.Clients)) {
			if f.known[view] {
				changes = append(changes, f.pending[c]...)
			} else {
				changes = slices.AppendSeq(changes, maps.Values(f.rows[c]))
			}
		}
		if !f.known[view] || len(changes) > 0 {
			f.known[view] = true
			f.store.Publish(view.String(), changes)
		}
	}
	clear(f.pending)
}

// move has the proxies follow another view.
func (f *feed) move(to model.View) {
	f.view.Store(to)
	f.server.Reassign()
}

// serve answers on l, for the usual view if not moved, until stop is called.
func (f *feed) serve(t testing.TB, l *xds.Endpoint, cfg xds.Config) (stop func()) {
	cfg.Store, cfg.Reports, cfg.Services = f.store, f.reports, []xds.Service{lrs.Service{}}
	cfg.ViewOf = func(string) (string, bool) { return f.view.Load().(model.View).String(), true }
	server := xds.NewServer(cfg)
	f.server = server
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- server.Serve(ctx, l) }()
	return sync.OnceFunc(func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
		if err := l.Close(); err != nil {
			t.Error(err)
		}
	})
}
