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
// given to those who ask for certain addresses, then to others, the oldest of each
// first, but for what another class has left and clients may still take for that (see
// Tenure). Who keeps what it had is told by its own rows, so that a class more costs
// nothing of the others.

// addresses is what a class has of a pool, and which families it lacks that others
// have.
type addresses struct {
	model.Lease
	lacks families
}

// Equal reports whether both are the same.
func (a addresses) Equal(b addresses) bool { return a == b }

// families are those of addresses: IPv4, IPv6.
type families [2]bool

// none is no address.
var none model.PoolAddress

// familyOf is that of an address.
func familyOf(a netip.Addr) int {
	if a.Is6() {
		return 1
	}
	return 0
}

// in is what a lease has of a family.
func in(l *model.Lease, family int) *model.PoolAddress {
	return [...]*model.PoolAddress{&l.IPv4, &l.IPv6}[family]
}

// pool is what an edge has for single classes.
type pool struct {
	list      []model.PoolAddress // sorted
	onRequest []netip.Addr        // as of EdgeSpec
}

// Equal reports whether both are the same.
func (a pool) Equal(b pool) bool {
	return slices.Equal(a.list, b.list) && slices.Equal(a.onRequest, b.onRequest)
}

// isFor tells whether a class may be given an address.
func (a pool) isFor(b *bid, at model.PoolAddress) bool {
	return b.takes(at) && (len(b.only) > 0 || !slices.Contains(a.onRequest, at.Address))
}

// has is the families that it has something of for a class.
func (a pool) has(b *bid) (out families) {
	for _, at := range a.list {
		if f := familyOf(at.Address); !out[f] {
			out[f] = a.isFor(b, at)
		}
	}
	return out
}

// now is what an address has become that was in the pool: what clients reach by it,
// or else what proxies listen on for them. None: it is not there.
func (a pool) now(was model.PoolAddress) model.PoolAddress {
	i, found := slices.BinarySearchFunc(a.list, was.Address, func(a model.PoolAddress, ip netip.Addr) int { return a.Address.Compare(ip) })
	if !found {
		if i = slices.IndexFunc(a.list, func(a model.PoolAddress) bool { return a.Bind == was.Bind }); i < 0 {
			return none
		}
	}
	return a.list[i]
}

// declareLeases decides which addresses classes have for themselves.
func (p *Program) declareLeases(g *inc.Graph) {
	wanting := inc.IndexBy(p.bids, func(c model.Class, b *bid) []model.LeaseID {
		if !b.own {
			return nil
		}
		out := make([]model.LeaseID, len(b.edges))
		for i, e := range b.edges {
			out[i] = model.LeaseID{Edge: e, Class: c.Tenant()}
		}
		return out
	})
	p.tenants = inc.IndexBy(p.bids, func(c model.Class, _ *bid) []model.Class { return []model.Class{c.Tenant()} })
	l := &leasing{p: p}
	l.ofClass = inc.IndexBy(p.In.Tenures, func(k model.TenureID, _ model.Tenure) []model.LeaseID { return []model.LeaseID{k.LeaseID} })
	l.ofEdge = inc.IndexBy(p.In.Tenures, func(k model.TenureID, _ model.Tenure) []model.Edge { return []model.Edge{k.Edge} })
	l.reached = inc.IndexBy(p.In.Tenures, func(k model.TenureID, _ model.Tenure) []bound { return []bound{{k.Edge, k.Address}} })
	l.bound = inc.IndexBy(p.In.Tenures, func(k model.TenureID, _ model.Tenure) []bound { return []bound{{k.Edge, k.Bind}} })
	l.pools = inc.Derive(g, "pools", func(r *inc.Reader, e model.Edge) (pool, bool) {
		spec, ok := p.In.Edges.Get(r, e)
		return pool{spec.Pool, spec.OnRequest}, ok
	}, p.In.Edges)
	l.kept = inc.Derive(g, "kept addresses", l.keeps, wanting)
	inc.Shared(l.kept, l.pools)
	l.lacking = inc.IndexBy(l.kept, func(id model.LeaseID, a addresses) []model.Edge {
		if a.lacks == (families{}) {
			return nil
		}
		return []model.Edge{id.Edge}
	})
	l.given = inc.Derive(g, "given addresses", l.gives, l.lacking)
	p.Leases = inc.Derive(g, "leases", l.lease, l.kept)
	p.declareTenures(g, l.ofClass)
}

// leasing is what decides about leases.
type leasing struct {
	p       *Program
	pools   *inc.Table[model.Edge, pool]
	ofClass *inc.Index[model.LeaseID, model.TenureID, model.Tenure]
	ofEdge  *inc.Index[model.Edge, model.TenureID, model.Tenure]
	reached *inc.Index[bound, model.TenureID, model.Tenure] // by the address that clients have
	bound   *inc.Index[bound, model.TenureID, model.Tenure] // by the one that proxies listen on
	kept    *inc.Table[model.LeaseID, addresses]
	lacking *inc.Index[model.Edge, model.LeaseID, addresses]
	given   *inc.Table[model.Edge, inc.List[model.Lease]] // to those that lack some, sorted
}

// Lease is what of an edge's addresses a class has for itself.
func (p *Program) Lease(r *inc.Reader, id model.LeaseID) (model.Lease, bool) {
	return p.Leases.Get(r, id)
}

