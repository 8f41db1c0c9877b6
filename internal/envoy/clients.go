package envoy

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/spillway-dev/spillway/internal/fleet"
	"github.com/spillway-dev/spillway/internal/inc"
	"github.com/spillway-dev/spillway/internal/model"
)

// ClientTables are the resources of gRPC clients, by the view of the edge that
// a client belongs to. Where a request goes is decided as for the edge's
// proxies: the hosts, the plans and the assignments are the same.
//
// A view has rows of its own only while Demand has one of its edges, so that an edge
// without gRPC clients costs nothing.
type ClientTables struct {
	Demand *inc.Table[model.Edge, model.There] // input: edges that have gRPC clients
	Views  *inc.Table[model.View, model.There] // their views

	Listeners   *inc.Table[Key, Resource] // one a host, named as it
	Routes      *inc.Table[Key, Resource] // the same
	Clusters    *inc.Table[Key, Resource] // named as those of proxies
	Assignments *Assignments              // those of proxies

	d      *derivation
	claims *inc.Index[Key, model.HostKey, *wanted]
	hosts  *inc.Table[model.HostKey, Resource]
	needs  *inc.Index[Key, fleet.NeedID, *clientNeed]
	shapes *inc.Table[clientShape, Resource]
}

// Types lists the tables in the order in which new names are sent.
func (t *ClientTables) Types() []Type {
	return []Type{
		{ClusterType, t.Clusters}, {AssignmentType, t.Assignments},
		{ListenerType, t.Listeners}, {RouteType, t.Routes},
	}
}

// wanted is the views in which clients may ask for a host.
type wanted struct{ views []model.View }

func (a *wanted) Equal(b *wanted) bool { return slices.Equal(a.views, b.views) }

// String is the views.
func (a *wanted) String() string { return fmt.Sprint(a.views) }

func declareClients(g *inc.Graph, d *derivation, assignments *Assignments) *ClientTables {
	t := &ClientTables{d: d, Assignments: assignments, Demand: inc.Input[model.Edge, model.There](g, "grpc.Demand")}
	edges := inc.Derive(g, "grpc.edges", func(r *inc.Reader, edge model.Edge) (inc.Val[model.View], bool) {
		row, ok := d.p.Views.Get(r, edge)
		return inc.ValOf(row.Key), ok
	}, t.Demand)
	views := inc.IndexBy(edges, func(_ model.Edge, w inc.Val[model.View]) []model.View { return []model.View{w.V} })
	t.Views = inc.Derive(g, "grpc.Views", func(*inc.Reader, model.View) (model.There, bool) { return model.There{}, true }, views)
	bound := inc.Derive(g, "grpc.bound", t.boundIn, t.Views)
	viewsOfClass := inc.IndexBy(bound, func(_ model.View, classes inc.List[model.Class]) []model.Class { return classes })
	t.declareHosts(g, viewsOfClass)
	t.declareBackends(g, viewsOfClass)
	return t
}

// boundIn are the classes that some edge of a view listens for: a class that lost its
// ports everywhere has no host for clients either.
func (t *ClientTables) boundIn(r *inc.Reader, view model.View) (inc.List[model.Class], bool) {
	edges := t.d.p.EdgesOfView.Keys(r, view)
	var out inc.List[model.Class]
	for _, c := range fleet.ClassesOf(view.Classes()) {
		if slices.ContainsFunc(edges, func(e model.Edge) bool { _, ok := t.d.p.Binding(r, c, e); return ok }) {
			out = append(out, c)
		}
	}
	return out, true
}

func (t *ClientTables) declareHosts(g *inc.Graph, viewsOfClass *inc.Index[model.Class, model.View, inc.List[model.Class]]) {
	asked := inc.Derive(g, "grpc.asked", func(r *inc.Reader, key model.HostKey) (*wanted, bool) {
		if !key.Host.Exact() {
			return nil, false // a client asks for one name, and gets what has this name
		}
		views := viewsOfClass.Keys(r, key.Class)
		if len(views) == 0 {
			return nil, false
		}
		return &wanted{views}, true
	}, t.d.p.Hosts)
	inc.Shared(asked, viewsOfClass)
	t.claims = inc.IndexBy(asked, func(key model.HostKey, w *wanted) []Key {
		out := make([]Key, len(w.views))
		for i, view := range w.views {
			out[i] = Key{view.Clients(), string(key.Host)}
		}
		return out
	})
	t.hosts = inc.Derive(g, "grpc.hosts", t.hostOf, asked)
	t.Listeners = inc.Derive(g, "grpc.Listeners", func(_ *inc.Reader, k Key) (Resource, bool) {
		return seal(k.Name, clientListener(k.Name), Ref{Type: RouteType, Name: k.Name}), true
	}, t.claims)
	t.Routes = inc.Derive(g, "grpc.Routes", func(r *inc.Reader, k Key) (Resource, bool) {
		return t.hosts.Get(r, t.winner(r, k))
	}, t.claims)
}

