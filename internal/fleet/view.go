package fleet

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"github.com/spillway-dev/spillway/internal/inc"
	"github.com/spillway-dev/spillway/internal/model"
	"github.com/spillway-dev/spillway/internal/steer"
)

// A table or a vantage that a class is new in has rows for every host of it. To
// make them all in one commit would make everybody else wait. So where a class is
// served is one row, and the rows of its hosts that read it, Spreads, may wait.
// All that a collection has of a host follows from the spread of the host, and
// comes and goes in one commit. What a host's spread has not got yet is unknown
// there, never absent.

// Outlets is where a class is served: what Spreads say of each of its hosts when
// none waits.
type Outlets struct {
	Fronts   []model.Collection // of the class, sorted, each once
	Vantages []model.Vantage    // sorted, each once
	Delivery                    // wherever it is served
}

// Delivery is how certificates of a class come to proxies.
type Delivery struct {
	Static   bool // with listeners
	OnDemand bool
}

// Equal reports whether both are the same.
func (a *Outlets) Equal(b *Outlets) bool {
	return a == b || slices.Equal(a.Fronts, b.Fronts) && slices.Equal(a.Vantages, b.Vantages) && a.Delivery == b.Delivery
}

// String is the fronts and the vantages.
func (a *Outlets) String() string { return fmt.Sprint(a.Fronts, a.Vantages) }

// Has reports whether all that a binding has is among them.
func (a *Outlets) Has(b Binding) bool {
	for _, front := range b.Fronts {
		if !slices.Contains(a.Fronts, front) {
			return false
		}
	}
	return slices.Contains(a.Vantages, b.Vantage)
}

// OutletsOf are those of a class with these bindings.
func OutletsOf(bindings []Binding) *Outlets {
	out := new(Outlets)
	for _, b := range bindings {
		out.Fronts = append(out.Fronts, b.Fronts...)
		out.Vantages = append(out.Vantages, b.Vantage)
		out.Static = out.Static || b.Static
		out.OnDemand = out.OnDemand || b.OnDemand
	}
	slices.SortFunc(out.Fronts, model.Collection.Compare)
	slices.SortFunc(out.Vantages, model.Vantage.Compare)
	out.Fronts, out.Vantages = slices.Compact(out.Fronts), slices.Compact(out.Vantages)
	return out
}

// ClassesOf are the classes of a view or a collection, sorted.
func ClassesOf(joined string) []model.Class { return model.Classes(joined).List() }

// declareViews decides which view an edge has.
func (d *program) declareViews(g *inc.Graph) {
	tenures := inc.IndexBy(d.In.Tenures, func(k model.TenureID, _ model.Tenure) []model.Edge { return []model.Edge{k.Edge} })
	d.tenured = inc.Derive(g, "edges with tenures", func(*inc.Reader, model.Edge) (model.There, bool) { return model.There{}, true }, tenures)
	d.Views = inc.Derive(g, "views", d.viewOf, d.In.Edges)
	d.EdgesOfView = inc.IndexBy(d.Views, func(_ model.Edge, v View) []model.View { return []model.View{v.Key} })
	d.allViews = inc.IndexBy(d.Views, func(model.Edge, View) []model.All { return []model.All{{}} })
}

// viewOf is the view that follows from what an edge is.
func (d *program) viewOf(r *inc.Reader, e model.Edge) (View, bool) {
	spec, ok := d.In.Edges.Get(r, e)
	if !ok {
		return View{}, false
	}
	classes := d.classesOfEdge.Keys(r, e)
	at := model.VantageKey{Networks: strings.Join(spec.Networks, ","), Place: spec.Place}
	key := model.ViewKey{Classes: joined(classes), VantageKey: at, IPv6: slices.ContainsFunc(spec.Addresses, isIPv6), TrustedHops: spec.TrustedHops}
	if _, tenured := d.tenured.Get(r, e); tenured || d.ownAt.Has(r, e) {
		key.Edge = e
	}
	return View{Key: key.View(), Classes: classes}, true
}

// joined is the inverse of ClassesOf.
func joined(classes []model.Class) string {
	var out strings.Builder
	size := 0
	for _, c := range classes {
		size += len(c) + 1
	}
	out.Grow(size)
	for i, c := range classes {
		if i > 0 {
			out.WriteByte(',')
		}
		out.WriteString(string(c))
	}
	return out.String()
}

func isIPv6(a netip.Addr) bool { return a.Is6() && !a.Is4In6() }

// Reach is how a host of a class is served where the class is bound. None: the
// class has not got the host. Of a host whose spread has not got all that yet
// nobody is sure.
func (p *Program) Reach(r *inc.Reader, key model.HostKey, at Binding) (Reach, bool) {
	spread, ok := p.Spreads.Get(r, key)
	if !ok || !spread.served {
		return Reach{}, false
	}
	if !spread.Has(at) {
		return Reach{Room: steer.NoRoom, Unsure: true}, true
	}
	return p.best(r, spread.answering(), at.Vantage), true
}

// best is what the plans of a host's backends come to. Only a plan that is worse
// than the best there can be may turn out better.
func (p *Program) best(r *inc.Reader, backends []model.Backend, at model.Vantage) Reach {
	out := Reach{Room: steer.NoRoom}
	for _, b := range backends {
		if of, ok := p.Outcomes.Get(r, UseID{at, b}); ok {
			out.Room = min(out.Room, of.Room)
			out.Unsure = out.Unsure || of.Unsure
		}
	}
	out.Unsure = out.Unsure && out.Room != steer.Best
	return out
}

// Reaches calls f with how each host is served from each vantage that has it, in
// order. It is for snapshots, outside derivations.
func (p *Program) Reaches(f func(model.HostKey, model.Vantage, Reach)) {
	for _, key := range p.Spreads.Keys() {
		spread, _ := p.Spreads.Get(nil, key)
		if !spread.served {
			continue
		}
		for _, at := range spread.Vantages {
			f(key, at, p.best(nil, spread.answering(), at))
		}
	}
}
