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
	switch what := pick("what", "member", "away", "pods", "pods", "ingress", "ingress", "state", "state", "state", "witness", "found", "last", "config", "zone", "placement", "gateway", "listenerset", "route", "route", "part", "part"); what {
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
		line = key + pick("leaf", " leaf", " leaf gateways=g", " leaf gateways=g", "") + " http=" + pick("http", "80", "81")
	case "zone":
		key, gone = "zone dns/z", "delete zone dns/z"
		line = key + " example age=1"
	case "placement":
		key, gone = "placement shop/p", "delete placement shop/p"
		line = "placement shop/p age=1 for=namespace" + pick("names", "", " names=m1", " names=m3")
	default:
		return partEdit(pick, what, member)
	}
	return key, line, gone
}

// gatewaysThere is a Gateway in two members, with a route of its own and one of its
// ListenerSet: a command for each object, as edits have them.
func gatewaysThere() map[string]string {
	f := map[string]string{"config k": " leaf gateways=g", "gateway shop/g": " age=1 class=lg full sets=All l:HTTP:80:h.example", "listenerset shop/s": " age=1 to=shop/g full m:HTTP:80:i.example",
		"httproute shop/p": " age=1 to=shop/g full hosts=h.example /->x:80", "httproute shop/q": " age=1 sets=shop/s full hosts=i.example /->x:80"}
	for i, m := range []string{"m1", "m2"} {
		f["member "+m], f["pods "+m+" shop/x"] = " age=1 region=eu leaves=192.0.2.0/24,*.net", fmt.Sprint(" 10.0.0.", i+1)
		for _, part := range []string{"g of=Gateway", "s of=ListenerSet", "p of=HTTPRoute", "q of=HTTPRoute"} {
			f["leafstate "+m+" shop/"+part] = " Applied at=192.0.2.1"
		}
	}
	for key, line := range f {
		f[key] = key + line
	}
	return f
}

// partEdit draws a change of what is of a Gateway: that, its ListenerSet, a route of one of
// both, or what a member says of them.
func partEdit(pick func(name string, from ...string) string, what, member string) (key, line, gone string) {
	switch what {
	case "gateway":
		key, gone = "gateway shop/g", "delete gateway shop/g"
		line = key + " age=1 class=lg" + pick("full", " full", " full", "") + pick("sets", " sets=All", " sets=All", "") + pick("listeners", " l:HTTP:80:h.example", " l:HTTP:80", " l:HTTP:81:i.example")
	case "listenerset":
		key, gone = "listenerset shop/s", "delete listenerset shop/s"
		line = key + " age=1 to=shop/g" + pick("full", " full", " full", "") + pick("listeners", " m:HTTP:80:i.example", " m:HTTP:82")
	case "route":
		key = "httproute shop/" + pick("route", "p", "q")
		gone = "delete " + key
		line = key + " age=" + pick("age", "1", "2") + pick("to", " to=shop/g", " sets=shop/s", " to=shop/g sets=shop/s") + " full hosts=" + pick("hosts", "h.example", "i.example", "h.example,i.example") + pick("rule", " /->x:80", " /->y:80 /a->x:80")
	default:
		name, of, _ := strings.Cut(pick("part", "g Gateway", "g Gateway", "s ListenerSet", "s ListenerSet", "p HTTPRoute", "q HTTPRoute"), " ")
		key = "leafstate " + member + " shop/" + name + " of=" + of
		gone = "leafstate " + member + " shop/" + name + " - of=" + of
		line = "leafstate " + member + " shop/" + name + " " + pick("reason", "Applied", "Refused", "Refused", "NotServed") + pick("there", "", "", "", " none") + " of=" + of + pick("at", " at=192.0.2.1", " at=192.0.2.1", " at=lb.net", "")
	}
	return key, line, gone
}

