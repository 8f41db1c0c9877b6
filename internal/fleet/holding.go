package fleet

import (
	"slices"

	"github.com/spillway-dev/spillway/internal/inc"
	"github.com/spillway-dev/spillway/internal/model"
)

// Holding is what proxies of an edge have for a class that has addresses of its
// own there, or left some, beside what all edges have.
type Holding struct {
	Collections []model.Collection
	Static      ClassList // it, if certificates come with its listeners
	OnDemand    bool      // or else, if there are any
}

// Equal reports whether both are the same.
func (a Holding) Equal(b Holding) bool {
	return slices.Equal(a.Collections, b.Collections) && a.Static == b.Static && a.OnDemand == b.OnDemand
}

// declareHoldings says what follows from tenures.
func (p *Program) declareHoldings(g *inc.Graph) {
	p.Holdings = inc.Derive(g, "holdings", p.holding, p.tenuresOf)
	p.holdingsAt = inc.IndexBy(p.Holdings, func(id model.LeaseID, _ Holding) []model.Edge { return []model.Edge{id.Edge} })
}

func (p *Program) holding(r *inc.Reader, id model.LeaseID) (Holding, bool) {
	b, ok := p.bids.Get(r, id.Class)
	if !ok {
		return Holding{}, false
	}
	var out Holding
	of := Port{Table: model.OwnTable(id.Class)}
	binds := p.binds(r, id)
	site, _ := p.Sites.Get(r, id.Edge) // a view changes with each class
	for _, of.Socket = range b.ports {
		of.Deep = b.deep
		out.OnDemand = out.OnDemand || of.OnDemand
		if of.Static = ""; of.TLS && !of.OnDemand {
			of.Static = p.certified(r, id.Class)
			out.Static = of.Static
		}
		if of.Number == 0 || of.TLS && !of.OnDemand && of.Static == "" {
			continue
		}
		for _, of.Bind = range binds {
			out.Collections = append(out.Collections, of.sockets(false, site.hops))
		}
	}
	for _, few := range []struct {
		of   group
		kind model.Kind
	}{{p.contesting, model.Contest}, {p.deepening, model.Wildcards}} {
		if few.of.has(r, id.Class) {
			key := model.ViewKey{Classes: string(id.Class)}
			out.Collections = append(out.Collections, model.CollectionKey{Kind: few.kind, ViewKey: key, Table: of.Table}.Collection())
		}
	}
	if p.looking.has(r, id.Class) {
		out.Collections = append(out.Collections, model.LookupsOf(id.Class, site.Vantage))
	}
	out.Collections = append(out.Collections, model.FrontOf(id.Class, of.Table))
	return out, true
}

// certified is a class as the only one with a say in certificates, if it has any.
func (p *Program) certified(r *inc.Reader, c model.Class) ClassList {
	if p.chaining.has(r, c) || p.disputing.has(r, c) {
		return ClassList(c)
	}
	return ""
}

// held is what proxies of a view have for classes with addresses of their own.
type held struct {
	ids  []model.LeaseID // sorted
	rows []Holding
}

func (p *Program) held(r *inc.Reader, v model.View) held {
	if v.Edge() == "" {
		return held{}
	}
	return held{p.holdingsAt.Keys(r, v.Edge()), p.holdingsAt.Get(r, v.Edge())}
}

// demand is the classes with certificates on demand, given the others that have.
func (a held) demand(others []model.Class) []model.Class {
	var own []model.Class
	for i, of := range a.rows {
		if of.OnDemand {
			own = append(own, a.ids[i].Class)
		}
	}
	if len(own) == 0 {
		return others
	}
	return slices.Sorted(slices.Values(slices.Concat(others, own)))
}

// HoldingOf is what proxies of a view have for a class with addresses of its own
// there.
func (p *Program) HoldingOf(r *inc.Reader, v model.View, c model.Class) Holding {
	out, _ := p.Holdings.Get(r, model.LeaseID{Edge: v.Edge(), Class: c})
	return out
}
