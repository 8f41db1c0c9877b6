package envoy

import (
	"slices"
	"strings"

	"github.com/spillway-dev/spillway/internal/model"
)

// contents is the resources of a program by collection.
func contents(types []Type) map[model.Collection]map[Ref]Resource {
	out := map[model.Collection]map[Ref]Resource{}
	for _, typ := range types {
		for _, k := range typ.Table.Keys() {
			if out[k.Collection] == nil {
				out[k.Collection] = map[Ref]Resource{}
			}
			out[k.Collection][Ref{Type: model.TypeURL(typ.URL), Name: k.Name}], _ = typ.Table.Get(nil, k)
		}
	}
	return out
}

// unions checks what views make of their collections: that no two have a name
// with different bytes, and that all that a resource refers to is there. What
// some vantage lacks while hosts come to it may be missing with partial.
func unions(t reporter, w *world, partial bool) {
	t.Helper()
	check := func(view string, of []model.Collection, types []Type) {
		all := contents(types)
		union := map[Ref]Resource{}
		for _, c := range of {
			for ref, res := range all[c] {
				if other, twice := union[ref]; twice && other.Version != res.Version {
					t.Errorf("%s has %v twice: %s and %s", view, ref, other, res)
				}
				union[ref] = res
			}
		}
		for ref, res := range union {
			for _, to := range res.Refs() {
				_, there := union[to]
				if at := to.Type == AssignmentType || to.Type == ClusterType && isLookup(to.Name); !there && (!partial || !at) {
					t.Errorf("%s: %v refers to %v, which is not there", view, ref, to)
				}
			}
		}
	}
	for _, view := range w.p.EdgesOfView.Groups() {
		of, _ := w.p.Collections.Get(nil, view)
		check(view.String(), of, w.t.Types())
	}
	for _, view := range w.t.Clients.Views.Keys() {
		check(view.String()+" clients", view.ClientCollections(), w.t.Clients.Types())
	}
}

func isLookup(name string) bool { return strings.HasSuffix(assignmentOf(name), externalSuffix) }

// rowsOf are the resources of a type that a view holds, by name.
func (w *world) rowsOf(typ Type, view model.View) []Resource {
	var out []Resource
	for _, k := range typ.Table.Keys() {
		if w.has(view, k.Collection) {
			res, _ := typ.Table.Get(nil, k)
			out = append(out, res)
		}
	}
	slices.SortFunc(out, func(a, b Resource) int { return Key{Name: a.Name}.Compare(Key{Name: b.Name}) })
	return out
}

// typeOf is a type of the proxies'.
func (t *Tables) typeOf(url string) Type {
	return t.Types()[slices.IndexFunc(t.Types(), func(of Type) bool { return of.URL == url })]
}
