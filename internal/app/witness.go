package app

import (
	"cmp"
	"maps"
	"net/netip"
	"slices"
	"sync"
	"time"

	"github.com/spillway-dev/spillway/internal/fleet"
	"github.com/spillway-dev/spillway/internal/inc"
	"github.com/spillway-dev/spillway/internal/model"
	"github.com/spillway-dev/spillway/internal/probe"
	"github.com/spillway-dev/spillway/internal/xds"
	"github.com/spillway-dev/spillway/internal/zone"
)

// How long a witness needs to notice, and how long it must be alone with its
// verdict before that suffices: three times as long.
const (
	streamNotices = 3 * time.Second
	aloneFactor   = 3
)

// lossWindow is how close losses must be to each other for an observer that
// lost more than half of all edges to be distrusted.
const lossWindow = 10 * time.Second

// witnesses watch edges: by their streams to us, and by probes of their public
// addresses. It is told from any goroutine; the loop reads it.
type witnesses struct {
	p     *fleet.Program
	zones *zone.Tables
	now   func() time.Time
	began time.Time // what Since of a witness is counted from, see since
	wake  func()

	probeNotices time.Duration
	setTargets   func(model.Edge, []probe.Target)

	mu      sync.Mutex
	open    map[uint64]xds.StreamChange
	crowds  map[model.Edge]crowd // what is open, by edge
	streams map[model.Edge]zone.Witness
	targets map[model.Edge][]probe.Target // of edges, and of seats
	seats   map[model.Edge][]model.Edge   // of an edge, sorted
	sites   map[model.Member][]model.Edge // of a member, sorted
	roads   map[model.Member]road         // what proxies of edges say of the ways to it
	tally   probe.Tally
	reached map[model.Edge]bool // some address of it answered, if only with a refusal
	shown   map[model.Edge]zone.Witnesses
	dirty   bool                // something was told since edges were judged
	next    time.Time           // when time alone changes the judgement; zero: never
	judged  int                 // edges judged, for tests
	retell  map[model.Edge]bool // edges and seats whose targets may have changed; belongs to the loop
}

func newWitnesses(p *fleet.Program, z *zone.Tables, now func() time.Time, wake func()) *witnesses {
	w := &witnesses{p: p, zones: z, now: now, began: now(), wake: wake, open: map[uint64]xds.StreamChange{}, crowds: map[model.Edge]crowd{}, streams: map[model.Edge]zone.Witness{},
		tally: probe.Tally{}, reached: map[model.Edge]bool{}, shown: map[model.Edge]zone.Witnesses{},
		targets: map[model.Edge][]probe.Target{}, seats: map[model.Edge][]model.Edge{}, retell: map[model.Edge]bool{},
		sites: map[model.Member][]model.Edge{}, roads: map[model.Member]road{}}
	w.watchSites()
	p.Listening.Watch(func(changes []inc.Change[model.Edge, fleet.Sockets]) {
		for _, c := range changes {
			w.retell[c.Key] = true
		}
	})
	p.ListeningAlone.Watch(func(changes []inc.Change[model.LeaseID, fleet.Sockets]) {
		for _, c := range changes {
			w.retell[c.Key.Seat()] = true
		}
	})
	p.Holdings.Watch(func(changes []inc.Change[model.LeaseID, fleet.Holding]) {
		for _, c := range changes {
			w.retell[c.Key.Seat()] = true
		}
	})
	p.Leases.Watch(func(changes []inc.Change[model.LeaseID, model.Lease]) {
		for _, c := range changes {
			w.retell[c.Key.Seat()] = true
		}
	})
	p.In.Edges.Watch(func(changes []inc.Change[model.Edge, model.EdgeSpec]) {
		for _, c := range changes {
			w.retell[c.Key] = true
			if c.Old == nil || c.New == nil {
				w.doubt()
			}
		}
	})
	return w
}

// doubt has all edges judged anew in the next turn.
func (w *witnesses) doubt() {
	w.mu.Lock()
	w.dirty = true
	w.mu.Unlock()
	w.wake()
}

// since is the moment as rows have it. It goes on evenly from the start, however
// the clock is set, as does what is compared with it.
func (w *witnesses) since(t time.Time) int64 { return w.began.Add(t.Sub(w.began)).Unix() }

// moment is the reverse of since.
func (w *witnesses) moment(since int64) time.Time {
	return w.began.Add(time.Duration(since-w.began.Unix())*time.Second - time.Duration(w.began.Nanosecond()))
}

// flush gives the prober its targets, of edges and of seats where these may have
// changed.
func (w *witnesses) flush() {
	if len(w.retell) == 0 {
		return
	}
	for _, at := range slices.Sorted(maps.Keys(w.retell)) {
		now := w.targetsOf(at)
		w.mu.Lock()
		w.aim(at, now)
		w.mu.Unlock()
		w.setTargets(at, now)
	}
	clear(w.retell)
	w.doubt()
}

