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

// A front or a vantage that is new has rows for every host of its classes. To
// make them all in one commit would make everybody else wait. So which of them
// have a class is one row, and the rows of its hosts that read it, Spreads, may
// wait. All that a collection has of a host follows from the spread of the host,
// and comes and goes in one commit. What a host's spread has not got yet is
// unknown there, never absent.

// Outlets is where a class is served: what Spreads say of each of its hosts when
// none waits.
type Outlets struct {
	Fronts   []model.Collection // sorted, each once
	Vantages []model.Vantage    // sorted, each once
}

// Equal reports whether both are the same.
func (a *Outlets) Equal(b *Outlets) bool {
	return a == b || slices.Equal(a.Fronts, b.Fronts) && slices.Equal(a.Vantages, b.Vantages)
}

// String is the fronts and the vantages.
func (a *Outlets) String() string { return fmt.Sprint(a.Fronts, a.Vantages) }

// Has reports whether a view is among them.
func (a *Outlets) Has(v model.View) bool {
	return slices.Contains(a.Fronts, v.Front()) && slices.Contains(a.Vantages, v.Vantage())
}

// OutletsOf are those of a class that edges with these views serve.
func OutletsOf(views []View) *Outlets {
	out := new(Outlets)
	for _, v := range views {
		out.Fronts = append(out.Fronts, v.Key.Front())
		out.Vantages = append(out.Vantages, v.Key.Vantage())
	}
	slices.SortFunc(out.Fronts, model.Collection.Compare)
	slices.SortFunc(out.Vantages, model.Vantage.Compare)
	out.Fronts, out.Vantages = slices.Compact(out.Fronts), slices.Compact(out.Vantages)
	return out
}

// ClassesOf are the classes of a view or a collection, sorted.
func ClassesOf(joined string) []model.Class {
	if joined == "" {
		return nil
	}
	var out []model.Class
	for name := range strings.SplitSeq(joined, ",") {
		out = append(out, model.Class(name))
	}
	return out
}

// declareViews decides which view an edge has, and where each class is served.
func (d *program) declareViews(g *inc.Graph) {
	d.Views = inc.Derive(g, "views", d.viewOf, d.In.Edges)
	d.EdgesOfView = inc.IndexBy(d.Views, func(_ model.Edge, v View) []model.View { return []model.View{v.Key} })
	d.EdgesOf = inc.IndexBy(d.Views, func(_ model.Edge, v View) []model.Collection { return v.Key.Collections() })
	d.allViews = inc.IndexBy(d.Views, func(model.Edge, View) []model.All { return []model.All{{}} })
	ofClass := inc.IndexBy(d.Views, func(_ model.Edge, v View) []model.Class { return v.Classes })
	d.Outlets = inc.Derive(g, "outlets", func(r *inc.Reader, c model.Class) (*Outlets, bool) {
		return OutletsOf(ofClass.Get(r, c)), true
	}, ofClass)
}

// viewOf is the view that follows from what an edge is.
func (d *program) viewOf(r *inc.Reader, e model.Edge) (View, bool) {
	spec, ok := d.In.Edges.Get(r, e)
	if !ok {
		return View{}, false
	}
	classes := d.classesOfEdge.Keys(r, e)
	names := make([]string, len(classes))
	for i, c := range classes {
		names[i] = string(c)
	}
	at := model.VantageKey{Networks: strings.Join(spec.Networks, ","), Place: spec.Place}
	key := model.ViewKey{Classes: strings.Join(names, ","), VantageKey: at, IPv6: slices.ContainsFunc(spec.Addresses, isIPv6)}
	return View{Key: key.View(), Classes: classes}, true
}

func isIPv6(a netip.Addr) bool { return a.Is6() && !a.Is4In6() }

// Reach is how an edge that has a view serves a host. None: its classes have not
// got the host. Of a host whose spread has not got the view yet nobody is sure.
func (p *Program) Reach(r *inc.Reader, key model.HostKey, view View) (Reach, bool) {
	if !slices.Contains(view.Classes, key.Class) {
		return Reach{}, false
	}
	spread, ok := p.Spreads.Get(r, key)
	if !ok || !spread.served {
		return Reach{}, false
	}
	if !spread.Has(view.Key) {
		return Reach{Room: steer.NoRoom, Unsure: true}, true
	}
	return p.best(r, spread.backends, view.Key.Vantage()), true
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
			f(key, at, p.best(nil, spread.backends, at))
		}
	}
}
