package fleet

import (
	"fmt"
	"net/netip"
	"slices"

	"github.com/spillway-dev/spillway/internal/inc"
	"github.com/spillway-dev/spillway/internal/model"
)

// Unmet says which of the addresses that a Gateway asks for it does not have, and why.
func (p *Program) Unmet(r *inc.Reader, row *Gateway) []string {
	fronts := row.Fronts()
	if len(fronts) == 0 {
		return nil
	}
	tenant := fronts[0].Tenant()
	info, _ := p.ClassInfo.Get(r, fronts[0])
	var out []string
	for _, ip := range row.Spec.Addresses {
		if why := p.unmet(r, tenant, info.Edges, ip); why != "" {
			out = append(out, fmt.Sprintf("%s: %s", ip, why))
		}
	}
	return out
}

// unmet is why a tenant has an address at none of some edges.
func (p *Program) unmet(r *inc.Reader, tenant model.Class, edges []model.Edge, ip netip.Addr) string {
	why := "no Edge that serves the Gateway has it in spec.addressPool"
	for _, e := range edges {
		lease, _ := p.Lease(r, model.LeaseID{Edge: e, Class: tenant})
		if slices.Contains(lease.Addresses(), ip) {
			return ""
		}
		spec, _ := p.In.Edges.Get(r, e)
		for _, a := range spec.Pool {
			if a.Address == ip {
				why = p.holder(r, tenant, e, a.Bind)
			}
		}
	}
	return why
}

// holder says who has an address of a pool that a tenant lacks.
func (p *Program) holder(r *inc.Reader, tenant model.Class, e model.Edge, bind netip.Addr) string {
	c, ok := p.ClassAt(r, e, bind)
	if !ok || c == tenant {
		return fmt.Sprintf("the Gateway has another address of its family at Edge %s: an Edge gives one of each", e)
	}
	return fmt.Sprintf("%s has it, or had it until just now, at Edge %s", c.Described(), e)
}
