package fleet_test

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"testing"

	"github.com/spillway-dev/spillway/internal/fleet"
	"github.com/spillway-dev/spillway/internal/fleet/fleettest"
	"github.com/spillway-dev/spillway/internal/inc"
	"github.com/spillway-dev/spillway/internal/model"
)

// TestKindsAndWorkspacesOfBackends: what has ports and endpoints is a backend,
// whatever its kind, and what another kind or tenant calls the same is another
// one. Nothing but the rows that a reader of objects gives tells them apart.
func TestKindsAndWorkspacesOfBackends(t *testing.T) {
	w := fleettest.New(nil)
	if _, err := w.Do("edge fra region=eu", "class spillway default", "member eu-1 region=eu"); err != nil {
		t.Fatal(err)
	}
	port := model.PortRef{Number: 80}
	backends := []model.BackendKey{
		{Service: model.ServiceOf("shop", "web"), Port: port},
		{Service: model.ServiceKey{Kind: "Widget", Namespace: "shop", Name: "web"}.Service(), Port: port},
		{Workspace: "one", Service: model.ServiceOf("shop", "web"), Port: port},
		{Workspace: "two", Service: model.ServiceOf("shop", "web"), Port: port},
	}
	addresses := map[model.Service]netip.Addr{}
	w.Stage(func(tx *inc.Tx) {
		in := w.Program.In
		for i, k := range backends {
			b := k.Backend()
			root := model.Object{Kind: "Ingress", Workspace: k.Workspace, Namespace: "shop", Name: "web-" + k.Service.Key().Kind}
			fleettest.SetRoot(tx, in, root, model.Root{Classes: "spillway"}, map[model.Host]model.Rules{
				model.Host(root.Workspace + root.Name + ".example"): {{Matches: []model.Match{{Kind: model.PathPrefix, Path: "/"}}, Action: model.Action{Backends: []model.WeightedBackend{{Backend: b, Weight: 1}}}}},
			})
			at := model.MemberService{Service: b.Service(), Member: "eu-1"}
			ip := netip.AddrFrom4([4]byte{10, 0, 0, byte(i)})
			addresses[at.Service] = ip
			in.Services.Set(tx, at, model.ServiceSpec{Ports: []model.ServicePort{{Number: 80, Protocol: "TCP"}}})
			in.Slices.Set(tx, model.SliceID{MemberService: at, Name: "web-1"}, model.Slice{Ports: []model.SlicePort{{Number: 8080}}, Endpoints: model.EndpointsOf(model.Endpoint{Addr: ip})})
		}
	})
	w.Commit()
	for _, k := range backends {
		b := k.Backend()
		group, _ := w.Program.Groups.Get(nil, fleet.GroupID{Backend: b, Member: "eu-1"})
		if want := addresses[b.Service()]; group.Endpoints.Len() != 1 || group.Endpoints.List()[0].Addr != want {
			t.Errorf("%s has %v, want %s", b, group.Endpoints.List(), want)
		}
		view, _ := w.Program.Views.Get(nil, "fra")
		if plan, _ := w.Program.Plans.Get(nil, fleet.UseID{Vantage: view.Key.Vantage(), Backend: b}); len(plan.Shares) != 1 {
			t.Errorf("%s goes to %+v", b, plan)
		}
	}
	if n := len(addresses); n != len(backends) {
		t.Errorf("%d services of %d backends", n, len(backends))
	}
}

