package fleet

import (
	"cmp"
	"net/netip"
	"slices"

	"github.com/spillway-dev/spillway/internal/inc"
	"github.com/spillway-dev/spillway/internal/model"
)

// Tenure is that a class has an address of an edge for itself, or has left it:
// then DNS, statuses and probes know nothing of it any more, but proxies go on
// listening there with the class's hosts, and nobody else is given it, until no
// resolver has it. A class that is gone leaves nothing.
type Tenure struct {
	model.Tenure // what is to be remembered
	Left         bool
}

// Equal reports whether both are the same.
func (a Tenure) Equal(b Tenure) bool { return a == b }

// mostTenures is how many addresses a class has or has left at an edge: those that
// it left last. So whoever edits a pool all the time opens no listeners without end.
const mostTenures = 8

// bound is an address of an edge: that clients reach it by, or that its proxies
// listen on.
type bound struct {
	edge model.Edge
	at   netip.Addr
}

// Compare orders by edge and address.
func (a bound) Compare(b bound) int { return cmp.Or(a.edge.Compare(b.edge), a.at.Compare(b.at)) }

// String is "eu-1 192.0.2.1".
func (a bound) String() string { return string(a.edge) + " " + a.at.String() }

// declareTenures says which addresses classes have and which they have left, given
// the remembered ones by class.
func (p *Program) declareTenures(g *inc.Graph, remembered *inc.Index[model.LeaseID, model.TenureID, model.Tenure]) {
	zones := inc.IndexBy(p.In.Zones, func(model.ZoneID, model.ZoneSpec) []model.All { return []model.All{{}} })
	longest := inc.Derive(g, "longest TTL", func(r *inc.Reader, _ model.All) (inc.Val[uint32], bool) {
		var out inc.Val[uint32]
		for _, z := range zones.Get(r, model.All{}) {
			out.V = max(out.V, z.TTL)
		}
		return out, true
	}, zones)
	given := inc.IndexBy(p.Leases, func(_ model.LeaseID, l model.Lease) []model.TenureID { return l.Tenures() })
	p.Tenures = inc.Derive(g, "tenures", func(r *inc.Reader, k model.TenureID) (Tenure, bool) {
		was, _ := p.In.Tenures.Get(r, k)
		if given.Has(r, k) {
			ttl, _ := longest.Get(r, model.All{})
			return Tenure{Tenure: model.Tenure{TTL: max(was.TTL, ttl.V)}}, true
		}
		served := p.tenants.Has(r, k.Class)
		_, there := p.In.Edges.Get(r, k.Edge)
		return Tenure{was, true}, served && there && lastOf(remembered.Keys(r, k.LeaseID), remembered.Get(r, k.LeaseID), k, was)
	}, p.In.Tenures, given)
	inc.Shared(p.Tenures, longest)
	p.tenuresOf = inc.IndexBy(p.Tenures, func(k model.TenureID, _ Tenure) []model.LeaseID { return []model.LeaseID{k.LeaseID} })
	p.left = inc.IndexBy(p.Tenures, func(k model.TenureID, t Tenure) []model.Class {
		if !t.Left {
			return nil
		}
		return []model.Class{k.Class}
	})
	p.boundTo = inc.IndexBy(p.Tenures, func(k model.TenureID, _ Tenure) []bound { return []bound{{k.Edge, k.Bind}} })
}

// lastOf reports whether a tenure is one of the mostTenures of some that
// last longest.
func lastOf(keys []model.TenureID, rows []model.Tenure, k model.TenureID, t model.Tenure) bool {
	longer := 0
	for i, other := range rows {
		if c := lasting(other, t); c > 0 || c == 0 && keys[i].Compare(k) < 0 {
			longer++
		}
	}
	return longer < mostTenures
}

// ClassAt is the class that proxies of an edge listen for on an address that it
// has, or had, for itself.
func (p *Program) ClassAt(r *inc.Reader, e model.Edge, bind netip.Addr) (model.Class, bool) {
	if e == "" || !bind.IsValid() {
		return "", false
	}
	has := p.boundTo.Keys(r, bound{e, bind})
	if len(has) == 0 {
		return "", false
	}
	return has[0].Class, true
}

// binds are the addresses that proxies of an edge listen on for a class alone,
// each once.
func (p *Program) binds(r *inc.Reader, id model.LeaseID) []netip.Addr {
	var out []netip.Addr
	for _, k := range p.tenuresOf.Keys(r, id) {
		out = append(out, k.Bind)
	}
	slices.SortFunc(out, netip.Addr.Compare)
	return slices.Compact(out)
}
