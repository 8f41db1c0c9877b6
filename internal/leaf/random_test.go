package leaf_test

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/spillway-dev/spillway/internal/fleet"
	"github.com/spillway-dev/spillway/internal/fleet/fleettest"
	"github.com/spillway-dev/spillway/internal/inc"
	"github.com/spillway-dev/spillway/internal/leaf"
)

// fleets are worlds with leaves: what each object is now, by a command that makes it.
type fleets map[string]string

// edit draws an object, or that it goes.
func (f fleets) edit(t *rapid.T) []string {
	pick := func(name string, from ...string) string { return rapid.SampledFrom(from).Draw(t, name) }
	member, root := pick("member", "m1", "m2"), "shop/"+pick("root", "a", "b", "c")
	what := pick("what", "member", "pods", "ingress", "ingress", "class", "config", "state", "placement", "gateway", "listenerset", "listenerset", "gatewayclass", "httproute", "httproute", "said", "route", "secret", "heldkey", "grant")
	var key, line, gone string
	switch what {
	case "member":
		key = "member " + member
		line = key + " age=1 " + pick("how", "", "", "leaves=192.0.2.0/24", "labels=wave:one", "taints=t", "leaving", "leaving orphans", "spaces=shop:s", "spaces=shop:certs", "spaces=certs:c,shop:")
	case "pods":
		service := pick("namespace", "shop", "shop", "s", "certs") + "/" + pick("service", "x", "y")
		key, gone = "pods "+member+" "+service, "delete service "+member+" "+service
		line = key + " 10.0.0.1"
	case "ingress":
		key, gone = "ingress "+root, "delete ingress "+root
		line = key + " age=" + pick("age", "1", "2") + " class=" + pick("class", "l1", "l2", "e") + " published=" + pick("published", "", "192.0.2.1", "192.0.2.1,192.0.2.2") + pick("full", " full", " full", "") +
			pick("default", "", " default=x:80") + pick("tls", "", " tls=cert@h.example", " tls=cert@h.example;other@i.example") + pick("rule", "", " h.example/->x:80", " h.example/a->y:80", " h.example/->x:80 i.example/->y:80")
	case "class":
		class := pick("class", "l1", "l2")
		key, line, gone = "class "+class, "class "+class+" config=k"+class+" age=1", "delete class "+class
	case "config":
		class := pick("class", "l1", "l2")
		key, gone = "config k"+class, "delete config k"+class
		line = key + pick("leaf", " leaf", " leaf=n annotations=x", " leaf in=m1:other", " leaf gateways=g", " leaf gateways=g in=m1:h", " leaf leaftls=Distribute", " leaf leaftls=Distribute in=m1:tls~Local", "")
	case "gatewayclass":
		class := pick("class", "l1", "l2")
		key, gone = "gatewayclass "+class, "delete gatewayclass "+class
		line = key + pick("config", " config=kl1", " config=kl2", "")
	case "gateway":
		name := "shop/" + pick("gateway", "g", "h")
		key, gone = "gateway "+name, "delete gateway "+name
		line = key + " age=" + pick("age", "1", "2") + " class=" + pick("class", "l1", "l2", "e") + pick("sets", "", " sets=All", " sets=Same") + pick("full", " full", " full published=192.0.2.1", "") + pick("listeners", " l:HTTP:80", " l:HTTP:80:h.example m:HTTP:81", " l:HTTP:80:h.example l:HTTP:80:h.example", " l:HTTPS:443:h.example,secret=cert m:HTTPS:443:i.example,secret=certs/wide")
	case "listenerset":
		name := pick("space", "shop", "certs") + "/" + pick("set", "s", "u")
		key, gone = "listenerset "+name, "delete listenerset "+name
		line = key + " age=" + pick("age", "1", "2") + pick("to", " to=shop/g", " to=shop/h") + pick("full", " full", " full", "") + pick("listeners", " l:HTTP:80:i.example", " n:HTTP:82", " l:HTTPS:443:i.example,secret=certs/wide n:HTTP:81")
	case "grant":
		to, kind := pick("grant", "Secret", "Secret/wide"), pick("of", "Gateway", "ListenerSet")
		key, gone = "grant certs "+kind+"@shop "+to, "delete grant certs "+kind+"@shop "+to
		line = key
	case "httproute":
		key, gone = "httproute "+root, "delete httproute "+root
		line = key + " age=" + pick("age", "1", "2") + pick("to", " to=shop/g", " to=shop/g,shop/h", " to=shop/h/m", " sets=shop/s", " to=shop/g sets=certs/u/n") + pick("full", " full", " full", "") + pick("ours", "", " ours") +
			pick("hosts", "", " hosts=h.example", " hosts=h.example,i.example") + pick("rule", " /->x:80", " /->y:80 /a->x:80", " =/a->x:80")
	case "said":
		kind, name := pick("kind", "HTTPRoute a", "HTTPRoute b", "Gateway g", "ListenerSet s", "Route r"), ""
		kind, name, _ = strings.Cut(kind, " ")
		key = "leafstate " + member + " shop/" + name + " of=" + kind
		gone = "leafstate " + member + " shop/" + name + " - of=" + kind
		line = "leafstate " + member + " shop/" + name + " " + pick("reason", "Applied", "Refused", "NotServed") + " of=" + kind + pick("there", "", " none") + pick("at", "", " at=192.0.2.1") +
			pick("says", "", " says=Accepted:True:Accepted,Programmed:False:No,Admitted:True", " says=Accepted:True:A@shop/g", " says=Accepted:False:B@shop/g,ResolvedRefs:True:C@shop/h", " says=Accepted:True:A@l,Admitted:False:X")
	case "route":
		key, gone = "route shop/r", "delete route shop/r"
		line = key + " age=1 class=" + pick("class", "l1", "e") + pick("full", " full", "") + pick("rule", " h.example x:80", " i.example/a y:80")
	case "state":
		key, gone = "leafstate "+member+" "+root, "leafstate "+member+" "+root+" -"
		line = key + " " + pick("reason", "Applied", "Refused", "Foreign") + pick("there", "", " none") + pick("at", "", " at=192.0.2.1", " at=198.51.100.1")
	case "secret":
		secret := pick("secret", "shop/cert", "shop/other", "certs/wide")
		key, gone = "secret "+secret, "delete secret "+secret
		line = key + " h.example" + pick("to", "", " to=*", " to=m1", " to=m1,m2") + pick("chain", "", " chain=new") + pick("problem", "", "", " problem=x")
	case "heldkey":
		key = "heldkey " + member + pick("copy", " shop/cert cert-0", " certs/wide wide-0", " certs/wide wide-0 in=c")
		gone = key + " -"
		line = key + pick("held", " Held", " Refused none Forbidden", " Failing")
	default:
		key, gone = "placement shop/p", "delete placement shop/p"
		line = "placement shop/p age=1 for=" + pick("for", "namespace", "ingress/a") + pick("names", "", " names=m1", " names=m3") + pick("waves", "", " waves=wave~one", " waves=wave~one,wave~two pause=0")
	}
	if gone != "" && pick("deleted", "no", "no", "yes") == "yes" {
		if _, there := f[key]; !there {
			return nil
		}
		delete(f, key)
		return []string{gone}
	}
	f[key] = line
	if what == "ingress" && strings.Contains(line, " full") { // a manifest is of its root
		return []string{line}
	}
	if what == "ingress" {
		return []string{"delete ingress " + root, line}
	}
	return []string{line}
}

