package app

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/spillway-dev/spillway/internal/envoy"
	"github.com/spillway-dev/spillway/internal/inc"
	"github.com/spillway-dev/spillway/internal/model"
	"github.com/spillway-dev/spillway/internal/xds"
)

// TestClientsAreServedWhileThereAreAny: the first gRPC client of an edge has
// its view made, the last takes it along some minutes later, and neither counts
// as a proxy.
func TestClientsAreServedWhileThereAreAny(t *testing.T) {
	w := newWorld()
	store, now := xds.NewStore(), time.Unix(0, 0)
	x := newProxies(w.p, w.envoy, newGaps(w.p), store, func() {})
	c := newClients(w.envoy.Clients)
	c.now = func() time.Time { return now }
	wit := newWitnesses(w.p, w.zones, c.now, func() {})
	w.load()
	// commit does what a turn of the loop does.
	commit := func(changes ...xds.StreamChange) {
		late, _ := c.due(now)
		w.g.Commit(func(tx *inc.Tx) {
			c.streamed(tx, changes)
			wit.streamed(tx, changes)
			for _, write := range late {
				write(tx)
			}
		})
		x.flush()
	}
	stream := func(n uint64, open bool) xds.StreamChange {
		return xds.StreamChange{Proxy: xds.Proxy{Edge: "fra", Node: "cart", Class: xds.GRPC}, Stream: n, Open: open}
	}
	expect := func(when string, views ...string) {
		t.Helper()
		got := slices.DeleteFunc(store.Views(), func(id string) bool { return !strings.HasSuffix(id, clientView) })
		if !slices.Equal(got, views) {
			t.Errorf("%s: views %q, want %q", when, got, views)
		}
	}
	commit()
	expect("before anybody asks")
	commit(stream(1, true), stream(2, true))
	expect("two clients", viewOfFra+" grpc")
	names := map[xds.TypeURL]string{}
	store.Each(viewOfFra+" grpc", func(typ xds.TypeURL, r *xds.Resource) { names[typ] = r.Name })
	if names[xds.Listener] != "shop.example" || names[xds.RouteConfiguration] != "shop.example" || names[xds.Cluster] == "" ||
		names[xds.ClusterLoadAssignment] != names[xds.Cluster] || len(names) != 4 {
		t.Errorf("the view has %v", names)
	}
	if row, ok := w.p.In.Streams.Get(nil, "fra"); ok {
		t.Errorf("a client counts as a proxy: %+v", row)
	}
	commit(stream(1, false))
	now = now.Add(time.Hour)
	commit()
	expect("one is left", viewOfFra+" grpc")
	commit(stream(2, false))
	now = now.Add(clientLinger - time.Second)
	if _, next := c.due(now); next != now.Add(time.Second) {
		t.Errorf("asks to be called at %v", next)
	}
	commit()
	expect("the last one left just now", viewOfFra+" grpc")
	now = now.Add(time.Second)
	commit(stream(3, true))
	expect("one came as the demand ended", viewOfFra+" grpc")
	commit(stream(3, false))
	now = now.Add(clientLinger)
	commit()
	expect("nobody is left")
	commit(stream(4, true))
	expect("again", viewOfFra+" grpc")
}

// TestWhatClientsSay: a rejection is a row of its own, an acknowledgement says
// nothing about who serves a host.
func TestWhatClientsSay(t *testing.T) {
	w := newWorld()
	a := newAcks(w.p, w.envoy, time.Now, w.put)
	w.load()
	said := xds.ProxyVerdict{Proxy: xds.Proxy{Edge: "fra", Node: "cart", Class: xds.GRPC}, View: viewOfFra + clientView,
		Verdict: xds.Verdict{Type: xds.RouteConfiguration, Name: "shop.example", Version: "1"}}
	apply := func() { w.g.Commit(func(tx *inc.Tx) { a.apply(tx, []xds.ProxyVerdict{said}) }) }
	w.g.Commit(func(tx *inc.Tx) { w.envoy.Clients.Demand.Set(tx, "fra", model.There{}) })
	for _, typ := range w.envoy.Clients.Types() {
		for _, key := range typ.Table.Keys() {
			if r, _ := typ.Table.Get(nil, key); typ.URL == envoy.RouteType {
				said.Version = r.Version
			}
		}
	}
	apply()
	if n := w.p.In.Acks.Len(); n != 0 {
		t.Errorf("%d acknowledgements by a client", n)
	}
	said.Error = "no"
	apply()
	rows := w.p.In.Rejections.Keys()
	if len(rows) != 1 || !rows[0].GRPC || rows[0].Edge != "fra" {
		t.Fatalf("rows %v", rows)
	}
	proxys := model.RejectionID{Edge: rows[0].Edge, Type: rows[0].Type, Name: rows[0].Name}
	w.g.Commit(func(tx *inc.Tx) {
		w.p.In.Rejections.Set(tx, proxys, model.Rejection{Version: "2", Error: "no", By: []model.Refuser{{Node: "fra-1"}}})
	})
	said.Error = ""
	apply()
	if rows := w.p.In.Rejections.Keys(); len(rows) != 1 || rows[0] != proxys {
		t.Errorf("rows %v", rows)
	}
}
