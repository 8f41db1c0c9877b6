package app

import (
	"fmt"
	"net/netip"
	"runtime"
	"testing"

	"github.com/spillway-dev/spillway/internal/inc"
	"github.com/spillway-dev/spillway/internal/model"
	"github.com/spillway-dev/spillway/internal/zone"
)

// TestAnEdgeMoreCostsBits: an edge where others of its kind are already costs 8
// bytes a host at most, in all tables, what DNS answers from and what statuses
// say, once it acknowledged every host and is in every status.
func TestAnEdgeMoreCostsBits(t *testing.T) {
	const hosts, few, more = 2000, 3, 10
	b := newBig(hosts)
	l := b.turns(func(inc.Stats) {})
	b.settle(l)
	twins := func(from, to int) uint64 {
		for i := from; i < to; i++ {
			b.twin(l, i, "eu")
		}
		return live()
	}
	before := twins(0, few)
	after := twins(few, few+more)
	a, _ := b.leaf.Roots.Get(nil, model.Object{Kind: "Ingress", Namespace: "shop", Name: serviceOf(7).Name()})
	r, _ := b.zones.Records.Get(nil, "h00007.apps.example")
	if n := few + more + 1; a.Addresses.Len() != n || r.Edges.Len() != n+1 || !a.Settled {
		t.Fatalf("the status has %v, DNS %v; want %d edges, and nyc in DNS", a, r, n)
	}
	perHost := (float64(after) - float64(before)) / hosts / more
	t.Logf("%.1f bytes a host for an edge more", perHost)
	if perHost > 8 {
		t.Errorf("an edge more costs %.1f bytes a host, want 8 at most", perHost)
	}
	runtime.KeepAlive(b)
}

// TestAVantageMoreCosts: an edge at a place of its own costs 1.5 KB a host with 10
// endpoints at most, in all tables and in the store.
func TestAVantageMoreCosts(t *testing.T) {
	const hosts, few, more = 2000, 1, 4
	b := newBig(hosts)
	l := b.turns(func(inc.Stats) {})
	b.settle(l)
	places := func(from, to int) uint64 {
		for i := from; i < to; i++ {
			b.twin(l, i, fmt.Sprint("place-", i))
		}
		return live()
	}
	before := places(0, few)
	after := places(few, few+more)
	if n := len(b.store.Views()); n != few+more+2 {
		t.Fatalf("%d views, want %d", n, few+more+2)
	}
	perHost := (float64(after) - float64(before)) / hosts / more
	t.Logf("%.0f bytes a host for a vantage more", perHost)
	if perHost > 1536 {
		t.Errorf("a vantage more costs %.0f bytes a host, want 1,536 at most", perHost)
	}
	runtime.KeepAlive(b)
}

// twin adds an edge like fra, whose proxies acknowledge all hosts; then what
// statuses want is in them, as it comes back from the hub.
func (b *big) twin(l *loop, i int, region string) {
	edge := model.Edge(fmt.Sprintf("fra-%d", i))
	turn := func(write func(*inc.Tx)) {
		b.mail.Put(urgent, "twin", write)
		b.settle(l)
	}
	turn(func(tx *inc.Tx) {
		spec := edgeAt(0, region)
		spec.Addresses = []netip.Addr{netip.AddrFrom4([4]byte{198, 51, 100, byte(i)})}
		b.prog.In.Edges.Set(tx, edge, spec)
		b.zones.Witnesses.Set(tx, edge, zone.Witnesses{Stream: zone.Witness{Health: model.Up}, Probe: zone.Witness{Health: model.Up}})
		b.prog.In.Streams.Set(tx, edge, model.Streams{Connected: 1, Synced: 1})
	})
	a := &acks{p: b.prog, sums: map[joined]model.EdgeSet{}}
	turn(func(tx *inc.Tx) {
		a.serve(tx, "fra", b.prog.Hosts.Keys())
		a.serve(tx, edge, b.prog.Hosts.Keys())
	})
	turn(func(tx *inc.Tx) {
		for _, id := range b.prog.In.Roots.Keys() {
			root, _ := b.prog.In.Roots.Get(nil, id)
			want, _ := b.leaf.Roots.Get(nil, id)
			root.Published = model.TextsOf(want.Addresses.List())
			b.prog.In.Roots.Set(tx, id, root)
		}
	})
}

// live is the bytes in use.
func live() uint64 {
	var m runtime.MemStats
	runtime.GC()
	runtime.GC()
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}
