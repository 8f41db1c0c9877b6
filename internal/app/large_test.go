package app

import (
	"bytes"
	"crypto/sha256"
	"errors"
	"fmt"
	"log/slog"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/spillway-dev/spillway/internal/cluster"
	"github.com/spillway-dev/spillway/internal/envoy"
	"github.com/spillway-dev/spillway/internal/inc"
	"github.com/spillway-dev/spillway/internal/model"
	"github.com/spillway-dev/spillway/internal/xds"
	"github.com/spillway-dev/spillway/internal/zone"
)

// big is a server without shells: n hosts, each with a Service of its own in
// both members, and two edges.
type big struct {
	*server
	n int
}

func newBig(n int) *big { return newBigWith(n, func(*big) {}) }

// newBigWith has watch see all that comes.
func newBigWith(n int, watch func(*big)) *big {
	b := &big{server: &server{store: xds.NewStore(), mail: cluster.NewMailbox()}, n: n}
	b.declare()
	put := func(key any, write func(*inc.Tx)) { b.mail.Put(urgent, key, write) }
	b.proxies = newProxies(b.prog, b.envoy, newGaps(b.prog), b.store, func() {})
	b.answers = newDNS(b.zones, nil, func(*zone.Snapshot) {})
	lastAnswer(b.zones).carry(put)
	watch(b)
	b.commit(b.fleet)
	const batch = 500
	for from := 0; from < n; from += batch {
		b.commit(func(tx *inc.Tx) {
			for i := from; i < min(from+batch, n); i++ {
				b.host(tx, i)
			}
		})
	}
	return b
}

// fleet writes all but the hosts.
func (b *big) fleet(tx *inc.Tx) {
	in := &b.prog.In
	for i, m := range []model.Member{"eu-1", "us-1"} {
		in.Members.Set(tx, m, memberAt(i, string(m[:2])))
		in.Sources.Set(tx, m, model.Source{Connected: true})
	}
	in.Classes.Set(tx, "spillway", model.ClassSpec{Default: true, Config: "c", Origin: model.Origin{Object: model.Object{Kind: "IngressClass", Name: "spillway"}}})
	in.Configs.Set(tx, "c", b.prog.Defaults)
	for i, e := range []model.Edge{"fra", "nyc"} {
		in.Edges.Set(tx, e, edgeAt(i, []string{"eu", "us"}[i]))
		b.zones.Witnesses.Set(tx, e, zone.Witnesses{Stream: zone.Witness{Health: model.Up}, Probe: zone.Witness{Health: model.Up}})
	}
	in.Certificates.Set(tx, model.SecretID{Namespace: "shop", Name: "wild"}, cert(0))
}

func cert(v byte) model.Certificate {
	return model.Certificate{Chain: []byte{'c', v}, Key: []byte{'k', v}, Names: []string{"*.apps.example"}}
}

func memberAt(i int, region string) model.MemberSpec {
	return model.MemberSpec{Created: int64(i), Place: model.Place{Region: region, Latitude: 50, Longitude: float64(-70 * i), Located: true}, Networks: []string{"default"}}
}

func edgeAt(i int, region string) model.EdgeSpec {
	return model.EdgeSpec{Place: model.Place{Region: region, Zone: region + "-a", Latitude: 50, Longitude: float64(-70 * i), Located: true},
		Networks: []string{"default"}, Addresses: []netip.Addr{netip.AddrFrom4([4]byte{192, 0, 2, byte(i + 1)})}}
}

func serviceOf(i int) model.Service {
	return model.ServiceOf("shop", fmt.Sprintf("svc-%05d", i))
}

func (b *big) host(tx *inc.Tx, i int) {
	b.root(tx, i)
	for m := range 2 {
		b.service(tx, i, m)
		b.slice(tx, i, m, 0)
	}
}

func (b *big) root(tx *inc.Tx, i int) {
	svc := serviceOf(i)
	id := model.Object{Kind: "Ingress", Namespace: svc.Namespace(), Name: svc.Name()}
	name := model.Host(fmt.Sprintf("h%05d.apps.example", i))
	b.prog.In.Rules.Set(tx, model.RulesID{Root: id, Host: name}, model.Rules{{
		Matches: []model.Match{{Kind: model.PathPrefix, Path: "/"}}, Action: model.Action{Backends: []model.WeightedBackend{{Backend: backendOf(i), Weight: 1}}},
	}})
	b.prog.In.Roots.Set(tx, id, model.Root{Created: int64(i),
		TLS: []model.TLS{{Hosts: []model.Host{name}, Secret: model.SecretID{Namespace: "shop", Name: "wild"}}},
	})
}

