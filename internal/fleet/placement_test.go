package fleet_test

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/spillway-dev/spillway/internal/fleet"
	"github.com/spillway-dev/spillway/internal/fleet/fleettest"
	"github.com/spillway-dev/spillway/internal/inc"
	"github.com/spillway-dev/spillway/internal/model"
)

// drawPlacements draws commands about Placements, over the objects of drawLine and
// drawGateways.
func drawPlacements(t *rapid.T) string {
	one := func(name string, from ...string) string { return rapid.SampledFrom(from).Draw(t, name) }
	command := one("command", "placement", "placement", "placement", "member", "member", "pods", "gone", "gone", "keep", "keep", "delete")
	switch command {
	case "placement":
		targets := rapid.SliceOfNDistinct(rapid.SampledFrom([]string{"namespace", "ingress/r1", "ingress/r2", "gateway/g1", "httproute/w1", "httproute/w2", "tlsroute/r1", "grpcroute/c1", "route/o1", "route/o2"}), 1, 3, rapid.ID).Draw(t, "targets")
		return join("placement", one("namespace", "ns", "ns", "ns", "odd")+"/"+one("placement", "p1", "p2", "p3"), "for="+strings.Join(targets, ","), "age="+one("age", "1", "2"),
			one("selector", "", "", "selector=", "selector=tier=gold", "selector=tier!=gold"), one("names", "", "", "names=m1", "names=m2,m3", "names=m9"), one("count", "", "count=1", "count=1", "count=2"), one("hold", "", "hold=60", "hold=60", "hold=300"),
			one("tolerate", "", "tolerate=t", "tolerate=t=x", "tolerate=*"), one("broken", "", "", "", "", "broken"))
	case "member":
		return join("member", one("member", "m1", "m2", "m3"), "age="+one("age", "1", "2"), "region=r1", one("labels", "", "labels=tier:gold", "labels=tier:tin"), one("taints", "", "", "taints=t", "taints=t=x", "taints=t=x,u"), one("state", "", "", "drain", "leaving"), one("seen", "", "seen", "seen unread"))
	}
	switch command {
	case "pods":
		return join("pods", one("member", "m1", "m2", "m3"), "ns/a 10.0.0.1")
	case "gone":
		return join("delete service", one("member", "m1", "m2", "m3"), "ns/a")
	case "keep":
		return join("keep", one("since", "since=1", "since=2"), one("over", "", "", "over"))
	}
	return one("deletion", "delete placement ns/p1", "delete placement ns/p2", "delete placement ns/p3", "delete member m2")
}

// drawPlaced is a world with Placements after random edits.
func drawPlaced(t *rapid.T) *fleettest.World {
	w := fleettest.New(nil)
	do(t, w, "class c1 default", "edge e1 region=r1", "member m1", "member m2", "member m3", "gatewayclass gc", "gateway ns/g1 class=gc l1:HTTP:80,from=All")
	for _, m := range []string{"m1", "m2", "m3"} {
		do(t, w, "pods "+m+" ns/a 10.0.0.1")
	}
	do(t, w, "ingress ns/r1 h1/->a:80", "ingress ns/r2 h2/->a:80 default=b:80", "httproute ns/w1 to=ns/g1 hosts=h1 /->a:80", "httproute ns/w2 to=ns/g1 hosts=x.h /->a:80", "route ns/o1 x.h a:http")
	lines := rapid.SliceOfN(rapid.OneOf(rapid.Custom(drawPlacements), rapid.Custom(drawPlacements), rapid.Custom(drawLine), rapid.Custom(drawGateways), rapid.Custom(drawRoute)), 1, 30).Draw(t, "lines")
	do(t, w, lines...)
	w.Commit()
	return w
}

// placementOf finds the Placement of a root in a class as the rules are told: the oldest
// of the closest object that has one.
func placementOf(p *fleet.Program, root model.Object, class model.Class) (model.Object, model.PlacementSpec, bool) {
	chain := []model.Object{root}
	if gw, ok := class.Gateway(); ok {
		chain = append(chain, gw.Object())
	}
	chain = append(chain, model.Object{Kind: "Namespace", Name: root.Namespace})
	for _, target := range chain {
		var first *model.Origin
		for k, spec := range rowsOf(p.In.Placements) {
			if o := spec.Origin(k); slices.Contains(spec.Targets, target) && (first == nil || o.Compare(*first) < 0) {
				first = &o
			}
		}
		if first != nil {
			spec, _ := p.In.Placements.Get(nil, first.Object)
			return target, spec, true
		}
	}
	return model.Object{}, model.PlacementSpec{}, false
}

