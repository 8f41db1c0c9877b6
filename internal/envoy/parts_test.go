package envoy

import (
	"fmt"
	"math"
	"slices"
	"testing"

	endpointv3 "github.com/envoyproxy/go-control-plane/envoy/config/endpoint/v3"
	routev3 "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"
	"pgregory.net/rapid"

	"github.com/spillway-dev/spillway/internal/inc"
	"github.com/spillway-dev/spillway/internal/model"
	"github.com/spillway-dev/spillway/internal/steer"
)

// fourParts splits what has 7 or 8 endpoints into four parts.
var fourParts = sizes{treeFrom: treeFrom, part: 2}

// split serves shop.example from pods in four parts.
type split struct {
	*twoMembers
}

// newSplit starts n pods in eu-1, and in us-1 as many as make them eight: two in
// each part, so that what an entry falls back to is never empty by chance.
func newSplit(t *testing.T, n int) *split {
	t.Helper()
	s := &split{twoMembers: &twoMembers{rig: newRigOf(t, timingForTests, fourParts)}}
	for i := range 8 {
		if i < n {
			s.eu = append(s.eu, newPodOfPart(t, fmt.Sprintf("web@eu-1/%d", i), i%4))
		} else {
			s.us = append(s.us, newPodOfPart(t, fmt.Sprintf("web@us-1/%d", i), i%4))
		}
	}
	s.commit(func(tx *inc.Tx) {
		def := target("web", "shop/web/http")
		s.host(tx, testClass, "shop.example", &def)
		s.use(tx, testView, "shop/web/http", "")
		s.group(tx, "shop/web/http", "eu-1", endpointsOfPods(s.eu)...)
		s.group(tx, "shop/web/http", "us-1", endpointsOfPods(s.us)...)
		s.plan(tx, testView, "shop/web/http", share("eu-1", 0), share("us-1", 1))
	})
	s.settled(t)
	return s
}

// partOf is the one of four parts that a pod is in.
func partOf(p *pod) int { return endpoint{addr: p.addr.Addr(), port: p.addr.Port()}.part(4) }

// newPodOfPart starts pods until one is in the part.
func newPodOfPart(t *testing.T, name string, part int) *pod {
	t.Helper()
	for {
		if p := newPod(t, name); partOf(p) == part {
			return p
		}
	}
}

// ofPart are the pods of eu-1 in a part.
func (s *split) ofPart(part int) (out []*pod) {
	for _, p := range s.eu {
		if partOf(p) == part {
			out = append(out, p)
		}
	}
	return out
}

func endpointsOfPods(pods []*pod) (out []model.Endpoint) {
	for _, p := range pods {
		out = append(out, p.endpoint())
	}
	return out
}

// A part whose pods all refuse loses no request, whatever its method.
func TestRefusedPart(t *testing.T) {
	for _, method := range []string{"GET", "POST"} {
		t.Run(method, func(t *testing.T) {
			s := newSplit(t, 8)
			s.load(t, 50, 4, with(method), -1, nil)
			for _, p := range s.ofPart(0) {
				p.refuse(t)
			}
			noneFailed(t, s.load(t, 400, 8, with(method), -1, nil))
		})
	}
}

// Nor does one whose packets are lost, where that is safe.
func TestDroppedPart(t *testing.T) {
	s := newSplit(t, 8)
	s.load(t, 50, 4, shopRequest, -1, nil)
	for _, p := range s.ofPart(0) {
		p.drop(t)
	}
	noneFailed(t, s.load(t, 100, 8, shopRequest, -1, nil))
}