func (b *big) service(tx *inc.Tx, i, m int) {
	b.prog.In.Services.Set(tx, model.MemberService{Service: serviceOf(i), Member: memberNames[m]},
		model.ServiceSpec{Ports: []model.ServicePort{{Name: "http", Number: 80, Protocol: "TCP"}}})
}

var memberNames = []model.Member{"eu-1", "us-1"}

func backendOf(i int) model.Backend {
	return model.BackendKey{Service: serviceOf(i), Port: model.PortRef{Name: "http"}}.Backend()
}

func (b *big) slice(tx *inc.Tx, i, m, turn int) {
	id := model.SliceID{MemberService: model.MemberService{Service: serviceOf(i), Member: memberNames[m]}, Name: serviceOf(i).Name() + "-x"}
	var eps []model.Endpoint
	for e := range 5 {
		eps = append(eps, model.Endpoint{Addr: netip.AddrFrom4([4]byte{byte(10 + m), byte(i >> 8), byte(i), byte(e + 100*(turn%2))})})
	}
	b.prog.In.Slices.Set(tx, id, model.Slice{Ports: []model.SlicePort{{Name: "http", Number: 8080}}, Endpoints: model.EndpointsOf(eps...)})
}

func (b *big) commit(f func(*inc.Tx)) {
	b.graph.Commit(f)
	b.proxies.flush()
	b.answers.flush()
}

// rowTime is what a row costs in tests: their clock counts rows.
const rowTime = 5 * time.Microsecond

// turns runs a loop over b by hand. Its clock moves by rowTime an evaluated
// row; each publish is told to see, if there is one.
func (b *big) turns(see func(inc.Stats)) *loop {
	l := newLoop(b.graph, b.mail, slog.New(slog.DiscardHandler))
	clock := time.Unix(0, 0)
	l.now = func() time.Time { return clock }
	l.due = func(now time.Time) ([]func(*inc.Tx), time.Time) { return nil, time.Time{} }
	l.publish = func(s inc.Stats) {
		clock = clock.Add(time.Duration(s.Evaluated) * rowTime)
		b.proxies.flush()
		b.answers.flush()
		see(s)
	}
	return l
}

// settle turns until nothing is left to do.
func (b *big) settle(l *loop) {
	for b.graph.Backlog() > 0 || b.mail.Len() > 0 {
		l.turn()
	}
}

// lose has the canaries of eu-1 fail from everywhere, or work again.
func (b *big) lose(tx *inc.Tx, failing int) {
	for _, e := range []model.Edge{"fra", "nyc"} {
		b.prog.In.Reports.Set(tx, model.ReportID{Edge: e, Proxy: "p", Member: "eu-1"}, model.Report{Canaries: 3, Failing: failing})
	}
}

// differs names the first table that is not the same in both. Rows of DNS hold
// pointers, so these are compared by Equal.
func (b *big) differs(t *testing.T, o *big) string {
	t.Helper()
	for _, host := range b.zones.Records.Keys() {
		x, _ := b.zones.Records.Get(nil, host)
		if y, ok := o.zones.Records.Get(nil, host); !ok || !x.Equal(y) {
			return "record of " + string(host)
		}
	}
	for _, s := range b.graph.Tables() {
		if s.Input || strings.HasPrefix(s.Name, "dns-") {
			continue
		}
		x, y := sha256.New(), sha256.New()
		if err := errors.Join(b.graph.WriteText(x, s.Name), o.graph.WriteText(y, s.Name)); err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(x.Sum(nil), y.Sum(nil)) {
			return s.Name
		}
	}
	return ""
}

