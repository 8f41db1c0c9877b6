package zone_test

import (
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/spillway-dev/spillway/internal/fleet"
	"github.com/spillway-dev/spillway/internal/fleet/fleettest"
	"github.com/spillway-dev/spillway/internal/inc"
	"github.com/spillway-dev/spillway/internal/model"
	"github.com/spillway-dev/spillway/internal/zone"
)

// sited is a world with DNS.
type sited struct {
	*fleettest.World
	t *zone.Tables
}

// newSited has commands for what shells write: "witness SITE STREAM PROBE", "found NAME
// IP…", "away MEMBER waited|overdue|stale" and "last HOST EDGE…", each with nothing behind
// for none.
func newSited() *sited {
	w := &sited{}
	w.World = fleettest.New(func(g *inc.Graph, p *fleet.Program) map[string]fleettest.Command {
		w.t = zone.Declare(g, p)
		stage := func(f func(words []string) func(*inc.Tx)) fleettest.Command {
			return func(on *fleettest.World, words []string) (string, error) {
				on.Stage(f(words))
				return "", nil
			}
		}
		health := map[string]zone.Witness{"?": {}, "up": {Health: model.Up}, "down": {Health: model.Down, Since: 1}, "lost": {Health: model.Down, Since: 1, Alone: true}}
		return map[string]fleettest.Command{
			"witness": stage(func(a []string) func(*inc.Tx) {
				return func(tx *inc.Tx) {
					w.t.Witnesses.Set(tx, model.Edge(a[0]), zone.Witnesses{Stream: health[a[1]], Probe: health[a[2]]})
				}
			}),
			"found": stage(func(a []string) func(*inc.Tx) {
				var row zone.Resolved
				for _, ip := range a[1:] {
					row.Addresses = append(row.Addresses, netip.MustParseAddr(ip))
				}
				if len(a) == 1 {
					return func(tx *inc.Tx) { w.t.Names.Delete(tx, model.Host(a[0])) }
				}
				return func(tx *inc.Tx) { w.t.Names.Set(tx, model.Host(a[0]), row) }
			}),
			"away": stage(func(a []string) func(*inc.Tx) {
				m, in := model.Member(a[0]), &p.In
				return func(tx *inc.Tx) {
					for how, t := range map[string]*inc.Table[model.Member, model.There]{"waited": in.Outdated, "overdue": in.Overdue, "stale": in.Stale} {
						t.Delete(tx, m)
						if len(a) > 1 && (a[1] == how || a[1] == "overdue" && how == "waited") {
							t.Set(tx, m, model.There{})
						}
					}
				}
			}),
			"last": stage(func(a []string) func(*inc.Tx) {
				if len(a) == 1 {
					return func(tx *inc.Tx) { w.t.Last.Delete(tx, model.Host(a[0])) }
				}
				var set model.EdgeSet
				for _, e := range a[1:] {
					set = set.With(model.Edge(e))
				}
				return func(tx *inc.Tx) { w.t.Last.Set(tx, model.Host(a[0]), set) }
			}),
		}
	})
	return w
}

func (w *sited) do(t interface{ Fatal(...any) }, lines ...string) {
	if _, err := w.Do(lines...); err != nil {
		t.Fatal(err)
	}
	w.Commit()
}

// answer is what a host has: its edges, "held" or "-".
func (w *sited) answer(host model.Host) string {
	row, ok := w.t.Records.Get(nil, host)
	if !ok || row.Set == nil {
		return "none"
	}
	return row.Set.String()
}

// shown is all that DNS says, and asks for.
func (w *sited) shown() string {
	out := fleettest.Rows(w.t.Records, func(r zone.RecordRow) string {
		if r.Set == nil {
			return "nothing"
		}
		return fmt.Sprint(r.Set, " last ", r.Edges)
	})
	out = append(out, fleettest.Rows(w.t.Edges, func(e zone.EdgeRow) string {
		return fmt.Sprint(e.Edge.Name(), e.Edge.Addresses(zone.TypeA), e.Edge.Addresses(zone.TypeAAAA))
	})...)
	out = append(out, fleettest.Rows(w.t.Findings, fleettest.FindingsText)...)
	out = append(out, fleettest.Rows(w.Program.LeafAsks, func(a inc.List[fleet.LeafAsk]) string { return fmt.Sprint(a) })...)
	return strings.Join(append(out, fmt.Sprint(w.t.Lookups.Keys())), "\n")
}