// lease is what a class keeps and what it is given.
func (l *leasing) lease(r *inc.Reader, id model.LeaseID) (model.Lease, bool) {
	has, _ := l.kept.Get(r, id)
	if has.lacks != (families{}) {
		given, _ := l.given.Get(r, id.Edge)
		if i, found := slices.BinarySearchFunc(given, id, func(a model.Lease, id model.LeaseID) int { return a.LeaseID.Compare(id) }); found {
			return given[i], true
		}
	}
	return has.Lease, len(has.List()) > 0
}

// keeps is what a class keeps of what it had: the last of each family that is in the
// pool, by its address or by what proxies listen on.
func (l *leasing) keeps(r *inc.Reader, id model.LeaseID) (addresses, bool) {
	pool, _ := l.pools.Get(r, id.Edge)
	of := l.bid(r, id)
	out := addresses{Lease: model.Lease{LeaseID: id}, lacks: pool.has(of)}
	for _, q := range lastFirst(l.ofClass.Keys(r, id), l.ofClass.Get(r, id)) {
		a := pool.now(q)
		if f := familyOf(a.Address); a != none && *in(&out.Lease, f) == none && of.takes(a) && l.isFor(r, id, a) {
			*in(&out.Lease, f), out.lacks[f] = a, false
		}
	}
	return out, true
}

// bid is that of a class, or of some port of a Gateway: all of these are as old, and
// ask for the same addresses.
func (l *leasing) bid(r *inc.Reader, id model.LeaseID) *bid { return l.p.tenants.Get(r, id.Class)[0] }

// isFor tells whether no other class has or has left an address.
func (l *leasing) isFor(r *inc.Reader, id model.LeaseID, a model.PoolAddress) bool {
	another := func(k model.TenureID) bool { return k.Class != id.Class }
	return !slices.ContainsFunc(l.reached.Keys(r, bound{id.Edge, a.Address}), another) && !slices.ContainsFunc(l.bound.Keys(r, bound{id.Edge, a.Bind}), another)
}

// gives gives what is free to those who lack it, first to those who ask for certain
// addresses, the oldest of each first: to each what it wants by the highest of hashes
// (rendezvous hashing), so that processes without a past agree.
func (l *leasing) gives(r *inc.Reader, e model.Edge) (inc.List[model.Lease], bool) {
	ids, all := l.lacking.Keys(r, e), l.lacking.Get(r, e)
	bids, order, leases := make([]*bid, len(ids)), make([]int, len(ids)), make(inc.List[model.Lease], len(ids))
	for i, id := range ids {
		bids[i] = l.bid(r, id)
		order[i], leases[i] = i, all[i].Lease
	}
	pool, _ := l.pools.Get(r, e)
	free := l.free(r, e, pool)
	slices.SortFunc(order, func(a, b int) int { return bids[a].before(bids[b]) })
	for _, i := range order {
		for f, lacks := range all[i].lacks {
			if at := pool.favourite(bids[i], ids[i].Class, free[f]); lacks && at >= 0 {
				*in(&leases[i], f) = free[f][at]
				free[f] = slices.Delete(free[f], at, at+1)
			}
		}
	}
	return slices.DeleteFunc(leases, func(l model.Lease) bool { return len(l.List()) == 0 }), true
}

// free are the addresses of each family of a pool that nobody has or has left.
func (l *leasing) free(r *inc.Reader, e model.Edge, of pool) (out [2][]model.PoolAddress) {
	taken := map[netip.Addr]bool{}
	for _, k := range l.ofEdge.Keys(r, e) {
		taken[k.Address], taken[k.Bind] = true, true
	}
	for _, a := range of.list {
		if f := familyOf(a.Address); !taken[a.Address] && !taken[a.Bind] {
			out[f] = append(out[f], a)
		}
	}
	return out
}

// before orders bids by who is served first with addresses.
func (b *bid) before(c *bid) int {
	asks := func(b *bid) int { return min(len(b.only), 1) }
	return cmp.Or(cmp.Compare(asks(c), asks(b)), b.older(c))
}

// favourite is which of some addresses a class would have; -1: there is none for it.
func (a pool) favourite(b *bid, c model.Class, free []model.PoolAddress) int {
	best, most := -1, uint64(0)
	for i, at := range free {
		if !a.isFor(b, at) {
			continue
		}
		h := fnv.New64a()
		ip := at.Address.As16()
		_, _ = h.Write(ip[:]) // never fails
		_, _ = h.Write([]byte(c))
		if n := h.Sum64(); best < 0 || n > most {
			best, most = i, n
		}
	}
	return best
}

// lastFirst are the addresses of some tenures, the one that lasts longest first.
func lastFirst(keys []model.TenureID, rows []model.Tenure) []model.PoolAddress {
	order := make([]int, len(keys))
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(a, b int) int { return lasting(rows[b], rows[a]) })
	out := make([]model.PoolAddress, len(keys))
	for i, at := range order {
		out[i] = keys[at].PoolAddress
	}
	return out
}

// lasting orders tenures by how long they last.
func lasting(a, b model.Tenure) int {
	if a.Until == 0 || b.Until == 0 {
		return cmp.Compare(b.Until, a.Until) // a class has it
	}
	return cmp.Compare(a.Until, b.Until)
}
