package envoy

import (
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/spillway-dev/spillway/internal/fleet"
	"github.com/spillway-dev/spillway/internal/inc"
	"github.com/spillway-dev/spillway/internal/model"
	"github.com/spillway-dev/spillway/internal/steer"
	"github.com/spillway-dev/spillway/internal/xds"
	"github.com/spillway-dev/spillway/internal/xds/bootstrap"
	"github.com/spillway-dev/spillway/internal/xds/envoytest"
)

const checkMethod = "/grpc.health.v1.Health/Check"

// TestClientBalances: a channel to xds:///HOST spreads requests over the
// localities of the first tier by their weights.
func TestClientBalances(t *testing.T) {
	r := newClientRig(t)
	at := servers(t, 3)
	a, b, far := at[0], at[1], at[2]
	r.commit(func(tx *inc.Tx) {
		r.shop(tx, "shop/web/grpc", at[:1])
		r.group(tx, "shop/web/grpc", "eu-2", b)
		r.group(tx, "shop/web/grpc", "us-1", far)
		heavy := share("eu-1", 0)
		heavy.Weight = 3
		r.plan(tx, testView, "shop/web/grpc", heavy, share("eu-2", 0), share("us-1", 1))
	})
	c := r.dial(t, shopHost)
	got := map[uint16]int{}
	envoytest.Until(t, "both localities to serve", func() bool { // connections open one after the other
		c.answered(t, got)
		return got[a.Port] > 0 && got[b.Port] > 0
	})
	clear(got)
	for range 400 {
		c.answered(t, got)
	}
	t.Logf("3 to 1: %d and %d", got[a.Port], got[b.Port])
	if got[far.Port] > 0 || 2*got[a.Port] < 3*got[b.Port] || got[b.Port] == 0 {
		t.Errorf("requests went to %v; 3 parts are for %d, 1 for %d, none for %d", got, a.Port, b.Port, far.Port)
	}
}

// TestClientOfParts: a client follows the entries of a backend in parts, and
// reaches all of its endpoints; when a part empties, the next one serves.
func TestClientOfParts(t *testing.T) {
	r := newClientRigOf(t, fourParts)
	eps := twoOfEachPart(servers(t, 64))
	r.commit(func(tx *inc.Tx) {
		r.shop(tx, "shop/web/grpc", slices.Clone(eps))
		r.t.LastParts.Set(tx, backend("shop/web/grpc"), 4) // and it stays so
	})
	if n := len(r.t.Clients.Clusters.Keys()); n != 8 {
		t.Fatalf("%d clusters, want 4 parts and 4 entries", n)
	}
	c := r.dial(t, shopHost)
	got := map[uint16]int{}
	envoytest.Until(t, "all endpoints to serve", func() bool {
		c.answered(t, got)
		return len(got) == len(eps)
	})
	left := slices.DeleteFunc(slices.Clone(eps), func(e model.Endpoint) bool { return endpoint{addr: e.Addr, port: e.Port}.part(4) == 0 })
	r.commit(func(tx *inc.Tx) { r.group(tx, "shop/web/grpc", "eu-1", left...) })
	for range 100 {
		c.answered(t, got)
	}
}

// twoOfEachPart takes eight endpoints of all: their ports, which are chance,
// decide in which of four parts they are, and the number of parts is to stay.
func twoOfEachPart(all []model.Endpoint) (out []model.Endpoint) {
	n := map[int]int{}
	for _, e := range all {
		if part := (endpoint{addr: e.Addr, port: e.Port}).part(4); n[part] < 2 {
			n[part]++
			out = append(out, e)
		}
	}
	return out
}