// targetsOf is every public address of an edge, on each port that it listens on,
// or those that a class has there for itself.
func (w *witnesses) targetsOf(at model.Edge) []probe.Target {
	if _, site := at.Site(); site {
		return w.targetsOfSite(at)
	}
	var addresses []netip.Addr
	var ports fleet.Sockets
	if id, seat := at.Leased(); seat {
		lease, _ := w.p.Lease(nil, id)
		addresses = lease.Open()
		ports, _ = w.p.ListeningAlone.Get(nil, id)
	} else {
		spec, _ := w.p.In.Edges.Get(nil, at)
		addresses = spec.Addresses
		ports, _ = w.p.Listening.Get(nil, at)
	}
	var out []probe.Target
	for _, port := range ports {
		if port.Traffic != model.Requests {
			continue // it would reach pods, which know of no probes
		}
		for _, addr := range addresses {
			out = append(out, probe.Target{Edge: at, Addr: netip.AddrPortFrom(addr, port.Number), TLS: port.TLS})
		}
	}
	return out
}

// aim notes the targets of an edge or a seat. A seat without one is none. It needs
// the lock.
func (w *witnesses) aim(at model.Edge, now []probe.Target) {
	for _, t := range w.targets[at] {
		if !slices.Contains(now, t) {
			delete(w.tally, t)
		}
	}
	if w.targets[at] = now; len(now) == 0 {
		delete(w.targets, at)
	}
	if site, is := at.Site(); is {
		w.settle(at, site.Member)
		return
	}
	id, seat := at.Leased()
	if !seat {
		return
	}
	seats := w.seats[id.Edge]
	i, there := slices.BinarySearch(seats, at)
	switch {
	case len(now) > 0 && !there:
		w.seats[id.Edge] = slices.Insert(seats, i, at)
	case len(now) == 0 && there:
		w.seats[id.Edge] = slices.Delete(seats, i, i+1)
	}
	if len(w.seats[id.Edge]) == 0 {
		delete(w.seats, id.Edge)
	}
}

// probed takes a verdict of the prober.
func (w *witnesses) probed(t probe.Target, v probe.Verdict) {
	w.mu.Lock()
	aimed := slices.Contains(w.targets[t.Edge], t) // else its last word crossed with flush
	if aimed {
		w.tally.Note(t, v)
		w.reached[t.Edge] = w.reached[t.Edge] || v.Health == model.Up || v.Why == probe.Refused
	}
	w.mu.Unlock()
	if aimed {
		w.doubt()
	}
}

// streamed takes openings and closings of streams and what proxies serve, and
// writes how many proxies each edge has. An edge whose proxies serve nothing is
// as good as one without. It runs inside a commit.
func (w *witnesses) streamed(tx *inc.Tx, changes []xds.StreamChange) {
	w.mu.Lock()
	defer w.mu.Unlock()
	touched := map[model.Edge]bool{}
	for _, s := range changes {
		if s.Class != xds.Envoy {
			continue // it serves nobody
		}
		touched[model.Edge(s.Edge)] = true
		w.count(w.open[s.Stream], -1)
		if delete(w.open, s.Stream); s.Open {
			w.open[s.Stream] = s
			w.count(s, 1)
		}
	}
	if len(touched) > 0 {
		w.dirty = true
		w.wake()
	}
	for _, edge := range slices.SortedFunc(maps.Keys(touched), cmp.Compare) {
		here := w.crowds[edge]
		w.p.In.Streams.Set(tx, edge, model.Streams{Connected: len(here.nodes), Synced: here.synced})
		switch was := w.streams[edge]; {
		case here.serving > 0:
			w.streams[edge] = zone.Witness{Health: model.Up}
		case was.Health != model.Down:
			w.streams[edge] = zone.Witness{Health: model.Down, Since: w.since(w.now())}
		}
	}
}

// crowd is the open streams of an edge, counted.
type crowd struct {
	nodes   map[string]node
	synced  int // nodes with a stream that has its first state
	serving int // streams
}

// node is the streams of a proxy.
type node struct{ open, loaded int }

// count adds a stream by times; the zero one is none.
func (w *witnesses) count(s xds.StreamChange, times int) {
	if !s.Open {
		return
	}
	edge := model.Edge(s.Edge)
	all := w.crowds[edge]
	if all.nodes == nil {
		all.nodes = map[string]node{}
	}
	n := all.nodes[s.Node]
	if n.loaded > 0 {
		all.synced--
	}
	n.open += times
	if s.Loaded {
		n.loaded += times
	}
	if s.Serves {
		all.serving += times
	}
	if n.loaded > 0 {
		all.synced++
	}
	if all.nodes[s.Node] = n; n.open == 0 {
		delete(all.nodes, s.Node)
	}
	if w.crowds[edge] = all; len(all.nodes) == 0 {
		delete(w.crowds, edge)
	}
}