func (w *sited) begin(t interface{ Fatal(...any) }) {
	w.do(t, "class e age=1", "class l1 config=k age=2", "class l2 config=k age=3", "gatewayclass lg config=k", "edge fra region=eu addresses=203.0.113.1", "zone dns/z example age=1")
}

// TestSitesFromScratch: what DNS says of hosts with leaves follows from the inputs alone.
func TestSitesFromScratch(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w, f := newSited(), map[string]string{}
		w.begin(t)
		if rapid.Bool().Draw(t, "gateways") {
			f = gatewaysThere()
			w.do(t, slices.Sorted(maps.Values(f))...)
		}
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
		if host, _ := w.Program.Hosts.Get(nil, key); len(host.Roots) == 0 {
			continue // a listener's own host, for which no route asks
		}
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

// TestMemberThatRefusesAnEditIsBehind: where what is there of a leaf is older, or of what
// leads to it, members that have the newest are answered before.
func TestMemberThatRefusesAnEditIsBehind(t *testing.T) {
	const both, second = "m1!192.0.2.1 m2!192.0.2.2", "m2!192.0.2.2"
	for _, c := range []struct {
		name, line          string
		ingress, route, set string // what each host is answered with
	}{
		{"none", "class l1 config=k age=2", both, both, both},
		{"Ingress", "leafstate m1 shop/a Refused at=192.0.2.1 quota", second, both, both},
		{"route", "leafstate m1 shop/b Refused of=HTTPRoute quota", both, second, both},
		{"route of the ListenerSet", "leafstate m1 shop/c Refused of=HTTPRoute quota", both, both, second},
		{"Gateway", "leafstate m1 shop/g Refused of=Gateway at=192.0.2.1 quota", both, second, second},
		{"ListenerSet", "leafstate m1 shop/s Refused of=ListenerSet quota", both, both, second},
		{"ListenerSet that is not there", "leafstate m1 shop/s Refused of=ListenerSet none quota", both, both, second},
		{"Gateway that is written", "leafstate m1 shop/g Pending of=Gateway at=192.0.2.1", both, both, both},
		{"ListenerSet that is taken", "leafstate m1 shop/s Contested of=ListenerSet", both, both, both},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := newSited()
			w.begin(t)
			w.do(t, "config k leaf=n gateways=g", "member m1 age=1 region=eu leaves=192.0.2.0/24", "member m2 age=2 region=eu leaves=192.0.2.0/24",
				"pods m1 shop/x 10.0.0.1", "pods m2 shop/x 10.0.1.1", "ingress shop/a class=l1 h.example/->x:80", "gatewayclass lg config=k",
				"gateway shop/g class=lg full sets=All l:HTTP:80:i.example", "listenerset shop/s to=shop/g full m:HTTP:80:j.example",
				"httproute shop/b to=shop/g full hosts=i.example /->x:80", "httproute shop/c sets=shop/s full hosts=j.example /->x:80")
			for m, at := range map[string]string{"m1": "192.0.2.1", "m2": "192.0.2.2"} {
				w.do(t, "leafstate "+m+" shop/a Applied at="+at, "leafstate "+m+" shop/g Applied of=Gateway at="+at, "leafstate "+m+" shop/s Applied of=ListenerSet",
					"leafstate "+m+" shop/b Applied of=HTTPRoute", "leafstate "+m+" shop/c Applied of=HTTPRoute")
			}
			w.do(t, c.line)
			for host, want := range map[model.Host]string{"h.example": c.ingress, "i.example": c.route, "j.example": c.set} {
				if got := w.answer(host); got != want {
					t.Errorf("%s is answered with %s, not %s", host, got, want)
				}
			}
			w.do(t, "pods m2 shop/x") // nobody else serves
			for _, host := range []model.Host{"h.example", "i.example", "j.example"} {
				if got := w.answer(host); c.name != "ListenerSet that is not there" && got != "m1!192.0.2.1" {
					t.Errorf("%s is answered with %s where nobody else serves it", host, got)
				}
			}
		})
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