// TestClientFollowsChanges: requests go on while the endpoints change, then the
// tiers, then the routes, and none fails but for one reason, which is grpc-go's
// own: it uses new routes an instant before its balancer knows a cluster that
// they name for the first time (1.84, ClientConn.updateResolverStateAndUnlock).
func TestClientFollowsChanges(t *testing.T) {
	r := newClientRig(t)
	at := servers(t, 4)
	r.commit(func(tx *inc.Tx) { r.shop(tx, "shop/web/grpc", at[:1]) })
	x := r.dial(t, shopHost).traffic(t)
	x.reaches(t, at[0])
	r.commit(func(tx *inc.Tx) { r.group(tx, "shop/web/grpc", "eu-1", at[1]) })
	x.reaches(t, at[1])
	r.commit(func(tx *inc.Tx) {
		r.group(tx, "shop/web/grpc", "us-1", at[2])
		lost := share("eu-1", 0)
		lost.State = steer.Failed
		r.plan(tx, testView, "shop/web/grpc", lost, share("us-1", 1))
	})
	x.reaches(t, at[2])
	if n := x.early.Load(); n > 0 {
		t.Errorf("%d requests failed though no route changed", n)
	}
	r.commit(func(tx *inc.Tx) { // another cluster, and the old one gone, in one commit
		r.shop(tx, "shop/new/grpc", at[3:], fleet.Route{Match: prefix("/other.Service"), Target: target("web")})
		r.needs.Delete(tx, need{view: testView, backend: backend("shop/web/grpc")})
	})
	x.reaches(t, at[3])
	r.commit(func(tx *inc.Tx) {
		r.site(tx, shopHost, "shop/web/grpc", fleet.Route{Match: prefix("/grpc.health.v1.Health"), Target: target("web", "shop/new/grpc")})
		r.group(tx, "shop/new/grpc", "eu-1", at[0])
	})
	x.reaches(t, at[0])
	x.stop(t)
	t.Logf("%d requests, %d before the balancer knew their cluster", x.sent.Load(), x.early.Load())
}

// TestClientRoutes: what a match means to a client is what it means to a proxy.
func TestClientRoutes(t *testing.T) {
	r := newClientRig(t)
	at := servers(t, 2)
	right, wrong := at[0], at[1]
	for name, c := range map[string]struct {
		match model.Match
		hit   bool
	}{
		"exact":             {exact(checkMethod), true},
		"exact, other":      {exact(checkMethod + "s"), false},
		"service":           {prefix("/grpc.health.v1.Health"), true},
		"method as prefix":  {prefix(checkMethod), true},
		"part of a service": {prefix("/grpc.health.v1.Heal"), false},
		"everything":        {prefix("/"), true},
		"pattern":           {model.Match{Kind: model.PathRegex, Path: "/grpc[.]health[.].*/C.*"}, true},
		"pattern, part":     {model.Match{Kind: model.PathRegex, Path: "/grpc[.]health[.]v1"}, false},
		"calls":             {model.Match{Kind: model.PathPrefix, Path: "/", When: model.ConditionsKey{Method: "POST"}.Conditions()}, true},
		"other methods":     {model.Match{Kind: model.PathPrefix, Path: "/", When: model.ConditionsKey{Method: "GET"}.Conditions()}, false},
		"query":             {model.Match{Kind: model.PathPrefix, Path: "/", When: model.ConditionsKey{Query: model.ValuesOf(model.ValueMatch{Name: "q"})}.Conditions()}, false},
		"header":            {model.Match{Kind: model.PathPrefix, Path: "/", When: model.ConditionsKey{Headers: model.ValuesOf(model.ValueMatch{Name: "x", Value: "1"})}.Conditions()}, false},
	} {
		t.Run(name, func(t *testing.T) {
			host := model.Host(strings.NewReplacer(" ", "-", ",", "").Replace(name) + ".example")
			r.commit(func(tx *inc.Tx) {
				r.site(tx, host, "shop/wrong/grpc", fleet.Route{Match: c.match, Target: target("web", "shop/right/grpc")})
				r.serves(tx, "shop/right/grpc", right)
				r.serves(tx, "shop/wrong/grpc", wrong)
			})
			want := wrong
			if c.hit {
				want = right
			}
			r.dial(t, host).goesTo(t, want)
		})
	}
}

