package envoy

import (
	"cmp"
	"net/netip"
	"slices"
	"strings"
	"testing"

	"github.com/spillway-dev/spillway/internal/fleet"
	"github.com/spillway-dev/spillway/internal/fleet/fleettest"
	"github.com/spillway-dev/spillway/internal/inc"
	"github.com/spillway-dev/spillway/internal/model"
	"github.com/spillway-dev/spillway/internal/steer"
)

// world is a program whose derived tables are inputs: a test says what fleet
// and steer decided, and looks at what is made of it.
type world struct {
	g     *inc.Graph
	p     *fleet.Program
	t     *Tables
	specs *inc.Table[model.Class, fleet.ClassInfo] // without edges
	needs *inc.Table[need, model.There]            // of the program
}

func newWorld() *world { return newWorldOf(usual) }

// newWorldOf is a world that writes things another way from other sizes.
func newWorldOf(s sizes) *world {
	g := inc.New()
	p := &fleet.Program{
		Views:    inc.Input[model.Edge, fleet.View](g, "Views"),
		Hosts:    inc.Input[model.HostKey, fleet.Host](g, "Hosts"),
		Realms:   inc.Input[model.HostKey, fleet.Realm](g, "Realms"),
		Chains:   inc.Input[model.HostKey, fleet.Chain](g, "Chains"),
		Groups:   inc.Input[fleet.GroupID, fleet.Group](g, "Groups"),
		Shapes:   inc.Input[fleet.GroupID, fleet.Shape](g, "Shapes"),
		Backends: inc.Input[model.Backend, fleet.Backend](g, "Backends"),
		Plans:    inc.Input[fleet.UseID, steer.Plan](g, "Plans"),
	}
	p.Attachments = inc.Input[model.Object, fleet.Attachment](g, "Attachments")
	p.RootsOfName = inc.IndexBy(p.Attachments, func(model.Object, fleet.Attachment) []model.HostKey { return nil })
	p.In.Edges = inc.Input[model.Edge, model.EdgeSpec](g, "Edges")
	p.In.Certificates = inc.Input[model.SecretID, model.Certificate](g, "Certificates")
	p.In.Zones = inc.Input[model.ZoneID, model.ZoneSpec](g, "Zones")
	p.In.Tenures = inc.Input[model.TenureID, model.Tenure](g, "Tenures")
	p.In.Rejections = inc.Input[model.RejectionID, model.Rejection](g, "Rejections")
	p.EdgesOfView = inc.IndexBy(p.Views, func(_ model.Edge, v fleet.View) []model.View { return []model.View{v.Key} })
	ofClass := inc.IndexBy(p.Views, func(_ model.Edge, v fleet.View) []model.Class { return v.Classes })
	classes := inc.Input[model.Class, fleet.ClassInfo](g, "Classes")
	p.ClassInfo = inc.Derive(g, "ClassInfo", func(r *inc.Reader, c model.Class) (fleet.ClassInfo, bool) {
		row, ok := classes.Get(r, c)
		row.Edges = ofClass.Keys(r, c)
		return row, ok
	}, classes)
	p.ListenerHosts = inc.Input[model.Class, inc.List[model.Host]](g, "ListenerHosts")
	p.DeclareFronts(g)
	needs := inc.Input[need, model.There](g, "Needs")
	at := inc.IndexBy(p.Views, func(_ model.Edge, v fleet.View) []model.Vantage { return []model.Vantage{v.Key.Vantage()} })
	fronts := inc.Derive(g, "FrontsOfNeeds", func(r *inc.Reader, n need) (inc.List[model.Collection], bool) {
		var out inc.List[model.Collection]
		for _, view := range at.Get(r, n.view.Vantage()) {
			for _, class := range view.Classes {
				if o, ok := p.Outlets.Get(r, class); ok {
					out = append(out, o.Fronts...)
				}
			}
		}
		slices.SortFunc(out, model.Collection.Compare)
		return slices.Compact(out), true
	}, needs)
	p.Needs = inc.IndexBy(fronts, func(n need, in inc.List[model.Collection]) []fleet.NeedID {
		out := make([]fleet.NeedID, len(in))
		for i, front := range in {
			out[i] = fleet.NeedID{Front: front, Backend: n.backend, Dial: n.dial}
		}
		return out
	})
	p.Uses = inc.IndexBy(needs, func(n need, _ model.There) []fleet.UseID { return []fleet.UseID{n.use()} })
	return &world{g, p, declare(g, p, s), classes, needs}
}

