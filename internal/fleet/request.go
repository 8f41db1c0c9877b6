package fleet

import (
	"fmt"
	"slices"

	"github.com/spillway-dev/spillway/internal/inc"
	"github.com/spillway-dev/spillway/internal/model"
)

// Unmet is an address that a Gateway asks for and has at no Edge.
type Unmet struct {
	model.AddressRequest
	Why string
}

// String says both.
func (a Unmet) String() string { return a.AddressRequest.String() + ": " + a.Why }

// Unmet says which of the addresses that a Gateway asks for it does not have, and how
// many it asks for.
func (p *Program) Unmet(r *inc.Reader, row *Gateway) (unmet []Unmet, of int) {
	fronts := row.Fronts()
	if len(fronts) == 0 {
		return nil, 0
	}
	tenant := fronts[0].Tenant()
	info, _ := p.ClassInfo.Get(r, fronts[0])
	wishes := wishesOf(info.Requested)
	lacks := make([]int, len(wishes)) // at how many edges
	for _, e := range info.Edges {
		lease, _ := p.Lease(r, model.LeaseID{Edge: e, Class: tenant})
		_, lacking := fulfilled(wishes, lease.Has)
		for _, i := range lacking {
			lacks[i]++
		}
	}
	for i, w := range wishes[:len(info.Requested)] { // who asks for nothing lacks nothing
		if lacks[i] == len(info.Edges) {
			unmet = append(unmet, Unmet{w.AddressRequest, p.unmet(r, tenant, info.Edges, w.AddressRequest)})
		}
	}
	return unmet, len(info.Requested)
}

// unmet is why a tenant has an address at none of some edges.
func (p *Program) unmet(r *inc.Reader, tenant model.Class, edges []model.Edge, asked model.AddressRequest) string {
	why := "no Edge that serves the Gateway has it in spec.addressPool"
	if !asked.Named() {
		why = "no Edge that serves the Gateway has such an address free in spec.addressPool; those with autoAssign false are given by their value only"
	}
	for _, e := range edges {
		spec, _ := p.In.Edges.Get(r, e)
		at := slices.IndexFunc(spec.Pool, func(a model.PoolEntry) bool { return a.Address == asked.Address })
		switch {
		case at < 0:
		case asked.Admits(spec.Pool[at]):
			why = p.holder(r, tenant, e, spec.Pool[at])
		case spec.Pool[at].Scope == "":
			why = fmt.Sprintf("Edge %s has it without a routability: ask for none, or for another address", e)
		default:
			why = fmt.Sprintf("its routability at Edge %s is %s: ask for that, or for another address", e, spec.Pool[at].Scope)
		}
	}
	return why
}

// holder says who has an address of a pool that a tenant lacks.
func (p *Program) holder(r *inc.Reader, tenant model.Class, e model.Edge, a model.PoolEntry) string {
	c, ok := p.ClassAt(r, e, a.Bind)
	if !ok || c == tenant {
		return fmt.Sprintf("Edge %s can't give it now", e)
	}
	return fmt.Sprintf("%s has it, or had it until just now, at Edge %s", c.Described(), e)
}
