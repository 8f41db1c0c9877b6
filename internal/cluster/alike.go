package cluster

import (
	"hash/maphash"
	"slices"

	"github.com/spillway-dev/spillway/internal/model"
)

// mostAlike bounds what is remembered to be shared. Whoever has more different
// ones shares less.
const mostAlike = 256

// alike has lists that many objects have alike share their memory, as the ports
// of Services. It belongs to one goroutine; nobody writes to what it gave out.
type alike[T comparable] struct{ seen map[uint64][]T }

// of is a list that is equal, one that was seen before if there is one.
func (a *alike[T]) of(list []T) []T {
	if len(list) == 0 {
		return list
	}
	var h maphash.Hash
	h.SetSeed(seed)
	sumList(&h, list)
	sum := h.Sum64()
	if old := a.seen[sum]; slices.Equal(old, list) {
		return old
	}
	if a.seen == nil || len(a.seen) >= mostAlike {
		a.seen = map[uint64][]T{}
	}
	a.seen[sum] = slices.Clip(list)
	return a.seen[sum]
}

// words does the same for texts.
type words struct{ seen map[string]string }

func (w *words) of(s string) string {
	if old, ok := w.seen[s]; ok {
		return old
	}
	if w.seen == nil || len(w.seen) >= mostAlike {
		w.seen = map[string]string{}
	}
	w.seen[s] = s
	return s
}

// root shares what other roots have alike.
func (w *words) root(r *model.Root) {
	r.Classes = model.Classes(w.of(string(r.Classes)))
	for i := range r.TLS {
		r.TLS[i].Field = model.Field(w.of(string(r.TLS[i].Field)))
	}
	if r.Route == nil {
		return
	}
	for i := range r.Route.Parents {
		p := &r.Route.Parents[i]
		p.Group, p.Kind, p.Namespace, p.Name, p.Section = w.of(p.Group), w.of(p.Kind), w.of(p.Namespace), w.of(p.Name), w.of(p.Section)
	}
}

// rules does so for those of a host.
func (w *words) rules(rules model.Rules) {
	for i := range rules {
		rules[i].Field = model.Field(w.of(string(rules[i].Field)))
	}
}