// Parts without an endpoint leave their requests to the others: a third of
// the eight is not below a third of what four parts hold.
func TestEmptyParts(t *testing.T) {
	s := newSplit(t, 8)
	left := []*pod{s.eu[0], s.eu[4], s.eu[1]} // of two parts: an entry leads to three of the four
	s.commit(func(tx *inc.Tx) {
		s.t.LastParts.Set(tx, backend("shop/web/http"), 4)
		s.group(tx, "shop/web/http", "eu-1", endpointsOfPods(left)...)
	})
	s.settled(t)
	if n, _ := s.t.Parts.Get(nil, backend("shop/web/http")); n != 4 {
		t.Fatalf("%d parts", n)
	}
	replies := s.load(t, 200, 4, shopRequest, -1, nil)
	noneFailed(t, replies)
	by := map[string]int{}
	for _, r := range replies {
		by[r.by]++
	}
	if len(by) != 3 {
		t.Errorf("answered by %v", by)
	}
}

// A whole tier that refuses is left for the next one, and so is one that the
// plan leaves out.
func TestPartsHaveTiers(t *testing.T) {
	s := newSplit(t, 4)
	s.load(t, 100, 4, shopRequest, -1, nil)
	for _, p := range s.eu {
		p.refuse(t)
	}
	noneFailed(t, s.load(t, 200, 4, shopRequest, -1, nil))
	s.away(steer.Failed)
	s.settled(t)
	noneFailed(t, s.load(t, 100, 4, shopRequest, -1, nil))
}

// A backend is split and made whole again under load: no request fails.
func TestPartsComeAndGoUnderLoad(t *testing.T) {
	s := newSplit(t, 8)
	q := shopRequest
	q.path = "/?sleep=2ms"
	for _, c := range []struct{ pods, parts int }{{2, 1}, {8, 4}, {3, 2}, {1, 1}} {
		b := backend("shop/web/http")
		noneFailed(t, s.load(t, 300, 8, q, 50, func() {
			s.commit(func(tx *inc.Tx) {
				s.group(tx, "shop/web/http", "eu-1", endpointsOfPods(s.eu[:c.pods])...)
			})
			s.settled(t)
		}))
		if n, _ := s.t.Parts.Get(nil, b); int(max(n, 1)) != c.parts {
			t.Errorf("%d pods: %d parts, want %d", c.pods, n, c.parts)
		}
	}
}

// The parts of a weighted backend share its weight.
func TestPartsShareTheWeight(t *testing.T) {
	w := newWorldOf(fourParts)
	w.g.Commit(func(tx *inc.Tx) {
		w.plain(tx)
		def := target("web", "shop/large/http", "shop/small/http")
		def.Backends[1].Weight = 3
		w.host(tx, testClass, "shop.example", &def)
		w.use(tx, testView, "shop/large/http", "")
		w.use(tx, testView, "shop/small/http", "")
		w.group(tx, "shop/large/http", "eu-1", tenEndpoints(0, 1)[:8]...)
		w.group(tx, "shop/small/http", "eu-1", tenEndpoints(1, 1)[0])
	})
	validateAll(t, w)
	rc := decode(t, w.get(t, w.t.Routes, "shop.example")).(*routev3.RouteConfiguration)
	got := ""
	for _, c := range rc.VirtualHosts[0].Routes[0].GetRoute().GetWeightedClusters().Clusters {
		got += fmt.Sprintf("%s %d\n", c.Name, c.Weight.GetValue())
	}
	want := ""
	for i := range 4 {
		want += fmt.Sprintf("shop/large/http/from-%d-of-4 1\n", i)
	}
	if want += "shop/small/http 12\n"; got != want {
		t.Errorf("got\n%swant\n%s", got, want)
	}
}

