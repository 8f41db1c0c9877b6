package app

import (
	"slices"
	"time"

	"github.com/spillway-dev/spillway/internal/envoy"
	"github.com/spillway-dev/spillway/internal/fleet"
	"github.com/spillway-dev/spillway/internal/inc"
	"github.com/spillway-dev/spillway/internal/model"
	"github.com/spillway-dev/spillway/internal/xds"
)

// acks turns what proxies said into rows: which edge acknowledged which host,
// and which resource was refused. It belongs to the loop's goroutine.
type acks struct {
	p      *fleet.Program
	tables *envoy.Tables
	sums   map[joined]model.EdgeSet // since the last turn
	*rejections
}

// joined is a set of edges and one more.
type joined struct {
	edges model.EdgeSet
	edge  model.Edge
}

// newAcks returns acks without rows. put has a write done in the next commit.
func newAcks(p *fleet.Program, t *envoy.Tables, now func() time.Time, put func(key any, write func(*inc.Tx))) *acks {
	a := &acks{p: p, tables: t, sums: map[joined]model.EdgeSet{}, rejections: newRejections(p, t, now, put)}
	t.Routes.Watch(func(changes []inc.Change[envoy.Key, envoy.Resource]) {
		for _, c := range changes {
			// Other hosts in the same bytes: nothing is sent, so nobody will say more.
			if c.Old != nil && c.New != nil && c.Old.Version == c.New.Version {
				a.follow(c, put)
			}
		}
	})
	return a
}

// renamed names a resource that changed in what proxies are not told.
type renamed struct {
	edge model.Edge
	key  envoy.Key
}

// follow has the hosts of a resource acknowledged by the edges that acknowledged
// those it had before in the same bytes.
func (a *acks) follow(c inc.Change[envoy.Key, envoy.Resource], put func(key any, write func(*inc.Tx))) {
	for _, edge := range a.p.EdgesOf.Keys(nil, c.Key.Collection) {
		knew := func(host model.HostKey) bool {
			edges, _ := a.p.In.Acks.Get(nil, host)
			return edges.Has(edge)
		}
		if slices.ContainsFunc(c.Old.Hosts(), knew) {
			put(renamed{edge, c.Key}, func(tx *inc.Tx) { a.serve(tx, edge, c.New.Hosts()) })
		}
	}
}

// serve notes that an edge serves hosts.
func (a *acks) serve(tx *inc.Tx, edge model.Edge, hosts []model.HostKey) {
	with := a.with(edge)
	for _, host := range hosts {
		a.p.In.Acks.Edit(tx, host, with)
	}
}

// with adds an edge to those of a host. Most hosts have the same edges, so the
// sum is made once for all that are written together.
func (a *acks) with(edge model.Edge) func(model.EdgeSet, bool) (model.EdgeSet, bool) {
	return func(old model.EdgeSet, _ bool) (model.EdgeSet, bool) {
		sum, ok := a.sums[joined{old, edge}]
		if !ok {
			sum = old.With(edge)
			a.sums[joined{old, edge}] = sum
		}
		return sum, true
	}
}

// without takes edges from those of a host.
func without(edges []model.Edge) func(model.EdgeSet, bool) (model.EdgeSet, bool) {
	return func(left model.EdgeSet, _ bool) (model.EdgeSet, bool) {
		for _, e := range edges {
			left = left.Without(e)
		}
		return left, left != model.EdgeSet{}
	}
}

// apply writes the rows that follow from verdicts. What an edge acknowledged
// stays so: only a host that is gone loses its row, see forget.
func (a *acks) apply(tx *inc.Tx, verdicts []xds.ProxyVerdict) {
	clear(a.sums)
	for _, v := range verdicts {
		client := v.Class == xds.GRPC
		// What the edge has now in that version it has, whichever view said so.
		row, ok := a.p.Views.Get(nil, model.Edge(v.Edge))
		if !ok {
			continue
		}
		id := model.RejectionID{View: row.Key, Type: string(v.Type), Name: v.Name, GRPC: client}
		a.rejections.apply(tx, id, v)
		if v.Error != "" || client { // a client serves nobody
			continue
		}
		a.acknowledged(tx, model.Edge(v.Edge), id, v.Version)
	}
}

func (a *acks) acknowledged(tx *inc.Tx, edge model.Edge, id model.RejectionID, version string) {
	now, ok := a.tables.Find(nil, id.View, id.Type, id.Name, false)
	if ok && now.Version == version { // else its successor will be acknowledged too
		a.serve(tx, edge, now.Hosts())
	}
}

// forget drops the acknowledgements of hosts and edges that are gone.
func (a *acks) forget(tx *inc.Tx, hosts []model.HostKey, edges []model.Edge) {
	for _, host := range hosts {
		a.p.In.Acks.Delete(tx, host)
	}
	if len(edges) == 0 {
		return
	}
	for _, host := range a.p.In.Acks.Keys() {
		a.p.In.Acks.Edit(tx, host, without(edges))
	}
}