// TestClientWithoutBackend: a match without a usable backend fails at once, and
// no shorter one takes its requests. So does a host without endpoints.
func TestClientWithoutBackend(t *testing.T) {
	r := newClientRig(t)
	r.commit(func(tx *inc.Tx) {
		r.shop(tx, "shop/web/grpc", servers(t, 1), fleet.Route{Match: prefix("/grpc.health.v1.Health"), Target: target("web")})
		r.site(tx, "empty.example", "shop/empty/grpc")
	})
	for _, name := range []model.Host{shopHost, "empty.example"} {
		if port, err := r.dial(t, name).call(t); status.Code(err) != codes.Unavailable {
			t.Errorf("%s: %d %v", name, port, err)
		}
	}
}

// TestClientLookup: an ExternalName is looked up by the client.
func TestClientLookup(t *testing.T) {
	r := newClientRig(t)
	at := servers(t, 1)[0]
	r.commit(func(tx *inc.Tx) {
		id := r.site(tx, shopHost, "shop/out/grpc")
		r.p.Backends.Set(tx, id.backend, fleet.Backend{AppProtocol: "grpc", External: true})
		r.p.Groups.Set(tx, fleet.GroupID{Backend: id.backend, Member: "eu-1"}, fleet.Group{Rare: &fleet.RareGroup{External: "localhost", Port: at.Port}})
		r.p.Groups.Set(tx, fleet.GroupID{Backend: id.backend, Member: "us-1"}, fleet.Group{Rare: &fleet.RareGroup{External: "far.invalid", Port: 1}})
		failed := share("eu-0", 0)
		failed.State = steer.Failed
		r.plan(tx, testView, "shop/out/grpc", failed, share("eu-1", 1), share("us-1", 2))
	})
	r.dial(t, shopHost).goesTo(t, at)
}

// TestClientRejects: a client goes on with what it had, and says which resource
// it refused and why; its words reach the object that the resource was made of.
func TestClientRejects(t *testing.T) {
	r := newClientRig(t)
	at := servers(t, 1)
	r.commit(func(tx *inc.Tx) { r.shop(tx, "shop/web/grpc", at) })
	x := r.dial(t, shopHost).traffic(t)
	x.reaches(t, at[0])
	r.commit(func(tx *inc.Tx) { // one address twice, which clients refuse
		r.group(tx, "shop/web/grpc", "eu-2", at...)
		r.plan(tx, testView, "shop/web/grpc", share("eu-1", 0), share("eu-2", 0))
	})
	var said xds.ProxyVerdict
	envoytest.Until(t, "the client to refuse the assignment", func() bool {
		_, verdicts := r.reports.Take()
		for _, v := range verdicts {
			if v.Error != "" {
				said = v
			}
		}
		return said.Error != ""
	})
	if said.Class != xds.GRPC || said.Type != xds.ClusterLoadAssignment || said.Name != "shop/web/grpc/h2c" || !strings.Contains(said.Error, "duplicate endpoint") {
		t.Errorf("it said %+v", said)
	}
	r.commit(func(tx *inc.Tx) {
		id := model.RejectionID{Edge: "fra", Type: string(said.Type), Name: said.Name, GRPC: true}
		r.p.In.Rejections.Set(tx, id, model.Rejection{Version: said.Version, Error: said.Error, By: []model.Refuser{{Node: said.Node, Version: said.Envoy}}})
	})
	fs, ok := r.t.Findings.Get(nil, rootObject("web"))
	if !ok || !strings.Contains(fs[0].Message, " of edge fra refused the ClusterLoadAssignment") {
		t.Errorf("the Ingress is told %v", fs)
	}
	x.stop(t)
	r.commit(func(tx *inc.Tx) { r.plan(tx, testView, "shop/web/grpc", share("eu-1", 0)) })
	if _, ok := r.t.Findings.Get(nil, rootObject("web")); ok {
		t.Error("the finding stays after the cause is gone")
	}
}

