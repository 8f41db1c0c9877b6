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

// listed reports whether the zone is among some; none are all.
func (a domain) listed(zones []model.ZoneID) bool {
	id := model.ZoneID{Workspace: a.zone.Workspace, Namespace: a.zone.Namespace, Name: a.zone.Name}
	return len(zones) == 0 || slices.Contains(zones, id)
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
			if spec, ok := t.apexes.Get(r, name); ok {
				is := domainOf(spec)
				out.zone = &is
			}
		}
		for _, spec := range t.byParent.Get(r, at) {
			out.of = append(out.of, domainOf(spec))
		}
		slices.SortFunc(out.of, func(a, b domain) int { return a.name.Compare(b.name) })
		return out, out.zone != nil || len(out.of) > 0
	}, hosts)
}

func domainOf(spec model.ZoneSpec) domain {
	return domain{spec.Domain, spec.Origin.Object, spec.Namespaces}
}

// zoneOf is the zone with the longest domain that a host lies in; none: the zero one.
func (t *Tables) zoneOf(r *inc.Reader, host model.Host) domain {
	at, _ := t.areas.Get(r, parent(host))
	if i, ok := slices.BinarySearchFunc(at.of, host, func(d domain, h model.Host) int { return d.name.Compare(h) }); ok {
		return at.of[i]
	}
	if at.zone == nil {
		return domain{}
	}
	return *at.zone
}