// TestClassesOfWorkspaces: a root is of a class of its own workspace, by name or
// as the default there.
func TestClassesOfWorkspaces(t *testing.T) {
	w := fleettest.New(nil)
	if _, err := w.Do("edge fra region=eu", "class one:spillway default", "class two:spillway", "class spillway"); err != nil {
		t.Fatal(err)
	}
	root := func(workspace string) model.Object {
		return model.Object{Workspace: workspace, Kind: "Ingress", Namespace: "shop", Name: "web"}
	}
	want := map[model.Object]model.Class{root("one"): "one:spillway", root("two"): "", root(""): ""}
	w.Stage(func(tx *inc.Tx) {
		for k := range want {
			fleettest.SetRoot(tx, w.Program.In, k, model.Root{}, map[model.Host]model.Rules{"shop.example": {{Matches: []model.Match{{Kind: model.PathPrefix, Path: "/"}}}}})
		}
	})
	w.Commit()
	for k, class := range want {
		if a, _ := w.Program.Attachments.Get(nil, k); a.Classes != model.Classes(class) {
			t.Errorf("%s is of class %q, want %q", k, a.Classes, class)
		}
	}
	if of := model.Class("one:spillway").Object(); of.Workspace != "one" || of.Name != "spillway" {
		t.Errorf("a class is of %v", of)
	}
}

// TestAnotherKindOfFront: who gets which port, which table its hosts are in, whose a
// host is and which collections that makes follow from the row of a front, whatever
// kind of object gives it.
func TestAnotherKindOfFront(t *testing.T) {
	g := inc.New()
	widgets := inc.Input[model.Class, fleet.ClassInfo](g, "widgets")
	p := fleet.Declare(g, widgets)
	const host = "shop.example"
	object := func(c model.Class) model.Object {
		return model.Object{Kind: "Widget", Namespace: "shop", Name: string(c)}
	}
	g.Commit(func(tx *inc.Tx) {
		p.In.Edges.Set(tx, "fra", model.EdgeSpec{Place: model.Place{Region: "eu"}, Networks: []string{"default"}})
		p.In.Classes.Set(tx, "spillway", model.ClassSpec{Origin: model.Origin{Created: 1, Object: model.Object{Kind: "IngressClass", Name: "spillway"}}})
		usual := p.Defaults
		for i, w := range []struct {
			name        model.Class
			http, https uint16
		}{{"beside", usual.HTTPPort, usual.HTTPSPort}, {"apart", 8080, 8443}, {"late", 8443, 0}} {
			config := usual
			config.HTTPPort, config.HTTPSPort = w.http, w.https
			origin := model.Origin{Created: int64(i + 2), Object: object(w.name)}
			widgets.Set(tx, w.name, fleet.ClassInfo{Spec: model.ClassSpec{Origin: origin}, Config: config, Edges: []model.Edge{"fra"}})
		}
		for i, class := range []model.Class{"spillway", "beside", "apart", "late"} {
			root := model.Object{Kind: "Ingress", Namespace: "shop", Name: "of-" + string(class)}
			fleettest.SetRoot(tx, p.In, root, model.Root{Created: int64(i), Classes: model.ClassesOf(class)}, map[model.Host]model.Rules{
				host: {{Matches: []model.Match{{Kind: model.PathPrefix, Path: "/"}}}},
			})
		}
	})

	got := map[model.Class]string{}
	for _, class := range []model.Class{"spillway", "beside", "apart", "late"} {
		binding, bound := p.Binding(nil, class, "fra")
		got[class] = fmt.Sprint(bound, binding.Fronts, bound && p.Owns(nil, "fra", model.HostKey{Class: class, Host: host}))
	}
	want := map[model.Class]string{
		"spillway": "true [front classes=spillway] true",
		"beside":   "true [front classes=beside] false",
		"apart":    "true [front classes=apart table=8080] true",
		"late":     "false [] false",
	}
	for class := range want {
		if got[class] != want[class] {
			t.Errorf("%s is bound %s, want %s", class, got[class], want[class])
		}
	}
	view, _ := p.Views.Get(nil, "fra")
	all, _ := p.Collections.Get(nil, view.Key)
	var names []string
	for _, c := range all {
		names = append(names, c.String())
	}
	for _, name := range []string{
		"sockets port=80", "sockets port=8080 table=8080", "contest classes=spillway,beside", "contest classes=apart table=8080",
		"front classes=spillway", "front classes=beside", "front classes=apart table=8080",
	} {
		if !slices.Contains(names, name) {
			t.Errorf("there is no %q among %q", name, names)
		}
	}
	if lost, _ := p.Findings.Get(nil, object("late")); len(lost) != 1 || lost[0].Reason != model.ReasonConflict {
		t.Errorf("the one that gets no port is told %v", lost)
	}

	g.Commit(func(tx *inc.Tx) { widgets.Delete(tx, "apart") })
	if binding, bound := p.Binding(nil, "late", "fra"); !bound || len(binding.Fronts) != 1 {
		t.Errorf("with the port free, it is bound %v %v", bound, binding.Fronts)
	}
	if lost, ok := p.Findings.Get(nil, object("late")); ok {
		t.Errorf("with the port free, it is told %v", lost)
	}
}

