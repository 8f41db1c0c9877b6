package fleet

import (
	"cmp"
	"fmt"
	"hash/fnv"
	"net/netip"
	"slices"
	"strings"

	"github.com/spillway-dev/spillway/internal/inc"
	"github.com/spillway-dev/spillway/internal/model"
)

// A view that is new has rows for every host of its classes. To make them all
// in one commit would make everybody else wait. So hosts are dealt into
// batches, and where the program is Paced, a view has the hosts of as many
// batches as Filled says. Whoever writes that fills a view batch by batch, and
// hands the edges that want it over when it is whole; until then they keep the
// view that they were given. What no edge wants or has is emptied in the same
// way. All that a view has of a host comes and goes in one commit; so does what
// is decided at its vantage, with the first and the last view there that has the
// host.

// Fleet is the one key of a table about the whole of it.
type Fleet struct{}

// Compare is always 0.
func (Fleet) Compare(Fleet) int { return 0 }

// String is "fleet".
func (Fleet) String() string { return "fleet" }

// Paced says that views are filled and given by Filled and Given. Without it
// each edge has the view that it wants, and every view is whole.
type Paced struct{}

// Equal is always true.
func (Paced) Equal(Paced) bool { return true }

// Given is the view that the proxies of an edge have.
type Given struct{ View model.View }

// Equal reports whether both are the same.
func (a Given) Equal(b Given) bool { return a == b }

// Filled is how many batches of hosts a view has. No row: none.
type Filled struct{ Batches int }

// Equal reports whether both are the same.
func (a Filled) Equal(b Filled) bool { return a == b }

// Fill is how far a view is filled. A view has a row from when an edge wants it
// until it is empty again.
type Fill struct {
	Batches int  // of Program.Batches
	Claimed bool // some edge wants it, or has it
}

// Equal reports whether both are the same.
func (a Fill) Equal(b Fill) bool { return a == b }

// Room is the hosts of one batch among those of a class.
type Room struct {
	Class model.Class
	Batch int
}

// Compare orders by class and batch.
func (a Room) Compare(b Room) int {
	return cmp.Or(a.Class.Compare(b.Class), cmp.Compare(a.Batch, b.Batch))
}

// Room finds the batch of a host.
func (p *Program) Room(key model.HostKey) Room { return Room{key.Class, p.Batch(key.Host)} }

// Batch is the batch of a host, of whatever class: 0 to Batches-1.
func (p *Program) Batch(host model.Host) int {
	if p.Batches <= 1 {
		return 0
	}
	h := fnv.New32a()
	_, _ = h.Write([]byte(host))
	return int(h.Sum32() % uint32(p.Batches))
}

// roomsOf are all batches of a class.
func (p *Program) roomsOf(class model.Class) []Room {
	out := make([]Room, max(p.Batches, 1))
	for i := range out {
		out[i] = Room{class, i}
	}
	return out
}

// Has reports whether a view has the hosts of a batch.
func (p *Program) Has(r *inc.Reader, view model.View, batch int) bool {
	fill, _ := p.Fills.Get(r, view)
	return fill.Batches > batch
}

// ClassesOf are the classes of a view, sorted.
func ClassesOf(view model.View) []model.Class {
	if view.Classes() == "" {
		return nil
	}
	var out []model.Class
	for name := range strings.SplitSeq(view.Classes(), ",") {
		out = append(out, model.Class(name))
	}
	return out
}

// ViewList is some views, each once.
type ViewList []model.View

// Equal reports whether both are the same.
func (a ViewList) Equal(b ViewList) bool { return slices.Equal(a, b) }

// AddressList is some addresses, sorted, each once.
type AddressList []netip.Addr

// Equal reports whether both are the same.
func (a AddressList) Equal(b AddressList) bool { return slices.Equal(a, b) }

