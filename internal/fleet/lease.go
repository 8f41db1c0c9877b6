package fleet

import (
	"cmp"
	"hash/fnv"
	"net/netip"
	"slices"

	"github.com/spillway-dev/spillway/internal/inc"
	"github.com/spillway-dev/spillway/internal/model"
)

// A class may have addresses of its own: at each of its edges those of the edge's pool
// that its Gateway asks for, or else one of each family. Nobody shares a port with it
// there, so that it has a table for itself, under one name at all edges. What it once had
// it keeps; the rest is given to those who ask for certain addresses, then to others, the
// oldest of each first, but for what another class has left and clients may still take
// for that (see Tenure). Who keeps what it had is told by its own rows, so that a class
// more costs nothing of the others.

// addresses is what a class has of a pool, and which of its wishes it lacks that the pool
// has something for, by their places.
type addresses struct {
	model.Lease
	lacks []int
}

// Equal reports whether both are the same.
func (a addresses) Equal(b addresses) bool {
	return a.Lease.Equal(b.Lease) && slices.Equal(a.lacks, b.lacks)
}

// wish is an address that a class would have at an edge.
type wish struct {
	model.AddressRequest
	family int // of those who ask for nothing: one of each; else anyFamily
}

// Families of addresses.
const (
	ipv4 = iota
	ipv6
	anyFamily
)

// familyOf is that of an address.
func familyOf(a netip.Addr) int {
	if a.Is6() {
		return ipv6
	}
	return ipv4
}

// unasked are the wishes of those who ask for nothing.
var unasked = []wish{{family: ipv4}, {family: ipv6}}

// wishesOf are those of a Gateway, those for certain addresses first: whoever serves them
// in their order takes nothing from one of them that another could have done without.
func wishesOf(asked []model.AddressRequest) []wish {
	if len(asked) == 0 {
		return unasked
	}
	out := make([]wish, len(asked))
	for i, a := range asked {
		out[i] = wish{a, anyFamily}
	}
	slices.SortStableFunc(out, wish.before)
	return out
}

// before orders wishes by who is served first with addresses.
func (w wish) before(x wish) int {
	switch {
	case w.Named() == x.Named():
		return 0
	case w.Named():
		return -1
	}
	return 1
}

// keeps reports whether an address that the class has is what it wishes.
func (w wish) keeps(a model.PoolEntry) bool {
	return (w.family == anyFamily || w.family == familyOf(a.Address)) && w.Admits(a)
}

// takes reports whether an address may be given for it.
func (w wish) takes(a model.PoolEntry) bool { return w.keeps(a) && (w.Named() || !a.OnRequest) }

// grantable reports whether some of a pool may be.
func (w wish) grantable(of inc.List[model.PoolEntry]) bool { return slices.ContainsFunc(of, w.takes) }

// now is what an address has become that was in a pool: what clients reach by it, or else
// what proxies listen on for them.
func now(of inc.List[model.PoolEntry], was model.PoolAddress) (model.PoolEntry, bool) {
	i, found := slices.BinarySearchFunc(of, was.Address, func(a model.PoolEntry, ip netip.Addr) int { return a.Address.Compare(ip) })
	if !found {
		if i = slices.IndexFunc(of, func(a model.PoolEntry) bool { return a.Bind == was.Bind }); i < 0 {
			return model.PoolEntry{}, false
		}
	}
	return of[i], true
}

