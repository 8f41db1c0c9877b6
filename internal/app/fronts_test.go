package app

import (
	"fmt"
	"net/netip"
	"strings"
	"testing"

	"github.com/spillway-dev/spillway/internal/inc"
	"github.com/spillway-dev/spillway/internal/model"
	"github.com/spillway-dev/spillway/internal/xds"
)

// frontsOf is a world of an edge with many classes of ten hosts each, and the
// proxy of the edge.
type frontsOf struct {
	*big
	t     testing.TB
	proxy *xds.Local
	bytes int
	names map[string]bool // of resources, since the last change
}

const perFront = 10

func newFronts(t testing.TB, n int) *frontsOf {
	return newFrontsWith(t, n, func(f *frontsOf, tx *inc.Tx) {
		for i := range n {
			f.front(tx, i)
		}
	})
}

// newFrontsWith has addresses for n fronts, and what fill writes.
func newFrontsWith(t testing.TB, n int, fill func(*frontsOf, *inc.Tx)) *frontsOf {
	f := &frontsOf{big: newBig(0), t: t, names: map[string]bool{}}
	f.commit(func(tx *inc.Tx) {
		f.pools(tx, n)
		fill(f, tx)
	})
	f.remember()
	s := xds.NewServer(xds.Config{Store: f.proxies.store, ViewOf: func(edge string) (string, bool) { return f.proxies.store.ViewOf(edge), true }})
	proxy, err := s.Local(xds.Proxy{Edge: "fra", Node: "fra-1"}, nil)
	if err != nil {
		t.Fatal(err)
	}
	f.proxy = proxy
	for _, typ := range []xds.TypeURL{xds.Cluster, xds.Listener, xds.ScopedRoute} {
		f.send(&xds.Request{Type: typ})
	}
	f.settle()
	return f
}

// front adds a class with its hosts.
func (f *frontsOf) front(tx *inc.Tx, i int) {
	f.class(tx, i)
	for h := range perFront {
		f.host(tx, i*perFront+h)
	}
}

func frontNamed(i int) model.Class { return model.Class(fmt.Sprintf("front-%04d", i)) }

func (f *frontsOf) class(tx *inc.Tx, i int) {
	spec := model.ClassSpec{Origin: model.Origin{Created: int64(i + 2), Object: model.Object{Kind: "IngressClass", Name: string(frontNamed(i))}}}
	if i%2 == 1 {
		spec.Config = "own"
	}
	f.prog.In.Classes.Set(tx, frontNamed(i), spec)
}

// pools gives all edges addresses for n classes, and odd classes one each.
func (f *frontsOf) pools(tx *inc.Tx, n int) {
	own := f.prog.Defaults
	own.Own = true
	f.prog.In.Configs.Set(tx, "own", own)
	for _, e := range f.prog.In.Edges.Keys() {
		spec, _ := f.prog.In.Edges.Get(nil, e)
		for i := range n {
			ip := netip.AddrFrom4([4]byte{192, 0, byte(2 + i/256), byte(i)})
			spec.Pool = append(spec.Pool, model.PoolEntry{PoolAddress: model.PoolAddress{Address: ip, Bind: ip}})
		}
		f.prog.In.Edges.Set(tx, e, spec)
	}
}

func (f *frontsOf) host(tx *inc.Tx, i int) {
	f.big.host(tx, i)
	id := model.Object{Kind: "Ingress", Namespace: "shop", Name: serviceOf(i).Name()}
	f.prog.In.Roots.Set(tx, id, model.Root{Created: int64(i), Classes: model.ClassesOf(frontNamed(i / perFront))})
}

// send takes a step, and those that follow from what it gives.
func (f *frontsOf) send(req *xds.Request) (more bool) {
	out, _, err := f.proxy.Step(req)
	if err != nil {
		f.t.Fatal(err)
	}
	for _, res := range out {
		more = true
		var names []string
		for _, r := range res.Resources {
			f.bytes += r.Size()
			f.names[r.Name] = true
			switch res.Type {
			case xds.Cluster, xds.ScopedRoute:
				names = append(names, r.Name)
			}
		}
		f.send(&xds.Request{Type: res.Type, Nonce: res.Nonce})
		if follows := map[xds.TypeURL]xds.TypeURL{xds.Cluster: xds.ClusterLoadAssignment, xds.ScopedRoute: xds.RouteConfiguration}[res.Type]; len(names) > 0 {
			f.send(&xds.Request{Type: follows, Subscribe: names})
		}
	}
	return more
}

