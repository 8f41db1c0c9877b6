package envoy

import (
	"context"
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
	fra     model.View   // of edge fra when last published
	pending map[model.Collection][]xds.Change
}

// newFeed offers the resources of these types.
func newFeed(s sizes, types func(*Tables) []Type) *feed {
	f := &feed{world: newWorldOf(s), store: xds.NewStore(), reports: &xds.Reports{}, fra: testView, pending: map[model.Collection][]xds.Change{}}
	f.view.Store(testView)
	for _, typ := range types(f.t) {
		typ.Table.Watch(func(changes []inc.Change[Key, Resource]) { f.collect(typ.URL, changes) })
	}
	return f
}

func (f *feed) collect(typeURL string, changes []inc.Change[Key, Resource]) {
	for _, c := range changes {
		f.pending[c.Key.Collection] = append(f.pending[c.Key.Collection], change(typeURL, c))
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

// publish gives the store what changed, and what views are made of.
func (f *feed) publish() {
	var step xds.Commit
	used := map[model.Collection]bool{}
	for _, view := range f.p.EdgesOfView.Groups() {
		of := xds.ViewOf{ID: view.String()}
		for _, c := range f.held(view) {
			used[c] = true
			of.Collections = append(of.Collections, c.String())
		}
		step.Views = append(step.Views, of)
	}
	for c, rows := range f.pending {
		used[c] = true
		step.Contents = append(step.Contents, xds.Content{Collection: c.String(), Changes: rows})
	}
	for c := range used {
		if f.pending[c] == nil {
			step.Contents = append(step.Contents, xds.Content{Collection: c.String()})
		}
	}
	clear(f.pending)
	f.store.Commit(step)
	if now, ok := f.p.Views.Get(nil, "fra"); ok && now.Key != f.fra {
		if f.fra = now.Key; f.server != nil {
			f.move(now.Key)
		}
	}
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
