package main

import (
	"fmt"
	"net/netip"

	"github.com/spillway-dev/spillway/internal/envoy"
	"github.com/spillway-dev/spillway/internal/fleet"
	"github.com/spillway-dev/spillway/internal/inc"
	"github.com/spillway-dev/spillway/internal/model"
	"github.com/spillway-dev/spillway/internal/xds"
)

// perHost is how many endpoints back each host, half of them in each of two members.
const perHost = 10

var members = []model.Member{"eu-1", "us-1"}

// world is a program with n hosts, each with a Service and ten endpoints of
// its own, one edge, and a store that gets what changes.
type world struct {
	n     int
	graph *inc.Graph
	prog  *fleet.Program
	res   *envoy.Tables
	store *xds.Store

	pending []xds.Change
	evals   int
}

func newWorld(n int) *world {
	g := inc.New()
	w := &world{n: n, graph: g, store: xds.NewStore()}
	w.prog = fleet.Declare(g)
	w.res = envoy.Declare(g, w.prog)
	for _, t := range w.res.Types() {
		t.Table.Watch(func(changes []inc.Change[envoy.Key, envoy.Resource]) { w.collect(t.URL, changes) })
	}
	return w
}

func (w *world) collect(typ string, changes []inc.Change[envoy.Key, envoy.Resource]) {
	for _, c := range changes {
		change := xds.Change{Type: xds.TypeURL(typ), Name: c.Key.Name}
		if c.New != nil {
			r := &xds.Resource{Name: c.New.Name, Version: c.New.Version, Body: c.New.Body}
			for _, ref := range c.New.Refs {
				r.Refs = append(r.Refs, xds.Ref{Type: xds.TypeURL(ref.Type), Name: ref.Name})
			}
			change.Resource = r
		}
		w.pending = append(w.pending, change)
	}
}

// commit is one turn of the loop: rows in, resources out.
func (w *world) commit(write func(*inc.Tx)) {
	stats := w.graph.Commit(write)
	w.evals = stats.Evaluated
	if len(w.pending) > 0 {
		w.store.Publish(w.view(), w.pending)
		w.pending = nil
	}
}

func (w *world) view() string {
	v, _ := w.prog.Views.Get(nil, "fra")
	return v.Key.String()
}

// load writes the fleet, then the hosts in batches as the mailbox would.
func (w *world) load() {
	in := &w.prog.In
	w.commit(func(tx *inc.Tx) {
		for i, m := range members {
			place := model.Place{Region: string(m[:2]), Latitude: 50, Longitude: float64(-70 * i), Located: true}
			in.Members.Set(tx, m, model.MemberSpec{Created: int64(i), Place: place, Networks: []string{"default"}})
			in.Sources.Set(tx, m, model.Source{Connected: true})
		}
		in.Classes.Set(tx, "spillway", model.ClassSpec{Origin: model.Origin{Object: model.Object{Kind: "IngressClass", Name: "spillway"}}, Default: true})
		in.Edges.Set(tx, "fra", model.EdgeSpec{Place: model.Place{Region: "eu", Zone: "eu-a", Latitude: 50, Located: true}, Networks: []string{"default"}, Addresses: []netip.Addr{netip.MustParseAddr("192.0.2.1")}})
	})
	const batch = 1000
	for first := 0; first < w.n; first += batch {
		w.commit(func(tx *inc.Tx) {
			for i := first; i < min(first+batch, w.n); i++ {
				w.host(tx, i, 0)
				for m := range members {
					w.slice(tx, i, m, 0)
				}
			}
		})
	}
}

func service(i int) model.Service {
	return model.Service{Namespace: fmt.Sprintf("team-%03d", i%200), Name: fmt.Sprintf("svc-%06d", i)}
}

// host writes the root of host i; edits differ in a path.
func (w *world) host(tx *inc.Tx, i, edit int) {
	svc := service(i)
	backend := model.Backend{Service: svc, Port: model.PortRef{Name: "http"}}
	id := model.Object{Kind: "Ingress", Namespace: svc.Namespace, Name: svc.Name}
	host := model.Host(fmt.Sprintf("h%06d.apps.example", i))
	w.prog.In.Roots.Set(tx, id, model.Root{Origin: model.Origin{Created: int64(i), Object: id}, Rules: []model.Rule{
		{Host: host, Match: model.Match{Kind: model.PathPrefix, Path: fmt.Sprintf("/v%d", edit)}, Backends: []model.WeightedBackend{{Backend: backend, Weight: 1}}},
	}})
	for _, m := range members {
		w.prog.In.Services.Set(tx, model.MemberService{Service: svc, Member: m},
			model.ServiceSpec{Ports: []model.ServicePort{{Name: "http", Number: 80, Protocol: "TCP"}}})
	}
}

// slice writes the endpoints of host i in member m; flips differ in one address.
func (w *world) slice(tx *inc.Tx, i, m, flip int) {
	id := model.SliceID{MemberService: model.MemberService{Service: service(i), Member: members[m]}, Name: fmt.Sprintf("svc-%06d-x", i)}
	eps := make([]model.Endpoint, perHost/len(members))
	for e := range eps {
		last := byte(e + 1)
		if e == len(eps)-1 {
			last = byte(100 + flip%100)
		}
		addr := netip.AddrFrom4([4]byte{byte(10 + 16*m + i>>16), byte(i >> 8), byte(i), last})
		eps[e] = model.Endpoint{Addr: addr, Zone: model.ZoneOf(string(members[m][:2]) + "-a")}
	}
	w.prog.In.Slices.Set(tx, id, model.Slice{Ports: []model.SlicePort{{Name: "http", Number: 8080}}, Endpoints: eps})
}
