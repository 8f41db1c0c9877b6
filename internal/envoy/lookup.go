package envoy

import (
	"github.com/spillway-dev/spillway/internal/inc"
	"github.com/spillway-dev/spillway/internal/model"
)

// Find returns what a view has under a name of a type: of its proxies or of its
// gRPC clients.
func (t *Tables) Find(r *inc.Reader, view model.View, typeURL, name string, grpc bool) (Resource, bool) {
	types := t.Types()
	if grpc {
		types = t.Clients.Types()
	}
	return find(types, r, view, typeURL, name)
}

// find looks into the collections of the view that have resources of the type.
func find(types []Type, r *inc.Reader, view model.View, typeURL, name string) (Resource, bool) {
	for _, typ := range types {
		if typ.URL != typeURL {
			continue
		}
		for _, kind := range typ.In {
			if res, ok := typ.Table.Get(r, Key{view.In(kind), name}); ok {
				return res, true
			}
		}
	}
	return Resource{}, false
}
