package envoy

import (
	"slices"

	"github.com/spillway-dev/spillway/internal/fleet"
	"github.com/spillway-dev/spillway/internal/inc"
	"github.com/spillway-dev/spillway/internal/model"
)

// Find returns what a view has under a name of a type: of its proxies or of its
// gRPC clients.
func (t *Tables) Find(r *inc.Reader, view model.View, typeURL, name string, grpc bool) (Resource, bool) {
	types, in := t.Types(), []model.Collection(nil)
	if grpc {
		types, in = t.Clients.Types(), view.ClientCollections()
	} else {
		in = t.d.holders(r, view, typeURL, name)
	}
	for _, typ := range types {
		if typ.URL != typeURL {
			continue
		}
		for _, c := range in {
			if res, ok := typ.Table.Get(r, Key{c, name}); ok {
				return res, true
			}
		}
	}
	return Resource{}, false
}

// holders are the collections of a view that may have a resource: of the many that
// classes have for themselves, those of classes that the name has to do with.
func (d *derivation) holders(r *inc.Reader, view model.View, typeURL, name string) []model.Collection {
	all, _ := d.p.Collections.Get(r, view)
	ports, _ := d.p.Ports.Get(r, fleet.SetOf(view))
	out := slices.Clone(fleet.Few(all))
	for _, class := range d.classesBehind(r, view, typeURL, name) {
		for _, t := range ports.Tables() {
			if !t.Has(class) {
				continue
			}
			if out = append(out, model.FrontOf(class, t.Table)); typeURL == ClusterType && d.p.LooksUp(r, class) {
				out = append(out, model.LookupsOf(class, view.Vantage()))
			}
		}
		out = append(out, d.p.HoldingOf(r, view, class).Collections...)
	}
	return out
}

// classesBehind are the classes whose fronts may have a resource.
func (d *derivation) classesBehind(r *inc.Reader, view model.View, typeURL, name string) []model.Class {
	var hosts []model.HostKey
	switch typeURL {
	case ListenerType:
		if c, ok := d.p.ClassAt(r, view.Edge(), boundTo(name)); ok {
			return []model.Class{c}
		}
	case ScopeType, RouteType:
		switch h := hostOfScope(name); h {
		case indexHost, namesHost: // of a table that is shared they are among the few
			if c, own := model.OwnerOf(tableOfScope(name)); own {
				return []model.Class{c}
			}
			return nil
		case walkHost:
			return fleet.ClassesOf(view.Classes())
		default:
			hosts = d.p.HostsNamed.Keys(r, h)
		}
	case ClusterType:
		if b, ok := d.backendOf(r, name); ok {
			hosts = d.hostsOfBackend.Keys(r, b)
		}
	case SecretType:
		if isDemanded(name) {
			hosts = d.p.ChainsNamed.Keys(r, demandedIn(Key{Name: name}).Host)
		} else {
			hosts = d.hostsOfSecret.Keys(r, secretOf(name))
		}
	}
	out := make([]model.Class, len(hosts))
	for i, h := range hosts {
		out[i] = h.Class
	}
	slices.Sort(out)
	return slices.Compact(out)
}