// declareViews decides which view an edge wants, has, and which views there are.
func (d *program) declareViews(g *inc.Graph) {
	in := &d.In
	d.Wishes = inc.Derive(g, "wanted views", d.wish, in.Edges)
	claims := inc.Derive(g, "claimed views", func(r *inc.Reader, e model.Edge) (ViewList, bool) {
		wish, ok := d.Wishes.Get(r, e)
		if given, had := in.Given.Get(r, e); had && given.View != wish.Key {
			return ViewList{wish.Key, given.View}, ok
		}
		return ViewList{wish.Key}, ok
	}, in.Edges)
	claimants := inc.IndexBy(claims, func(_ model.Edge, views ViewList) []model.View { return views })
	d.Fills = inc.Derive(g, "fills", func(r *inc.Reader, v model.View) (Fill, bool) {
		claimed := len(claimants.Keys(r, v)) > 0
		filled, some := in.Filled.Get(r, v)
		if _, paced := in.Paced.Get(r, Fleet{}); !paced {
			return Fill{max(d.Batches, 1), claimed}, claimed
		}
		return Fill{filled.Batches, claimed}, claimed || some
	}, claimants, in.Filled)
	d.Handovers = inc.Derive(g, "handovers", func(r *inc.Reader, e model.Edge) (Given, bool) {
		wish, _ := d.Wishes.Get(r, e)
		given, had := in.Given.Get(r, e)
		_, paced := in.Paced.Get(r, Fleet{})
		return Given{wish.Key}, paced && (!had || given.View != wish.Key) && d.Has(r, wish.Key, max(d.Batches, 1)-1)
	}, d.Wishes)
	d.Views = inc.Derive(g, "views", d.viewOf, in.Edges)
	d.Addresses = inc.Derive(g, "addresses", d.addressesOf, in.Edges)
	d.ViewsAt = inc.IndexBy(d.Fills, func(v model.View, _ Fill) []model.Vantage { return []model.Vantage{v.Vantage()} })
	d.EdgesOfView = inc.IndexBy(d.Views, func(_ model.Edge, v View) []model.View { return []model.View{v.Key} })
	d.allWishes = inc.IndexBy(d.Wishes, func(model.Edge, View) []model.All { return []model.All{{}} })
	ofClass := inc.IndexBy(d.Fills, func(v model.View, _ Fill) []model.Class { return ClassesOf(v) })
	keys := inc.IndexBy(d.Fills, func(v model.View, _ Fill) (out []Room) {
		for _, class := range ClassesOf(v) {
			out = append(out, d.roomsOf(class)...)
		}
		return out
	})
	d.rooms = inc.Derive(g, "rooms", func(r *inc.Reader, at Room) (*room, bool) {
		out := new(room)
		for _, v := range ofClass.Keys(r, at.Class) {
			if d.Has(r, v, at.Batch) {
				out.add(v)
			}
		}
		return out, len(out.views) > 0
	}, keys)
}

// room is the views that have the hosts of a Room, and their vantages. All its
// hosts share it.
type room struct {
	views    []model.View
	vantages []model.Vantage // sorted, each once
}

func (a *room) Equal(b *room) bool { return slices.Equal(a.views, b.views) }

// String is the views.
func (a *room) String() string { return fmt.Sprint(a.views) }

// add takes views in order, which is by place first.
func (a *room) add(v model.View) {
	a.views = append(a.views, v)
	if at, has := slices.BinarySearchFunc(a.vantages, v.Vantage(), model.Vantage.Compare); !has {
		a.vantages = slices.Insert(a.vantages, at, v.Vantage())
	}
}

// viewOf is the view that an edge has.
func (d *program) viewOf(r *inc.Reader, e model.Edge) (View, bool) {
	var view View
	var ok bool
	if _, paced := d.In.Paced.Get(r, Fleet{}); paced {
		var given Given
		given, ok = d.In.Given.Get(r, e)
		view = View{Key: given.View, Classes: ClassesOf(given.View)}
	} else {
		view, ok = d.Wishes.Get(r, e)
	}
	fill, _ := d.Fills.Get(r, view.Key)
	view.Batches = fill.Batches
	return view, ok
}

// Reach is how an edge that has a view serves a host. None: the view has not got
// the host, whoever else at its vantage has.
func (p *Program) Reach(r *inc.Reader, key model.HostKey, view View) (Reach, bool) {
	if p.Batch(key.Host) >= view.Batches || !slices.Contains(view.Classes, key.Class) {
		return Reach{}, false
	}
	return p.Reaches.Get(r, ReachID{key, view.Key.Vantage()})
}

// wish is the view that follows from what an edge is.
func (d *program) wish(r *inc.Reader, e model.Edge) (View, bool) {
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
	key := model.ViewKey{Classes: strings.Join(names, ","), VantageKey: at, IPv6: hasIPv6(spec)}
	return View{Key: key.View(), Classes: classes}, true
}

func hasIPv6(e model.EdgeSpec) bool { return slices.ContainsFunc(e.Addresses, isIPv6) }

func isIPv6(a netip.Addr) bool { return a.Is6() && !a.Is4In6() }

// addressesOf leaves out those of IPv6 until the edge was given the view that
// has them.
func (d *program) addressesOf(r *inc.Reader, e model.Edge) (AddressList, bool) {
	spec, ok := d.In.Edges.Get(r, e)
	if view, _ := d.Views.Get(r, e); view.Key.IPv6() {
		return spec.Addresses, ok
	}
	return slices.DeleteFunc(slices.Clone(spec.Addresses), isIPv6), ok
}
