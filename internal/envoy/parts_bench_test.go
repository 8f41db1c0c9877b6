package envoy

import (
	"fmt"
	"math"
	"net/netip"
	"testing"

	"github.com/spillway-dev/spillway/internal/inc"
	"github.com/spillway-dev/spillway/internal/model"
	"github.com/spillway-dev/spillway/internal/steer"
	"github.com/spillway-dev/spillway/internal/xds"
)

// BenchmarkEndpointOfMany measures the change of one endpoint of n, in five
// members, as one assignment and split: the bytes of what is sent, the time to
// make it, and the CPU of all of Envoy's threads.
func BenchmarkEndpointOfMany(b *testing.B) {
	for _, n := range []int{1000, 5000, 20_000} {
		for _, form := range []struct {
			name string
			sizes
		}{{"one", sizes{treeFrom: treeFrom, part: math.MaxInt, dealtFrom: dealtFrom}}, {"split", usual}} {
			b.Run(fmt.Sprintf("n=%d/%s", n, form.name), func(b *testing.B) {
				r := newRigOf(b, timingForTests, form.sizes)
				r.commit(func(tx *inc.Tx) {
					def := target("web", "shop/web/http")
					r.host(tx, testClass, "shop.example", &def)
					r.use(tx, testView, "shop/web/http", "")
					for m := range 5 {
						r.manyEndpoints(tx, m, n/5, 0)
					}
				})
				bytes, sent := 0, map[string]string{} // name -> version
				r.t.Assignments.Watch(func(changes []inc.Change[Key, Resource]) {
					for _, c := range changes {
						bytes += c.New.Size()
						sent[c.New.Name] = c.New.Version
					}
				})
				r.commit(func(tx *inc.Tx) { r.manyEndpoints(tx, 0, n/5, 1) })
				r.acked(sent)
				before, round := r.cpu(b), 1
				bytes = 0
				for b.Loop() {
					round++
					r.commit(func(tx *inc.Tx) { r.manyEndpoints(tx, 0, n/5, round) })
					r.acked(sent)
				}
				b.ReportMetric(float64((r.cpu(b)-before).Microseconds())/float64(round-1)/1000, "envoy-ms/change")
				b.ReportMetric(float64(bytes)/float64(round-1), "B/change")
			})
		}
	}
}

// manyEndpoints gives a member n endpoints, one less in odd rounds. Nothing is
// ever sent to them.
func (w *world) manyEndpoints(tx *inc.Tx, member, n, round int) {
	var out []model.Endpoint
	for i := range n - round%2 {
		out = append(out, model.Endpoint{Addr: netip.AddrFrom4([4]byte{10, byte(member), byte(i >> 8), byte(i)}), Port: 8080})
	}
	w.group(tx, "shop/web/http", model.Member(fmt.Sprintf("eu-%d", member)), out...)
	var shares []steer.Share
	for m := range 5 {
		s := share(model.Member(fmt.Sprintf("eu-%d", m)), 0)
		s.Weight = uint32(n)
		if m == member {
			s.Weight = uint32(len(out))
		}
		shares = append(shares, s)
	}
	w.plan(tx, testView, "shop/web/http", shares...)
}

// acked waits until Envoy has these versions of assignments, and forgets them.
func (r *rig) acked(sent map[string]string) {
	for len(sent) > 0 {
		_, soon := r.reports.Wake()
		<-soon
		_, verdicts := r.reports.Take()
		for _, v := range verdicts {
			if v.Type == xds.TypeURL(AssignmentType) && sent[v.Name] == v.Version {
				delete(sent, v.Name)
			}
		}
	}
}

// BenchmarkEndpointOfManyHere is what the same change costs us.
func BenchmarkEndpointOfManyHere(b *testing.B) {
	for _, n := range []int{1000, 5000, 20_000} {
		for _, form := range []struct {
			name string
			sizes
		}{{"one", sizes{treeFrom: treeFrom, part: math.MaxInt, dealtFrom: dealtFrom}}, {"split", usual}} {
			b.Run(fmt.Sprintf("n=%d/%s", n, form.name), func(b *testing.B) {
				w := newWorldOf(form.sizes)
				w.g.Commit(func(tx *inc.Tx) {
					w.plain(tx)
					w.use(tx, testView, "shop/web/http", "")
					for m := range 5 {
						w.manyEndpoints(tx, m, n/5, 0)
					}
				})
				b.ReportAllocs()
				round := 0
				for b.Loop() {
					round++
					w.g.Commit(func(tx *inc.Tx) { w.manyEndpoints(tx, 0, n/5, round) })
				}
			})
		}
	}
}
