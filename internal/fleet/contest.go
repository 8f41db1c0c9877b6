package fleet

import (
	"slices"

	"github.com/spillway-dev/spillway/internal/inc"
	"github.com/spillway-dev/spillway/internal/model"
)

// What one class alone says of a host or of a TLS name is the same wherever the
// class is. Where several do, it depends on which of them share a table, or have
// certificates on demand at one edge, and the oldest says. Such a host is in a
// Contest and not in the class's Front, and such a certificate in Disputes. These
// are of the classes there that have any to share, so that all others come and
// go without them.

// contested reports whether several classes have a host.
func (p *Program) contested(r *inc.Reader, h model.Host) bool {
	return len(p.HostsNamed.Keys(r, h)) > 1
}

// disputed are the classes that have a say in whose certificate a TLS name of a
// class is presented with, if others do: they list the name, or requests for it
// go by what they have.
func (p *Program) disputed(r *inc.Reader, k model.HostKey) []model.Class {
	var keys []model.HostKey
	keys = append(keys, p.ChainsNamed.Keys(r, k.Host)...)
	keys = append(keys, p.HostsNamed.Keys(r, k.Host)...)
	keys = append(keys, p.realmsNamed.Keys(r, k.Host)...)
	if k.Host.Exact() && k.Host.Above() != "" {
		keys = append(keys, p.realmsNamed.Keys(r, k.Host.Above())...)
	}
	if _, some := p.anyDeep.Get(r, model.All{}); some {
		for h := range k.Host.Wider() {
			if h.Deep() {
				keys = append(keys, p.realmsNamed.Keys(r, h)...)
			}
		}
	}
	if rest, _ := p.catchAlls.Get(r, model.All{}); len(rest) > 0 && k.Host != "" {
		keys = append(keys, rest...)
	}
	out := make([]model.Class, len(keys))
	for i, k := range keys {
		out[i] = k.Class
	}
	slices.Sort(out)
	if out = slices.Compact(out); len(out) == 1 {
		return nil
	}
	return out
}

// declareNames finds who has a name.
func (p *Program) declareNames(g *inc.Graph) {
	p.HostsNamed = inc.IndexBy(p.Hosts, func(k model.HostKey, _ Host) []model.Host { return []model.Host{k.Host} })
	p.ChainsNamed = inc.IndexBy(p.Chains, func(k model.HostKey, _ Chain) []model.Host { return []model.Host{k.Host} })
	p.realmsNamed = inc.IndexBy(p.Realms, func(k model.HostKey, _ Realm) []model.Host { return []model.Host{k.Host} })
	rest := inc.IndexBy(p.Realms, func(k model.HostKey, _ Realm) []model.All {
		if k.Host != "" {
			return nil
		}
		return []model.All{{}}
	})
	p.catchAlls = inc.Derive(g, "catch-alls", func(r *inc.Reader, _ model.All) (inc.List[model.HostKey], bool) {
		return rest.Keys(r, model.All{}), true
	}, rest)
	deep := inc.IndexBy(p.ClassInfo, func(_ model.Class, info ClassInfo) []model.All {
		if !info.Deep {
			return nil
		}
		return []model.All{{}}
	})
	p.anyDeep = inc.Derive(g, "any depth", func(*inc.Reader, model.All) (model.There, bool) { return model.There{}, true }, deep)
	p.disputes = inc.Derive(g, "disputes", func(r *inc.Reader, k model.HostKey) (inc.List[model.Class], bool) {
		classes := p.disputed(r, k)
		return classes, len(classes) > 0
	}, p.Chains)
	inc.Shared(p.disputes, p.catchAlls, p.anyDeep)
	p.disputing = together(g, "disputing", p.disputes, func(_ model.HostKey, classes inc.List[model.Class]) []model.Class { return classes })
}

// declareCollections says what each view is made of.
func (p *Program) declareCollections(g *inc.Graph) {
	p.contesting = together(g, "contesting", p.Spreads, func(k model.HostKey, s Spread) []model.Class {
		if !s.contested {
			return nil
		}
		return []model.Class{k.Class}
	})
	p.declareDeep(g)
	p.looking = together(g, "looking", p.Spreads, func(k model.HostKey, s Spread) []model.Class {
		if !s.lookups {
			return nil
		}
		return []model.Class{k.Class}
	})
	p.declareHoldings(g)
	p.Collections = inc.Derive(g, "collections", func(r *inc.Reader, v model.View) (inc.List[model.Collection], bool) {
		return p.collectionsOf(r, v), true
	}, p.EdgesOfView)
	shared := inc.IndexBy(p.Collections, func(_ model.View, all inc.List[model.Collection]) []model.Collection { return contestsIn(Few(all)) })
	own := inc.IndexBy(p.Holdings, func(_ model.LeaseID, h Holding) []model.Collection { return contestsIn(h.Collections) })
	p.Contests = inc.Derive(g, "contests", func(*inc.Reader, model.Collection) (model.There, bool) { return model.There{}, true }, shared, own)
	p.contestsOf = inc.IndexBy(p.Contests, func(c model.Collection, _ model.There) []model.Class { return ClassesOf(c.Classes()) })
}

