package fleet_test

import (
	"fmt"
	"net/netip"
	"runtime"
	"slices"
	"testing"

	"github.com/spillway-dev/spillway/internal/fleet"
	"github.com/spillway-dev/spillway/internal/fleet/fleettest"
	"github.com/spillway-dev/spillway/internal/inc"
	"github.com/spillway-dev/spillway/internal/model"
)

// large is a fleet with many hosts, each with its own root and Service; the
// endpoints of a Service are spread over the members.
type large struct {
	g         *inc.Graph
	p         *fleet.Program
	hosts     int
	endpoints int // of a host
	members   int
}

func newLarge(hosts, endpoints, members, edges int) *large {
	l := &large{g: inc.New(), hosts: hosts, endpoints: endpoints, members: members}
	l.p = fleet.Declare(l.g)
	in := l.p.In
	l.g.Commit(func(tx *inc.Tx) {
		in.Classes.Set(tx, "spillway", model.ClassSpec{Default: true, Origin: model.Origin{Object: model.Object{Kind: "IngressClass", Name: "spillway"}}})
		for i := range edges {
			p := model.Place{Region: fmt.Sprint("region-", i)}
			in.Edges.Set(tx, model.Edge(fmt.Sprint("edge-", i)), model.EdgeSpec{Place: p, Networks: []string{"default"}})
		}
		for i := range members {
			m := member(i)
			in.Members.Set(tx, m, model.MemberSpec{Created: int64(i), Place: model.Place{Region: fmt.Sprint("region-", i)}, Networks: []string{"default"}})
			in.Sources.Set(tx, m, model.Source{Connected: true})
		}
	})
	const batch = 500
	for from := 0; from < hosts; from += batch {
		l.g.Commit(func(tx *inc.Tx) {
			for i := from; i < min(from+batch, hosts); i++ {
				l.addRoot(tx, i)
				for m := range members {
					l.setService(tx, i, m)
					l.setSlice(tx, i, m, 0)
				}
			}
		})
	}
	return l
}

func member(i int) model.Member { return model.Member(fmt.Sprint("member-", i)) }

func serviceName(i int) model.Service {
	return model.ServiceOf("shop", fmt.Sprint("service-", i))
}

func (l *large) backend(i int) model.Backend {
	return model.BackendKey{Service: serviceName(i), Port: model.PortRef{Name: "http"}}.Backend()
}

func (l *large) addRoot(tx *inc.Tx, i int) { l.addHost(tx, i, l.backend(i)) }

func (l *large) addHost(tx *inc.Tx, i int, b model.Backend) {
	id := model.Object{Kind: "Ingress", Namespace: "shop", Name: fmt.Sprint("root-", i)}
	l.p.In.Roots.Set(tx, id, model.Root{Created: int64(i)})
	l.p.In.Rules.Set(tx, model.RulesID{Root: id, Host: model.Host(fmt.Sprintf("host-%d.example", i))}, model.Rules{{
		Matches: []model.Match{{Kind: model.PathPrefix, Path: "/"}},
		Action:  model.Action{Backends: []model.WeightedBackend{{Backend: b, Weight: 1}}}, Field: "spec.rules[0].http.paths[0]",
	}})
}

func (l *large) setService(tx *inc.Tx, i, m int) {
	id := model.MemberService{Service: serviceName(i), Member: member(m)}
	l.p.In.Services.Set(tx, id, model.ServiceSpec{Ports: []model.ServicePort{{Name: "http", Number: 80, Protocol: "TCP"}}})
}

// setSlice writes the slice of a Service in a member; with more, it has as many
// endpoints more; the last byte of a few addresses tells generations apart.
func (l *large) setSlice(tx *inc.Tx, i, m, more int) {
	id := model.SliceID{MemberService: model.MemberService{Service: serviceName(i), Member: member(m)}, Name: fmt.Sprintf("service-%d-x7k2p", i)}
	n := l.endpoints/l.members + more
	if m < l.endpoints%l.members {
		n++
	}
	all := make([]model.Endpoint, n)
	for e := range n {
		all[e] = model.Endpoint{Addr: netip.AddrFrom4([4]byte{10 + byte(m), byte(i >> 8), byte(i), byte(e)})}
	}
	l.p.In.Slices.Set(tx, id, model.Slice{Ports: []model.SlicePort{{Name: "http", Number: 8080}}, Endpoints: model.EndpointsOf(all...)})
}

