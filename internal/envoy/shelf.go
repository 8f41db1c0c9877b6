package envoy

import (
	"cmp"
	"slices"

	"github.com/spillway-dev/spillway/internal/fleet"
	"github.com/spillway-dev/spillway/internal/inc"
	"github.com/spillway-dev/spillway/internal/model"
)

// shelf is a batch of hosts, of what several views share.
type shelf[T inc.Key[T]] struct {
	of    T
	batch int
}

// Compare orders by what is shared and batch.
func (a shelf[T]) Compare(b shelf[T]) int {
	return cmp.Or(a.of.Compare(b.of), cmp.Compare(a.batch, b.batch))
}

// onShelf is the views that have the hosts of a shelf.
type onShelf struct{ views []model.View }

func (a onShelf) Equal(b onShelf) bool { return slices.Equal(a.views, b.views) }

// shelves are those of what the ports of a view say. A host reads its own, so
// that a view that is filled batch by batch is news to the hosts of a batch.
func shelves[T inc.Key[T]](d *derivation, g *inc.Graph, name string, of func(ports) []T) *inc.Table[shelf[T], onShelf] {
	views := inc.IndexBy(d.ports, func(_ model.View, p ports) []T { return of(p) })
	keys := inc.IndexBy(d.ports, func(_ model.View, p ports) (out []shelf[T]) {
		for _, each := range of(p) {
			for batch := range max(d.p.Batches, 1) {
				out = append(out, shelf[T]{each, batch})
			}
		}
		return out
	})
	return inc.Derive(g, name, func(r *inc.Reader, s shelf[T]) (onShelf, bool) {
		var out onShelf
		for _, view := range views.Keys(r, s.of) {
			if d.p.Has(r, view, s.batch) {
				out.views = append(out.views, view)
			}
		}
		return out, len(out.views) > 0
	}, keys)
}

// roomsOf are the rooms of the classes that share a shelf.
func roomsOf(classes classList, batch int) []fleet.Room {
	var out []fleet.Room
	for _, class := range classes.classes() {
		out = append(out, fleet.Room{Class: class, Batch: batch})
	}
	return out
}
