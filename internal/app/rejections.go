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
// say ends when one of them acknowledges that version, and when the edge has
// another version or is gone; what one data plane says of it ends when that is
// gone, or says so. It belongs to the loop's goroutine.
type rejections struct {
	rows     *inc.Table[model.RejectionID, model.Rejection]
	staged   staged
	views    *inc.Table[model.Edge, fleet.View]
	tables   *envoy.Tables
	now      func() time.Time
	put      func(key any, write func(*inc.Tx)) // has it done in the next commit
	streams  map[xds.Proxy]map[uint64]bool      // open
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
	x := &rejections{rows: p.In.Rejections, now: now, put: put, views: p.Views, tables: t,
		streams: map[xds.Proxy]map[uint64]bool{}, said: map[xds.Proxy]map[model.RejectionID]bool{}, expiring: map[rejected]time.Time{}}
	for grpc, types := range map[bool][]envoy.Type{false: t.Types(), true: t.Clients.Types()} {
		for _, typ := range types {
			typ.Table.Watch(func(changes []inc.Change[envoy.Key, envoy.Resource]) { x.changed(typ, grpc, changes) })
		}
	}
	p.Views.Watch(x.moved)
	return x
}

// changed looks at the rows of resources that changed: the data plane that would
// say so may have gone before.
func (x *rejections) changed(of envoy.Type, grpc bool, changes []inc.Change[envoy.Key, envoy.Resource]) {
	if x.rows.Len() == 0 {
		return
	}
	touched := make(map[string]bool, len(changes))
	for _, c := range changes {
		touched[c.Key.Name] = true
	}
	x.review(func(id model.RejectionID) bool { return id.Type == of.URL && id.GRPC == grpc && touched[id.Name] })
}

// moved looks at the rows of edges that have another view, or are gone.
func (x *rejections) moved(changes []inc.Change[model.Edge, fleet.View]) {
	for _, c := range changes {
		x.review(func(id model.RejectionID) bool { return id.Edge == c.Key })
	}
}

// review ends rows of versions that their edges do not have any more.
func (x *rejections) review(which func(model.RejectionID) bool) {
	for _, id := range x.rows.Keys() {
		if !which(id) {
			continue
		}
		x.put(id, func(tx *inc.Tx) {
			if row, ok := x.get(tx, id); ok && !x.current(id, row.Version) {
				x.drop(tx, id)
			}
		})
	}
}

// has is what an edge has under a name.
func (x *rejections) has(id model.RejectionID) (envoy.Resource, bool) {
	view, ok := x.views.Get(nil, id.Edge)
	if !ok {
		return envoy.Resource{}, false
	}
	return x.tables.Find(nil, view.Key, id.Type, id.Name, id.GRPC)
}

// current tells whether an edge has a resource in a version.
func (x *rejections) current(id model.RejectionID, version string) bool {
	now, ok := x.has(id)
	return ok && now.Version == version
}

// adopt has all rows from before a restart end that nobody says again, and those
// of versions that did not know of which edge they are at once.
func (x *rejections) adopt() {
	x.review(func(id model.RejectionID) bool { return id.Edge == "" })
	for _, id := range x.rows.Keys() {
		row, _ := x.rows.Get(nil, id)
		for _, by := range row.By {
			who := proxyOf(id, by)
			x.note(who, id)
			x.expire(rejected{who, id})
		}
	}
}

func proxyOf(id model.RejectionID, by model.Refuser) xds.Proxy {
	p := xds.Proxy{Edge: string(id.Edge), Node: by.Node}
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
	case v.Version == row.Version || x.current(id, v.Version):
		x.drop(tx, id)
	}
}

func (x *rejections) add(tx *inc.Tx, id model.RejectionID, row model.Rejection, v xds.ProxyVerdict) {
	if row.Version != v.Version {
		x.drop(tx, id)
		row = model.Rejection{Version: v.Version, Error: v.Error}
	}
	by := model.Refuser{Node: v.Node, Version: v.Envoy}
	row.By = slices.DeleteFunc(slices.Clone(row.By), func(r model.Refuser) bool { return r.Node == by.Node })
	row.By = append(row.By, by)
	slices.SortFunc(row.By, func(a, b model.Refuser) int { return cmp.Compare(a.Node, b.Node) })
	x.set(tx, id, &row)
	x.note(v.Proxy, id)
	delete(x.expiring, rejected{v.Proxy, id})
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
		writes = append(writes, func(tx *inc.Tx) { x.retract(tx, r.id, r.by) })
	}
	x.soonest = next
	return writes, next
}
