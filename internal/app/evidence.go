package app

import (
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/spillway-dev/spillway/internal/inc"
	"github.com/spillway-dev/spillway/internal/model"
	"github.com/spillway-dev/spillway/internal/xds"
)

// evidence turns what proxies see of canaries into report rows and lets them
// expire. It is written to by streams and read by the loop.
type evidence struct {
	reports *inc.Table[model.ReportID, model.Report]
	put     func(key any, write func(*inc.Tx))

	mu   sync.Mutex
	seen map[model.ReportID]*sighting
}

// sighting is the last report of one proxy about one member.
type sighting struct {
	row     model.Report
	expires time.Time
}

func newEvidence(t *inc.Table[model.ReportID, model.Report], put func(any, func(*inc.Tx))) *evidence {
	return &evidence{reports: t, put: put, seen: map[model.ReportID]*sighting{}}
}

// heard takes one report of a proxy: all canaries that it knows something of.
// Only a report that differs from the last one costs a commit.
func (e *evidence) heard(seen []xds.CanaryReport) {
	rows, at := map[model.ReportID]model.Report{}, time.Time{}
	for _, s := range seen {
		id := model.ReportID{Edge: model.Edge(s.Edge), Proxy: s.Node, Member: model.Member(s.Member)}
		row := rows[id]
		row.Canaries++
		if !s.Healthy {
			row.Failing++
		}
		rows[id], at = row, s.At
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	for id, row := range rows {
		old := e.seen[id]
		if old == nil {
			old = &sighting{}
			e.seen[id] = old
		}
		old.expires = at.Add(reportTTL)
		if old.row == row {
			continue
		}
		old.row = row
		e.put(id, func(tx *inc.Tx) { e.reports.Set(tx, id, row) })
	}
}

// adopt gives the rows of a checkpoint the time of fresh ones: by then proxies
// are back, or their word counts no more.
func (e *evidence) adopt(now time.Time) {
	e.mu.Lock()
	defer e.mu.Unlock()
	for _, id := range e.reports.Keys() {
		row, _ := e.reports.Get(nil, id)
		e.seen[id] = &sighting{row: row, expires: now.Add(reportTTL)}
	}
}

// expire returns writes that drop what is too old, and when the next one is.
func (e *evidence) expire(now time.Time) (writes []func(*inc.Tx), next time.Time) {
	e.mu.Lock()
	defer e.mu.Unlock()
	for _, id := range slices.SortedFunc(maps.Keys(e.seen), model.ReportID.Compare) {
		s := e.seen[id]
		if !now.Before(s.expires) {
			delete(e.seen, id)
			writes = append(writes, func(tx *inc.Tx) { e.reports.Delete(tx, id) })
			continue
		}
		if next.IsZero() || s.expires.Before(next) {
			next = s.expires
		}
	}
	return writes, next
}
