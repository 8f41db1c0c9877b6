package app

import (
	"cmp"
	"slices"
	"time"

	"github.com/spillway-dev/spillway/internal/envoy"
	"github.com/spillway-dev/spillway/internal/fleet"
	"github.com/spillway-dev/spillway/internal/inc"
	"github.com/spillway-dev/spillway/internal/model"
	"github.com/spillway-dev/spillway/internal/xds"
)

// rejectionLinger is how long a rejection outlives the last stream of the data
// plane that said it, and a restart: one that comes back says it again, within
// the 5 s in which Envoy reconnects and what its first load takes.
const rejectionLinger = 15 * time.Second

// rejections keeps the rows of what data planes refuse. What those of an edge
// say ends when one of them acknowledges that version, and a row when there is
// another version; what one data plane says of it ends when that is gone,
// follows another view, or says so. It belongs to the loop's goroutine.
type rejections struct {
	rows     *inc.Table[model.RejectionID, model.Rejection]
	staged   staged
	edges    *inc.Index[model.View, model.Edge, fleet.View]
	tables   *envoy.Tables
	now      func() time.Time
	streams  map[xds.Proxy]map[uint64]bool // open
	said     map[xds.Proxy]map[model.RejectionID]bool
	expiring map[rejected]time.Time // unless they are said again
	soonest  time.Time              // not after any of these
}

// staged is what one commit has written so far: a table shows it only after
// that.
type staged struct {
	tx   *inc.Tx
	rows map[model.RejectionID]*model.Rejection // nil: deleted
}

// get returns a row as this commit leaves it.
func (x *rejections) get(tx *inc.Tx, id model.RejectionID) (model.Rejection, bool) {
	if x.staged.tx == tx {
		if row, ok := x.staged.rows[id]; ok {
			if row == nil {
				return model.Rejection{}, false
			}
			return *row, true
		}
	}
	return x.rows.Get(nil, id)
}

// set writes a row, or deletes it.
func (x *rejections) set(tx *inc.Tx, id model.RejectionID, row *model.Rejection) {
	if x.staged.tx != tx {
		x.staged = staged{tx, map[model.RejectionID]*model.Rejection{}}
	}
	x.staged.rows[id] = row
	if row == nil {
		x.rows.Delete(tx, id)
	} else {
		x.rows.Set(tx, id, *row)
	}
}

// rejected is what one data plane says.
type rejected struct {
	by xds.Proxy
	id model.RejectionID
}

func newRejections(p *fleet.Program, t *envoy.Tables, now func() time.Time, put func(key any, write func(*inc.Tx))) *rejections {
	x := &rejections{rows: p.In.Rejections, now: now, edges: p.EdgesOfView, tables: t,
		streams: map[xds.Proxy]map[uint64]bool{}, said: map[xds.Proxy]map[model.RejectionID]bool{}, expiring: map[rejected]time.Time{}}
	for grpc, types := range map[bool][]envoy.Type{false: t.Types(), true: t.Clients.Types()} {
		for _, typ := range types {
			typ.Table.Watch(func(changes []inc.Change[envoy.Key, envoy.Resource]) { x.changed(typ, grpc, changes, put) })
		}
	}
	p.Views.Watch(func(changes []inc.Change[model.Edge, fleet.View]) { x.moved(changes, put) })
	return x
}

// changed forgets the rows of versions that are not there any more: the data
// plane that would say so may have gone before.
func (x *rejections) changed(of envoy.Type, grpc bool, changes []inc.Change[envoy.Key, envoy.Resource], put func(key any, write func(*inc.Tx))) {
	if x.rows.Len() == 0 {
		return
	}
	touched := make(map[string]bool, len(changes))
	for _, c := range changes {
		touched[c.Key.Name] = true
	}
	for _, id := range x.rows.Keys() {
		if id.Type != of.URL || id.GRPC != grpc || !touched[id.Name] {
			continue
		}
		put(id, func(tx *inc.Tx) {
			if row, ok := x.get(tx, id); ok && !x.current(id, row.Version) {
				x.drop(tx, id)
			}
		})
	}
}

// current tells whether an edge has a resource in a version.
func (x *rejections) current(id model.RejectionID, version string) bool {
	now, ok := x.tables.Find(nil, id.View, id.Type, id.Name, id.GRPC)
	return ok && now.Version == version && x.edges.Has(nil, id.View)
}

// moved carries what an edge's data planes say over to the view that the edge has
// now, where that has the same; of an edge that is gone it ends.
func (x *rejections) moved(changes []inc.Change[model.Edge, fleet.View], put func(key any, write func(*inc.Tx))) {
	for _, c := range changes {
		for by, ids := range x.said {
			if model.Edge(by.Edge) != c.Key {
				continue
			}
			for id := range ids {
				switch {
				case c.New == nil:
					x.expire(rejected{by, id})
				case c.New.Key != id.View:
					put(rejected{by, id}, func(tx *inc.Tx) { x.carry(tx, by, id, c.New.Key) })
				}
			}
		}
	}
}

// carry has what a data plane says of a resource be said of another view's.
func (x *rejections) carry(tx *inc.Tx, by xds.Proxy, id model.RejectionID, to model.View) {
	row, ok := x.get(tx, id)
	i := slices.IndexFunc(row.By, func(r model.Refuser) bool { return proxyOf(id, r) == by })
	x.retract(tx, id, by)
	if !ok || i < 0 {
		return
	}
	id.View = to
	if x.current(id, row.Version) {
		there, _ := x.get(tx, id)
		x.add(tx, id, there, xds.ProxyVerdict{Proxy: by, Envoy: row.By[i].Version, Verdict: xds.Verdict{Version: row.Version, Error: row.Error}})
	}
}

