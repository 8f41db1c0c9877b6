package envoy

import (
	"slices"

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

// holders are the collections of a view that may have a resource: of its many
// fronts, those of classes that the name has to do with.
func (d *derivation) holders(r *inc.Reader, view model.View, typeURL, name string) []model.Collection {
	classes := d.classesBehind(r, typeURL, name)
	all, _ := d.p.Collections.Get(r, view)
	return slices.DeleteFunc(slices.Clone(all), func(c model.Collection) bool {
		k := c.Kind()
		return k == model.Front && !slices.Contains(classes, c.Class())
	})
}

// classesBehind are the classes whose fronts may have a resource.
func (d *derivation) classesBehind(r *inc.Reader, typeURL, name string) []model.Class {
	var hosts []model.HostKey
	switch typeURL {
	case ScopeType, RouteType:
		hosts = d.p.HostsNamed.Keys(r, hostOfScope(name))
	case ClusterType:
		if b, ok := d.backendOf(r, name); ok {
			hosts = d.hostsOfBackend.Keys(r, b)
		}
	case SecretType:
		if isDemanded(name) {
			hosts = d.p.ChainsNamed.Keys(r, certOf(Key{Name: name}).host)
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
