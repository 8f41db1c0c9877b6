package app

import (
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/spillway-dev/spillway/internal/inc"
	"github.com/spillway-dev/spillway/internal/model"
	"github.com/spillway-dev/spillway/internal/xds"
)

// shown is what a view of the store has, by version.
func (b *big) shown(view string) map[xds.Ref]string {
	out := map[xds.Ref]string{}
	b.store.Each(view, func(typ xds.TypeURL, r *xds.Resource) { out[xds.Ref{Type: typ, Name: r.Name}] = r.Version })
	return out
}

func listeners(all map[xds.Ref]string) (n int) {
	for ref := range all {
		if ref.Type == xds.Listener {
			n++
		}
	}
	return n
}

// TestAnEdgeThatTurnsBack: a vantage that is wanted again while the tables are
// yet to be rid of it has all that it had, and whoever has no listener gets none
// before the view is whole.
func TestAnEdgeThatTurnsBack(t *testing.T) {
	b := newBig(50)
	at := func(region string) func(*inc.Tx) {
		return func(tx *inc.Tx) { b.prog.In.Edges.Set(tx, "nyc", edgeAt(1, region)) }
	}
	view := func() string {
		row, _ := b.prog.Views.Get(nil, "nyc")
		return row.Key.String()
	}
	home := view()
	before := b.shown(home)
	if listeners(before) == 0 {
		t.Fatal("no listeners")
	}
	b.graph.Portion(10)
	b.commit(at("sa"))
	if n := len(b.shown(view())); n == 0 || b.opens(t, "nyc") {
		t.Errorf("a view that is not whole has %d resources, and gives listeners", n)
	}
	b.commit(func(*inc.Tx) {})
	b.commit(at("us"))
	if view() != home || b.graph.Backlog() == 0 {
		t.Fatalf("%s, %d rows wait", view(), b.graph.Backlog())
	}
	for b.graph.Backlog() > 0 {
		b.commit(func(*inc.Tx) {})
	}
	if after := b.shown(home); !maps.Equal(before, after) {
		t.Errorf("%d resources, before %d", len(after), len(before))
	}
	if views := b.store.Views(); len(views) != 2 {
		t.Errorf("views %v", views)
	}
}

// TestGapsEnd with the last host that waits, and only what a class got has one.
func TestGapsEnd(t *testing.T) {
	b := newBig(50)
	g := b.proxies.gaps
	fra, _ := b.prog.Views.Get(nil, "fra")
	b.graph.Portion(10)
	b.commit(func(tx *inc.Tx) { b.prog.In.Edges.Set(tx, "nyc", edgeAt(1, "sa")) })
	nyc, _ := b.prog.Views.Get(nil, "nyc")
	of, _ := b.prog.Collections.Get(nil, nyc.Key)
	for _, c := range of {
		if whole := c.Kind() == model.Front || c.Kind() == model.Sockets; g.whole(c) != whole {
			t.Errorf("%s is whole: %v", c, !whole)
		}
	}
	for b.graph.Backlog() > 0 {
		if !g.whole(fra.Key.Vantage().Pools()) || g.whole(model.LookupsOf(nyc.Classes[0], nyc.Key.Vantage())) {
			t.Error("what nobody waits for has a gap, or what hosts wait for none")
		}
		b.commit(func(*inc.Tx) {})
	}
	if !g.whole(nyc.Key.Vantage().Pools()) {
		t.Error("the gap does not end")
	}
}

// TestAViewTakesOverAList: where a view ends and others come after it, one of these
// takes over its list, and who has which collection is counted all the same.
func TestAViewTakesOverAList(t *testing.T) {
	x := &proxies{views: map[string]list{}, names: map[model.Collection]string{}, users: map[model.Collection]int{}, left: map[model.Collection]bool{},
		held: map[model.Collection]map[xds.Ref]bool{}, parts: map[model.Collection]bool{}}
	a, b, c, d := model.FrontOf("a", ""), model.FrontOf("b", ""), model.FrontOf("c", ""), model.FrontOf("d", "")
	x.reset()
	x.has("old", []model.Collection{a, b, c})
	x.reset()
	x.going["old"], x.after["one"], x.after["two"] = true, "old", "old"
	x.has("one", []model.Collection{a, c})
	x.has("two", []model.Collection{a, b, d})
	x.has("old", nil)
	if want := map[model.Collection]int{a: 2, b: 1, c: 1, d: 1}; !maps.Equal(x.users, want) {
		t.Errorf("collections have %v users, want %v", x.users, want)
	}
	var told []string
	for _, v := range x.next.Views {
		told = append(told, v.ID+" "+strings.Join(v.Collections, ","))
	}
	want := []string{"one front classes=a,front classes=c", "two front classes=a,front classes=b,front classes=d", "old "}
	if !slices.Equal(told, want) {
		t.Errorf("views are told as %q, want %q", told, want)
	}
	x.reset()
	x.has("one", nil)
	x.has("two", nil)
	if len(x.users)+len(x.views)+len(x.names) > 0 || len(x.left) != 4 {
		t.Errorf("without views there are users %v, views %v, names %v; %d left", x.users, x.views, x.names, len(x.left))
	}
}
