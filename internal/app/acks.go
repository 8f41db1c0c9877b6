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
	for _, rows := range []envoy.Rows{t.Routes, t.Listeners} {
		rows.Watch(func(changes []inc.Change[envoy.Key, envoy.Resource]) { a.follow(changes, put) })
	}
	return a
}

// renamed names a resource that changed in what proxies are not told.
type renamed struct {
	edge model.Edge
	key  envoy.Key
}

// follow has the hosts of a resource acknowledged by the edges that acknowledged
// others in the same bytes, that it had before or that another collection had
// under its name: nothing is sent, so nobody will say more.
func (a *acks) follow(changes []inc.Change[envoy.Key, envoy.Resource], put func(key any, write func(*inc.Tx))) {
	before := map[string][]envoy.Resource{} // by name
	for _, c := range changes {
		if c.Old != nil {
			before[c.Key.Name] = append(before[c.Key.Name], *c.Old)
		}
	}
	for _, c := range changes {
		if c.New == nil {
			continue
		}
		var old []model.HostKey
		for _, was := range before[c.Key.Name] {
			if was.Version == c.New.Version {
				old = append(old, was.Hosts()...)
			}
		}
		another := func(host model.HostKey) bool { return !slices.Contains(old, host) }
		if len(old) > 0 && slices.ContainsFunc(c.New.Hosts(), another) {
			a.inherit(c.Key, old, c.New.Hosts(), put)
		}
	}
}

// inherit has hosts acknowledged by the edges that have a resource of them and
// acknowledged some of the old ones.
func (a *acks) inherit(k envoy.Key, old, hosts []model.HostKey, put func(key any, write func(*inc.Tx))) {
	for _, edge := range a.edgesWith(k.Collection) {
		knew := func(host model.HostKey) bool {
			edges, _ := a.p.In.Acks.Get(nil, host)
			return edges.Has(edge)
		}
		if slices.ContainsFunc(old, knew) && !slices.ContainsFunc(hosts, knew) {
			put(renamed{edge, k}, func(tx *inc.Tx) { a.serve(tx, edge, hosts) })
		}
	}
}

// edgesWith are the edges that have a collection.
func (a *acks) edgesWith(c model.Collection) []model.Edge {
	var out []model.Edge
	for _, view := range a.p.Collections.Keys() {
		if all, _ := a.p.Collections.Get(nil, view); slices.Contains(all, c) {
			out = append(out, a.p.EdgesOfView.Keys(nil, view)...)
		}
	}
	slices.Sort(out)
	return out
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
		id := model.RejectionID{Edge: model.Edge(v.Edge), Type: string(v.Type), Name: v.Name, GRPC: client}
		a.rejections.apply(tx, id, v)
		if v.Error != "" || client { // a client serves nobody
			continue
		}
		if now, ok := a.has(id); ok && now.Version == v.Version { // else its successor will be acknowledged too
			a.serve(tx, id.Edge, now.Hosts())
		}
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