// declareDeep finds wildcards of any depth: what has them by now, and which classes
// have some. Where a class has the first, its views change, and no listener does.
func (p *Program) declareDeep(g *inc.Graph) {
	keys := inc.IndexBy(p.Spreads, func(k model.HostKey, s Spread) []model.HostKey {
		if !k.Host.Deep() || !s.served {
			return nil
		}
		return []model.HostKey{k}
	})
	hosts := inc.Derive(g, "deep hosts", func(r *inc.Reader, k model.HostKey) (inc.List[model.Collection], bool) {
		s, ok := p.Spreads.Get(r, k)
		return s.Fronts, ok
	}, keys)
	p.DeepHosts = inc.IndexBy(hosts, func(k model.HostKey, _ inc.List[model.Collection]) []model.Class { return []model.Class{k.Class} })
	p.deepening = together(g, "deepening", hosts, func(k model.HostKey, _ inc.List[model.Collection]) []model.Class { return []model.Class{k.Class} })
}

// contestsIn are those of some collections that several classes may have a say in, or
// that are not a class's own hosts.
func contestsIn(all []model.Collection) []model.Collection {
	var out []model.Collection
	for _, c := range all {
		if c.Kind() == model.Contest || c.Kind() == model.Disputes || c.Kind() == model.Wildcards || c.Kind() == model.Names {
			out = append(out, c)
		}
	}
	return out
}

// group is the classes that some rows are of: one row a class, and all in one.
type group struct {
	each *inc.Table[model.Class, model.There]
	all  *inc.Table[model.All, inc.List[model.Class]]
}

// has reports whether a class is one of them. Others that come or go change
// nothing for who asks.
func (a group) has(r *inc.Reader, c model.Class) bool {
	_, ok := a.each.Get(r, c)
	return ok
}

// list is all of them, sorted.
func (a group) list(r *inc.Reader) []model.Class {
	list, _ := a.all.Get(r, model.All{})
	return list
}

// together groups the classes that some rows are of.
func together[K inc.Key[K], V inc.Value[V]](g *inc.Graph, name string, t *inc.Table[K, V], classes func(K, V) []model.Class) group {
	of := inc.IndexBy(t, classes)
	each := inc.Derive(g, name+" class", func(*inc.Reader, model.Class) (model.There, bool) { return model.There{}, true }, of)
	all := inc.IndexBy(each, func(model.Class, model.There) []model.All { return []model.All{{}} })
	return group{each, inc.Derive(g, name, func(r *inc.Reader, _ model.All) (inc.List[model.Class], bool) { return all.Keys(r, model.All{}), true }, all)}
}

// Few are those of a view's collections of which there are few: all but what
// each class has for itself.
func Few(all []model.Collection) []model.Collection {
	own := slices.IndexFunc(all, func(c model.Collection) bool { return c.Kind() == model.Lookups || c.Kind() == model.Front })
	if own < 0 {
		return all
	}
	return all[:own]
}

// collectionsOf are those of a view, what each class has for itself last: of these
// it may have very many, so who looks for something begins with the others.
func (p *Program) collectionsOf(r *inc.Reader, v model.View) inc.List[model.Collection] {
	ports, _ := p.Ports.Get(r, SetOf(v))
	held := p.held(r, v)
	out := inc.List[model.Collection]{v.Vantage().Pools()}
	for _, port := range ports.List {
		if port.mute() {
			continue
		}
		out = append(out, port.sockets(false, v.TrustedHops()))
		if v.IPv6() {
			out = append(out, port.sockets(true, v.TrustedHops()))
		}
	}
	shared := func(kind model.Kind, classes, of []model.Class, table string) {
		if list := p.listOf(r, among(classes, of)); list != "" {
			out = append(out, model.CollectionKey{Kind: kind, ViewKey: model.ViewKey{Classes: string(list)}, Table: table}.Collection())
		}
	}
	shared(model.Disputes, held.demand(ports.Demand), p.disputing.list(r), "")
	contesting, deepening := p.contesting.list(r), p.deepening.list(r)
	for _, t := range ports.Tables() {
		shared(model.Contest, t.Classes, contesting, t.Table)
		shared(model.Wildcards, t.Classes, deepening, t.Table)
		if ports.tellsApart(t.Table) {
			shared(model.Names, t.Classes, t.Classes, t.Table)
		}
	}
	for _, c := range ports.sharing(p.looking.list(r)) {
		out = append(out, model.LookupsOf(c, v.Vantage()))
	}
	out = append(out, ports.fronts...)
	for _, of := range held.rows {
		out = append(out, of.Collections...)
	}
	return out
}

// LooksUp reports whether proxies look up addresses for some host of a class. It
// is so until the last such host has left, whatever the class says meanwhile.
func (p *Program) LooksUp(r *inc.Reader, c model.Class) bool { return p.looking.has(r, c) }

// sockets is the listener of a port at edges that trust as many hops.
func (p Port) sockets(ipv6 bool, hops uint8) model.Collection {
	of := model.ViewKey{Classes: string(p.Static), IPv6: ipv6, TrustedHops: hops}
	return model.CollectionKey{Kind: model.Sockets, ViewKey: of, Socket: p.Socket, Table: p.Table}.Collection()
}

// Has reports whether it is a port of a class.
func (a Port) Has(c model.Class) bool {
	_, found := slices.BinarySearch(a.Classes, c)
	return found
}
