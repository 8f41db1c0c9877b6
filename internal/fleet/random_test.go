package fleet_test

import (
	"fmt"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/spillway-dev/spillway/internal/fleet"
	"github.com/spillway-dev/spillway/internal/fleet/fleettest"
	"github.com/spillway-dev/spillway/internal/inc"
	"github.com/spillway-dev/spillway/internal/model"
)

// drawLine draws a command over a domain so small that edits collide: three
// members, services and edges, some hosts, two classes and one of another kind, two
// secrets.
func drawLine(t *rapid.T) string {
	one := func(name string, from ...string) string { return rapid.SampledFrom(from).Draw(t, name) }
	maybe := func(s string) string { return one("option", "", s) }
	member := func() string { return one("member", "m1", "m2", "m3") }
	service := func() string { return one("service", "ns/a", "ns/b", "ns/c") }
	ports := []string{"http:80", "http:80", "http:80+grpc", "web:80", "http:81", "http:80/UDP", ":80"}
	switch one("command", "ingress", "ingress", "ingress", "service", "service", "slice", "slice", "export", "import", "member", "edge", "class", "front", "config", "secret", "report", "lose", "note", "guard", "remember", "delete", "delete") {
	case "ingress":
		return drawIngress(t, one, maybe)
	case "service":
		return join("service", member(), service(), one("kind", "", "", "headless", "external=x.example"), one("port", ports...))
	case "export":
		return join(one("deletion", "", "", "delete"), "export", member(), service(), "age="+one("age", "1", "2"))
	case "import":
		if one("deletion", "", "", "delete") != "" {
			return join("delete import", service())
		}
		return join("import", service(), one("port", ports...), one("more", "", "other:81"))
	case "slice":
		line := join("slice", member(), service(), one("slice", "s1", "s2"), "http="+one("target", "8080", "8081"))
		for _, ip := range []string{"10.0.0.1", "10.0.0.2", "fd00::1"} {
			line = join(line, one("endpoint", "", ip, ip+"~", ip+"@z1"))
		}
		return line
	case "member":
		return join("member", member(), "age="+one("age", "1", "2"), one("place", "region=r1 zone=z1", "region=r1", "region=r2"),
			one("networks", "", "", "networks=n1"), one("ranges", "", "", "ranges=10.0.0.0/31,fd00::/16", "ranges=none"), one("state", "", "", "", "drain", "taints=t", "leaving"), one("seen", "", "seen", "seen unread"))
	case "edge":
		return join("edge", one("edge", "e1", "e2", "e3"), one("place", "region=r1 zone=z1", "region=r2"), one("networks", "", "", "networks=n1"), maybe("labels=tier:gold"), one("addresses", "", "addresses=192.0.2.1,2001:db8::1", "addresses=10.0.0.2,x.example"), one("pool", "", "", "pool=10.0.0.1~10.9.0.1,10.9.0.2,fd00::9", "pool=10.9.0.2!,fd00::1", "pool=10.0.0.1@Cluster,10.9.0.2!@Cluster,10.9.0.3@x.example/vpc,10.9.0.4,fd00::9@Cluster"), one("hops", "", "", "hops=1"))
	case "class":
		return join("class", one("class", "c1", "c2"), maybe("default"), one("config", "", "config=k"), "age="+one("age", "1", "2"))
	case "front":
		return join("front", "w", maybe("deep"), maybe("continues"), one("names", "names=e1", "names=e1,e2", "names=e3"), one("ports", "", "", "http=8080", "http=443 https=80"), maybe("own"), "age="+one("age", "1", "2"))
	case "config":
		return join("config", "k", maybe("external"), maybe("own"), maybe("ondemand"), one("edges", "", "edges=tier=gold", "names=e1"))
	case "secret":
		return join("secret", "ns/"+one("secret", "t1", "t2"), one("names", "h1", "*.h", "h1 h2 x.h", "problem=broken"))
	case "report":
		return join("report", one("edge", "e1", "e2")+"/"+one("proxy", "p1", "p2"), member(), one("seen", "-", "1/1", "0/1", "0/0"))
	case "remember":
		return join("remember", one("until", "until=1", "until=2", "over"))
	case "lose":
		return join("lose", member())
	case "note":
		return join(one("note", "await", "outdated", "overdue"), member(), maybe("-"))
	case "guard":
		return join("guard", one("guard", "10.0.0.1:8080 hub 10.0.0.1", "10.0.0.1:8080 -", "x.example:80 hub 10.0.0.2,fd00::1", "x.example:80 -", "hub:8081 hub 10.0.0.1,fd00::1", "hub:8080 hub 10.0.0.1,10.0.0.2,fd00::1"))
	}
	return one("deletion", "delete member m1", "delete edge e1", "delete edge e2", "delete class c1", "delete front w", "delete config k",
		"delete ingress ns/r1", "delete ingress ns/r2", "delete ingress ns/r3", "delete ingress odd/r1", "delete secret ns/t1", "delete service m1 ns/a", "delete slice m1 ns/a s1")
}