// TestClientsCostNothing: an edge without gRPC clients has no row for them, and
// the last that leaves takes them along.
func TestClientsCostNothing(t *testing.T) {
	w := newWorld()
	rows := func() (n int) {
		for _, typ := range w.t.Clients.Types() {
			if typ.URL != AssignmentType { // those are of the vantage
				n += len(typ.Table.Keys())
			}
		}
		return n + w.t.Clients.hosts.Len() + w.t.Clients.shapes.Len()
	}
	w.g.Commit(func(tx *inc.Tx) {
		w.plain(tx)
		def := target("web", "shop/web/grpc")
		w.host(tx, testClass, "shop.example", &def)
		w.host(tx, testClass, "*.shop.example", &def)
		w.use(tx, testView, "shop/web/grpc", "grpc")
	})
	if n := rows(); n != 0 {
		t.Errorf("%d rows for nobody", n)
	}
	w.g.Commit(func(tx *inc.Tx) { w.t.Clients.Demand.Set(tx, "fra", model.There{}) })
	if n := rows(); n != 5 {
		t.Errorf("%d rows for one host and one backend: %v", n, w.t.Clients.Listeners.Keys())
	}
	w.g.Commit(func(tx *inc.Tx) { w.t.Clients.Demand.Delete(tx, "fra") })
	if n := rows(); n != 0 {
		t.Errorf("%d rows stay", n)
	}
}

// TestClientsOfAClassWithoutPorts: what no proxy of the edge answers because others
// have the class's ports, clients do not find either; they do once it has a port.
func TestClientsOfAClassWithoutPorts(t *testing.T) {
	w := newWorld()
	younger := func(http, https uint16) bool {
		w.g.Commit(func(tx *inc.Tx) { w.class(tx, "younger", 2, http, https) })
		_, ok := w.lookIn(w.t.Clients.Listeners, testView, "its.example")
		return ok
	}
	w.g.Commit(func(tx *inc.Tx) {
		w.plain(tx)
		w.together(tx, "younger")
		w.class(tx, "younger", 2, httpsPort, httpPort) // swapped: both are lost
		to := target("other", "shop/web/http")
		w.host(tx, "younger", "its.example", &to)
		w.t.Clients.Demand.Set(tx, "fra", model.There{})
	})
	for _, c := range []struct {
		http, https uint16
		want        bool
	}{{httpsPort, httpPort, false}, {httpPort, httpPort, true}, {httpsPort, httpPort, false}, {httpPort, httpsPort, true}} {
		if got := younger(c.http, c.https); got != c.want {
			t.Errorf("ports %d and %d: a client finds its host: %v, want %v", c.http, c.https, got, c.want)
		}
	}
}

// TestClientsWaysIn: what the bootstrap says works over mTLS and a unix socket.
func TestClientsWaysIn(t *testing.T) {
	r := newClientRig(t)
	at := servers(t, 1)
	r.commit(func(tx *inc.Tx) { r.shop(tx, "shop/web/grpc", at) })
	ca := envoytest.NewCA(t)
	cert, key := ca.Leaf(t, "server", envoytest.IP("127.0.0.1"))
	secure, err := xds.ListenTLS("127.0.0.1:0", cert, key, ca.File)
	address := r.listen(t, secure, err)
	path := filepath.Join(t.TempDir(), "xds.sock")
	local, err := xds.ListenUnix(path)
	r.listen(t, local, err)
	mine, mineKey := ca.Leaf(t, "cart", envoytest.URI("spiffe://spillway.test/grpc/fra"))
	for name, o := range map[string]bootstrap.Options{
		"mTLS":        {XDSAddress: address, CA: ca.File, Cert: mine, Key: mineKey},
		"unix socket": {XDSSocket: path},
	} {
		t.Run(name, func(t *testing.T) { dialWith(t, shopHost, o).goesTo(t, at[0]) })
	}
}
