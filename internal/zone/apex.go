package zone

import (
	"slices"

	"github.com/spillway-dev/spillway/internal/fleet"
	"github.com/spillway-dev/spillway/internal/inc"
	"github.com/spillway-dev/spillway/internal/model"
)

// A domain belongs to the oldest DNSZone that names it, unless one above refuses
// that: a zone takes the names below its domain from the zone that they were in,
// so an older zone of another namespace has to delegate to its namespace. A
// younger one has not: what is there cannot be taken away by a zone above it.

// declareApexes decides which zone has which domain.
func (t *Tables) declareApexes(g *inc.Graph, p *fleet.Program) {
	t.byDomain = inc.IndexBy(p.In.Zones, func(_ model.ZoneID, spec model.ZoneSpec) []model.Host { return []model.Host{spec.Domain} })
	t.below = inc.IndexBy(p.In.Zones, func(_ model.ZoneID, spec model.ZoneSpec) []model.Host { return above(spec.Domain) })
	t.apexes = inc.Derive(g, "dns-apexes", func(r *inc.Reader, domain model.Host) (model.ZoneSpec, bool) {
		return first(t.byDomain.Get(r, domain), t.chain(r, domain))
	}, t.byDomain)
	t.byParent = inc.IndexBy(t.apexes, func(domain model.Host, _ model.ZoneSpec) []model.Host { return []model.Host{parent(domain)} })
}

// above are the domains above one, from the bottom up.
func above(domain model.Host) (out []model.Host) {
	for domain = parent(domain); domain != ""; domain = parent(domain) {
		out = append(out, domain)
	}
	return out
}

// chain is the zones that have the domains above one, from the top down.
func (t *Tables) chain(r *inc.Reader, domain model.Host) (out []model.ZoneSpec) {
	for _, name := range slices.Backward(above(domain)) {
		if spec, ok := first(t.byDomain.Get(r, name), out); ok {
			out = append(out, spec)
		}
	}
	return out
}

// first is the oldest of the zones that name a domain that none above refuses.
func first(named, chain []model.ZoneSpec) (out model.ZoneSpec, ok bool) {
	for _, spec := range named {
		if (!ok || spec.Origin.Compare(out.Origin) < 0) && refuser(chain, spec) == nil {
			out, ok = spec, true
		}
	}
	return out, ok
}

// refuser is the closest older zone above one, if it does not delegate to its
// namespace. Nil: there is none.
func refuser(chain []model.ZoneSpec, spec model.ZoneSpec) *model.ZoneSpec {
	for i := len(chain) - 1; i >= 0; i-- {
		if chain[i].Origin.Compare(spec.Origin) > 0 {
			continue
		}
		if delegates(chain[i], spec) {
			return nil
		}
		return &chain[i]
	}
	return nil
}

// delegates reports whether a zone lets another one have a domain below it.
func delegates(z, to model.ZoneSpec) bool {
	a, b := z.Origin.Object, to.Origin.Object
	return a.Workspace == b.Workspace && (a.Namespace == b.Namespace || slices.Contains(z.Delegates, b.Namespace))
}

// has reports whether the zone has its domain.
func (t *Tables) has(r *inc.Reader, spec model.ZoneSpec) bool {
	first, ok := t.apexes.Get(r, spec.Domain)
	return ok && first.Origin == spec.Origin
}

// strangers are the zones below one that have their domains although it does not
// delegate to them, being younger.
func (t *Tables) strangers(r *inc.Reader, spec model.ZoneSpec) (out []model.ZoneSpec) {
	for _, z := range t.below.Get(r, spec.Domain) {
		if !delegates(spec, z) && z.Origin.Compare(spec.Origin) < 0 && t.has(r, z) {
			out = append(out, z)
		}
	}
	return out
}