// TestFrontsOfAnyDepth: where requests are looked for among wildcards of any depth
// follows from the fronts that share a port, and never from which hosts they have:
// the first wildcard replaces no listener. What finds it is a collection of those
// that have some in a table, and messages call it as its owner does.
func TestFrontsOfAnyDepth(t *testing.T) {
	w := fleettest.New(nil)
	collections := func(edge model.Edge, kinds ...model.Kind) (out []string) {
		w.Commit()
		view, _ := w.Program.Views.Get(nil, edge)
		all, _ := w.Program.Collections.Get(nil, view.Key)
		for _, c := range all {
			if slices.Contains(kinds, c.Kind()) {
				out = append(out, c.String())
			}
		}
		return out
	}
	check := func(when string, edge model.Edge, want []string, kinds ...model.Kind) {
		t.Helper()
		if got := collections(edge, kinds...); !slices.Equal(got, want) {
			t.Errorf("%s %s has %q, want %q", when, edge, got, want)
		}
	}
	doAll := func(lines ...string) {
		t.Helper()
		if _, err := w.Do(lines...); err != nil {
			t.Fatal(err)
		}
	}
	doAll("edge fra region=eu pool=192.0.2.7~10.9.0.1", "edge nyc region=us", "class spillway default", "front gate names=fra deep continues", "front alone names=fra deep continues own",
		"ingress shop/web *.shop.example/->web:80", "ingress shop/gate class=gate shop.example/->web:80", "ingress shop/alone class=alone shop.example/->web:80")
	sockets := []string{"sockets port=80 deep", "sockets port=80 bind=10.9.0.1 deep table=@alone"}
	check("without any", "fra", sockets, model.Sockets)
	check("beside none", "nyc", []string{"sockets port=80"}, model.Sockets)
	check("without any", "fra", nil, model.Wildcards)

	doAll("ingress shop/gate class=gate shop.example/->web:80 **.shop.example/->web:80", "ingress shop/alone class=alone **.shop.example/->web:80",
		"ingress shop/late class=gate age=99 **.shop.example/->web:80")
	check("with some", "fra", sockets, model.Sockets)
	check("with some", "fra", []string{"wildcards classes=gate", "wildcards classes=alone table=@alone"}, model.Wildcards)
	check("beside some", "nyc", nil, model.Wildcards)
	late := model.Object{Kind: "Ingress", Namespace: "shop", Name: "late"}
	if lost, _ := w.Program.Findings.Get(nil, late); len(lost) == 0 || !strings.Contains(lost[0].Message, "host *.shop.example") {
		t.Errorf("who lost the wildcard is told %v", lost)
	}
	for _, host := range []model.Host{"*.shop.example", "**.shop.example"} { // of one text for users, and two hosts
		if of := w.Program.HostsNamed.Keys(nil, host); len(of) == 0 || slices.ContainsFunc(of, func(k model.HostKey) bool { return (k.Class == "spillway") == host.Deep() }) {
			t.Errorf("%s is of %v", host, of)
		}
	}

	doAll("ingress shop/gate class=gate shop.example/->web:80", "delete ingress shop/alone", "delete ingress shop/late")
	check("after all", "fra", sockets, model.Sockets)
	check("after all", "fra", nil, model.Wildcards)
}