// moveEndpoint replaces one address of a slice by another.
func (l *large) moveEndpoint(tx *inc.Tx, i, m, turn int) {
	id := model.SliceID{MemberService: model.MemberService{Service: serviceName(i), Member: member(m)}, Name: fmt.Sprintf("service-%d-x7k2p", i)}
	s, _ := l.p.In.Slices.Get(nil, id)
	endpoints := s.Endpoints.List()
	endpoints[len(endpoints)-1].Addr = netip.AddrFrom4([4]byte{200, byte(i >> 8), byte(i), byte(turn)})
	s.Endpoints = model.EndpointsOf(endpoints...)
	l.p.In.Slices.Set(tx, id, s)
}

// TestCostOfAChangeFollowsTheChange counts the rows that a change evaluates in
// a fleet with 10,000 hosts and 100,000 endpoints.
func TestCostOfAChangeFollowsTheChange(t *testing.T) {
	hosts := 10_000
	if testing.Short() {
		hosts = 500
	}
	l := newLarge(hosts, 10, 3, 2)
	at := hosts / 2
	checks := []struct {
		what   string
		change func(*inc.Tx)
		rows   int // evaluated
	}{
		{"an address changes: its group, its shape", func(tx *inc.Tx) { l.moveEndpoint(tx, at, 1, 1) }, 2},
		{"an endpoint more: also a plan per vantage, and what that comes to", func(tx *inc.Tx) { l.setSlice(tx, at, 1, 1) }, 6},
		{"the last ready endpoint goes: the same", func(tx *inc.Tx) { l.setSlice(tx, at, 1, -3) }, 6},
		{"a status is written: its attachment", func(tx *inc.Tx) {
			k := model.Object{Kind: "Ingress", Namespace: "shop", Name: fmt.Sprint("root-", at)}
			root, _ := l.p.In.Roots.Get(nil, k)
			root.Published = model.TextsOf([]string{"192.0.2.1"})
			l.p.In.Roots.Set(tx, k, root)
		}, 1},
		{"a member's API is cut: nothing but whether its rows are missing", func(tx *inc.Tx) {
			l.p.In.Sources.Set(tx, member(1), model.Source{StaleSince: 1})
		}, 1},
		{"a proxy reports what is known: the report, its path, what a vantage sees", func(tx *inc.Tx) {
			l.p.In.Reports.Set(tx, model.ReportID{Edge: "edge-0", Proxy: "b", Member: member(1)}, model.Report{Canaries: 3})
		}, 3},
	}
	l.g.Commit(func(tx *inc.Tx) {
		l.p.In.Reports.Set(tx, model.ReportID{Edge: "edge-0", Proxy: "a", Member: member(1)}, model.Report{Canaries: 3})
	})
	for _, c := range checks {
		before := fleettest.Evaluations(l.g)
		stats := l.g.Commit(c.change)
		if stats.Evaluated != c.rows {
			t.Errorf("%s: %d rows evaluated, not %d: %v", c.what, stats.Evaluated, c.rows, since(before, l.g))
		}
	}
}

// addViews has n edges more at the place of the first, each with a view of its
// own: it serves a class more, that has no hosts.
func (l *large) addViews(tx *inc.Tx, n int) {
	in := l.p.In
	first, _ := in.Edges.Get(nil, "edge-0")
	for i := range n {
		name := fmt.Sprint("more-", i)
		in.Configs.Set(tx, model.Config(name), model.ConfigSpec{EdgeNames: []string{name}})
		in.Classes.Set(tx, model.Class(name), model.ClassSpec{Config: model.Config(name), Origin: model.Origin{Created: 1, Object: model.Object{Kind: "IngressClass", Name: name}}})
		in.Edges.Set(tx, model.Edge(name), first)
	}
}

