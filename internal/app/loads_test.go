package app

import (
	"fmt"
	"math/rand/v2"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/spillway-dev/spillway/internal/cluster"
	"github.com/spillway-dev/spillway/internal/inc"
	"github.com/spillway-dev/spillway/internal/model"
	"github.com/spillway-dev/spillway/internal/xds"
)

// busy is a big server that is told load, commit by commit.
type busy struct {
	*big
	now  time.Time
	puts int
}

func newBusy(n int) *busy {
	b := &busy{now: time.Unix(0, 0)}
	b.big = newBigWith(n, func(s *big) {
		s.loads = newLoads(s.prog, s.envoy, func(key any, write func(*inc.Tx)) {
			b.puts++
			s.mail.Put(cluster.Bulk, key, write)
		})
	})
	b.settle(b.turns(func(inc.Stats) {}))
	b.puts = 0
	return b
}

// report has an edge of some proxies report: cluster, requests a second, and so on.
func (b *busy) report(edge string, proxies int, load ...any) {
	r := xds.LoadReport{Proxy: xds.Proxy{Edge: edge, Node: edge + "-1"}, Proxies: proxies, At: b.now}
	for i := 0; i < len(load); i += 2 {
		r.Clusters = append(r.Clusters, xds.ClusterLoad{Name: load[i].(string), Requests: load[i+1].(float64)})
	}
	b.loads.heard(r)
}

// land writes what is in the mailbox, and returns what that cost.
func (b *busy) land() inc.Stats {
	return b.graph.Commit(func(tx *inc.Tx) {
		for b.mail.Len() > 0 {
			for _, write := range b.mail.Take() {
				write(tx)
			}
		}
	})
}

// rows prints the table: "svc-00000 4 svc-00002 16".
func (b *busy) rows() string {
	var out []string
	for _, k := range b.prog.In.Loads.Keys() {
		row, _ := b.prog.In.Loads.Get(nil, k)
		out = append(out, fmt.Sprintf("%s %v", k.Service.Name, row.Requests))
	}
	return strings.Join(out, " ")
}

func TestLoads(t *testing.T) {
	b := newBusy(4)
	c0, c1, c2 := assignmentOf(0), assignmentOf(1), assignmentOf(2)
	entry, part := c2+"/from-0-of-2", c2+"/1-of-2"
	wait := func(d time.Duration) func() {
		return func() {
			b.now = b.now.Add(d)
			b.loads.expire(b.now)
		}
	}
	for _, step := range []struct {
		what string
		do   func()
		want string
		puts int
	}{
		{"an edge of three proxies", func() { b.report("fra", 3, c0, 2.0, c1, 0.1) }, "svc-00000 4", 1},
		{"names that mean nothing", func() {
			b.report("fra", 3, c0, 2.0, "", 9e9, "spillway-xds", 9e9, "shop/svc-00001", 9e9, c1+"/h2c", 9e9, "shop/svc-00009/http", 9e9, entry, 9e9, part, 9e9)
		}, "svc-00000 4", 0},
		{"it goes up a little", func() { b.report("fra", 3, c0, 5.0) }, "svc-00000 4", 0},
		{"another edge", func() { b.report("nyc", 1, c0, 1.5, c1, 40.0) }, "svc-00000 16 svc-00001 32", 2},
		{"it goes down a little", func() { b.report("nyc", 1, c1, 17.0) }, "svc-00000 16 svc-00001 32", 0},
		{"and more", func() { b.report("nyc", 1, c1, 15.9); b.report("fra", 1, c0, 7.9) }, "svc-00000 4 svc-00001 8", 2},
		{"one comes and one goes", func() { b.report("nyc", 1, c2, 1.0) }, "svc-00000 4 svc-00002 1", 2},
		{"time goes by", wait(loadTTL - 1), "svc-00000 4 svc-00002 1", 0},
		{"one edge goes on", func() { b.report("nyc", 1, c2, 0.5) }, "svc-00000 4 svc-00002 1", 0},
		{"the other said nothing for too long", wait(1), "svc-00002 1", 1},
		{"all are idle", func() { b.report("nyc", 1) }, "", 1},
		{"a claim without measure", func() { b.report("nyc", 1000, c2, 1e300, c2, 1e300) }, "svc-00002 1.6777216e+07", 1},
		{"it gets more than 1,000 endpoints", func() { b.endpoints(2, 1500) }, "svc-00002 1.6777216e+07", 0},
		{"of its parts each counts, and no entry", func() { b.report("nyc", 1, entry, 12.0, c2+"/0-of-2", 6.0, part, 6.0) }, "svc-00002 8", 1},
		{"it is gone", func() { b.remove(2) }, "", 1},
		{"and reported still", func() { b.report("nyc", 1, part, 6.0) }, "", 0},
		{"and back", func() {
			b.graph.Commit(func(tx *inc.Tx) { b.host(tx, 2) })
			b.settle(b.turns(func(inc.Stats) {}))
		}, "", 0},
		{"with requests", func() { b.report("nyc", 1, c2, 6.0) }, "svc-00002 4", 1},
		{"nobody says anything any more", wait(loadTTL), "", 1},
	} {
		b.puts = 0
		step.do()
		stats := b.land()
		if got := b.rows(); got != step.want || b.puts != step.puts {
			t.Errorf("%s: %q with %d writes, want %q with %d", step.what, got, b.puts, step.want, step.puts)
		}
		if stats.Evaluated > 0 {
			t.Errorf("%s: load had %d rows evaluated", step.what, stats.Evaluated)
		}
	}
	if len(b.loads.edges) > 0 || len(b.loads.totals) > 0 || len(b.loads.backends) != 4 {
		t.Errorf("left behind: %v %v, %d clusters", b.loads.edges, b.loads.totals, len(b.loads.backends))
	}
}