// adopt has all rows from before a restart end that nobody says again.
func (x *rejections) adopt() {
	for _, id := range x.rows.Keys() {
		row, _ := x.rows.Get(nil, id)
		x.expire(rejected{id: id}) // of a version that did not know who
		for _, by := range row.By {
			who := proxyOf(id, by)
			x.note(who, id)
			x.expire(rejected{who, id})
		}
	}
}

func proxyOf(id model.RejectionID, by model.Refuser) xds.Proxy {
	p := xds.Proxy{Edge: string(by.Edge), Node: by.Node}
	if id.GRPC {
		p.Class = xds.GRPC
	}
	return p
}

func (x *rejections) note(by xds.Proxy, id model.RejectionID) {
	if x.said[by] == nil {
		x.said[by] = map[model.RejectionID]bool{}
	}
	x.said[by][id] = true
}

func (x *rejections) expire(r rejected) {
	if _, ok := x.expiring[r]; !ok {
		x.expiring[r] = x.now().Add(rejectionLinger)
		x.soonest = sooner(x.soonest, x.expiring[r])
	}
}

// streamed takes openings and closings of streams.
func (x *rejections) streamed(changes []xds.StreamChange) {
	for _, s := range changes {
		if s.Open {
			if x.streams[s.Proxy] == nil {
				x.streams[s.Proxy] = map[uint64]bool{}
			}
			x.streams[s.Proxy][s.Stream] = true
			continue
		}
		if delete(x.streams[s.Proxy], s.Stream); len(x.streams[s.Proxy]) > 0 {
			continue
		}
		delete(x.streams, s.Proxy)
		for id := range x.said[s.Proxy] {
			x.expire(rejected{s.Proxy, id})
		}
	}
}

// apply takes what a data plane said of a resource.
func (x *rejections) apply(tx *inc.Tx, id model.RejectionID, v xds.ProxyVerdict) {
	row, ok := x.get(tx, id)
	switch {
	case v.Error != "" && !v.Lone:
		if x.current(id, v.Version) {
			x.add(tx, id, row, v)
		}
	case !ok:
	case v.Lone || v.Version == "":
		x.retract(tx, id, v.Proxy)
	case v.Version == row.Version && len(row.By) > 0:
		x.accepted(tx, id, row, model.Edge(v.Edge))
	case v.Version == row.Version || x.current(id, v.Version):
		x.drop(tx, id)
	}
}

// accepted ends what the data planes of an edge say, since one of them takes it.
func (x *rejections) accepted(tx *inc.Tx, id model.RejectionID, row model.Rejection, edge model.Edge) {
	for _, by := range row.By {
		if by.Edge == edge {
			x.retract(tx, id, proxyOf(id, by))
		}
	}
}

func (x *rejections) add(tx *inc.Tx, id model.RejectionID, row model.Rejection, v xds.ProxyVerdict) {
	if row.Version != v.Version {
		x.drop(tx, id)
		row = model.Rejection{Version: v.Version, Error: v.Error}
	}
	by := model.Refuser{Edge: model.Edge(v.Edge), Node: v.Node, Version: v.Envoy}
	row.By = slices.DeleteFunc(slices.Clone(row.By), func(r model.Refuser) bool { return r.Edge == by.Edge && r.Node == by.Node })
	row.By = append(row.By, by)
	slices.SortFunc(row.By, func(a, b model.Refuser) int {
		return cmp.Or(cmp.Compare(a.Edge, b.Edge), cmp.Compare(a.Node, b.Node))
	})
	x.set(tx, id, &row)
	x.note(v.Proxy, id)
	delete(x.expiring, rejected{v.Proxy, id})
	delete(x.expiring, rejected{id: id})
	if len(x.streams[v.Proxy]) == 0 { // it went right after that
		x.expire(rejected{v.Proxy, id})
	}
}

// retract ends what one data plane says.
func (x *rejections) retract(tx *inc.Tx, id model.RejectionID, by xds.Proxy) {
	x.unnote(by, id)
	row, ok := x.get(tx, id)
	if !ok {
		return
	}
	row.By = slices.DeleteFunc(slices.Clone(row.By), func(r model.Refuser) bool { return proxyOf(id, r) == by })
	if len(row.By) == 0 {
		x.drop(tx, id)
		return
	}
	x.set(tx, id, &row)
}

func (x *rejections) unnote(by xds.Proxy, id model.RejectionID) {
	delete(x.expiring, rejected{by, id})
	if delete(x.said[by], id); len(x.said[by]) == 0 {
		delete(x.said, by)
	}
}

// drop ends a row.
func (x *rejections) drop(tx *inc.Tx, id model.RejectionID) {
	row, _ := x.get(tx, id)
	for _, by := range row.By {
		x.unnote(proxyOf(id, by), id)
	}
	delete(x.expiring, rejected{id: id})
	x.set(tx, id, nil)
}

// due returns the writes of what ends by now, and when more may.
func (x *rejections) due(now time.Time) (writes []func(*inc.Tx), next time.Time) {
	if now.Before(x.soonest) {
		return nil, x.soonest
	}
	for r, at := range x.expiring {
		if now.Before(at) {
			next = sooner(next, at)
			continue
		}
		delete(x.expiring, r)
		writes = append(writes, func(tx *inc.Tx) {
			if row, ok := x.get(tx, r.id); ok && r.by == (xds.Proxy{}) && len(row.By) > 0 {
				return // somebody is known to say it
			}
			x.retract(tx, r.id, r.by)
		})
	}
	x.soonest = next
	return writes, next
}