// TestAVantageDecidesOnce: of all that is decided about members there is as much
// for five views at a vantage as for one, and it costs as much. Views that come
// have nothing decided anew.
func TestAVantageDecidesOnce(t *testing.T) {
	const hosts, views = 100, 5
	l := newLarge(hosts, 10, 3, 2)
	decided := []string{"members of vantages", "sights", "plans", "outcomes"}
	sizes := func() (rows, evaluated []int) {
		for _, name := range decided {
			for _, s := range l.g.Tables() {
				if s.Name == name {
					rows, evaluated = append(rows, s.Rows), append(evaluated, s.Evaluations)
				}
			}
		}
		return rows, evaluated
	}
	rows, evaluated := sizes()
	l.g.Commit(func(tx *inc.Tx) { l.addViews(tx, views-1) })
	if o, _ := l.p.Outlets.Get(nil, "spillway"); len(o.Fronts) != 1 || len(o.Vantages) != 2 {
		t.Fatalf("outlets %v", o)
	}
	if r, e := sizes(); !slices.Equal(r, rows) || !slices.Equal(e, evaluated) || len(r) != len(decided) {
		t.Errorf("of %v there are %v rows, before %v, after %v evaluations, before %v", decided, r, rows, e, evaluated)
	}
	for _, c := range []struct {
		what   string
		change func(*inc.Tx)
		rows   int
	}{
		{"an address changes: its group, its shape", func(tx *inc.Tx) { l.moveEndpoint(tx, 7, 1, 1) }, 2},
		{"an endpoint more: also a plan per vantage, and what that comes to", func(tx *inc.Tx) { l.setSlice(tx, 7, 1, 1) }, 6},
		{"a proxy reports that a member can't be reached: its report, the path, the sight, a plan for each host, and what that comes to", func(tx *inc.Tx) {
			l.p.In.Reports.Set(tx, model.ReportID{Edge: "edge-0", Proxy: "a", Member: member(1)}, model.Report{Canaries: 3, Failing: 3})
		}, 3 + 2*hosts},
	} {
		before := fleettest.Evaluations(l.g)
		if stats := l.g.Commit(c.change); stats.Evaluated != c.rows {
			t.Errorf("%s: %d rows evaluated, not %d: %v", c.what, stats.Evaluated, c.rows, since(before, l.g))
		}
	}
}

// TestManyHostsOfOneBackend: a Service that all hosts share costs no more, as
// long as it stays ready.
func TestManyHostsOfOneBackend(t *testing.T) {
	l := newLarge(1, 10, 3, 2)
	const hosts = 3000
	l.g.Commit(func(tx *inc.Tx) {
		for i := 1; i < hosts; i++ {
			l.addHost(tx, i, l.backend(0))
		}
	})
	for _, c := range []struct {
		what   string
		change func(*inc.Tx)
		rows   int
	}{
		{"an address changes", func(tx *inc.Tx) { l.moveEndpoint(tx, 0, 1, 1) }, 2},
		{"an endpoint more", func(tx *inc.Tx) { l.setSlice(tx, 0, 1, 1) }, 6},
		{"a host more: its rows, its findings", func(tx *inc.Tx) { l.addHost(tx, hosts, l.backend(0)) }, 6},
	} {
		before := fleettest.Evaluations(l.g)
		if stats := l.g.Commit(c.change); stats.Evaluated != c.rows {
			t.Errorf("%s: %d rows evaluated, not %d: %v", c.what, stats.Evaluated, c.rows, since(before, l.g))
		}
	}
}

func since(before map[string]int, g *inc.Graph) map[string]int {
	out := fleettest.Evaluations(g)
	for name, n := range before {
		if out[name] -= n; out[name] == 0 {
			delete(out, name)
		}
	}
	return out
}

// BenchmarkEndpointChange is one commit in which an address of a slice changes.
func BenchmarkEndpointChange(b *testing.B) {
	for _, hosts := range []int{100, 10_000} {
		l := newLarge(hosts, 10, 3, 2)
		b.Run(fmt.Sprintf("hosts=%d/address", hosts), func(b *testing.B) {
			b.ReportAllocs()
			for n := range b.N {
				l.g.Commit(func(tx *inc.Tx) { l.moveEndpoint(tx, n%hosts, 1, n) })
			}
		})
		b.Run(fmt.Sprintf("hosts=%d/count", hosts), func(b *testing.B) {
			b.ReportAllocs()
			for n := range b.N {
				l.g.Commit(func(tx *inc.Tx) { l.setSlice(tx, n%hosts, 1, n%2) })
			}
		})
	}
}

// BenchmarkHeap tells what a route costs, with and without its endpoints.
func BenchmarkHeap(b *testing.B) {
	for _, c := range []struct{ members, edges int }{{1, 1}, {3, 2}} {
		const hosts = 10_000
		b.Run(fmt.Sprintf("hosts=%d/members=%d/edges=%d", hosts, c.members, c.edges), func(b *testing.B) {
			for range b.N {
				few, l := heapOf(func() *large { return newLarge(hosts, c.members, c.members, c.edges) })
				_, _ = few, l
				many, l := heapOf(func() *large { return newLarge(hosts, 10*c.members, c.members, c.edges) })
				perEndpoint := (many - few) / float64(hosts*9*c.members)
				b.ReportMetric(perEndpoint, "B/endpoint")
				b.ReportMetric((few-perEndpoint*float64(hosts*c.members))/hosts, "B/route")
				runtime.KeepAlive(l)
			}
		})
	}
}

func heapOf(build func() *large) (float64, *large) {
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	l := build()
	runtime.GC()
	runtime.ReadMemStats(&after)
	return float64(after.HeapAlloc) - float64(before.HeapAlloc), l
}
