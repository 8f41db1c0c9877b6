package fleet

import "github.com/spillway-dev/spillway/internal/model"

// A change that very many rows read is worked off over several commits (see
// inc.MayWait): the busiest backends and hosts first, as far as In.Loads knows.
// What has no load comes after what has some.
//
// Who may wait, and for what, is written where a table is declared. It is never
// that which decides whether a row is there: the clusters of a host, its routes
// and its assignments come from the host's own rows, none of which waits apart
// from the others. And it is never Missing: what is held is held at once.

// LoadOf is the load of a backend, 0 if it is not known.
func (p *Program) LoadOf(b model.Backend) float64 {
	if p.In.Loads.Len() == 0 {
		return 0
	}
	load, _ := p.In.Loads.Get(nil, b)
	return load.Requests
}

// LoadOfHost is the load of the busiest backend of a host, 0 if none is known.
func (p *Program) LoadOfHost(k model.HostKey) float64 {
	if p.In.Loads.Len() == 0 {
		return 0
	}
	host, _ := p.Hosts.Get(nil, k)
	most := 0.0
	add := func(t Target) {
		for _, b := range t.Backends {
			most = max(most, p.LoadOf(b.Backend))
		}
	}
	for _, route := range host.Routes {
		add(route.Target)
	}
	if host.Default != nil {
		add(*host.Default)
	}
	return most
}