// overHTTP2 is how hosts of calls connect.
var overHTTP2 = model.Dial{}.OverHTTP2()

// need is a backend that a view needs.
type need struct {
	view    model.View
	backend model.Backend
	dial    model.Dial
}

func (a need) Compare(b need) int {
	return cmp.Or(a.view.Compare(b.view), a.backend.Compare(b.backend), a.dial.Compare(b.dial))
}

func (a need) use() fleet.UseID { return fleet.UseID{Vantage: a.view.Vantage(), Backend: a.backend} }

// held are the collections of a view, those of its gRPC clients too; of the usual
// one, of what edge fra has by now.
func (w *world) held(view model.View) []model.Collection {
	if now, ok := w.p.Views.Get(nil, "fra"); ok && view == testView {
		view = now.Key
	}
	all, _ := w.p.Collections.Get(nil, view)
	return append(slices.Clone(all), view.Clients())
}

// together has edge fra serve other classes beside the usual one.
func (w *world) together(tx *inc.Tx, others ...string) {
	key := testView.Key()
	key.Classes = strings.Join(append([]string{key.Classes}, others...), ",")
	w.edge(tx, "fra", key.View())
}

// lookIn finds what a view has under a name.
func (w *world) lookIn(table Rows, view model.View, name string) (Resource, bool) {
	for _, c := range w.held(view) {
		if res, ok := table.Get(nil, Key{c, name}); ok {
			return res, true
		}
	}
	return Resource{}, false
}

// has tells whether a view has a collection.
func (w *world) has(view model.View, c model.Collection) bool {
	return slices.Contains(w.held(view), c)
}

// newProgram is a world in which fleet and steer decide, and commands write rows.
func newProgram() (*fleettest.World, *world) {
	var w *world
	fw := fleettest.New(func(g *inc.Graph, p *fleet.Program) map[string]fleettest.Command {
		w = &world{g: g, p: p, t: Declare(g, p)}
		return nil
	})
	return fw, w
}

// timingForTests is short where a test waits for it.
var timingForTests = model.Timing{ConnectTimeout: 250, PerTryTimeout: 400}

const (
	httpPort  = 10080
	httpsPort = 10443
)

var (
	testClass = model.Class("spillway")
	fra       = model.Place{Region: "eu", Zone: "eu-a"}
	testView  = model.ViewKey{Classes: "spillway", VantageKey: model.VantageKey{Networks: "default", Place: fra}}.View()
)

// class adds a class with ports, and an edge that serves it alone if there is none.
func (w *world) class(tx *inc.Tx, name model.Class, age int64, httpPort, httpsPort uint16) {
	w.classWith(tx, name, age, httpPort, httpsPort, static, false)
}

func (w *world) classWith(tx *inc.Tx, name model.Class, age int64, httpPort, httpsPort uint16, certificates delivery, deep bool) {
	w.specs.Set(tx, name, classInfo(name, age, httpPort, httpsPort, certificates, deep))
}

// classInfo is a class with ports.
func classInfo(name model.Class, age int64, httpPort, httpsPort uint16, certificates delivery, deep bool) fleet.ClassInfo {
	return fleet.ClassInfo{
		Spec:   model.ClassSpec{Origin: model.Origin{Created: age, Object: model.Object{Kind: "IngressClass", Name: string(name)}}},
		Config: model.ConfigSpec{HTTPPort: httpPort, HTTPSPort: httpsPort, OnDemand: bool(certificates), ExternalNames: true, Timing: timingForTests},
		Deep:   deep,
	}
}

