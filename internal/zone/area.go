package zone

import (
	"slices"
	"strings"

	"github.com/spillway-dev/spillway/internal/fleet"
	"github.com/spillway-dev/spillway/internal/inc"
	"github.com/spillway-dev/spillway/internal/model"
)

// area is the zones of the hosts one label below a domain. Hosts read it alike,
// so that none has to look for a zone of its own name, which hardly any has.
type area struct {
	zone *domain  // with the longest domain that the area is in; nil: none
	of   []domain // of single hosts in it, sorted
}

// domain is what a host needs to know of a zone.
type domain struct {
	name       model.Host
	zone       model.Object
	namespaces []string // as of model.ZoneSpec
}

// Equal reports whether both are the same.
func (a domain) Equal(b domain) bool {
	return a.name == b.name && a.zone == b.zone && slices.Equal(a.namespaces, b.namespaces)
}

// Equal reports whether both are the same.
func (a area) Equal(b area) bool {
	return (a.zone == nil) == (b.zone == nil) && (a.zone == nil || a.zone.Equal(*b.zone)) && slices.EqualFunc(a.of, b.of, domain.Equal)
}

// parent is a name without its first label.
func parent(h model.Host) model.Host {
	_, rest, _ := strings.Cut(string(h), ".")
	return model.Host(rest)
}

// declareAreas adds the areas that hosts are in.
func (t *Tables) declareAreas(g *inc.Graph, p *fleet.Program) {
	hosts := inc.IndexBy(p.Hosts, func(k model.HostKey, _ fleet.Host) []model.Host { return []model.Host{parent(k.Host)} })
	t.areas = inc.Derive(g, "dns-areas", func(r *inc.Reader, at model.Host) (area, bool) {
		var out area
		for name := at; name != "" && out.zone == nil; name = parent(name) {
			out.zone = t.domain(r, name)
		}
		for _, spec := range t.byParent.Get(r, at) {
			out.of = append(out.of, *t.domain(r, spec.Domain))
		}
		slices.SortFunc(out.of, func(a, b domain) int { return a.name.Compare(b.name) })
		out.of = slices.CompactFunc(out.of, domain.Equal)
		return out, out.zone != nil || len(out.of) > 0
	}, hosts)
}

// domain is the zone that serves a domain; nil: none.
func (t *Tables) domain(r *inc.Reader, name model.Host) *domain {
	spec, ok := t.oldest(r, name)
	if !ok {
		return nil
	}
	return &domain{name, spec.Origin.Object, spec.Namespaces}
}

// zoneOf is the zone with the longest domain that a host lies in.
func (t *Tables) zoneOf(r *inc.Reader, host model.Host) (domain, bool) {
	at, _ := t.areas.Get(r, parent(host))
	if i, ok := slices.BinarySearchFunc(at.of, host, func(d domain, h model.Host) int { return d.name.Compare(h) }); ok {
		return at.of[i], true
	}
	if at.zone == nil {
		return domain{}, false
	}
	return *at.zone, true
}