func drawIngress(t *rapid.T, one func(string, ...string) string, maybe func(string) string) string {
	port := func() string { return one("port", "80", "http") }
	class := one("class", "", "class=c1", "class=c2", "class=c1,c2", "class=c2,other", "class=other", "class=w", "class=w")
	hosts := []string{"h1", "h2", "*.h", ""}
	if class == "class=w" {
		hosts = []string{"h1", "x.h", "y.x.h", "**.h", "**.x.h", "*.h", ""}
	}
	line := join("ingress", one("namespace", "ns", "ns", "odd")+"/"+one("root", "r1", "r2", "r3", "r4"), "age="+one("age", "1", "2"), class)
	for range rapid.IntRange(0, 3).Draw(t, "rules") {
		host := one("host", hosts...)
		match := func() string {
			return one("path", "/", "/a", "/a/b", "/ab", "=/a", "=/a/b", "~/a.*", "~/.*b") + one("condition", "", "", "", "@POST", "@x:1", "@y~.", "@x:2,y:1", "@?q=1", "@POST,?q~[0-9]")
		}
		to := one("imported", "", "", "^") + one("service", "a", "b", "c") + ":" + port()
		more := one("filters", "", "", "{set=x:1}", "{mirror="+one("mirror", "a", "b", "c")+":"+port()+"@1/2}", "{mirror=a:80;mirror=c:80}", "{cookie=s;timeout=1s}", "{auth="+one("asked", "a", "b", "c")+":"+port()+one("calls", "", "@grpc")+"}")
		line = join(line, host+match()+one("more", "", "", ";"+match())+"->"+one("action", to, to, to, "reply=404", "redirect=308,https://h3")+more)
	}
	line = join(line, one("bare", "", "", "", hosts[0]+"!", hosts[1]+"!", hosts[2]+"!"))
	line = join(line, maybe("default="+one("default", "a", "b")+":"+port()))
	return join(line, one("tls", "", "", "tls=t1", "tls=t2@h1,h2", "tls=t1@x.h;t2"))
}

func join(words ...string) string { return strings.Join(strings.Fields(strings.Join(words, " ")), " ") }

func drawLines(t *rapid.T) []string {
	return rapid.SliceOfN(rapid.Custom(drawLine), 1, 40).Draw(t, "lines")
}

func do(t *rapid.T, w *fleettest.World, lines ...string) {
	if _, err := w.Do(lines...); err != nil {
		t.Fatal(err)
	}
}