// opens tells whether a proxy of an edge that connects now gets listeners.
func (b *big) opens(t *testing.T, edge model.Edge) bool {
	t.Helper()
	s := xds.NewServer(xds.Config{Store: b.proxies.store, ViewOf: func(edge string) (string, bool) { return b.proxies.store.ViewOf(edge), true }})
	proxy, err := s.Local(xds.Proxy{Edge: string(edge), Node: "new"}, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer proxy.Close()
	out, _, err := proxy.Step(&xds.Request{Type: xds.Listener})
	if err != nil {
		t.Fatal(err)
	}
	return len(out) > 0 && len(out[0].Resources) > 0
}

// whole checks that a proxy that connects gets listeners when its view has all
// hosts, and not before, and that DNS names for a host the edges that are sure of
// it and no new others. It returns how many edges are not whole.
func (b *big) whole(t *testing.T, when string) (parts int) {
	t.Helper()
	for _, edge := range b.prog.Views.Keys() {
		view, _ := b.prog.Views.Get(nil, edge)
		routes, pools := 0, 0
		b.proxies.store.Each(view.Key.String(), func(typ xds.TypeURL, res *xds.Resource) {
			switch {
			case typ == xds.RouteConfiguration && res.Name != "?": // which is of no host
				routes++
			case typ == xds.ClusterLoadAssignment:
				pools++
			}
		})
		whole := routes == b.n && pools == b.n
		if !whole {
			parts++
		}
		if open := b.opens(t, edge); open != whole {
			t.Errorf("%s: %s has %s, with listeners %v, with routes of %d and endpoints for %d of %d hosts", when, edge, view.Key, open, routes, pools, b.n)
		}
	}
	for i := 0; i < b.n; i += 97 {
		host := model.Host(fmt.Sprintf("h%05d.apps.example", i))
		row, _ := b.zones.Records.Get(nil, host)
		last, _ := b.zones.Last.Get(nil, host)
		if row.Edges == (model.EdgeSet{}) {
			t.Errorf("%s: DNS answers %v for %s", when, row, host)
		}
		for _, edge := range row.Edges.Edges() {
			at, _ := b.prog.Binding(nil, "spillway", edge)
			spread, _ := b.prog.Spreads.Get(nil, model.HostKey{Class: "spillway", Host: host})
			if !spread.Has(at) && !last.Has(edge) && when != "an edge is gone" {
				t.Errorf("%s: DNS names %s for %s, which has it not", when, edge, host)
			}
		}
	}
	return parts
}

// TestLargeEvents: whatever touches all hosts is worked off in short turns, and
// leaves what a run from scratch would.
func TestLargeEvents(t *testing.T) {
	const n = 2000
	b := newBig(n)
	in := &b.prog.In
	config := func(edit func(*model.ConfigSpec)) func(*inc.Tx) {
		return func(tx *inc.Tx) {
			c, _ := in.Configs.Get(nil, "c")
			edit(&c)
			in.Configs.Set(tx, "c", c)
		}
	}
	moved := memberAt(0, "ap")
	moved.Place.Zone = "ap-1"
	drained := moved
	drained.Drain = true
	wild := model.SecretID{Namespace: "shop", Name: "wild"}
	second := model.ClassSpec{Origin: model.Origin{Created: 9, Object: model.Object{Kind: "IngressClass", Name: "second"}}}
	opened := 0
	whole := func(when string) { opened += b.whole(t, when) }
	for _, c := range []struct {
		what  string
		event func(*inc.Tx)
		turns int // at least: it is a large event
	}{
		{"a member is lost", func(tx *inc.Tx) { b.lose(tx, 3) }, 5},
		{"it is back", func(tx *inc.Tx) { b.lose(tx, 0) }, 5},
		{"a class has other timeouts", config(func(c *model.ConfigSpec) { c.Timing.PerTryTimeout, c.Timing.ConnectTimeout = 777, 333 }), 5},
		{"a class allows ExternalNames", config(func(c *model.ConfigSpec) { c.ExternalNames = true }), 3},
		{"a member moves", func(tx *inc.Tx) { in.Members.Set(tx, "eu-1", moved) }, 5},
		{"a member is drained", func(tx *inc.Tx) { in.Members.Set(tx, "eu-1", drained) }, 5},
		{"an edge is lost for DNS", func(tx *inc.Tx) {
			w := zone.Witness{Health: model.Down, Since: 1, Alone: true}
			b.zones.Witnesses.Set(tx, "fra", zone.Witnesses{Stream: w, Probe: w})
		}, 2},
		{"a certificate of all hosts is renewed", func(tx *inc.Tx) { in.Certificates.Set(tx, wild, cert(1)) }, 1},
		{"an edge is new", func(tx *inc.Tx) { in.Edges.Set(tx, "sin", edgeAt(2, "ap")) }, 5},
		{"an edge moves", func(tx *inc.Tx) { in.Edges.Set(tx, "nyc", edgeAt(1, "sa")) }, 10},
		{"a class is new to all edges", func(tx *inc.Tx) { in.Classes.Set(tx, "second", second) }, 1},
		{"an edge is gone", func(tx *inc.Tx) { in.Edges.Delete(tx, "fra") }, 5},
	} {
		turns, most := 0, 0
		l := b.turns(func(s inc.Stats) {
			turns, most = turns+1, max(most, s.Evaluated)
			whole(c.what)
		})
		b.mail.Put(urgent, "event", c.event)
		b.settle(l)
		if limit := 2 * int(turnTime/rowTime); most > limit || turns < c.turns {
			t.Errorf("%s: %d turns, the longest evaluates %d rows; want %d turns or more, up to %d rows", c.what, turns, most, c.turns, limit)
		}
	}
	if views := b.store.Views(); len(views) != 2 {
		t.Errorf("views %v, want those of two edges", views)
	}
	if opened == 0 {
		t.Error("no view was ever without listeners")
	}
	fresh := newBig(n)
	fresh.settle(fresh.turns(func(inc.Stats) {}))
	fresh.commit(func(tx *inc.Tx) {
		c, _ := in.Configs.Get(nil, "c")
		fresh.prog.In.Configs.Set(tx, "c", c)
		fresh.prog.In.Members.Set(tx, "eu-1", drained)
		fresh.prog.In.Certificates.Set(tx, wild, cert(1))
		fresh.lose(tx, 0)
		w, _ := b.zones.Witnesses.Get(nil, "fra")
		fresh.zones.Witnesses.Set(tx, "fra", w)
		fresh.prog.In.Edges.Set(tx, "sin", edgeAt(2, "ap"))
		fresh.prog.In.Edges.Set(tx, "nyc", edgeAt(1, "sa"))
		fresh.prog.In.Edges.Delete(tx, "fra")
		fresh.prog.In.Classes.Set(tx, "second", second)
	})
	fresh.settle(fresh.turns(func(inc.Stats) {}))
	if at := b.differs(t, fresh); at != "" {
		t.Errorf("%s is not that of a run from scratch", at)
	}
}

// TestEndpointChangeDuringALoss: while the loss of a member with many Services
// is worked off, an endpoint change is in the next publish.
func TestEndpointChangeDuringALoss(t *testing.T) {
	const n = 2000
	b := newBig(n)
	b.commit(func(tx *inc.Tx) { b.lose(tx, 0) })
	b.settle(b.turns(func(inc.Stats) {}))
	changed := map[string]bool{}
	b.envoy.Assignments.Watch(func(changes []inc.Change[envoy.Key, envoy.Resource]) {
		clear(changed)
		for _, c := range changes {
			changed[c.Key.Name] = true
		}
	})
	publishes := 0
	l := b.turns(func(inc.Stats) { publishes++ })
	b.mail.Put(urgent, "loss", func(tx *inc.Tx) { b.lose(tx, 3) })
	l.turn()
	for i := 0; b.graph.Backlog() > 0; i++ {
		host, before := i*37%n, publishes
		b.mail.Put(urgent, "endpoint", func(tx *inc.Tx) { b.slice(tx, host, 1, 1) })
		seen := false
		see := l.publish
		l.publish = func(s inc.Stats) {
			see(s)
			seen = seen || publishes == before+1 && changed[assignmentOf(host)]
			if publishes == before+1 && s.Evaluated > int(turnTime/rowTime)/2 {
				t.Errorf("turn %d: the endpoint change came with %d rows", i, s.Evaluated)
			}
		}
		l.turn()
		if l.publish = see; !seen {
			t.Fatalf("turn %d: the change of %s was not in the next publish", i, assignmentOf(host))
		}
		if i > n {
			t.Fatal("the backlog does not end while endpoints change")
		}
	}
}

// assignmentOf is the name of a host's cluster.
func assignmentOf(i int) string { return serviceOf(i).String() + "/http" }

// TestListenersWaitForTheirTable: a class whose ports are in other tables now has
// its hosts there before its listeners look there.
func TestListenersWaitForTheirTable(t *testing.T) {
	const n = 2000
	b := newBig(n)
	in := &b.prog.In
	waited, switched := 0, 0
	l := b.turns(func(inc.Stats) {
		for _, edge := range b.prog.Views.Keys() {
			view, _ := b.prog.Views.Get(nil, edge)
			scopes, table := 0, false
			b.proxies.store.Each(view.Key.String(), func(typ xds.TypeURL, r *xds.Resource) {
				switch {
				case typ == xds.ScopedRoute && strings.HasPrefix(r.Name, "443|h"):
					scopes++
				case typ == xds.Listener && r.Name == "https-443":
					table = bytes.Contains(r.Bytes(), []byte("443|%REQ"))
				}
			})
			switch {
			case table && scopes < n:
				t.Errorf("%s looks for %d of %d hosts", edge, scopes, n)
			case table:
				switched++
			case scopes > 0:
				waited++
			}
		}
	})
	second := model.ClassSpec{Config: "other", Origin: model.Origin{Created: 9, Object: model.Object{Kind: "IngressClass", Name: "second"}}}
	b.mail.Put(urgent, "event", func(tx *inc.Tx) {
		other := b.prog.Defaults
		other.HTTPSPort = 8443
		in.Configs.Set(tx, "other", other)
		in.Classes.Set(tx, "second", second)
	})
	b.settle(l)
	if waited < 2 || switched < 2 {
		t.Errorf("%d looks at a table that grew, %d at one with all hosts", waited, switched)
	}
}
