package fleet

import (
	"hash/fnv"
	"net/netip"
	"slices"

	"github.com/spillway-dev/spillway/internal/inc"
	"github.com/spillway-dev/spillway/internal/model"
)

// A class may have addresses of its own: at each of its edges one of each family,
// of the edge's pool. Nobody shares a port with it there, so that it has a table
// for itself, under one name at all edges. What it once had it keeps; the rest is
// given to the oldest class first.

// declareLeases decides which addresses classes have for themselves.
func (p *Program) declareLeases(g *inc.Graph) {
	wanting := inc.IndexBy(p.bids, func(_ model.Class, b *bid) []model.Edge {
		if !b.own {
			return nil
		}
		return b.edges
	})
	kept := inc.IndexBy(p.In.Leases, func(l model.Lease, _ model.There) []model.Edge { return []model.Edge{l.Edge} })
	pools := inc.Derive(g, "pools", func(r *inc.Reader, e model.Edge) (inc.List[model.PoolAddress], bool) {
		spec, ok := p.In.Edges.Get(r, e)
		return spec.Pool, ok
	}, wanting)
	all := inc.Derive(g, "given", func(r *inc.Reader, e model.Edge) (inc.List[model.Lease], bool) {
		pool, _ := pools.Get(r, e)
		return give(e, pool, wanting.Get(r, e), kept.Keys(r, e)), true
	}, wanting)
	each := inc.IndexBy(all, func(_ model.Edge, of inc.List[model.Lease]) []model.Lease { return of })
	p.Leases = inc.Derive(g, "leases", func(*inc.Reader, model.Lease) (model.There, bool) { return model.There{}, true }, each)
	p.leasesOf = inc.IndexBy(p.Leases, func(l model.Lease, _ model.There) []model.LeaseID { return []model.LeaseID{l.LeaseID} })
}

// Lease is what of an edge's addresses a class has for itself.
func (p *Program) Lease(r *inc.Reader, id model.LeaseID) (model.Lease, bool) {
	has := p.leasesOf.Keys(r, id)
	if len(has) == 0 {
		return model.Lease{}, false
	}
	return has[0], true
}

// give gives the addresses of a pool to classes, sorted by these. Who had one before
// keeps it.
func give(e model.Edge, pool []model.PoolAddress, bids []*bid, kept []model.Lease) inc.List[model.Lease] {
	bids = slices.Clone(bids)
	slices.SortFunc(bids, (*bid).older)
	had := map[model.Class]model.Lease{}
	for _, l := range kept {
		had[l.Class] = l
	}
	leases := make(inc.List[model.Lease], len(bids))
	for i, b := range bids {
		leases[i].LeaseID = model.LeaseID{Edge: e, Class: b.class}
	}
	share(pool, leases, had, false)
	share(pool, leases, had, true)
	leases = slices.DeleteFunc(leases, func(l model.Lease) bool { return len(l.List()) == 0 })
	slices.SortFunc(leases, model.Lease.Compare)
	return leases
}

// share gives the addresses of one family of a pool to those who ask, the first of
// them first. What is free goes to who wants it by the highest of hashes
// (rendezvous hashing), so that processes without a past agree.
func share(pool []model.PoolAddress, asking []model.Lease, had map[model.Class]model.Lease, ipv6 bool) {
	of := func(l *model.Lease) *model.PoolAddress {
		if ipv6 {
			return &l.IPv6
		}
		return &l.IPv4
	}
	free := map[netip.Addr]model.PoolAddress{}
	for _, a := range pool {
		if a.Address.Is6() == ipv6 {
			free[a.Address] = a
		}
	}
	for i := range asking {
		l := &asking[i]
		was := had[l.Class]
		if a, ok := free[of(&was).Address]; ok {
			*of(l) = a
			delete(free, a.Address)
		}
	}
	for i := range asking {
		if l := &asking[i]; *of(l) == (model.PoolAddress{}) && len(free) > 0 {
			*of(l) = favourite(l.Class, free)
			delete(free, of(l).Address)
		}
	}
}

// favourite is the address that a class would have of some.
func favourite(c model.Class, free map[netip.Addr]model.PoolAddress) model.PoolAddress {
	var best model.PoolAddress
	var most uint64
	for ip, a := range free {
		h := fnv.New64a()
		at := ip.As16()
		_, _ = h.Write(at[:]) // never fails
		_, _ = h.Write([]byte(c))
		if n := h.Sum64(); !best.Address.IsValid() || n > most || n == most && a.Compare(best) < 0 {
			best, most = a, n
		}
	}
	return best
}

// Holding is what proxies of an edge have for a class that has addresses of its
// own there, beside what all edges have.
type Holding struct {
	Collections []model.Collection
	Static      ClassList // it, if certificates come with its listeners
	OnDemand    bool      // or else, if there are any
}

// Equal reports whether both are the same.
func (a Holding) Equal(b Holding) bool {
	return slices.Equal(a.Collections, b.Collections) && a.Static == b.Static && a.OnDemand == b.OnDemand
}

// declareHoldings says what follows from leases.
func (p *Program) declareHoldings(g *inc.Graph) {
	p.Holdings = inc.Derive(g, "holdings", p.holding, p.Leases)
	p.holdingsAt = inc.IndexBy(p.Holdings, func(l model.Lease, _ Holding) []model.Edge { return []model.Edge{l.Edge} })
}

func (p *Program) holding(r *inc.Reader, l model.Lease) (Holding, bool) {
	b, ok := p.bids.Get(r, l.Class)
	if !ok {
		return Holding{}, false
	}
	var out Holding
	of := Port{Table: b.main.Key().Table}
	for _, of.Socket = range b.ports {
		of.Deep = b.deep
		out.OnDemand = out.OnDemand || of.OnDemand
		if of.Static = ""; of.TLS && !of.OnDemand {
			of.Static = p.certified(r, l.Class)
			out.Static = of.Static
		}
		if of.Number == 0 || of.TLS && !of.OnDemand && of.Static == "" {
			continue
		}
		for _, a := range l.List() {
			of.Bind = a.Bind
			out.Collections = append(out.Collections, of.sockets(false))
		}
	}
	for _, few := range []struct {
		of   group
		kind model.Kind
	}{{p.contesting, model.Contest}, {p.deepening, model.Wildcards}} {
		if few.of.has(r, l.Class) {
			of := model.ViewKey{Classes: string(l.Class)}
			out.Collections = append(out.Collections, model.CollectionKey{Kind: few.kind, ViewKey: of, Table: b.main.Key().Table}.Collection())
		}
	}
	if p.looking.has(r, l.Class) {
		site, _ := p.Sites.Get(r, l.Edge) // a view changes with each class
		out.Collections = append(out.Collections, model.LookupsOf(l.Class, site.Vantage))
	}
	out.Collections = append(out.Collections, b.main)
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
	leases []model.Lease // sorted
	rows   []Holding
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
			own = append(own, a.leases[i].Class)
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
	lease, ok := p.Lease(r, model.LeaseID{Edge: v.Edge(), Class: c})
	if !ok {
		return Holding{}
	}
	out, _ := p.Holdings.Get(r, lease)
	return out
}

// ClassAt is the class that has an edge's address, by which proxies listen, for
// itself.
func (p *Program) ClassAt(r *inc.Reader, e model.Edge, bind netip.Addr) (model.Class, bool) {
	if e == "" || !bind.IsValid() {
		return "", false
	}
	for _, l := range p.holdingsAt.Keys(r, e) {
		if l.IPv4.Bind == bind || l.IPv6.Bind == bind {
			return l.Class, true
		}
	}
	return "", false
}