// fulfilled is which of some addresses are for wishes, one for each, the first that is
// right, and which wishes have none, by their places.
func fulfilled(wishes []wish, of []model.PoolEntry) (has []model.PoolEntry, lacks []int) {
	of = slices.Clone(of)
	for i, w := range wishes {
		at := slices.IndexFunc(of, w.keeps)
		if at < 0 {
			lacks = append(lacks, i)
			continue
		}
		has = append(has, of[at])
		of = slices.Delete(of, at, at+1)
	}
	slices.SortFunc(has, model.PoolEntry.Compare)
	return has, lacks
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
	l.pools = inc.Derive(g, "pools", func(r *inc.Reader, e model.Edge) (inc.List[model.PoolEntry], bool) {
		spec, ok := p.In.Edges.Get(r, e)
		return spec.Pool, ok
	}, p.In.Edges)
	l.kept = inc.Derive(g, "kept addresses", l.keeps, wanting)
	inc.Shared(l.kept, l.pools)
	l.lacking = inc.IndexBy(l.kept, func(id model.LeaseID, a addresses) []model.Edge {
		if len(a.lacks) == 0 {
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
	pools   *inc.Table[model.Edge, inc.List[model.PoolEntry]]
	ofClass *inc.Index[model.LeaseID, model.TenureID, model.Tenure]
	ofEdge  *inc.Index[model.Edge, model.TenureID, model.Tenure]
	reached *inc.Index[bound, model.TenureID, model.Tenure] // by the address that clients have
	bound   *inc.Index[bound, model.TenureID, model.Tenure] // by the one that proxies listen on
	kept    *inc.Table[model.LeaseID, addresses]
	lacking *inc.Index[model.Edge, model.LeaseID, addresses]
	given   *inc.Table[model.Edge, leases] // to those that lack some, sorted
}

// leases are some, sorted.
type leases []model.Lease

// Equal reports whether both are the same.
func (a leases) Equal(b leases) bool { return slices.EqualFunc(a, b, model.Lease.Equal) }

// Lease is what of an edge's addresses a class has for itself.
func (p *Program) Lease(r *inc.Reader, id model.LeaseID) (model.Lease, bool) {
	return p.Leases.Get(r, id)
}

// lease is what a class keeps and what it is given.
func (l *leasing) lease(r *inc.Reader, id model.LeaseID) (model.Lease, bool) {
	has, _ := l.kept.Get(r, id)
	if len(has.lacks) > 0 {
		given, _ := l.given.Get(r, id.Edge)
		if i, found := slices.BinarySearchFunc(given, id, func(a model.Lease, id model.LeaseID) int { return a.Compare(id) }); found {
			return given[i], true
		}
	}
	return has.Lease, len(has.Has) > 0
}

// keeps is what a class keeps of what it had: the last that it wishes and that is in the
// pool, by its address or by what proxies listen on.
func (l *leasing) keeps(r *inc.Reader, id model.LeaseID) (addresses, bool) {
	pool, _ := l.pools.Get(r, id.Edge)
	var had []model.PoolEntry
	for _, q := range lastFirst(l.ofClass.Keys(r, id), l.ofClass.Get(r, id)) {
		if a, there := now(pool, q); there && !slices.Contains(had, a) && l.isFor(r, id, a.PoolAddress) {
			had = append(had, a)
		}
	}
	wishes := l.bid(r, id).wishes
	has, lacks := fulfilled(wishes, had)
	lacks = slices.DeleteFunc(lacks, func(i int) bool { return !wishes[i].grantable(pool) })
	return addresses{model.Lease{LeaseID: id, Has: has}, lacks}, true
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
func (l *leasing) gives(r *inc.Reader, e model.Edge) (leases, bool) {
	type lack struct {
		of, wish int // places
	}
	ids, all := l.lacking.Keys(r, e), l.lacking.Get(r, e)
	bids, out := make([]*bid, len(ids)), make(leases, len(ids))
	var order []lack
	for i, id := range ids {
		bids[i] = l.bid(r, id)
		out[i] = model.Lease{LeaseID: id, Has: slices.Clone(all[i].Has)}
		for _, w := range all[i].lacks {
			order = append(order, lack{i, w})
		}
	}
	slices.SortStableFunc(order, func(a, b lack) int {
		return cmp.Or(bids[a.of].wishes[a.wish].before(bids[b.of].wishes[b.wish]), bids[a.of].older(bids[b.of]))
	})
	free := l.free(r, e)
	for _, k := range order {
		lease := &out[k.of]
		if at := bids[k.of].wishes[k.wish].favourite(*lease, free); at >= 0 {
			lease.Has = append(lease.Has, free[at])
			free = slices.Delete(free, at, at+1)
		}
	}
	for i := range out {
		slices.SortFunc(out[i].Has, model.PoolEntry.Compare)
	}
	return slices.DeleteFunc(out, func(l model.Lease) bool { return len(l.Has) == 0 }), true
}

// free are the addresses of a pool that nobody has or has left.
func (l *leasing) free(r *inc.Reader, e model.Edge) (out []model.PoolEntry) {
	pool, _ := l.pools.Get(r, e)
	taken := map[netip.Addr]bool{}
	for _, k := range l.ofEdge.Keys(r, e) {
		taken[k.Address], taken[k.Bind] = true, true
	}
	for _, a := range pool {
		if !taken[a.Address] && !taken[a.Bind] {
			out = append(out, a)
		}
	}
	return out
}

// favourite is which of some addresses a class would have that has some: one of the
// family that it has fewer of, IPv4 first; -1: there is none for it.
func (w wish) favourite(has model.Lease, free []model.PoolEntry) int {
	best, fewest, most := -1, 0, uint64(0)
	for i, at := range free {
		if !w.takes(at) {
			continue
		}
		h := fnv.New64a()
		ip := at.Address.As16()
		_, _ = h.Write(ip[:]) // never fails
		_, _ = h.Write([]byte(has.Class))
		few, n := crowd(has.Has, familyOf(at.Address)), h.Sum64()
		if best < 0 || few < fewest || few == fewest && n > most {
			best, fewest, most = i, few, n
		}
	}
	return best
}

// crowd orders families by how many of some addresses are of them, IPv4 first.
func crowd(has []model.PoolEntry, family int) int {
	out := family
	for _, a := range has {
		if familyOf(a.Address) == family {
			out += anyFamily
		}
	}
	return out
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