func (f *frontsOf) settle() {
	for f.send(nil) {
	}
}

// change commits, has the proxy take what there is, and returns the bytes of that
// and the rows that were evaluated.
func (f *frontsOf) change(edit func(*inc.Tx)) (bytes, rows int) {
	f.bytes = 0
	clear(f.names)
	evaluated := func() (n int) {
		for _, t := range f.graph.Tables() {
			n += t.Evaluations
		}
		return n
	}
	before := evaluated()
	f.commit(edit)
	f.remember()
	f.settle()
	return f.bytes, evaluated() - before
}

// TestAFrontCostsItself: among many classes at an edge as among few, one that
// comes or goes evaluates the same rows, and the edge's proxies are sent what is
// its own and nothing else, whether it shares the addresses of the edge or has one
// of its own.
func TestAFrontCostsItself(t *testing.T) {
	type cost struct{ came, went, rows, rowsGone, sent int }
	for own, wants := range []int{perFront, 1} { // its hosts stay with proxies while the listener drains that it had before
		of := map[int]cost{}
		for _, among := range []int{10, 300} {
			f, n := newFronts(t, among), among+own
			f.withHosts(n)
			var c cost
			for range 2 { // the first time, clusters that proxies drop later are sent
				c.came, c.rows = f.change(func(tx *inc.Tx) { f.class(tx, n) })
				c.sent = len(f.names)
				for name := range f.names {
					if !f.isOf(name, n) && (own == 0 || !strings.HasPrefix(name, "http-80@")) {
						t.Errorf("%d fronts: %s is sent", n, name)
					}
				}
				c.went, c.rowsGone = f.change(func(tx *inc.Tx) { f.prog.In.Classes.Delete(tx, frontNamed(n)) })
			}
			of[among] = c
		}
		few, many := of[10], of[300]
		if few.sent != wants || few.went != 0 || few.rows != many.rows || few.rowsGone != many.rowsGone || many.came > few.came+2*len("192.0.2.100") {
			t.Errorf("own address %d: among 10 fronts %+v, among 300 %+v", own, few, many)
		}
	}
}

// remember feeds back which addresses classes have.
func (f *frontsOf) remember() {
	in, now := f.prog.In.Tenures, f.prog.Tenures
	f.commit(func(tx *inc.Tx) {
		for _, k := range in.Keys() {
			if _, ok := now.Get(nil, k); !ok {
				in.Delete(tx, k)
			}
		}
		for _, k := range now.Keys() {
			t, _ := now.Get(nil, k)
			in.Set(tx, k, t.Tenure)
		}
	})
}

// withHosts adds the hosts of a class that is not there.
func (f *frontsOf) withHosts(i int) {
	f.commit(func(tx *inc.Tx) {
		for h := range perFront {
			f.host(tx, i*perFront+h)
		}
	})
}

// isOf reports whether a resource is of a host of a class.
func (f *frontsOf) isOf(name string, i int) bool {
	for h := range perFront {
		if n := fmt.Sprintf("%05d", i*perFront+h); strings.Contains(name, n) {
			return true
		}
	}
	return false
}

// BenchmarkFrontChange is a class that comes and goes, at two edges: the last of
// them has an address of its own.
func BenchmarkFrontChange(b *testing.B) {
	for _, n := range []int{10, 1000, 11, 1001} {
		b.Run(fmt.Sprintf("fronts=%d", n), func(b *testing.B) {
			f := newFronts(b, n)
			f.withHosts(n)
			b.ResetTimer()
			for b.Loop() {
				f.change(func(tx *inc.Tx) { f.class(tx, n) })
				f.change(func(tx *inc.Tx) { f.prog.In.Classes.Delete(tx, frontNamed(n)) })
			}
		})
	}
}
