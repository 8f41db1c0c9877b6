package fleet

import (
	"cmp"
	"slices"

	"github.com/spillway-dev/spillway/internal/inc"
	"github.com/spillway-dev/spillway/internal/model"
)

// Site is an edge as classes are bound to it: from where it dials, and what it
// listens on, but not for whom. A class more that is served like others changes
// nothing here, so that nothing of the others follows from it.
type Site struct {
	Vantage model.Vantage
	hops    uint8  // that are trusted
	slots   []slot // sorted by number
}

// slot is a port but for its classes.
type slot struct {
	model.Socket
	table string // its name
}

// Equal reports whether both are the same.
func (a Site) Equal(b Site) bool {
	return a.Vantage == b.Vantage && a.hops == b.hops && slices.Equal(a.slots, b.slots)
}

// Sockets are ports, sorted by number.
type Sockets []model.Socket

// Equal reports whether both are the same.
func (a Sockets) Equal(b Sockets) bool { return slices.Equal(a, b) }

// Binding is a class at an edge.
type Binding struct {
	Vantage  model.Vantage
	Fronts   []model.Collection // of the class, by the tables of its ports there, sorted
	Delivery                    // of its certificates
	Lease    model.Lease        // of addresses for the class alone; zero: it shares those of the edge
}

// Seat is what DNS answers with there: the edge, or the class's part of it.
func (a Binding) Seat(e model.Edge) model.Edge {
	if len(a.Lease.Has) == 0 {
		return e
	}
	return a.Lease.Seat()
}

// Equal reports whether both are the same.
func (a Binding) Equal(b Binding) bool {
	return a.Vantage == b.Vantage && slices.Equal(a.Fronts, b.Fronts) && a.Delivery == b.Delivery && a.Lease.Equal(b.Lease)
}

// Alike reports whether a class is served as well where either is, but for the
// addresses.
func (a Binding) Alike(b Binding) bool {
	b.Lease = a.Lease
	return a.Equal(b)
}

// declareSites says what edges listen on, and where each class is served.
func (p *Program) declareSites(g *inc.Graph) {
	p.Sites = inc.Derive(g, "sites", func(r *inc.Reader, e model.Edge) (Site, bool) {
		view, ok := p.Views.Get(r, e)
		out := Site{Vantage: view.Key.Vantage(), hops: view.Key.TrustedHops()}
		ports, _ := p.Ports.Get(r, SetOf(view.Key))
		for _, of := range ports.List {
			out.slots = append(out.slots, slot{of.Socket, of.Table})
		}
		return out, ok
	}, p.Views)
	p.Listening = inc.Derive(g, "listening", func(r *inc.Reader, e model.Edge) (out Sockets, ok bool) {
		view, _ := p.Views.Get(r, e)
		ports, _ := p.Ports.Get(r, SetOf(view.Key))
		for _, of := range ports.List {
			if !of.mute() {
				out = append(out, of.Socket)
			}
		}
		return out, len(out) > 0
	}, p.Views)
	p.ListeningAlone = inc.Derive(g, "listening alone", func(r *inc.Reader, id model.LeaseID) (out Sockets, ok bool) {
		bids := p.tenants.Get(r, id.Class)
		for i, c := range p.tenants.Keys(r, id.Class) {
			for _, s := range bids[i].ports {
				if s.Number != 0 && (!s.TLS || s.OnDemand || p.chaining.has(r, c) || p.relaying.has(r, c)) {
					out = append(out, s)
				}
			}
		}
		slices.SortFunc(out, func(a, b model.Socket) int { return cmp.Compare(a.Number, b.Number) })
		return out, len(out) > 0
	}, p.Leases)
	p.Outlets = inc.Derive(g, "outlets", func(r *inc.Reader, c model.Class) (*Outlets, bool) {
		class, _ := p.ClassInfo.Get(r, c)
		var all []Binding
		for _, e := range class.Edges {
			if b, ok := p.Binding(r, c, e); ok {
				all = append(all, b)
			}
		}
		for _, k := range p.left.Keys(r, c.Tenant()) {
			site, _ := p.Sites.Get(r, k.Edge)
			all = append(all, aloneAt(site, c, class.Config))
		}
		return OutletsOf(all), true
	}, p.ClassInfo)
}

// Binding is how a class is served at an edge. It is not where others have all its
// ports, or all the addresses that are for single classes.
func (p *Program) Binding(r *inc.Reader, c model.Class, e model.Edge) (Binding, bool) {
	class, _ := p.ClassInfo.Get(r, c)
	if _, found := slices.BinarySearch(class.Edges, e); !found {
		return Binding{}, false
	}
	site, _ := p.Sites.Get(r, e)
	var out Binding
	if class.Config.Own {
		lease, ok := p.Lease(r, model.LeaseID{Edge: e, Class: c.Tenant()})
		if !ok {
			return Binding{}, false
		}
		out = aloneAt(site, c, class.Config)
		out.Lease = lease
		return out, true
	}
	out.Vantage = site.Vantage
	for _, s := range site.slots {
		if !class.Wants(s.Socket) {
			continue
		}
		out.Fronts = append(out.Fronts, model.FrontOf(c, s.table))
		out.Static = out.Static || s.TLS && !s.OnDemand
		out.OnDemand = out.OnDemand || s.OnDemand
	}
	slices.SortFunc(out.Fronts, model.Collection.Compare)
	out.Fronts = slices.Compact(out.Fronts)
	return out, len(out.Fronts) > 0
}

// aloneAt is how a class is served at a site on addresses that are for it alone.
func aloneAt(site Site, c model.Class, of model.ConfigSpec) Binding {
	out := Binding{Vantage: site.Vantage, Fronts: []model.Collection{model.FrontOf(c, model.OwnTable(c))}}
	out.OnDemand = of.HTTPSPort != 0 && of.OnDemand
	out.Static = of.HTTPSPort != 0 && !of.OnDemand
	return out
}