// TestIncrementalEqualsFromScratch: neither the order of edits nor how they are
// cut into commits matters, nor which rows wait how long, only what the inputs
// are in the end.
func TestIncrementalEqualsFromScratch(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		lines := rapid.SliceOfN(rapid.OneOf(rapid.Custom(drawLine), rapid.Custom(drawGateways), rapid.Custom(drawPlacements), rapid.Custom(drawRoute)), 1, 40).Draw(t, "lines")
		step := fleettest.New(nil)
		for _, line := range lines {
			do(t, step, line)
			if rapid.Bool().Draw(t, "commit") {
				step.Graph.Portion(rapid.IntRange(0, 2).Draw(t, "portion"))
				step.Commit()
			}
		}
		step.Commit()
		for step.Graph.Backlog() > 0 {
			step.Graph.Commit(func(*inc.Tx) {})
		}
		if faults := step.Graph.Faults(); len(faults) > 0 {
			t.Fatalf("at fault: %+v", faults)
		}
		scratch := fleettest.New(nil)
		scratch.Graph.Commit(func(tx *inc.Tx) {
			copyInputs(t, tx, scratch.Program.In, step.Program.In)
			copyTable(t, tx, scratch.Fronts, step.Fronts)
		})
		for _, d := range differences(step.Program, scratch.Program) {
			t.Error(d)
		}
	})
}

// copyInputs writes the rows of one program to another, in a random order.
func copyInputs(t *rapid.T, tx *inc.Tx, to, from fleet.Inputs) {
	copyTable(t, tx, to.Roots, from.Roots)
	copyTable(t, tx, to.Rules, from.Rules)
	copyTable(t, tx, to.Problems, from.Problems)
	copyTable(t, tx, to.Slices, from.Slices)
	copyTable(t, tx, to.Services, from.Services)
	copyTable(t, tx, to.Exports, from.Exports)
	copyTable(t, tx, to.Imports, from.Imports)
	copyTable(t, tx, to.Reports, from.Reports)
	copyTable(t, tx, to.Members, from.Members)
	copyTable(t, tx, to.Sources, from.Sources)
	copyTable(t, tx, to.Awaited, from.Awaited)
	copyTable(t, tx, to.Outdated, from.Outdated)
	copyTable(t, tx, to.Overdue, from.Overdue)
	copyTable(t, tx, to.Certificates, from.Certificates)
	copyTable(t, tx, to.Edges, from.Edges)
	copyTable(t, tx, to.Configs, from.Configs)
	copyTable(t, tx, to.Classes, from.Classes)
	copyTable(t, tx, to.Guarded, from.Guarded)
	copyTable(t, tx, to.Tenures, from.Tenures)
	copyTable(t, tx, to.Kept, from.Kept)
	copyTable(t, tx, to.GatewayClasses, from.GatewayClasses)
	copyTable(t, tx, to.Gateways, from.Gateways)
	copyTable(t, tx, to.ListenerSets, from.ListenerSets)
	copyTable(t, tx, to.Grants, from.Grants)
	copyTable(t, tx, to.Namespaces, from.Namespaces)
	copyTable(t, tx, to.Bundles, from.Bundles)
	copyTable(t, tx, to.Releases, from.Releases)
	copyTable(t, tx, to.TLSPolicies, from.TLSPolicies)
	copyTable(t, tx, to.Placements, from.Placements)
}

func copyTable[K inc.Key[K], V inc.Value[V]](t *rapid.T, tx *inc.Tx, to, from *inc.Table[K, V]) {
	keys := from.Keys()
	if len(keys) == 0 {
		return
	}
	for _, k := range rapid.Permutation(keys).Draw(t, "order") {
		v, _ := from.Get(nil, k)
		to.Set(tx, k, v)
	}
}

