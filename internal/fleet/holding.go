package fleet

import (
	"net/netip"
	"slices"

	"github.com/spillway-dev/spillway/internal/inc"
	"github.com/spillway-dev/spillway/internal/model"
)

// Holding is what proxies of an edge have for a class that has addresses of its
// own there, or left some, beside what all edges have. Of a Gateway it is what they
// have for all of its ports.
type Holding struct {
	Collections []model.Collection
	Static      []ClassList   // those with certificates with their listeners
	Demand      []model.Class // those with certificates on demand
}

// Equal reports whether both are the same.
func (a Holding) Equal(b Holding) bool {
	return slices.Equal(a.Collections, b.Collections) && slices.Equal(a.Static, b.Static) && slices.Equal(a.Demand, b.Demand)
}

// declareHoldings says what follows from tenures.
func (p *Program) declareHoldings(g *inc.Graph) {
	p.Holdings = inc.Derive(g, "holdings", p.holding, p.tenuresOf)
	p.holdingsAt = inc.IndexBy(p.Holdings, func(id model.LeaseID, _ Holding) []model.Edge { return []model.Edge{id.Edge} })
}

func (p *Program) holding(r *inc.Reader, id model.LeaseID) (Holding, bool) {
	bids := p.tenants.Get(r, id.Class)
	var out Holding
	binds := p.binds(r, id)
	site, _ := p.Sites.Get(r, id.Edge) // a view changes with each class
	for i, c := range p.tenants.Keys(r, id.Class) {
		p.hold(r, &out, c, bids[i], binds, site)
	}
	return out, len(bids) > 0
}

// hold adds what proxies have for a class.
func (p *Program) hold(r *inc.Reader, out *Holding, c model.Class, b *bid, binds []netip.Addr, site Site) {
	of := Port{Table: model.OwnTable(c)}
	for _, of.Socket = range b.ports {
		of.Deep = b.deep
		if of.Number == 0 {
			continue
		}
		if of.Static = p.says(r, c, of); of.Static != "" {
			out.Static = append(out.Static, of.Static)
		}
		if of.OnDemand {
			out.Demand = append(out.Demand, c)
		}
		if of.mute() {
			continue
		}
		if of.TellsApart() {
			out.Collections = append(out.Collections, model.CollectionKey{Kind: model.Names, ViewKey: model.ViewKey{Classes: string(c)}, Table: of.Table}.Collection())
		}
		for _, of.Bind = range binds {
			out.Collections = append(out.Collections, of.sockets(false, site.hops))
		}
	}
	for _, few := range []struct {
		of   group
		kind model.Kind
	}{{p.contesting, model.Contest}, {p.deepening, model.Wildcards}} {
		if few.of.has(r, c) {
			key := model.ViewKey{Classes: string(c)}
			out.Collections = append(out.Collections, model.CollectionKey{Kind: few.kind, ViewKey: key, Table: of.Table}.Collection())
		}
	}
	if p.looking.has(r, c) {
		out.Collections = append(out.Collections, model.LookupsOf(c, site.Vantage))
	}
	out.Collections = append(out.Collections, model.FrontOf(c, of.Table))
}

// says is a class as the only one with a say in what a listener says itself, if there
// is something.
func (p *Program) says(r *inc.Reader, c model.Class, of Port) ClassList {
	certified := of.TLS && !of.OnDemand && (p.chaining.has(r, c) || p.disputing.has(r, c))
	if certified || p.relaying.has(r, c) {
		return ClassList(c)
	}
	return ""
}

// held is what proxies of a view have for classes with addresses of their own.
type held struct{ rows []Holding }

func (p *Program) held(r *inc.Reader, v model.View) held {
	if v.Edge() == "" {
		return held{}
	}
	return held{p.holdingsAt.Get(r, v.Edge())}
}

// demand is the classes with certificates on demand, given the others that have.
func (a held) demand(others []model.Class) []model.Class {
	var own []model.Class
	for _, of := range a.rows {
		own = append(own, of.Demand...)
	}
	if len(own) == 0 {
		return others
	}
	return slices.Sorted(slices.Values(slices.Concat(others, own)))
}

// HoldingOf is what proxies of a view have for a class with addresses of its own
// there.
func (p *Program) HoldingOf(r *inc.Reader, v model.View, c model.Class) Holding {
	out, _ := p.Holdings.Get(r, model.LeaseID{Edge: v.Edge(), Class: c.Tenant()})
	return out
}