// shown is all that is said of leaves.
func shown(t *leaf.Tables) string {
	var out []string
	out = append(out, fleettest.Rows(t.Leaves, func(l leaf.Leaf) string { return fmt.Sprint(l) })...)
	out = append(out, fmt.Sprint(t.Keys.Keys(), t.Secrets.Keys()))
	out = append(out, fleettest.Rows(t.Rollouts, func(o leaf.Rollout) string { return fmt.Sprint(o) })...)
	out = append(out, fleettest.Rows(t.Placements, func(s leaf.PlacementStatus) string { return fmt.Sprint(s) })...)
	out = append(out, fleettest.Rows(t.Roots, func(s leaf.RootStatus) string { return fmt.Sprint(s) })...)
	out = append(out, fleettest.Rows(t.Gateways, func(s leaf.GatewayStatus) string { return fmt.Sprint(s) })...)
	out = append(out, fleettest.Rows(t.ListenerSets, func(s leaf.ListenerSetStatus) string { return fmt.Sprint(s) })...)
	out = append(out, fleettest.Rows(t.Routes, func(s leaf.RouteStatus) string { return fmt.Sprint(s) })...)
	out = append(out, fleettest.Rows(t.Admissions, func(s leaf.AdmissionStatus) string { return fmt.Sprint(s) })...)
	out = append(out, fleettest.Rows(t.Findings, fleettest.FindingsText)...)
	return strings.Join(append(out, fmt.Sprint(t.LeavesUnread.Keys())), "\n")
}

func leafWorld(t *rapid.T) (*fleettest.World, *leaf.Tables) {
	var tables *leaf.Tables
	w := fleettest.New(func(g *inc.Graph, p *fleet.Program) map[string]fleettest.Command {
		tables = leaf.Declare(g, p, leaf.Outputs{})
		return nil
	})
	if _, err := w.Do("class e age=1", "edge fra region=eu addresses=203.0.113.1"); err != nil {
		t.Fatal(err)
	}
	w.Commit()
	return w, tables
}

// TestLeavesFromScratch: what is said of leaves follows from the inputs alone, and not
// from the order of edits.
func TestLeavesFromScratch(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w, tables := leafWorld(t)
		f := fleets{}
		for range rapid.IntRange(1, 30).Draw(t, "edits") {
			if _, err := w.Do(f.edit(t)...); err != nil {
				t.Fatal(err)
			}
			if rapid.Bool().Draw(t, "commit") {
				w.Commit()
			}
			switch rapid.IntRange(0, 5).Draw(t, "turn") {
			case 0:
				_, _ = apply(w, tables, []string{"m1"})
			case 1:
				w.Commit()
				w.Stage(func(tx *inc.Tx) { remember(tx, w.Program.In.Rollouts, tables, true, false) })
			}
		}
		w.Commit()
		again, anew := leafWorld(t)
		for _, key := range slices.Sorted(maps.Keys(f)) {
			if _, err := again.Do(f[key]); err != nil {
				t.Fatal(err)
			}
		}
		again.Commit()
		again.Stage(func(tx *inc.Tx) { // what is remembered, and what members told of that
			copied(tx, again.Program.In.LeafStates, w.Program.In.LeafStates)
			copied(tx, again.Program.In.Rollouts, w.Program.In.Rollouts)
		})
		again.Commit()
		if got, want := shown(tables), shown(anew); got != want {
			t.Fatalf("%v\n\n%s\n\nfrom scratch:\n%s", f, got, want)
		}
	})
}

func copied[K inc.Key[K], V inc.Value[V]](tx *inc.Tx, to, from *inc.Table[K, V]) {
	for _, k := range to.Keys() {
		to.Delete(tx, k)
	}
	for _, k := range from.Keys() {
		v, _ := from.Get(nil, k)
		to.Set(tx, k, v)
	}
}