var siteNames = []string{"m1!192.0.2.1", "m1!lb.net", "m2!192.0.2.1", "m2!192.0.2.2+lb.net", "fra"}

// siteEdit draws a change: which object it is of, the command that makes it so, and the
// one that takes it away, if there is one.
func siteEdit(t *rapid.T) (key, line, gone string) {
	pick := func(name string, from ...string) string { return rapid.SampledFrom(from).Draw(t, name) }
	member, root := pick("member", "m1", "m2"), "shop/"+pick("root", "a", "b")
	switch what := pick("what", "member", "away", "pods", "pods", "ingress", "ingress", "state", "state", "state", "witness", "found", "last", "config", "zone", "placement"); what {
	case "member":
		key = "member " + member
		line = key + " age=1 region=" + pick("region", "eu", "us") + " leaves=192.0.2.0/24,*.net" + pick("how", "", "", " drain", " taints=t", " leaving")
	case "away":
		key, gone = "away "+member, "away "+member
		line = key + pick("how", " waited", " overdue", " stale")
	case "pods":
		service := "shop/" + pick("service", "x", "y")
		key, gone = "pods "+member+" "+service, "delete service "+member+" "+service
		line = key + pick("endpoints", "", " 10.0.0.1", " 10.0.0.1~")
	case "ingress":
		key, gone = "ingress "+root, "delete ingress "+root
		line = key + " age=" + pick("age", "1", "2") + " class=" + pick("class", "l1", "l2", "e") + pick("rule", "", " h.example/->x:80", " h.example/a->y:80", " h.example/->x:80 h.example/a->y:80 i.example/->y:80")
	case "state":
		key, gone = "leafstate "+member+" "+root, "leafstate "+member+" "+root+" -"
		line = key + " " + pick("reason", "Applied", "Applied", "Refused", "Foreign") + pick("there", "", "", " none") + " at=" + pick("at", "192.0.2.1", "192.0.2.1", "lb.net", "192.0.2.2,lb.net", "x.example", "198.51.100.1")
	case "witness":
		site := pick("site", siteNames...)
		key = "witness " + site
		line = key + " " + pick("stream", "?", "up", "down", "lost") + " " + pick("probe", "?", "up", "down", "lost")
	case "found":
		key, gone = "found lb.net", "found lb.net"
		line = key + pick("to", " 192.0.2.9", " 2001:db8::9 192.0.2.9", " 0.0.0.0")
	case "last":
		host := pick("host", "h.example", "i.example")
		key, gone = "last "+host, "last "+host
		line = key + " " + pick("site", siteNames...)
	case "config":
		key = "config k"
		line = key + pick("leaf", " leaf", " leaf", "") + " http=" + pick("http", "80", "81")
	case "zone":
		key, gone = "zone dns/z", "delete zone dns/z"
		line = key + " example age=1"
	default:
		key, gone = "placement shop/p", "delete placement shop/p"
		line = "placement shop/p age=1 for=namespace" + pick("names", "", " names=m1", " names=m3")
	}
	return key, line, gone
}

func (w *sited) begin(t interface{ Fatal(...any) }) {
	w.do(t, "class e age=1", "class l1 config=k age=2", "class l2 config=k age=3", "edge fra region=eu addresses=203.0.113.1", "zone dns/z example age=1")
}

// TestSitesFromScratch: what DNS says of hosts with leaves follows from the inputs alone.
func TestSitesFromScratch(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w, f := newSited(), map[string]string{}
		w.begin(t)
		for range rapid.IntRange(1, 40).Draw(t, "edits") {
			key, line, gone := siteEdit(t)
			_, there := f[key]
			switch {
			case there && gone != "" && rapid.Bool().Draw(t, "gone"):
				delete(f, key)
				w.do(t, gone)
			default:
				f[key] = line
				w.do(t, line)
			}
			w.lives(t)
		}
		again := newSited()
		again.begin(t)
		if _, zone := f["zone dns/z"]; !zone && w.t.Zones.Len() == 0 {
			again.do(t, "delete zone dns/z")
		}
		for _, key := range slices.Sorted(maps.Keys(f)) {
			again.do(t, f[key])
		}
		if got, want := w.shown(), again.shown(); got != want {
			t.Fatalf("%v\n\n%s\n\nfrom scratch:\n%s", f, got, want)
		}
	})
}