// endpoints gives a host's Service n endpoints in eu-1.
func (b *busy) endpoints(host, n int) {
	b.graph.Commit(func(tx *inc.Tx) {
		id := model.SliceID{MemberService: model.MemberService{Service: serviceOf(host), Member: "eu-1"}, Name: "x"}
		s := model.Slice{Ports: []model.SlicePort{{Name: "http", Number: 8080}}}
		for i := range n {
			s.Endpoints = append(s.Endpoints, model.Endpoint{Addr: netip.AddrFrom4([4]byte{10, 99, byte(i >> 8), byte(i)})})
		}
		b.prog.In.Slices.Set(tx, id, s)
	})
}

func (b *busy) remove(host int) {
	svc := serviceOf(host)
	b.graph.Commit(func(tx *inc.Tx) {
		b.prog.In.Roots.Delete(tx, model.Object{Kind: "Ingress", Namespace: svc.Namespace, Name: svc.Name})
	})
}

// TestLoadsAreTheSumOfLastReports: whatever comes in whatever order, a total is
// the sum of what each edge said last, and its row within a factor of four.
func TestLoadsAreTheSumOfLastReports(t *testing.T) {
	const n = 5
	b := newBusy(n)
	rnd := rand.New(rand.NewPCG(1, 2))
	edges, last, at := []string{"fra", "nyc", "sin"}, map[string]map[int]rate{}, map[string]time.Time{}
	for range 2000 {
		b.now = b.now.Add(time.Duration(rnd.Int64N(int64(loadTTL / 4))))
		b.loads.expire(b.now)
		for e := range last {
			if b.now.Sub(at[e]) >= loadTTL {
				delete(last, e)
			}
		}
		edge, load := edges[rnd.IntN(len(edges))], []any{}
		last[edge], at[edge] = map[int]rate{}, b.now
		for i := range n {
			if rnd.IntN(2) > 0 {
				requests := float64(rnd.IntN(1 << rnd.IntN(12)))
				load = append(load, assignmentOf(i), requests)
				last[edge][i] = rate(requests * 2000)
			}
		}
		b.report(edge, 2, load...)
		if rnd.IntN(3) > 0 {
			b.land()
		}
		if rnd.IntN(2) > 0 {
			continue // some things are committed together
		}
		b.land()
		for i := range n {
			var want rate
			for _, of := range last {
				want += of[i]
			}
			row, _ := b.prog.In.Loads.Get(nil, backendOf(i))
			if got := b.loads.totals[backendOf(i)].rate; got != want {
				t.Fatalf("%d in all, want %d", got, want)
			}
			r := float64(want) / 1000
			if low, high := row.Requests/2, 4*row.Requests; row.Requests > 0 && (r < low || r >= high) || row.Requests == 0 && r >= 1 {
				t.Fatalf("row %v for %v requests", row.Requests, r)
			}
		}
	}
}
