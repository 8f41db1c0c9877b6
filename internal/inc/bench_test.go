package inc

import (
	"cmp"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"testing"
)

// The benchmarks run the first stages of a fleet: endpoint slices, the
// endpoints of a service in one member, the backends of a service, and the
// number of ready endpoints, which mostly does not change.

type sliceKey struct{ member, namespace, name string }

func (k sliceKey) Compare(o sliceKey) int {
	return cmp.Or(strings.Compare(k.member, o.member), strings.Compare(k.namespace, o.namespace), strings.Compare(k.name, o.name))
}

type service struct{ namespace, name string }

func (k service) Compare(o service) int {
	return cmp.Or(strings.Compare(k.namespace, o.namespace), strings.Compare(k.name, o.name))
}

type site struct {
	service
	member string
}

func (k site) Compare(o site) int {
	return cmp.Or(k.service.Compare(o.service), strings.Compare(k.member, o.member))
}

type endpoint struct {
	addr  [4]byte
	port  uint16
	ready bool
}

type slice struct {
	of   service
	ends []endpoint
}

func (s slice) Equal(o slice) bool { return s.of == o.of && slices.Equal(s.ends, o.ends) }

type ends []endpoint

func (e ends) Equal(o ends) bool { return slices.Equal(e, o) }

// fleet is services with slices spread over members.
type fleet struct {
	g      *Graph
	slices *Table[sliceKey, slice]
	ready  *Table[service, num]
	keys   []sliceKey
}

const members, perMember = 5, 2 // slices of a service: 10

func newFleet() *fleet {
	f := &fleet{g: New()}
	f.slices = Input[sliceKey, slice](f.g, "slices")
	bySite := IndexBy(f.slices, func(k sliceKey, s slice) []site { return []site{{s.of, k.member}} })
	sites := Derive(f.g, "sites", func(r *Reader, k site) (ends, bool) {
		var out ends
		for _, s := range bySite.Get(r, k) {
			out = append(out, s.ends...)
		}
		return out, true
	}, bySite)
	byService := IndexBy(sites, func(k site, _ ends) []service { return []service{k.service} })
	backends := Derive(f.g, "backends", func(r *Reader, k service) (ends, bool) {
		return slices.Concat(byService.Get(r, k)...), true
	}, byService)
	f.ready = Derive(f.g, "ready", func(r *Reader, k service) (num, bool) {
		all, ok := backends.Get(r, k)
		var n num
		for _, e := range all {
			if e.ready {
				n++
			}
		}
		return n, ok
	}, backends)
	Derive(f.g, "held", func(r *Reader, k service) (num, bool) { return f.ready.Get(r, k) }, f.ready)
	return f
}

// load writes n slices in one commit.
func (f *fleet) load(n int) {
	f.g.Commit(func(tx *Tx) {
		for i := range n {
			s := i / (members * perMember)
			k := sliceKey{fmt.Sprint("member-", i%members), "default", fmt.Sprintf("service-%d-%d", s, i)}
			f.keys = append(f.keys, k)
			f.slices.Set(tx, k, f.slice(i, 0))
		}
	})
}

func (f *fleet) slice(i, version int) slice {
	s := slice{of: service{"default", fmt.Sprint("service-", i/(members*perMember))}}
	for n := range 10 {
		s.ends = append(s.ends, endpoint{[4]byte{10, byte(i >> 8), byte(i), byte(n + version)}, 8080, true})
	}
	return s
}

// update changes one slice.
func (f *fleet) update(i, version int) Stats {
	v := f.slice(i, version)
	return f.g.Commit(func(tx *Tx) { f.slices.Set(tx, f.keys[i], v) })
}

func BenchmarkUpdate(b *testing.B) {
	for _, n := range []int{1_000, 100_000} {
		b.Run(fmt.Sprintf("slices=%d", n), func(b *testing.B) {
			f := newFleet()
			f.load(n)
			runtime.GC()
			b.ReportAllocs()
			evaluated, version := 0, 1
			for b.Loop() {
				evaluated += f.update(version*7919%n, version).Evaluated
				version++
			}
			b.ReportMetric(float64(evaluated)/float64(b.N), "evals/op")
		})
	}
}

func BenchmarkLoad(b *testing.B) {
	for b.Loop() {
		newFleet().load(100_000)
	}
}

// BenchmarkMemory tells what the engine keeps for a key, for a row of it and
// for a dependency, beside the key and the values: n keys, each with a row in
// an input and in each of some tables that read d rows of it.
func BenchmarkMemory(b *testing.B) {
	const n = 100_000
	heap := func() float64 {
		var m runtime.MemStats
		runtime.GC()
		runtime.ReadMemStats(&m)
		return float64(m.HeapAlloc)
	}
	perKey := func(tables, d int) float64 {
		g := New()
		in := Input[num, num](g, "in")
		before := heap()
		for i := range tables {
			Derive(g, fmt.Sprint("out ", i), func(r *Reader, k num) (num, bool) {
				for i := range d {
					in.Get(r, (k+num(i)*n/8)%n)
				}
				return k, true
			}, in)
		}
		g.Commit(func(tx *Tx) {
			for k := range num(n) {
				in.Set(tx, k, k)
			}
		})
		after := heap()
		runtime.KeepAlive(g)
		return (after - before) / n
	}
	const size = 8 // of a num
	for b.Loop() {
		one, two, eight := perKey(1, 0), perKey(2, 0), perKey(1, 8)
		row := two - one - size
		b.ReportMetric(row, "B/row")
		b.ReportMetric(one-2*(row+size)-size, "B/key")
		b.ReportMetric((eight-one)/8, "B/dependency")
	}
}
