package envoy

import (
	"fmt"
	"net/netip"
	"strings"
	"testing"

	"github.com/spillway-dev/spillway/internal/fleet"
	"github.com/spillway-dev/spillway/internal/inc"
	"github.com/spillway-dev/spillway/internal/model"
)

// fleetOf serves n hosts, each with a backend of its own that has 10 endpoints
// in two members.
func fleetOf(n int) *world { return fleetIn(newWorld(), n) }

func fleetIn(w *world, n int) *world {
	w.g.Commit(func(tx *inc.Tx) {
		w.plain(tx)
		for i := range n {
			name := fmt.Sprintf("shop/web-%d/http", i)
			def := target("web", name)
			w.host(tx, testClass, model.Host(fmt.Sprintf("h%d.shop.example", i)), &def)
			w.use(tx, testView, name, "")
			w.group(tx, name, "eu-1", tenEndpoints(i, 1)[:5]...)
			w.group(tx, name, "us-1", tenEndpoints(i, 2)[:5]...)
			w.plan(tx, testView, name, share("eu-1", 0), share("us-1", 1))
		}
	})
	return w
}

func tenEndpoints(i, member int) []model.Endpoint {
	var out []model.Endpoint
	for j := range 10 {
		out = append(out, model.Endpoint{Addr: netip.AddrFrom4([4]byte{10, byte(member), byte(i), byte(j)}), Port: 8080})
	}
	return out
}

// endpointChange replaces one endpoint of a backend back and forth.
func (w *world) endpointChange(i, n int) {
	eps := tenEndpoints(i, 1)
	w.g.Commit(func(tx *inc.Tx) {
		w.group(tx, fmt.Sprintf("shop/web-%d/http", i), "eu-1", append(eps[:4:4], eps[5+n%5])...)
	})
}

func BenchmarkEndpointChange(b *testing.B) {
	for _, hosts := range []int{100, 10_000} {
		b.Run(fmt.Sprintf("hosts=%d", hosts), func(b *testing.B) {
			w := fleetOf(hosts)
			b.ReportAllocs()
			n := 0
			for b.Loop() {
				n++
				w.endpointChange(7, n)
			}
		})
	}
}

func BenchmarkRouteChange(b *testing.B) {
	for _, hosts := range []int{100, 10_000} {
		b.Run(fmt.Sprintf("hosts=%d", hosts), func(b *testing.B) {
			w := fleetOf(hosts)
			b.ReportAllocs()
			n := 0
			for b.Loop() {
				n++
				def := target("web", fmt.Sprintf("shop/web-%d/http", n%50))
				w.g.Commit(func(tx *inc.Tx) { w.host(tx, testClass, "h7.shop.example", &def) })
			}
		})
	}
}

// TestRouteChangeIsSmall: so for a route of one host.
func TestRouteChangeIsSmall(t *testing.T) {
	for _, hosts := range []int{1, 200} {
		w := fleetOf(hosts)
		var sent []string
		for _, typ := range w.t.Types() {
			typ.Table.Watch(func(changes []inc.Change[Key, Resource]) {
				for _, c := range changes {
					sent = append(sent, c.Key.Name)
					if c.New.Size() > 380 {
						t.Errorf("%d hosts: %d bytes", hosts, c.New.Size())
					}
				}
			})
		}
		def := target("web", "shop/web-0/http")
		stats := w.g.Commit(func(tx *inc.Tx) {
			w.host(tx, testClass, "h0.shop.example", nil, fleet.Route{Match: prefix("/new"), Target: def})
		})
		if len(sent) != 1 || sent[0] != "h0.shop.example" {
			t.Errorf("%d hosts: sent %v", hosts, sent)
		}
		// Looked at: the fragment, whether a table has it, the routing, the resource.
		if stats.Evaluated > 5 {
			t.Errorf("%d hosts: %+v", hosts, stats)
		}
	}
}

// TestLongNames: a route change keeps below 1 KB, with what is around it on the
// wire, for names that are long, though not as long as Kubernetes lets them be.
func TestLongNames(t *testing.T) {
	label := strings.Repeat("n", 40)
	host, name := model.Host(label+"."+label+".example"), label+"/"+label+"/http"
	w := newWorld()
	w.g.Commit(func(tx *inc.Tx) {
		w.plain(tx)
		to := target(label, name)
		to.Root.Namespace = label
		w.host(tx, testClass, host, nil, fleet.Route{Match: prefix("/" + label), Target: to})
		w.use(tx, testView, name, "")
	})
	for _, c := range []struct {
		name string
		in   Rows
		most int
	}{
		{string(host), w.t.Routes, 900 - len(host)}, // its name and some 110 bytes are around it
		{string(host), w.t.Scopes, 400},
		{name, w.t.Clusters, 660},
	} {
		if res := w.get(t, c.in, c.name); res.Size() > c.most {
			t.Errorf("%s: %d bytes, want %d at most", c.name, res.Size(), c.most)
		}
	}
}

// TestEndpointChangeIsSmall: what one endpoint costs on the wire, and in rows
// looked at, does not depend on how many hosts there are.
func TestEndpointChangeIsSmall(t *testing.T) {
	for _, hosts := range []int{1, 200} {
		w := fleetOf(hosts)
		before, _ := w.lookIn(w.t.Assignments, testView, "shop/web-0/http")
		stats := w.g.Commit(func(tx *inc.Tx) {
			w.group(tx, "shop/web-0/http", "eu-1", tenEndpoints(0, 1)[1:6]...)
		})
		after, _ := w.lookIn(w.t.Assignments, testView, "shop/web-0/http")
		if before.Equal(after) {
			t.Error("nothing changed")
		}
		if after.Size() > 460 {
			t.Errorf("%d hosts: %d bytes", hosts, after.Size())
		}
		if stats.Evaluated != 1 || stats.Changed != 2 { // the group, and its assignment
			t.Errorf("%d hosts: %+v, want the assignment only", hosts, stats)
		}
	}
}