// due returns the rows of witnesses that changed by now, and when one may
// change by time alone.
func (w *witnesses) due(now time.Time) (writes []func(*inc.Tx), next time.Time) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if !w.dirty && (w.next.IsZero() || now.Before(w.next)) {
		return nil, w.next
	}
	rows := w.judge(now, &next)
	w.judged += len(rows)
	left := len(w.shown)
	for _, row := range rows {
		was, ok := w.shown[row.at]
		if ok {
			left--
		}
		if was == row.is {
			continue
		}
		w.shown[row.at] = row.is
		writes = append(writes, func(tx *inc.Tx) {
			w.zones.Witnesses.Set(tx, row.at, row.is)
			if _, seat := row.at.Leased(); !seat && !isSite(row.at) {
				w.p.In.Reachable.Set(tx, row.at, model.Reachability{Health: row.is.Probe.Health})
			}
		})
	}
	if left > 0 {
		writes = append(writes, w.forget(rows)...)
	}
	w.dirty, w.next = false, next
	return writes, next
}

// forget drops what is known of all but these.
func (w *witnesses) forget(rows []judgement) (writes []func(*inc.Tx)) {
	there := make(map[model.Edge]bool, len(rows))
	for _, row := range rows {
		there[row.at] = true
	}
	for edge := range w.shown {
		if there[edge] {
			continue
		}
		delete(w.shown, edge)
		delete(w.streams, edge)
		delete(w.reached, edge)
		writes = append(writes, func(tx *inc.Tx) {
			w.zones.Witnesses.Delete(tx, edge)
			w.p.In.Reachable.Delete(tx, edge)
			w.p.In.Streams.Delete(tx, edge)
		})
	}
	return writes
}

// judgement is what is known of an edge, or of a seat of it.
type judgement struct {
	at model.Edge
	is zone.Witnesses
}

// judge is what is known of all edges, with their seats, and of the sites of members. An
// observer is trusted by edges and members, however many places they have: one is lost to
// our probe when nothing of it answers, whoever it is for.
func (w *witnesses) judge(now time.Time, next *time.Time) []judgement {
	edges, members := w.p.In.Edges.Keys(), slices.Sorted(maps.Keys(w.sites))
	streams, roads := make([]zone.Witness, len(edges)), make([]zone.Witness, len(members))
	places := make([][]model.Edge, 0, len(edges)+len(members))
	for i, edge := range edges {
		streams[i] = w.alone(w.streams[edge], streamNotices, now, next)
		places = append(places, append([]model.Edge{edge}, w.seats[edge]...))
	}
	for i, m := range members {
		roads[i] = w.alone(w.roads[m].is, streamNotices, now, next)
		places = append(places, w.sites[m])
	}
	window := int64(lossWindow / time.Second)
	said, heard := slices.Concat(streams, roads), slices.Concat(zone.Trust(streams, window), zone.Trust(roads, window))
	out := make([]judgement, 0, len(w.targets)+len(edges))
	wholes := make([]zone.Witness, len(places))
	for i, all := range places {
		for _, at := range all {
			probe := w.alone(w.probeOf(at), w.probeNotices, now, next)
			wholes[i] = either(wholes[i], probe)
			// Against a stream that is up our probe counts only where it once got
			// through: a firewall may keep us out, and nobody else.
			probe.Alone = probe.Alone && (said[i].Health != model.Up || w.reached[at])
			out = append(out, judgement{at, zone.Witnesses{Stream: heard[i], Probe: probe}})
		}
	}
	believed, first := zone.Trust(wholes, window), 0
	for i, all := range places {
		for range all {
			if believed[i].Health != wholes[i].Health {
				out[first].is.Probe = zone.Witness{}
			}
			first++
		}
	}
	return out
}

// either is what is known of two places together: one that is up suffices.
func either(a, b zone.Witness) zone.Witness {
	switch {
	case a.Health == model.Up || b.Health == model.Unknown:
		return a
	case b.Health == model.Up || a.Health == model.Unknown || b.Since > a.Since:
		return b
	}
	return a
}

func (w *witnesses) probeOf(at model.Edge) zone.Witness {
	v := w.tally.Of(w.targets[at])
	out := zone.Witness{Health: v.Health}
	if v.Health == model.Down {
		out.Since = w.since(v.Since)
	}
	return out
}

// alone marks a witness that has been alone with its verdict for long enough,
// or notes when it will have been.
func (w *witnesses) alone(one zone.Witness, notices time.Duration, now time.Time, next *time.Time) zone.Witness {
	if one.Health != model.Down {
		return one
	}
	at := w.moment(one.Since).Add(aloneFactor * notices)
	if one.Alone = !now.Before(at); !one.Alone {
		*next = sooner(*next, at)
	}
	return one
}

// sooner is the earlier of two times, of which zero is none.
func sooner(a, b time.Time) time.Time {
	if a.IsZero() || !b.IsZero() && b.Before(a) {
		return b
	}
	return a
}
