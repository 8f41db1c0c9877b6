package app

import (
	"cmp"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/spillway-dev/spillway/internal/fleet"
	"github.com/spillway-dev/spillway/internal/inc"
	"github.com/spillway-dev/spillway/internal/model"
	"github.com/spillway-dev/spillway/internal/xds/hds"
)

// directory answers what streams ask about their edge, from any goroutine: a
// copy of a few tables, changed by the loop.
type directory struct {
	mu       sync.RWMutex
	edges    map[model.Edge]listing
	canaries map[model.Member]fleet.Canaries
	networks map[model.Member][]string
	views    func(edge string) string // that edges have by now; empty: none yet

	probing bool // what edges should probe may have changed since the last flush
	changed func()
	revoked bool // somebody may not speak for an edge any more
	recheck func()
}

// listing is what is known of an edge.
type listing struct {
	probing    hds.Probing
	networks   []string
	identities []string
}

func newDirectory(p *fleet.Program, views func(edge string) string, changed, recheck func()) *directory {
	d := &directory{
		edges: map[model.Edge]listing{}, canaries: map[model.Member]fleet.Canaries{}, networks: map[model.Member][]string{},
		views: views, changed: changed, recheck: recheck,
	}
	relist := func(id model.Edge) {
		spec, ok := p.In.Edges.Get(nil, id)
		row, _ := p.Views.Get(nil, id)
		ports, _ := p.Ports.Get(nil, fleet.SetOf(row.Key))
		d.mu.Lock()
		defer d.mu.Unlock()
		was, had := d.edges[id]
		now := listing{probing(ports.Probes), spec.Networks, spec.Identities}
		if d.edges[id] = now; !ok {
			delete(d.edges, id)
		}
		d.probing = d.probing || had != ok || was.probing != now.probing || !slices.Equal(was.networks, now.networks)
	}
	p.In.Edges.Watch(func(changes []inc.Change[model.Edge, model.EdgeSpec]) {
		for _, c := range changes {
			relist(c.Key)
			if c.Old != nil && (c.New == nil || !slices.Equal(c.Old.Identities, c.New.Identities)) {
				d.mu.Lock()
				d.revoked = true
				d.mu.Unlock()
			}
		}
	})
	p.Views.Watch(func(changes []inc.Change[model.Edge, fleet.View]) {
		for _, c := range changes {
			relist(c.Key)
		}
	})
	p.Ports.Watch(func(changes []inc.Change[fleet.ClassSet, fleet.Ports]) {
		for _, c := range changes {
			if c.Old == nil || c.New == nil || slices.Equal(c.Old.Probes, c.New.Probes) {
				continue
			}
			for _, id := range p.In.Edges.Keys() {
				relist(id)
			}
		}
	})
	p.In.Members.Watch(func(changes []inc.Change[model.Member, model.MemberSpec]) {
		d.mu.Lock()
		defer d.mu.Unlock()
		for _, c := range changes {
			if c.New == nil {
				delete(d.networks, c.Key)
			} else {
				d.networks[c.Key] = c.New.Networks
			}
		}
		d.probing = true
	})
	fleet.WatchCanaries(p, func(m model.Member, c fleet.Canaries) {
		d.mu.Lock()
		defer d.mu.Unlock()
		if len(c) == 0 {
			delete(d.canaries, m)
		} else {
			d.canaries[m] = c
		}
		d.probing = true
	})
	return d
}

// probing is how the canaries of an edge are probed: of what its classes ask for,
// by what is quickest to notice.
func probing(asked []model.Timing) hds.Probing {
	var best hds.Probing
	for _, t := range asked {
		next := hds.Probing{
			Interval: time.Duration(t.ProbeInterval) * time.Millisecond, Timeout: time.Duration(t.ProbeTimeout) * time.Millisecond,
			Unhealthy: uint32(t.ProbeFailures), Healthy: uint32(t.ProbeSuccesses),
		}
		if best == (hds.Probing{}) || next.Detection() < best.Detection() {
			best = next
		}
	}
	return best
}

// probingOf is how the canaries of an edge are probed.
func (d *directory) probingOf(edge string) hds.Probing {
	d.mu.RLock()
	defer d.mu.RUnlock()
	return d.edges[model.Edge(edge)].probing
}

// flush tells streams to ask again, if there may be something new.
func (d *directory) flush() {
	d.mu.Lock()
	probing, revoked := d.probing, d.revoked
	d.probing, d.revoked = false, false
	d.mu.Unlock()
	if revoked {
		d.recheck()
	}
	if probing {
		d.changed()
	}
}

// viewOf is the id of the view that an edge's proxies get. It is that of the last
// commit that the store has applied, so that no stream is sent to a view before
// what the view has: to one that nobody publishes if there is none yet.
func (d *directory) viewOf(edge string) (string, bool) {
	return d.views(edge), d.has(model.Edge(edge))
}

// has tells whether there is an edge.
func (d *directory) has(edge model.Edge) bool {
	d.mu.RLock()
	defer d.mu.RUnlock()
	_, ok := d.edges[edge]
	return ok
}

// clientViewOf is the same for an edge's gRPC clients.
func (d *directory) clientViewOf(edge string) (string, bool) {
	view, ok := d.viewOf(edge)
	return view + clientView, ok
}

// allows reports whether a data plane of an Edge may have an identity: any if the
// Edge lists none, and of an Edge that is not known it is not for us to say.
func (d *directory) allows(edge, spiffeID string) bool {
	d.mu.RLock()
	defer d.mu.RUnlock()
	listed := d.edges[model.Edge(edge)].identities
	return len(listed) == 0 || slices.Contains(listed, spiffeID)
}

// probes are the canaries that the proxies of an edge should probe: of every
// member that it dials.
func (d *directory) probes(edge string) []hds.Canary {
	d.mu.RLock()
	defer d.mu.RUnlock()
	l, ok := d.edges[model.Edge(edge)]
	if !ok {
		return nil
	}
	shared := func(n string) bool { return slices.Contains(l.networks, n) }
	var out []hds.Canary
	for _, member := range slices.SortedFunc(maps.Keys(d.canaries), cmp.Compare) {
		if !slices.ContainsFunc(d.networks[member], shared) {
			continue
		}
		for _, at := range d.canaries[member] {
			out = append(out, hds.Canary{Member: string(member), Addr: at})
		}
	}
	return out
}
