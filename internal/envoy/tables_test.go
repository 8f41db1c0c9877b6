package envoy

import (
	"fmt"
	"testing"

	clusterv3 "github.com/envoyproxy/go-control-plane/envoy/config/cluster/v3"
	endpointv3 "github.com/envoyproxy/go-control-plane/envoy/config/endpoint/v3"

	"github.com/spillway-dev/spillway/internal/fleet"
	"github.com/spillway-dev/spillway/internal/inc"
	"github.com/spillway-dev/spillway/internal/model"
	"github.com/spillway-dev/spillway/internal/steer"
)

// shop is a host with two routes, a wildcard, a catch-all, TLS, and backends of three kinds.
func shop(w *world) {
	w.g.Commit(func(tx *inc.Tx) {
		w.plain(tx)
		web := target("web", "shop/web/http")
		w.host(tx, testClass, "shop.example", &web, fleet.Route{Match: exact("/cart"), Target: target("web", "shop/cart/grpc")},
			fleet.Route{Match: prefix("/split"), Target: target("web", "shop/web/http", "shop/cart/grpc")},
			fleet.Route{Match: prefix("/none"), Target: target("web")})
		w.host(tx, testClass, "*.shop.example", nil, fleet.Route{Match: prefix("/"), Target: target("web", "shop/out/http")})
		w.host(tx, testClass, "", &web)
		w.use(tx, testView, "shop/web/http", "")
		w.use(tx, testView, "shop/cart/grpc", "kubernetes.io/h2c")
		out := w.use(tx, testView, "shop/out/http", "")
		w.p.Backends.Set(tx, out.backend, fleet.Backend{External: true})
		w.p.Groups.Set(tx, fleet.GroupID{Backend: out.backend, Member: "eu-1"}, fleet.Group{Rare: &fleet.RareGroup{External: "out.example", Port: 80}})
		w.plan(tx, testView, "shop/out/http", share("eu-1", 0))
		w.group(tx, "shop/web/http", "eu-1", endpointAt("10.1.0.1", 8080), endpointAt("10.1.0.2", 8080))
		w.group(tx, "shop/web/http", "us-1", endpointAt("10.2.0.1", 8080))
		w.plan(tx, testView, "shop/web/http", share("eu-1", 0), share("us-1", 1))
		id := model.SecretID{Namespace: "shop", Name: "cert"}
		w.p.In.Certificates.Set(tx, id, model.Certificate{Chain: []byte("chain"), Key: []byte("key")})
		w.p.Chains.Set(tx, model.HostKey{Class: testClass, Host: "shop.example"}, fleet.Chain{Secrets: []model.SecretID{id}})
		w.p.Chains.Set(tx, model.HostKey{Class: testClass, Host: "*.shop.example"}, fleet.Chain{Secrets: []model.SecretID{id}})
	})
}

func TestEveryResourceIsValid(t *testing.T) {
	w := newWorld()
	shop(w)
	validateAll(t, w)
	for _, typ := range w.t.Types() {
		if len(typ.Table.Keys()) == 0 {
			t.Errorf("no %s was made", typ.URL)
		}
	}
}

func TestAssignmentFollowsThePlan(t *testing.T) {
	w := newWorld()
	shop(w)
	got := decode(t, w.get(t, w.t.Assignments, "shop/web/http")).(*endpointv3.ClusterLoadAssignment)
	if text := describe(got); text != "p0 eu-1 w1: 10.1.0.1:8080 10.1.0.2:8080\np1 us-1 w1: 10.2.0.1:8080\n" {
		t.Errorf("got\n%s", text)
	}
	w.g.Commit(func(tx *inc.Tx) {
		failed := share("eu-1", 1)
		failed.State, failed.Weight = steer.Failed, 0
		w.plan(tx, testView, "shop/web/http", share("us-1", 0), failed)
	})
	got = decode(t, w.get(t, w.t.Assignments, "shop/web/http")).(*endpointv3.ClusterLoadAssignment)
	if text := describe(got); text != "p0 us-1 w1: 10.2.0.1:8080\n" {
		t.Errorf("after the loss of eu-1 got\n%s", text)
	}
}

// describe writes an assignment as text, one locality a line.
func describe(a *endpointv3.ClusterLoadAssignment) string {
	var out string
	for _, l := range a.Endpoints {
		if len(l.LbEndpoints) == 0 {
			out += fmt.Sprintf("p%d nobody\n", l.Priority)
			continue
		}
		out += fmt.Sprintf("p%d %s w%d:", l.Priority, l.Locality.SubZone, l.LoadBalancingWeight.GetValue())
		for _, e := range l.LbEndpoints {
			s := e.GetEndpoint().Address.GetSocketAddress()
			out += fmt.Sprintf(" %s:%d", s.Address, s.GetPortValue())
		}
		out += "\n"
	}
	return out
}

func TestClusterOfAnExternalName(t *testing.T) {
	w := newWorld()
	shop(w)
	c := decode(t, w.get(t, w.t.Clusters, "shop/out/http/dns")).(*clusterv3.Cluster)
	if c.GetClusterType().GetTypedConfig().GetTypeUrl() != "type.googleapis.com/envoy.extensions.clusters.dns.v3.DnsCluster" || describe(c.LoadAssignment) != "p0 eu-1 w1: out.example:80\n" {
		t.Errorf("got %v", c)
	}
	if _, ok := w.lookIn(w.t.Assignments, testView, "shop/out/http/dns"); ok {
		t.Error("it has an assignment besides")
	}
}