func (t *ClientTables) declareBackends(g *inc.Graph, viewsOfClass *inc.Index[model.Class, model.View, inc.List[model.Class]]) {
	needs := inc.Derive(g, "grpc.needs", func(r *inc.Reader, need fleet.NeedID) (*clientNeed, bool) {
		views := viewsOfClass.Keys(r, need.Front.Class())
		if len(views) == 0 {
			return nil, false
		}
		n, ok := t.d.needs.Get(r, need)
		n.conn = model.Dial{} // clients have timeouts of their own
		return &clientNeed{n, views}, ok && n.tls == (model.UpstreamTLS{})
	}, t.d.needs)
	inc.Shared(needs, viewsOfClass)
	t.needs = inc.IndexBy(needs, func(_ fleet.NeedID, n *clientNeed) []Key {
		var out []Key
		for _, view := range n.views {
			out = append(out, clusterKeys(view.Clients(), n.clusterName)...)
		}
		return out
	})
	shapes := inc.IndexBy(needs, func(need fleet.NeedID, n *clientNeed) []clientShape {
		var out []clientShape
		for _, name := range n.clusters() {
			out = append(out, clientShape{need.Backend, name})
		}
		return out
	})
	t.shapes = inc.Derive(g, "grpc.shapes", func(r *inc.Reader, s clientShape) (Resource, bool) {
		n, ok := t.d.clusterNames.Get(r, s.backend)
		if !ok || n.external {
			return Resource{}, false
		}
		return clientClusterUnder(n, s.cluster), true
	}, shapes)
	t.Clusters = inc.Derive(g, "grpc.Clusters", t.clusterOf, t.needs)
}

// clientNeed is a backend of a front, and the views of it that have clients.
type clientNeed struct {
	clusterName
	views []model.View
}

func (a *clientNeed) Equal(b *clientNeed) bool {
	return a.clusterName == b.clusterName && slices.Equal(a.views, b.views)
}

// String is the cluster and the views.
func (a *clientNeed) String() string { return fmt.Sprint(a.clusterName, a.views) }

// clientShape is a cluster of a backend.
type clientShape struct {
	backend model.Backend
	cluster string
}

// Compare orders by backend and name.
func (a clientShape) Compare(b clientShape) int {
	return cmp.Or(a.backend.Compare(b.backend), strings.Compare(a.cluster, b.cluster))
}

// winner is the host that a name means: of the oldest class of the view that
// has it.
func (t *ClientTables) winner(r *inc.Reader, k Key) model.HostKey {
	keys := t.claims.Keys(r, k)
	if len(keys) < 2 {
		return append(keys, model.HostKey{})[0]
	}
	return slices.MinFunc(keys, func(a, b model.HostKey) int {
		x, _ := t.d.p.ClassInfo.Get(r, a.Class)
		y, _ := t.d.p.ClassInfo.Get(r, b.Class)
		return cmp.Or(x.Spec.Origin.Compare(y.Spec.Origin), a.Compare(b))
	})
}

func (t *ClientTables) clusterOf(r *inc.Reader, k Key) (Resource, bool) {
	needs := t.needs.Keys(r, k)
	if len(needs) == 0 {
		return Resource{}, false
	}
	if shared, ok := t.shapes.Get(r, clientShape{needs[0].Backend, k.Name}); ok {
		return shared, true
	}
	plan, groups, _ := t.d.planOf(r, fleet.UseID{Vantage: k.Collection.Vantage(), Backend: needs[0].Backend})
	c := clientLookup(k.Name, localities(plan, groups))
	if c == nil {
		return Resource{}, false
	}
	body := sealed(c)
	return versioned(k.Name, body, doubted(model.BodyOf(body), plan, needs[0].Backend)), true
}

// ownersOf returns the roots that a resource was made of, sorted.
func (t *ClientTables) ownersOf(r *inc.Reader, view model.View, typeURL, name string) []model.Object {
	if typeURL == ClusterType || typeURL == AssignmentType {
		return t.d.ownersOf(r, view, typeURL, name, "")
	}
	out := t.d.rootsOfHosts(r, []model.HostKey{t.winner(r, Key{view.Clients(), name})})
	slices.SortFunc(out, model.Object.Compare)
	return slices.Compact(out)
}
