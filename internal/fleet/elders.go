package fleet

import (
	"slices"

	"github.com/spillway-dev/spillway/internal/inc"
	"github.com/spillway-dev/spillway/internal/model"
)

// Elders are the rows of a host in other classes that are for the same requests, where
// members serve: there the older root has a match, whatever its class is.
type Elders struct {
	p     *Program
	hosts []Host
}

// Elders are those of a host.
func (p *Program) Elders(r *inc.Reader, k model.HostKey) Elders {
	out := Elders{p: p}
	for _, at := range p.HostsNamed.Keys(r, k.Host) {
		if p.Contend(r, k.Host, k.Class, at.Class) {
			host, _ := p.Hosts.Get(r, at)
			out.hosts = append(out.hosts, host)
		}
	}
	return out
}

// Owner is a root that has a match, and is older than another.
func (e Elders) Owner(r *inc.Reader, m model.Match, than model.Origin) (out model.Object, found bool) {
	for _, host := range e.hosts {
		root, has := host.Owner(m)
		if has && e.p.origin(r, root).Compare(than) < 0 && (!found || root.Compare(out) < 0) {
			out, found = root, true
		}
	}
	return out, found
}

// have reports whether an older root has what a route matches. Roots are looked at only
// where two have the same match: a status that is written is nothing to the other hosts.
func (e Elders) have(r *inc.Reader, route Route) bool {
	return slices.ContainsFunc(e.hosts, func(h Host) bool {
		root, has := h.Owner(route.Match)
		return has && e.p.origin(r, root).Compare(e.p.origin(r, route.Target.Root)) < 0
	})
}

// Owner is the root that has a match of a host.
func (a Host) Owner(m model.Match) (model.Object, bool) {
	i, found := a.find(m)
	if !found {
		return model.Object{}, false
	}
	return a.Routes[i].Target.Root, true
}

func (p *Program) origin(r *inc.Reader, root model.Object) model.Origin {
	row, _ := p.In.Roots.Get(r, root)
	return model.Origin{Created: row.Created, Object: root}
}