// differences between the derived tables of two programs.
func differences(a, b *fleet.Program) []string {
	var out []string
	out = append(out, differ("attachments", a.Attachments, b.Attachments)...)
	out = append(out, differ("claims", a.Claims, b.Claims)...)
	out = append(out, differ("class info", a.ClassInfo, b.ClassInfo)...)
	out = append(out, differ("views", a.Views, b.Views)...)
	out = append(out, differ("ports", a.Ports, b.Ports)...)
	out = append(out, differ("leases", a.Leases, b.Leases)...)
	out = append(out, differ("tenures", a.Tenures, b.Tenures)...)
	out = append(out, differ("holdings", a.Holdings, b.Holdings)...)
	out = append(out, differ("collections", a.Collections, b.Collections)...)
	out = append(out, differ("outlets", a.Outlets, b.Outlets)...)
	out = append(out, differ("contests", a.Contests, b.Contests)...)
	out = append(out, differ("spreads", a.Spreads, b.Spreads)...)
	out = append(out, differ("hosts", a.Hosts, b.Hosts)...)
	out = append(out, differ("chains", a.Chains, b.Chains)...)
	out = append(out, differ("owners", a.Owners, b.Owners)...)
	out = append(out, differ("presences", a.Presences, b.Presences)...)
	out = append(out, differ("presented", a.Presented, b.Presented)...)
	out = append(out, differ("server names", a.ServerNames, b.ServerNames)...)
	out = append(out, differ("conflicts", a.Conflicts, b.Conflicts)...)
	out = append(out, differ("groups", a.Groups, b.Groups)...)
	out = append(out, differ("shapes", a.Shapes, b.Shapes)...)
	out = append(out, differ("imports", a.Imports, b.Imports)...)
	out = append(out, differ("backends", a.Backends, b.Backends)...)
	out = append(out, differ("kept places", a.Kept, b.Kept)...)
	out = append(out, differ("paths", a.Paths, b.Paths)...)
	out = append(out, differ("plans", a.Plans, b.Plans)...)
	out = append(out, differ("outcomes", a.Outcomes, b.Outcomes)...)
	out = append(out, differ("traits", a.Traits, b.Traits)...)
	out = append(out, differ("missing", a.Missing, b.Missing)...)
	out = append(out, differ("gateways", a.Gateways, b.Gateways)...)
	out = append(out, differ("parts", a.Parts, b.Parts)...)
	out = append(out, differ("parents", a.Parents, b.Parents)...)
	out = append(out, differ("references", a.Resolved, b.Resolved)...)
	return append(out, differ("findings", a.Findings, b.Findings)...)
}

func differ[K inc.Key[K], V inc.Value[V]](name string, a, b *inc.Table[K, V]) []string {
	var out []string
	for _, k := range a.Keys() {
		x, _ := a.Get(nil, k)
		if y, ok := b.Get(nil, k); !ok {
			out = append(out, fmt.Sprintf("%s %v: %+v, from scratch nothing", name, k, x))
		} else if !x.Equal(y) {
			out = append(out, fmt.Sprintf("%s %v: %+v, from scratch %+v", name, k, x, y))
		}
	}
	for _, k := range b.Keys() {
		if _, ok := a.Get(nil, k); !ok {
			out = append(out, fmt.Sprintf("%s %v: nothing, but there is one from scratch", name, k))
		}
	}
	return out
}

// rowsOf is a table as a map, for the dumb references.
func rowsOf[K inc.Key[K], V inc.Value[V]](t *inc.Table[K, V]) map[K]V {
	out := map[K]V{}
	for _, k := range t.Keys() {
		out[k], _ = t.Get(nil, k)
	}
	return out
}

// drawInto makes random edits to a world.
func drawInto(t *rapid.T, w *fleettest.World) {
	do(t, w, "class c1 default", "edge e1 region=r1", "member m1", "member m2")
	do(t, w, drawLines(t)...)
	w.Commit()
}

// drawWorld is a world after random edits.
func drawWorld(t *rapid.T) *fleettest.World {
	w := fleettest.New(nil)
	drawInto(t, w)
	return w
}

var (
	anyClass = []model.Class{"c1", "c2", "w"}
	anyHost  = []model.Host{"h1", "h2", "*.h", "", "x.h", "y.x.h", "**.h", "**.x.h"}
)