// fitsDumb tells whether a member fits.
func fitsDumb(p *fleet.Program, spec model.PlacementSpec, m model.Member) bool {
	member, _ := p.In.Members.Get(nil, m)
	selected := !spec.Limited || slices.Contains(spec.Names, string(m)) || spec.Everyone
	switch spec.Selector {
	case "tier=gold":
		selected = selected || member.Labels["tier"] == "gold"
	case "tier!=gold":
		selected = selected || member.Labels["tier"] != "gold"
	}
	for _, taint := range member.Taints {
		key, value, _ := strings.Cut(taint, "=")
		tolerated := false
		for _, t := range spec.Tolerates {
			tolerated = tolerated || t.Any && (t.Key == "" || t.Key == key) || !t.Any && t.Key == key && t.Value == value
		}
		selected = selected && tolerated
	}
	id, known := p.In.Clusters.Get(nil, m)
	for other, is := range rowsOf(p.In.Clusters) {
		o, there := p.In.Members.Get(nil, other)
		if known && there && is == id && (o.Created < member.Created || o.Created == member.Created && other < m) {
			return false
		}
	}
	return selected && !spec.Broken
}

// TestPlacementsChoose compares who is chosen with the rules, told one member at a
// time: who fits, then, of those that have the Service or may have it, how many go
// before.
func TestPlacementsChoose(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p := drawPlaced(t).Program
		for key, host := range rowsOf(p.Hosts) {
			for _, route := range host.Routes {
				_, spec, limited := placementOf(p, route.Target.Root, key.Class)
				target, _, _ := placementOf(p, route.Target.Root, key.Class)
				for _, b := range route.Target.Backends {
					if b.Backend == (model.Backend{}) {
						continue
					}
					if !limited {
						if b.Backend.Placed() != "" {
							t.Fatalf("%v %v: %s, and there is no Placement for it", key, route.Target.Root, b.Backend)
						}
						continue
					}
					if got := b.Backend.Placed().Object(""); got != target {
						t.Fatalf("%v %v: %s, not for %v", key, route.Target.Root, b.Backend, target)
					}
					checkChoice(t, p, b.Backend, target, spec)
				}
			}
		}
	})
}

// checkChoice: row.Members are chosen, of those that agree about the backend. Whoever
// has a place and lacks the Service keeps the place; if all places are of such members,
// the others have them besides.
func checkChoice(t *rapid.T, p *fleet.Program, b model.Backend, target model.Object, spec model.PlacementSpec) {
	row, _ := p.Backends.Get(nil, b)
	has := append(slices.Clone(row.Members), row.Placing.Beyond...)
	kept, _ := p.In.Kept.Get(nil, b)
	var candidates, lacking []model.Member
	for m := range rowsOf(p.In.Members) {
		missing, unknown := p.Missing.Get(nil, m)
		have := slices.Contains(has, m)
		if have && !fitsDumb(p, spec, m) {
			t.Fatalf("%s: %s does not fit %+v", b, m, spec)
		}
		_, service := p.In.Services.Get(nil, model.MemberService{Service: b.Service(), Member: m})
		refused := slices.ContainsFunc(row.Problems, func(x fleet.Problem) bool { return x.Member == m })
		if want := service && !refused && fitsDumb(p, spec, m); have != want && !b.Imported() {
			t.Fatalf("%s: %s has it: %v, not %v", b, m, have, want)
		}
		if fitsDumb(p, spec, m) && (have || unknown && (!missing.Overdue || spec.Count == 0)) {
			candidates = append(candidates, m)
		}
		for _, place := range kept {
			if place.Member == m && spec.Hold > 0 && fitsDumb(p, spec, m) && !have && !refused && !unknown && (!place.Over || len(has) == 0) {
				lacking = append(lacking, m)
			}
		}
	}
	all, held := slices.Concat(candidates, lacking), 0
	for m := range rowsOf(p.In.Members) {
		keeps := slices.Contains(lacking, m) && chosenDumb(p, spec, target, m, all)
		if got := slices.Contains(row.Placing.Held, m); got != keeps {
			t.Fatalf("%s: %s is held: %v, of %v and %v that lack it, %+v", b, m, got, candidates, lacking, spec)
		}
		if keeps {
			held++
		}
	}
	if taken := len(all); held == min(taken, cmp.Or(spec.Count, taken)) {
		all = candidates
	}
	for _, m := range candidates {
		chosen := chosenDumb(p, spec, target, m, all)
		if got := slices.Contains(row.Members, m); got != (chosen && slices.Contains(has, m)) {
			t.Fatalf("%s: %s is a member: %v, of %v, %+v", b, m, got, all, spec)
		}
		_, unknown := p.Missing.Get(nil, m)
		if got := slices.Contains(row.Placing.Unknown, m); got != (chosen && unknown) {
			t.Fatalf("%s: %s is unknown: %v, of %v, %+v", b, m, got, all, spec)
		}
	}
	for m, member := range rowsOf(p.In.Members) {
		if got := slices.Contains(row.Placing.Tolerated, m); got && len(member.Taints) == 0 || !got && len(member.Taints) > 0 && slices.Contains(row.Members, m) {
			t.Fatalf("%s: %s has taints %v, tolerated: %v", b, m, member.Taints, got)
		}
	}
}

