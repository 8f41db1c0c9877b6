package app

import (
	"math"
	"sync"
	"time"

	"github.com/spillway-dev/spillway/internal/envoy"
	"github.com/spillway-dev/spillway/internal/fleet"
	"github.com/spillway-dev/spillway/internal/inc"
	"github.com/spillway-dev/spillway/internal/model"
	"github.com/spillway-dev/spillway/internal/xds"
)

// loadTTL is how long the report of an edge counts: two may be missing.
const loadTTL = 3 * xds.LoadInterval

// loads turns what proxies report of their clusters into a row for each
// backend, the sum over edges, and lets it expire. It is written to by streams
// and read by the loop. A report costs a commit only for rows that change.
//
// There is nothing of it in the checkpoint: before the first publish nothing
// waits for its turn, and a minute after it reports are back.
type loads struct {
	rows *inc.Table[model.Backend, model.Load]
	put  func(key any, write func(*inc.Tx))

	turn     sync.Mutex // of reports, so that the loop waits for one of them at most
	mu       sync.Mutex
	backends map[string]model.Backend // by the names of their clusters
	edges    map[model.Edge]edgeLoad
	expires  deadlines[model.Edge]
	totals   map[model.Backend]total
}

// edgeLoad is the last report of an edge, by backend.
type edgeLoad map[model.Backend]rate

// rate is in thousandths of a request a second: whole, so that what is added
// and taken away again leaves nothing.
type rate int64

// maxRate bounds what a report can claim for a cluster.
const maxRate = 1e10

// total is the sum for a backend, and its row.
type total struct {
	rate rate
	row  model.Load // zero: there is none
}

func newLoads(p *fleet.Program, t *envoy.Tables, put func(any, func(*inc.Tx))) *loads {
	l := &loads{
		rows: p.In.Loads, put: put,
		backends: map[string]model.Backend{}, edges: map[model.Edge]edgeLoad{}, totals: map[model.Backend]total{},
	}
	t.WatchCounted(l.rename)
	return l
}

// rename replaces the clusters of a backend; none: it is gone.
func (l *loads) rename(b model.Backend, before, now []string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, name := range before {
		delete(l.backends, name)
	}
	for _, name := range now {
		l.backends[name] = b
	}
	if len(now) > 0 {
		return
	}
	for _, rates := range l.edges {
		delete(rates, b)
	}
	if _, ok := l.totals[b]; ok {
		delete(l.totals, b)
		l.write(b)
	}
}

// heard takes the report of an edge, in place of its last one. A cluster that
// is not one of a backend's, whatever it is called, is nobody's load.
//
// Connections are balanced over the proxies of an edge, so each is taken to
// send as much as the one that reports.
func (l *loads) heard(r xds.LoadReport) {
	l.turn.Lock()
	defer l.turn.Unlock()
	l.mu.Lock()
	defer l.mu.Unlock()
	rates := edgeLoad{}
	for _, c := range r.Clusters {
		if b, ok := l.backends[c.Name]; ok {
			rates[b] += rate(min(c.Requests*float64(r.Proxies)*1000, maxRate))
		}
	}
	l.replace(model.Edge(r.Edge), rates)
	l.expires.set(model.Edge(r.Edge), r.At.Add(loadTTL))
}

// replace counts what an edge says now, and not what it said before.
func (l *loads) replace(edge model.Edge, now edgeLoad) {
	before := l.edges[edge]
	for b, was := range before {
		if _, ok := now[b]; !ok {
			l.add(b, -was)
		}
	}
	for b, is := range now {
		l.add(b, is-before[b])
	}
	l.edges[edge] = now
}

func (l *loads) add(b model.Backend, more rate) {
	t := l.totals[b]
	t.rate += more
	row := model.Load{Requests: quantised(t.row.Requests, float64(t.rate)/1000)}
	differs := !row.Equal(t.row)
	if t.row = row; t.rate == 0 {
		delete(l.totals, b)
	} else {
		l.totals[b] = t
	}
	if differs {
		l.write(b)
	}
}

// quantised is the power of two at or below a rate in requests a second, or 0
// below one. The last one stays until the rate is below half of it or four
// times of it, so that steady traffic changes no row.
func quantised(last, requests float64) float64 {
	if last > 0 && requests >= last/2 && requests < 4*last {
		return last
	}
	if requests < 1 {
		return 0
	}
	_, exponent := math.Frexp(requests)
	return math.Ldexp(1, exponent-1)
}

// write has a backend's row written as it is by then.
func (l *loads) write(b model.Backend) {
	type loadKey struct{ backend model.Backend }
	l.put(loadKey{b}, func(tx *inc.Tx) {
		l.mu.Lock()
		row := l.totals[b].row
		l.mu.Unlock()
		if row.Equal(model.Load{}) {
			l.rows.Delete(tx, b)
			return
		}
		l.rows.Set(tx, b, row)
	})
}

// expire drops what edges said too long ago, and returns when the next one is.
func (l *loads) expire(now time.Time) (next time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for edge, ok := l.expires.pop(now); ok; edge, ok = l.expires.pop(now) {
		l.replace(edge, nil)
		delete(l.edges, edge)
	}
	return l.expires.next()
}
