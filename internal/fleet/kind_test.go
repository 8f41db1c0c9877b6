package fleet_test

import (
	"net/netip"
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
			in.Slices.Set(tx, model.SliceID{MemberService: at, Name: "web-1"}, model.Slice{Ports: []model.SlicePort{{Number: 8080}}, Endpoints: []model.Endpoint{{Addr: ip}}})
		}
	})
	w.Commit()
	for _, k := range backends {
		b := k.Backend()
		group, _ := w.Program.Groups.Get(nil, fleet.GroupID{Backend: b, Member: "eu-1"})
		if want := addresses[b.Service()]; len(group.Endpoints) != 1 || group.Endpoints[0].Addr != want {
			t.Errorf("%s has %v, want %s", b, group.Endpoints, want)
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