// chosenDumb tells whether fewer than count of some members go before one.
func chosenDumb(p *fleet.Program, spec model.PlacementSpec, target model.Object, m model.Member, of []model.Member) bool {
	before := 0
	for _, other := range of {
		if goesBefore(p, target, other, m) {
			before++
		}
	}
	return spec.Count == 0 || before < spec.Count
}

// TestKeptIsWhoHasPlaces: what is to be remembered is who is chosen, has the Service or had
// it when that was remembered last, of backends whose Placement has a hold; and once it
// is remembered nobody has another place.
func TestKeptIsWhoHasPlaces(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := drawPlaced(t)
		p := w.Program
		before := rowsOf(p.Backends)
		for b, row := range before {
			was, _ := p.In.Kept.Get(nil, b)
			var want model.Kept
			for m := range rowsOf(p.In.Members) {
				place, had := was.Find(m)
				switch {
				case row.Placing == nil || row.Placing.Hold == 0:
				case slices.Contains(row.Members, m):
					want = append(want, model.KeptPlace{Member: m})
				case had && (slices.Contains(row.Placing.Unknown, m) || slices.Contains(row.Placing.Held, m)):
					want = append(want, place)
				}
			}
			slices.SortFunc(want, func(a, b model.KeptPlace) int { return a.Member.Compare(b.Member) })
			if got, ok := p.Kept.Get(nil, b); ok != (len(want) > 0) || !got.Places.Equal(want) {
				t.Fatalf("%s: %+v, want %+v", b, got, want)
			}
		}
		do(t, w, "keep since=3", "commit")
		for b, row := range before {
			if now, _ := p.Backends.Get(nil, b); !now.Equal(row) {
				t.Fatalf("%s: %+v, before it was remembered %+v", b, now.Placing, row.Placing)
			}
		}
	})
}

func goesBefore(p *fleet.Program, target model.Object, a, b model.Member) bool {
	x, _ := p.In.Members.Get(nil, a)
	y, _ := p.In.Members.Get(nil, b)
	if dx, dy := x.Drain || x.Leaving, y.Drain || y.Leaving; dx != dy {
		return dy
	}
	return model.Rank(target, a) < model.Rank(target, b)
}

// TestWithoutPlacementNothingChanges: what no Placement is for has the names, members
// and plans that it has in a world without any.
func TestWithoutPlacementNothingChanges(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := drawPlaced(t)
		bare := fleettest.New(nil)
		bare.Graph.Commit(func(tx *inc.Tx) {
			copyInputs(t, tx, bare.Program.In, w.Program.In)
			copyTable(t, tx, bare.Fronts, w.Fronts)
			for _, k := range w.Program.In.Placements.Keys() {
				bare.Program.In.Placements.Delete(tx, k)
			}
		})
		for key, host := range rowsOf(w.Program.Hosts) {
			without, _ := bare.Program.Hosts.Get(nil, key)
			for i, route := range host.Routes {
				if _, _, limited := placementOf(w.Program, route.Target.Root, key.Class); limited {
					continue
				}
				if !route.Target.Equal(without.Routes[i].Target) {
					t.Fatalf("%v: %+v, without Placements %+v", key, route.Target, without.Routes[i].Target)
				}
			}
		}
		for use, plan := range rowsOf(w.Program.Plans) {
			if use.Backend.Placed() != "" {
				continue
			}
			if without, ok := bare.Program.Plans.Get(nil, use); !ok || !plan.Equal(without) {
				t.Fatalf("%v: %+v, without Placements %+v", use, plan, without)
			}
		}
	})
}

