package fleet

import (
	"cmp"
	"hash/fnv"
	"net/netip"
	"slices"

	"github.com/spillway-dev/spillway/internal/inc"
	"github.com/spillway-dev/spillway/internal/model"
)

// A class may have addresses of its own: at each of its edges one of each family,
// of the edge's pool. Nobody shares a port with it there, so that it has a table
// for itself, under one name at all edges. What it once had it keeps; the rest is
// given to the oldest class first, but for what another class has left and clients
// may still take for that (see Tenure).

// past is an address that a class had.
type past struct {
	model.TenureID
	model.Tenure
}

// declareLeases decides which addresses classes have for themselves.
func (p *Program) declareLeases(g *inc.Graph) {
	wanting := inc.IndexBy(p.bids, func(_ model.Class, b *bid) []model.Edge {
		if !b.own {
			return nil
		}
		return b.edges
	})
	had := inc.IndexBy(p.In.Tenures, func(k model.TenureID, _ model.Tenure) []model.Edge { return []model.Edge{k.Edge} })
	pools := inc.Derive(g, "pools", func(r *inc.Reader, e model.Edge) (inc.List[model.PoolAddress], bool) {
		spec, ok := p.In.Edges.Get(r, e)
		return spec.Pool, ok
	}, wanting)
	all := inc.Derive(g, "given", func(r *inc.Reader, e model.Edge) (inc.List[model.Lease], bool) {
		pool, _ := pools.Get(r, e)
		bids := wanting.Get(r, e)
		return give(e, pool, bids, p.pasts(r, bids, had.Keys(r, e), had.Get(r, e))), true
	}, wanting)
	each := inc.IndexBy(all, func(_ model.Edge, of inc.List[model.Lease]) []model.Lease { return of })
	p.Leases = inc.Derive(g, "leases", func(*inc.Reader, model.Lease) (model.There, bool) { return model.There{}, true }, each)
	p.leasesOf = inc.IndexBy(p.Leases, func(l model.Lease, _ model.There) []model.LeaseID { return []model.LeaseID{l.LeaseID} })
	p.declareTenures(g)
}

// pasts are those of some tenures whose class is there, given the bids at the
// edge for addresses, sorted by class. What a class had that is gone is free.
func (p *Program) pasts(r *inc.Reader, bids []*bid, keys []model.TenureID, rows []model.Tenure) []past {
	var out []past
	for i, k := range keys {
		_, there := slices.BinarySearchFunc(bids, k.Class, func(b *bid, c model.Class) int { return b.class.Compare(c) })
		if !there {
			_, there = p.bids.Get(r, k.Class) // few have left an edge
		}
		if there {
			out = append(out, past{k, rows[i]})
		}
	}
	return out
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
func give(e model.Edge, pool []model.PoolAddress, bids []*bid, pasts []past) inc.List[model.Lease] {
	bids = slices.Clone(bids)
	slices.SortFunc(bids, (*bid).older)
	had := map[model.Class][]past{}
	for _, q := range pasts {
		had[q.Class] = append(had[q.Class], q)
	}
	leases := make(inc.List[model.Lease], len(bids))
	for i, b := range bids {
		leases[i].LeaseID = model.LeaseID{Edge: e, Class: b.class}
	}
	for _, ipv6 := range []bool{false, true} {
		free := newStock(pool, ipv6)
		of := func(l *model.Lease) *model.PoolAddress {
			if ipv6 {
				return &l.IPv6
			}
			return &l.IPv4
		}
		for i := range leases {
			*of(&leases[i]) = free.again(had[leases[i].Class])
		}
		for _, q := range pasts {
			free.drop(q.PoolAddress)
		}
		for i := range leases {
			if l := &leases[i]; *of(l) == (model.PoolAddress{}) {
				*of(l) = free.favourite(l.Class)
			}
		}
	}
	leases = slices.DeleteFunc(leases, func(l model.Lease) bool { return len(l.List()) == 0 })
	slices.SortFunc(leases, model.Lease.Compare)
	return leases
}

// stock is the addresses of one family of a pool that are not given yet.
type stock struct {
	free  map[netip.Addr]model.PoolAddress
	binds map[netip.Addr]model.PoolAddress // the same, by what proxies listen on
}

func newStock(pool []model.PoolAddress, ipv6 bool) stock {
	s := stock{map[netip.Addr]model.PoolAddress{}, map[netip.Addr]model.PoolAddress{}}
	for _, a := range pool {
		if a.Address.Is6() == ipv6 {
			s.free[a.Address], s.binds[a.Bind] = a, a
		}
	}
	return s
}

// drop takes away what has an address of another one, or listens on it.
func (s stock) drop(a model.PoolAddress) {
	for _, is := range []model.PoolAddress{s.free[a.Address], s.binds[a.Bind]} {
		delete(s.free, is.Address)
		delete(s.binds, is.Bind)
	}
}

// again takes what a class had last, by its address or by what proxies listen on;
// the zero one if that is not here.
func (s stock) again(had []past) model.PoolAddress {
	had = slices.Clone(had)
	slices.SortStableFunc(had, func(a, b past) int { return lasting(b.Tenure, a.Tenure) })
	for _, q := range had {
		for _, is := range []model.PoolAddress{s.free[q.Address], s.binds[q.Bind]} {
			if is != (model.PoolAddress{}) {
				s.drop(is)
				return is
			}
		}
	}
	return model.PoolAddress{}
}

// favourite takes what goes to a class by the highest of hashes (rendezvous
// hashing), so that processes without a past agree; the zero one if there is none.
func (s stock) favourite(c model.Class) model.PoolAddress {
	var best model.PoolAddress
	var most uint64
	for ip, a := range s.free {
		h := fnv.New64a()
		at := ip.As16()
		_, _ = h.Write(at[:]) // never fails
		_, _ = h.Write([]byte(c))
		if n := h.Sum64(); !best.Address.IsValid() || n > most || n == most && a.Compare(best) < 0 {
			best, most = a, n
		}
	}
	s.drop(best)
	return best
}

// lasting orders tenures by how long they last.
func lasting(a, b model.Tenure) int {
	if a.Until == 0 || b.Until == 0 {
		return cmp.Compare(b.Until, a.Until) // a class has it
	}
	return cmp.Compare(a.Until, b.Until)
}
