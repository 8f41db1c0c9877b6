package app

import (
	"slices"
	"sync"
	"time"

	"github.com/spillway-dev/spillway/internal/inc"
	"github.com/spillway-dev/spillway/internal/model"
	"github.com/spillway-dev/spillway/internal/xds/hds"
)

// evidence turns what proxies see of canaries into report rows and lets them
// expire. It is written to by streams and read by the loop.
type evidence struct {
	reports *inc.Table[model.ReportID, model.Report]
	put     func(key any, write func(*inc.Tx))

	mu      sync.Mutex
	seen    map[reporter]map[model.Member]sighting
	expires deadlines[reporter] // when the first of its sightings does
	looked  int                 // sightings looked at by expire, for tests
}

// reporter is a proxy that reports.
type reporter struct {
	edge  model.Edge
	proxy string
}

func (r reporter) id(m model.Member) model.ReportID {
	return model.ReportID{Edge: r.edge, Proxy: r.proxy, Member: m}
}

// sighting is the last report of one proxy about one member.
type sighting struct {
	row model.Report
	of  *word
}

// word is a report of a proxy. What it says of members counts as long as it does,
// so that saying the same again costs the same for any number of members.
type word struct {
	from    reporter
	expires time.Time
	rows    int  // sightings that are of it
	over    bool // there were more
}

func newEvidence(t *inc.Table[model.ReportID, model.Report], put func(any, func(*inc.Tx))) *evidence {
	return &evidence{reports: t, put: put, seen: map[reporter]map[model.Member]sighting{}}
}

// heard takes one report of a proxy: all canaries that it knows something of.
// Only a report that differs from the last one costs a commit. What it returns is
// for a proxy that says the same again, see [hds.Hears].
func (e *evidence) heard(report hds.Report) (again func(at time.Time) bool) {
	from := reporter{model.Edge(report.Edge), report.Node}
	said := &word{from: from, expires: report.At.Add(reportTTL)}
	rows := map[model.Member]model.Report{}
	for _, c := range report.Canaries {
		row := rows[model.Member(c.Member)]
		row.Canaries++
		if !c.Healthy {
			row.Failing++
		}
		rows[model.Member(c.Member)] = row
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	for member, row := range rows {
		if e.see(from, member, sighting{row, said}) {
			id := from.id(member)
			e.put(id, func(tx *inc.Tx) { e.reports.Set(tx, id, row) })
		}
	}
	e.schedule(from)
	return func(at time.Time) bool { return e.prolong(said, at) }
}

// prolong has all that a report says count from now on, if all of it still does.
func (e *evidence) prolong(said *word, at time.Time) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	if said.over {
		return false
	}
	said.expires = at.Add(reportTTL)
	if said.rows == len(e.seen[said.from]) {
		e.expires.set(said.from, said.expires) // else something else is due before
	}
	return true
}

// see notes a sighting, and reports whether it differs from the last one.
func (e *evidence) see(from reporter, member model.Member, s sighting) bool {
	if e.seen[from] == nil {
		e.seen[from] = map[model.Member]sighting{}
	}
	old, ok := e.seen[from][member]
	if ok {
		old.of.lose()
	}
	e.seen[from][member] = s
	s.of.rows++
	return !ok || old.row != s.row
}

// lose takes a sighting from a report.
func (w *word) lose() { w.rows, w.over = w.rows-1, true }

// schedule notes when the first sighting of a proxy expires: a report need not
// be about all members that the one before was about.
func (e *evidence) schedule(from reporter) {
	if len(e.seen[from]) == 0 {
		delete(e.seen, from)
		e.expires.drop(from)
		return
	}
	var first time.Time
	for _, s := range e.seen[from] {
		first = sooner(first, s.of.expires)
	}
	e.expires.set(from, first)
}

// adopt gives the rows of a checkpoint the time of fresh ones: by then proxies
// are back, or their word counts no more.
func (e *evidence) adopt(now time.Time) {
	e.mu.Lock()
	defer e.mu.Unlock()
	for _, id := range e.reports.Keys() {
		row, _ := e.reports.Get(nil, id)
		from := reporter{id.Edge, id.Proxy}
		e.see(from, id.Member, sighting{row, &word{from: from, expires: now.Add(reportTTL)}})
		e.expires.set(from, now.Add(reportTTL))
	}
}

// expire returns writes that drop what is too old, and when the next one is.
func (e *evidence) expire(now time.Time) (writes []func(*inc.Tx), next time.Time) {
	e.mu.Lock()
	defer e.mu.Unlock()
	var old []model.ReportID
	for from, ok := e.expires.pop(now); ok; from, ok = e.expires.pop(now) {
		for member, s := range e.seen[from] {
			e.looked++
			if !now.Before(s.of.expires) {
				s.of.lose()
				delete(e.seen[from], member)
				old = append(old, from.id(member))
			}
		}
		e.schedule(from)
	}
	slices.SortFunc(old, model.ReportID.Compare)
	for _, id := range old {
		writes = append(writes, func(tx *inc.Tx) { e.reports.Delete(tx, id) })
	}
	return writes, e.expires.next()
}