// TestRankMovesLittle: of n members, one that comes takes of the places of many targets
// as many as each has, from others alone.
func TestRankMovesLittle(t *testing.T) {
	const targets, count = 2000, 3
	for _, n := range []int{4, 10, 60} {
		var members []model.Member
		for i := range n {
			members = append(members, model.Member(fmt.Sprintf("eu-%d", i)))
		}
		places := map[model.Member]int{}
		for i := range targets {
			target := model.Object{Kind: "HTTPRoute", Namespace: "shop", Name: fmt.Sprintf("web-%d", i)}
			before := firstOf(target, members[:n-1], count)
			after := firstOf(target, members, count)
			for _, m := range after {
				places[m]++
				if m != members[n-1] && !slices.Contains(before, m) {
					t.Fatalf("%v: %v became %v when %s came", target, before, after, members[n-1])
				}
			}
		}
		want := float64(targets*count) / float64(n)
		for m, got := range places {
			if math.Abs(float64(got)-want) > 5*math.Sqrt(want) { // five times what chance does
				t.Errorf("of %d members %s has %d places, not some %.0f", n, m, got, want)
			}
		}
	}
}

func firstOf(target model.Object, members []model.Member, count int) []model.Member {
	all := slices.Clone(members)
	slices.SortFunc(all, func(a, b model.Member) int {
		if model.Rank(target, a) < model.Rank(target, b) {
			return -1
		}
		return 1
	})
	return all[:count]
}

// TestAPlacementCostsItsOwn counts the rows that a change of one Placement evaluates
// among a thousand, each for a root of its own.
func TestAPlacementCostsItsOwn(t *testing.T) {
	const n, at = 1000, 500
	l := newLarge(n, 6, 6, 1)
	root := func(i int) model.Object {
		return model.Object{Kind: "Ingress", Namespace: "shop", Name: fmt.Sprint("root-", i)}
	}
	id := func(i int) model.Object {
		return model.Object{Kind: model.PlacementKind, Namespace: "shop", Name: fmt.Sprint("placement-", i)}
	}
	spec := func(i, count int) model.PlacementSpec {
		return model.PlacementSpec{Created: int64(i), Targets: []model.Object{root(i)}, Limited: true, Names: []string{"member-0", "member-1", "member-2"}, Count: count}
	}
	in := l.p.In
	l.g.Commit(func(tx *inc.Tx) {
		for i := range n {
			in.Placements.Set(tx, id(i), spec(i, 2))
		}
	})
	held := spec(at, 1)
	held.Hold = time.Minute
	after := spec(at, 1)
	after.Published, after.Ours = model.TextsOf([]string{"said"}), true
	checks := []struct {
		what   string
		change func(*inc.Tx)
		rows   int // evaluated
	}{
		{"count: whose target it is, who fits and what is found, the backend, and what reads it: its host, its plan, what that comes to", func(tx *inc.Tx) { in.Placements.Set(tx, id(at), spec(at, 1)) }, 8},
		{"a hold: the same, but for what the plan comes to, and who has places", func(tx *inc.Tx) { in.Placements.Set(tx, id(at), held) }, 8},
		{"places are remembered: the backend, and who has places", func(tx *inc.Tx) {
			in.Kept.Set(tx, l.p.PlacedBackends.Keys(nil, root(at))[0], model.Kept{{Member: "member-0"}})
		}, 2},
		{"no hold: the same, but for places", func(tx *inc.Tx) { in.Placements.Set(tx, id(at), spec(at, 1)) }, 7},
		{"a status is written: who fits, what is found, whose target it is", func(tx *inc.Tx) { in.Placements.Set(tx, id(at), after) }, 3},
		{"it goes: the root and what it serves, with the groups of six members that nothing limits", func(tx *inc.Tx) { in.Placements.Delete(tx, id(at)) }, 21},
		{"it comes: the same, with the group of one", func(tx *inc.Tx) { in.Placements.Set(tx, id(at), spec(at, 1)) }, 14},
	}
	for _, c := range checks {
		before := fleettest.Evaluations(l.g)
		stats := l.g.Commit(c.change)
		if stats.Evaluated != c.rows {
			t.Errorf("%s: %d rows evaluated, not %d: %v", c.what, stats.Evaluated, c.rows, since(before, l.g))
		}
	}
	// A member that fits nobody comes: each Placement looks at it, and nothing follows.
	before := fleettest.Evaluations(l.g)
	l.g.Commit(func(tx *inc.Tx) {
		in.Members.Set(tx, "stranger", model.MemberSpec{Created: 99, Networks: []string{"default"}})
	})
	changed := since(before, l.g)
	for _, table := range []string{"backends", "attachments", "claims", "hosts", "plans", "groups"} {
		if changed[table] != 0 {
			t.Errorf("a member that fits no Placement has %d rows of %s evaluated", changed[table], table)
		}
	}
	if changed["members that fit"] != n {
		t.Errorf("%d Placements looked at a member, not %d", changed["members that fit"], n)
	}
}
