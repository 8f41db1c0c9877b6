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

// vantageWindow is how close losses must be to each other for a vantage that
// lost more than half of all edges to be distrusted.
const vantageWindow = 10 * time.Second

// witnesses watch edges: by their streams to us, and by probes of their public
// addresses. It is told from any goroutine; the loop reads it.
type witnesses struct {
	p     *fleet.Program
	zones *zone.Tables
	now   func() time.Time
	wake  func()

	probeNotices time.Duration
	setTargets   func([]probe.Target)

	mu      sync.Mutex
	open    map[uint64]xds.StreamChange
	streams map[model.Edge]zone.Witness
	targets []probe.Target
	tally   probe.Tally
	retell  bool // targets may have changed
	shown   map[model.Edge]zone.Witnesses
}

func newWitnesses(p *fleet.Program, z *zone.Tables, now func() time.Time, wake func()) *witnesses {
	w := &witnesses{p: p, zones: z, now: now, wake: wake, open: map[uint64]xds.StreamChange{}, streams: map[model.Edge]zone.Witness{},
		tally: probe.Tally{}, shown: map[model.Edge]zone.Witnesses{}}
	p.Addresses.Watch(func([]inc.Change[model.Edge, fleet.AddressList]) { w.retell = true })
	p.ClassInfo.Watch(func([]inc.Change[model.Class, fleet.ClassInfo]) { w.retell = true })
	return w
}

// flush gives the prober its targets: every public address of every edge, on
// the HTTP port of each class that it serves.
func (w *witnesses) flush() {
	if !w.retell {
		return
	}
	w.retell = false
	ports := map[model.Edge][]uint16{}
	for _, class := range w.p.ClassInfo.Keys() {
		info, _ := w.p.ClassInfo.Get(nil, class)
		for _, edge := range info.Edges {
			ports[edge] = append(ports[edge], info.Config.HTTPPort)
		}
	}
	var targets []probe.Target
	for _, edge := range w.p.In.Edges.Keys() {
		addresses, _ := w.p.Addresses.Get(nil, edge)
		slices.Sort(ports[edge])
		for _, port := range slices.Compact(ports[edge]) {
			for _, addr := range addresses {
				targets = append(targets, probe.Target{Edge: edge, Addr: netip.AddrPortFrom(addr, port)})
			}
		}
	}
	w.mu.Lock()
	w.targets = targets
	maps.DeleteFunc(w.tally, func(t probe.Target, _ probe.Verdict) bool { return !slices.Contains(targets, t) })
	w.mu.Unlock()
	w.setTargets(targets)
}

// probed takes a verdict of the prober.
func (w *witnesses) probed(t probe.Target, v probe.Verdict) {
	w.mu.Lock()
	w.tally[t] = v
	w.mu.Unlock()
	w.wake()
}

// streamed takes openings and closings of streams, and writes how many proxies
// each edge has. It runs inside a commit.
func (w *witnesses) streamed(tx *inc.Tx, changes []xds.StreamChange) {
	w.mu.Lock()
	defer w.mu.Unlock()
	touched := map[model.Edge]bool{}
	for _, s := range changes {
		if s.Class != xds.Envoy {
			continue // it serves nobody
		}
		touched[model.Edge(s.Edge)] = true
		if s.Open {
			w.open[s.Stream] = s
		} else {
			delete(w.open, s.Stream)
		}
	}
	for _, edge := range slices.SortedFunc(maps.Keys(touched), cmp.Compare) {
		nodes := map[string]bool{}
		for _, s := range w.open {
			if model.Edge(s.Edge) == edge {
				nodes[s.Node] = true
			}
		}
		w.p.In.Streams.Set(tx, edge, model.Streams{Connected: len(nodes)})
		switch was := w.streams[edge]; {
		case len(nodes) > 0:
			w.streams[edge] = zone.Witness{Health: model.Up}
		case was.Health != model.Down:
			w.streams[edge] = zone.Witness{Health: model.Down, Since: w.now().Unix()}
		}
	}
}

// due returns the rows of witnesses that changed by now, and when one may
// change by time alone.
func (w *witnesses) due(now time.Time) (writes []func(*inc.Tx), next time.Time) {
	w.mu.Lock()
	defer w.mu.Unlock()
	edges := w.p.In.Edges.Keys()
	streams, probes := make([]zone.Witness, len(edges)), make([]zone.Witness, len(edges))
	for i, edge := range edges {
		streams[i] = alone(w.streams[edge], streamNotices, now, &next)
		probes[i] = alone(w.probeOf(edge), w.probeNotices, now, &next)
	}
	window := int64(vantageWindow / time.Second)
	streams, probes = zone.Trust(streams, window), zone.Trust(probes, window)
	seen := map[model.Edge]bool{}
	for i, edge := range edges {
		seen[edge] = true
		row := zone.Witnesses{Stream: streams[i], Probe: probes[i]}
		if w.shown[edge] == row {
			continue
		}
		w.shown[edge] = row
		writes = append(writes, func(tx *inc.Tx) {
			w.zones.Witnesses.Set(tx, edge, row)
			w.p.In.Reachable.Set(tx, edge, model.Reachability{Health: row.Probe.Health})
		})
	}
	for edge := range w.shown {
		if seen[edge] {
			continue
		}
		delete(w.shown, edge)
		delete(w.streams, edge)
		writes = append(writes, func(tx *inc.Tx) {
			w.zones.Witnesses.Delete(tx, edge)
			w.p.In.Reachable.Delete(tx, edge)
			w.p.In.Streams.Delete(tx, edge)
		})
	}
	return writes, next
}

func (w *witnesses) probeOf(edge model.Edge) zone.Witness {
	v := w.tally.Edge(edge, w.targets)
	out := zone.Witness{Health: v.Health}
	if v.Health == model.Down {
		out.Since = v.Since.Unix()
	}
	return out
}

// alone marks a witness that has been alone with its verdict for long enough,
// or notes when it will have been.
func alone(w zone.Witness, notices time.Duration, now time.Time, next *time.Time) zone.Witness {
	if w.Health != model.Down {
		return w
	}
	at := time.Unix(w.Since, 0).Add(aloneFactor * notices)
	if w.Alone = !now.Before(at); !w.Alone {
		*next = sooner(*next, at)
	}
	return w
}

// sooner is the earlier of two times, of which zero is none.
func sooner(a, b time.Time) time.Time {
	if a.IsZero() || !b.IsZero() && b.Before(a) {
		return b
	}
	return a
}