// lives: a host that somebody asks for is there; it has an answer while some site that was
// not lost serves it; and what it is answered with is there and has an address.
func (w *sited) lives(t *rapid.T) {
	for _, key := range w.Program.LeafReaches.Keys() {
		row, ok := w.t.Records.Get(nil, key.Host)
		if w.t.Zones.Len() > 0 && (!ok || row.Set == nil) {
			t.Fatalf("%s is not there", key)
		}
		reaches, _ := w.Program.LeafReaches.Get(nil, key)
		for _, at := range reaches.At {
			edge, there := w.t.Edges.Get(nil, at.Site)
			is, _ := w.t.Witnesses.Get(nil, at.Site)
			in, _ := (zone.EdgeState{Edge: at.Site, Room: at.Room, Stream: is.Stream, Probe: is.Probe}).Standing()
			if there && in && len(edge.Edge.Addresses(zone.TypeA)) > 0 && w.t.Zones.Len() > 0 && row.Set.String() == "-" {
				t.Fatalf("%s has an empty answer, and %s serves it: %+v", key, at.Site, at)
			}
		}
	}
}

// TestALeafCostsItsHosts: an address of one leaf that changes has its hosts evaluated and
// no others, and hosts of edges read nothing of leaves.
func TestALeafCostsItsHosts(t *testing.T) {
	w := newSited()
	lines := []string{"class e age=1", "config k leaf", "class l config=k age=2", "edge fra region=eu addresses=203.0.113.1", "zone dns/z example age=1",
		"member m1 age=1 region=eu leaves=192.0.2.0/24", "member m2 age=2 region=us leaves=192.0.2.0/24", "pods m1 shop/x 10.0.0.1", "pods m2 shop/x 10.0.1.1"}
	const many = 200
	for i := range many {
		lines = append(lines, fmt.Sprintf("ingress shop/r%d class=l r%d.example/->x:80", i, i), fmt.Sprintf("ingress shop/e%d class=e e%d.example/->x:80", i, i),
			fmt.Sprintf("leafstate m1 shop/r%d Applied at=192.0.2.1", i), fmt.Sprintf("leafstate m2 shop/r%d Applied at=192.0.2.2", i))
	}
	w.do(t, lines...)
	if got := w.answer("r7.example"); got != "m1!192.0.2.1 m2!192.0.2.2" {
		t.Fatal(got)
	}
	for _, c := range []struct {
		line    string
		choices int
		most    int // rows of all tables
	}{
		{"leafstate m1 shop/r7 Applied at=192.0.2.9", 1, 16},
		{"leafstate m1 shop/r7 Applied at=192.0.2.9 altered=.spec.x", 0, 3},
		{"pods m1 shop/x 10.0.0.1 10.0.0.2", 0, 12},
		{"witness m1!192.0.2.9 ? up", 1, 5},
		{"witness m1!192.0.2.1 ? up", many - 1, many + 4},
		{"pods m1 shop/e 10.0.0.1", 0, 0},
	} {
		before := fleettest.Evaluations(w.Graph)
		w.do(t, c.line)
		after := fleettest.Evaluations(w.Graph)
		if n := after["dns-choices"] - before["dns-choices"]; n != c.choices {
			t.Errorf("%s: %d hosts were looked at, not %d", c.line, n, c.choices)
		}
		if w.Stats.Evaluated > c.most {
			var which []string
			for name := range after {
				if n := after[name] - before[name]; n > 0 {
					which = append(which, fmt.Sprint(name, " ", n))
				}
			}
			slices.Sort(which)
			t.Errorf("%s: %d rows were evaluated, more than %d: %v", c.line, w.Stats.Evaluated, c.most, which)
		}
	}
	for _, table := range w.Graph.Tables() {
		if table.Name == "leaf reaches" && table.Rows != many {
			t.Errorf("%d hosts have leaves", table.Rows)
		}
	}
}
