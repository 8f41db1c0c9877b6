package app

import (
	"maps"
	"net/netip"
	"slices"

	"github.com/spillway-dev/spillway/internal/fleet"
	"github.com/spillway-dev/spillway/internal/inc"
	"github.com/spillway-dev/spillway/internal/model"
	"github.com/spillway-dev/spillway/internal/probe"
	"github.com/spillway-dev/spillway/internal/zone"
)

// Sites of members have the two witnesses that edges have. Our probe asks their addresses
// for hosts that they have. The other one is what proxies of edges say of the ways to the
// member, where there are any: those lead to its pods, by another road than clients take.
// A member whose API is away says nothing of its traffic.

// road is what proxies of edges say of the ways to a member.
type road struct {
	from map[model.Place]model.Health
	is   zone.Witness // Up if one of them leads there, Down if all are lost
}

// watchSites has sites probed, and the ways to members looked at.
func (w *witnesses) watchSites() {
	w.zones.Edges.Watch(func(changes []inc.Change[model.Edge, zone.EdgeRow]) {
		for _, c := range changes {
			if isSite(c.Key) {
				w.retell[c.Key] = true
			}
		}
	})
	w.p.LeafAsks.Watch(func(changes []inc.Change[model.Edge, inc.List[fleet.LeafAsk]]) {
		for _, c := range changes {
			w.retell[c.Key] = true
		}
	})
	w.p.Paths.Watch(func(changes []inc.Change[model.Path, fleet.PathHealth]) {
		news := false
		w.mu.Lock()
		for _, c := range changes {
			news = w.leads(c) || news
		}
		news = news && len(w.sites) > 0
		w.mu.Unlock()
		if news {
			w.doubt()
		}
	})
}

// isSite tells a site from edges and seats.
func isSite(at model.Edge) bool {
	_, site := at.Site()
	return site
}

// leads notes what is said of a way, and reports whether that is news of the member. It
// needs the lock.
func (w *witnesses) leads(c inc.Change[model.Path, fleet.PathHealth]) bool {
	of := w.roads[c.Key.Member]
	if of.from == nil {
		of.from = map[model.Place]model.Health{}
	}
	delete(of.from, c.Key.From)
	if c.New != nil {
		of.from[c.Key.From] = c.New.Health
	}
	was := of.is
	of.is = zone.Witness{}
	for _, health := range of.from {
		switch {
		case health == model.Up || of.is.Health == model.Up:
			of.is = zone.Witness{Health: model.Up}
		case health == model.Down && was.Health == model.Down:
			of.is = was
		case health == model.Down:
			of.is = zone.Witness{Health: model.Down, Since: w.since(w.now())}
		}
	}
	if w.roads[c.Key.Member] = of; len(of.from) == 0 {
		delete(w.roads, c.Key.Member)
	}
	return of.is != was
}

// targetsOfSite is every address of a site on each port that it is asked on, for a few of
// its hosts: see fleet.LeafAsk.
func (w *witnesses) targetsOfSite(at model.Edge) []probe.Target {
	row, there := w.zones.Edges.Get(nil, at)
	if !there {
		return nil
	}
	asks, _ := w.p.LeafAsks.Get(nil, at)
	var out []probe.Target
	for _, addr := range slices.Concat(row.Edge.Addresses(zone.TypeA), row.Edge.Addresses(zone.TypeAAAA)) {
		for _, ask := range asks {
			out = append(out, probe.Target{Edge: at, Addr: netip.AddrPortFrom(addr, ask.Port), TLS: ask.TLS, Host: ask.Host})
		}
	}
	return out
}

// settle notes whether there is a site, be it probed or not. It needs the lock, and
// belongs to the loop.
func (w *witnesses) settle(at model.Edge, m model.Member) {
	_, there := w.zones.Edges.Get(nil, at)
	here := w.sites[m]
	i, had := slices.BinarySearch(here, at)
	switch {
	case there && !had:
		w.sites[m] = slices.Insert(slices.Clone(here), i, at)
	case !there && had:
		w.sites[m] = slices.Delete(slices.Clone(here), i, i+1)
	}
	if len(w.sites[m]) == 0 {
		delete(w.sites, m)
	}
}

// probedSites gives all targets of a member's sites a verdict, as the prober does one by one.
func (w *witnesses) probedSites(m model.Member, v probe.Verdict) {
	w.mu.Lock()
	var targets []probe.Target
	for _, at := range w.sites[m] {
		targets = append(targets, w.targets[at]...)
	}
	w.mu.Unlock()
	for _, t := range targets {
		w.probed(t, v)
	}
}

// hostNames has host names looked up that members name as their addresses.
type hostNames struct {
	in      *inc.Table[model.Host, zone.Resolved]
	put     func(key any, write func(*inc.Tx))
	wanted  map[model.Host]bool
	changed bool
	set     func([]string) // what is looked up from now on; nil: nothing is
}

func newHostNames(z *zone.Tables, put func(any, func(*inc.Tx))) *hostNames {
	n := &hostNames{in: z.Names, put: put, wanted: map[model.Host]bool{}}
	z.Lookups.Watch(func(changes []inc.Change[model.Host, model.There]) {
		for _, c := range changes {
			n.changed = true
			if c.New != nil {
				n.wanted[c.Key] = true
				continue
			}
			delete(n.wanted, c.Key)
			n.put(nameKey{c.Key}, func(tx *inc.Tx) { n.in.Delete(tx, c.Key) })
		}
	})
	return n
}

// nameKey names a host name in the mailbox.
type nameKey struct{ name model.Host }

// flush says what is looked up.
func (n *hostNames) flush() {
	if !n.changed || n.set == nil {
		return
	}
	n.changed = false
	var all []string
	for _, name := range slices.Sorted(maps.Keys(n.wanted)) {
		all = append(all, string(name))
	}
	n.set(all)
}

// found takes where a name leads to. A name that is wanted no more has no row: what was
// found of it comes before that it goes, or is not reported.
func (n *hostNames) found(name string, addresses []netip.Addr) {
	addresses = slices.Clone(addresses)
	slices.SortFunc(addresses, netip.Addr.Compare)
	row := zone.Resolved{Addresses: slices.Compact(addresses)}
	n.put(nameKey{model.Host(name)}, func(tx *inc.Tx) {
		if n.wanted[model.Host(name)] {
			n.in.Set(tx, model.Host(name), row)
		}
	})
}

// adopt forgets names of a checkpoint that nobody wants any more.
func (n *hostNames) adopt(tx *inc.Tx) {
	for _, name := range n.in.Keys() {
		if !n.wanted[name] {
			n.in.Delete(tx, name)
		}
	}
}