// TestDealtHands: the parts have all endpoints, each once or each all of them,
// in the tiers and the proportions of the whole; and one endpoint more or less
// is seen by one part only, or by all where a tier is in all parts.
func TestDealtHands(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := Parts(1 << rapid.IntRange(1, 3).Draw(t, "parts"))
		plan, groups := somePlan(t)
		from := rapid.IntRange(0, 3).Draw(t, "dealt from")
		own := sharesOf(plan.Shares)
		for i, s := range plan.Shares { // as steer counts them
			plan.Shares[i].Weight = uint32(len(endpointsOf(groups[s.Member], plan.Shares, i, own[s.Member])))
		}
		all := localities(plan, groups)
		hands := deal(all, n, from)
		for _, l := range all {
			copies, dealt := 0, 0
			for _, hand := range hands {
				i := slices.IndexFunc(hand, func(p locality) bool { return p.place == l.place && p.member == l.member })
				if i < 0 {
					continue
				}
				copies++
				dealt += len(hand[i].endpoints)
				whole := int(hand[i].weight) == len(hand[i].endpoints)*int(n) || len(hand[i].endpoints) == len(l.endpoints)
				if !whole {
					t.Fatalf("weight %d of %d endpoints", hand[i].weight, len(hand[i].endpoints))
				}
			}
			if dealt != len(l.endpoints) && dealt != len(l.endpoints)*int(n) {
				t.Fatalf("%d endpoints became %d in %d of %d parts", len(l.endpoints), dealt, copies, n)
			}
		}
		for _, hand := range hands {
			next := uint32(0)
			for _, l := range hand {
				if l.priority > next {
					t.Fatalf("priority %d, and none of %d", l.priority, next)
				}
				next = max(next, l.priority+1)
			}
		}
	})
}

// TestOneEndpointIsOnePart: what one endpoint of many costs.
func TestOneEndpointIsOnePart(t *testing.T) {
	w := newWorld()
	w.g.Commit(func(tx *inc.Tx) {
		w.plain(tx)
		w.use(tx, testView, "shop/web/http", "")
		for m := range 5 {
			w.manyEndpoints(tx, m, 1000, 0)
		}
	})
	validateAll(t, w)
	var sent []string
	size := 0
	for _, typ := range w.t.Types() {
		typ.Table.Watch(func(changes []inc.Change[Key, Resource]) {
			for _, c := range changes {
				sent, size = append(sent, c.Key.Name), size+c.New.Size()
			}
		})
	}
	w.g.Commit(func(tx *inc.Tx) { w.manyEndpoints(tx, 0, 1000, 1) })
	if len(sent) != 1 || size > 16_000 {
		t.Errorf("sent %v, %d bytes", sent, size)
	}
	smallest, largest := math.MaxInt, 0
	for i := range 8 {
		got := decode(t, w.get(t, w.t.Assignments, fmt.Sprintf("shop/web/http/%d-of-8", i))).(*endpointv3.ClusterLoadAssignment)
		n := 0
		for _, l := range got.Endpoints {
			n += len(l.LbEndpoints)
		}
		smallest, largest = min(smallest, n), max(largest, n)
	}
	t.Logf("parts have %d to %d endpoints of 4999", smallest, largest)
	if smallest < 625*8/10 || largest > 625*12/10 {
		t.Errorf("parts of %d to %d endpoints", smallest, largest)
	}
}

// TestNumberOfParts: it follows the number of endpoints, settles at once, and
// does not move with a few endpoints more or less.
func TestNumberOfParts(t *testing.T) {
	for _, c := range []struct {
		last Parts
		n    int
		want Parts
	}{
		{0, 0, 1}, {0, 1000, 1}, {0, 1001, 2}, {2, 1000, 2}, {2, 667, 2}, {2, 666, 1}, {2, 2001, 4}, {8, 2667, 8}, {8, 2666, 4},
		{8, 0, 1}, {1, 64_001, 64}, {64, 1 << 20, 64},
	} {
		if got := parts(c.last, c.n, partSize); got != c.want {
			t.Errorf("%d endpoints after %d parts: %d, want %d", c.n, c.last, got, c.want)
		}
	}
	rapid.Check(t, func(t *rapid.T) {
		last, n := Parts(1<<rapid.IntRange(0, 6).Draw(t, "last")), rapid.IntRange(0, 100_000).Draw(t, "n")
		once := parts(last, n, partSize)
		if parts(once, n, partSize) != once {
			t.Fatal("does not settle")
		}
		if less := max(0, n-100); once > last && parts(once, less, partSize) != once && less > 0 && n > 1000 {
			t.Fatalf("%d parts for %d endpoints, and not for %d", once, n, less)
		}
	})
}