func (w *world) edge(tx *inc.Tx, name model.Edge, view model.View) {
	var classes []model.Class
	for c := range strings.SplitSeq(view.Classes(), ",") {
		classes = append(classes, model.Class(c))
	}
	w.p.In.Edges.Set(tx, name, model.EdgeSpec{Place: view.Place(), Addresses: []netip.Addr{netip.MustParseAddr("192.0.2.1")}})
	w.p.Views.Set(tx, name, fleet.View{Key: view, Classes: classes})
}

// plain is the usual world: one class, one edge.
func (w *world) plain(tx *inc.Tx) {
	w.class(tx, testClass, 1, httpPort, httpsPort)
	w.edge(tx, "fra", testView)
}

// backend parses "shop/web/http", "shop/web/tcp:sql", "shop/web/tls:sql" or "shop/web/udp:dns".
func backend(s string) model.Backend {
	part := strings.Split(s, "/")
	port := model.PortRef{Name: part[2]}
	if what, name, relayed := strings.Cut(part[2], ":"); relayed {
		port = model.PortRef{Name: name, For: map[string]model.Traffic{"tcp": model.Connections, "tls": model.Connections, "udp": model.Datagrams}[what], Pass: what == "tls"}
	}
	return model.BackendKey{Service: model.ServiceOf(part[0], part[1]), Port: port}.Backend()
}

// use makes a backend known and needed.
func (w *world) use(tx *inc.Tx, view model.View, name string, appProtocol string) need {
	b := backend(name)
	w.p.Backends.Set(tx, b, fleet.Backend{AppProtocol: appProtocol})
	id := need{view: view, backend: b}
	w.needs.Set(tx, id, model.There{})
	return id
}

func (w *world) group(tx *inc.Tx, name string, member model.Member, eps ...model.Endpoint) {
	slices.SortFunc(eps, func(a, b model.Endpoint) int { return cmp.Or(a.Addr.Compare(b.Addr), cmp.Compare(a.Port, b.Port)) })
	id := fleet.GroupID{Backend: backend(name), Member: member}
	w.p.Groups.Set(tx, id, fleet.Group{Endpoints: model.EndpointsOf(eps...)})
	w.p.Shapes.Set(tx, id, fleet.Shape{Zones: []fleet.ZoneCount{{Ready: uint32(len(eps))}}})
}

func (w *world) plan(tx *inc.Tx, view model.View, name string, shares ...steer.Share) {
	w.p.Plans.Set(tx, need{view: view, backend: backend(name)}.use(), steer.Plan{Shares: shares})
}

func share(member model.Member, tier int) steer.Share {
	return steer.Share{Member: member, Place: model.Place{Region: strings.Split(string(member), "-")[0]}.Spot(), Tier: tier, Weight: 1}
}

func rootObject(name string) model.Object {
	return model.Object{Kind: "Ingress", Namespace: "shop", Name: name}
}

func target(root string, backends ...string) fleet.Target {
	t := fleet.Target{Root: rootObject(root)}
	for _, b := range backends {
		t.Backends = append(t.Backends, model.WeightedBackend{Backend: backend(b), Weight: 1})
	}
	return t
}

func prefix(path string) model.Match { return model.Match{Kind: model.PathPrefix, Path: path} }
func exact(path string) model.Match  { return model.Match{Kind: model.PathExact, Path: path} }

// host adds a host with routes by one root.
func (w *world) host(tx *inc.Tx, class model.Class, name model.Host, def *fleet.Target, routes ...fleet.Route) {
	w.p.Hosts.Set(tx, model.HostKey{Class: class, Host: name}, fleet.Host{Routes: routes, Default: def, Roots: []model.Object{rootObject("web")}, Lookups: true}) // some are of an ExternalName
}

func endpointAt(addr string, port uint16) model.Endpoint {
	return model.Endpoint{Addr: netip.MustParseAddr(addr), Port: port}
}

// get returns a resource of the usual view.
func (w *world) get(t *testing.T, table Rows, name string) Resource {
	t.Helper()
	res, ok := w.lookIn(table, testView, name)
	if !ok {
		t.Fatalf("no resource %s; there are %v", name, table.Keys())
	}
	return res
}
