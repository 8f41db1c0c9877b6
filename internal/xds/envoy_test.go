package xds

import (
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"os"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	cluster3 "github.com/envoyproxy/go-control-plane/envoy/config/cluster/v3"
	core "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	endpoint "github.com/envoyproxy/go-control-plane/envoy/config/endpoint/v3"
	listener3 "github.com/envoyproxy/go-control-plane/envoy/config/listener/v3"
	route "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"
	router "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/router/v3"
	hcm "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/network/http_connection_manager/v3"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/anypb"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/spillway-dev/spillway/internal/xds/bootstrap"
	"github.com/spillway-dev/spillway/internal/xds/envoytest"
)

func overADS() *core.ConfigSource {
	return &core.ConfigSource{
		ResourceApiVersion:    core.ApiVersion_V3,
		ConfigSourceSpecifier: &core.ConfigSource_Ads{Ads: &core.AggregatedConfigSource{}},
	}
}

func makeAny(t testing.TB, m proto.Message) *anypb.Any {
	t.Helper()
	a, err := anypb.New(m)
	if err != nil {
		t.Fatal(err)
	}
	return a
}

func address(host string, port int) *core.Address {
	return &core.Address{Address: &core.Address_SocketAddress{SocketAddress: &core.SocketAddress{
		Address: host, PortSpecifier: &core.SocketAddress_PortValue{PortValue: uint32(port)},
	}}}
}

// makeCluster is an EDS cluster; each version has a connect timeout of its own.
func makeCluster(t testing.TB, name string, version int) Change {
	return makeClusterOf(t, name, name, version)
}

// makeClusterOf is one whose assignment has a name of its own.
func makeClusterOf(t testing.TB, name, assignment string, version int) Change {
	c := &cluster3.Cluster{
		Name: name, ConnectTimeout: durationpb.New(time.Duration(version) * time.Second),
		ClusterDiscoveryType: &cluster3.Cluster_Type{Type: cluster3.Cluster_EDS},
		EdsClusterConfig:     &cluster3.Cluster_EdsClusterConfig{EdsConfig: overADS()},
	}
	if assignment != name {
		c.EdsClusterConfig.ServiceName = assignment
	}
	return Change{Cluster, name, makeResource(t, name, fmt.Sprint(version), c, Ref{Type: ClusterLoadAssignment, Name: assignment})}
}

func makeEndpoint(t testing.TB, name string, port, version int) Change {
	a := &endpoint.ClusterLoadAssignment{ClusterName: name, Endpoints: []*endpoint.LocalityLbEndpoints{{
		LbEndpoints: []*endpoint.LbEndpoint{{HostIdentifier: &endpoint.LbEndpoint_Endpoint{Endpoint: &endpoint.Endpoint{Address: address("127.0.0.1", port)}}}},
	}}}
	return Change{ClusterLoadAssignment, name, makeResource(t, name, fmt.Sprint(version), a)}
}

// makeRoutes sends everything to a cluster and tells the version in a header.
func makeRoutes(t testing.TB, to string, version int) Change {
	rc := &route.RouteConfiguration{Name: "routes", VirtualHosts: []*route.VirtualHost{{
		Name: "all", Domains: []string{"*"}, Routes: []*route.Route{{
			Match:                &route.RouteMatch{PathSpecifier: &route.RouteMatch_Prefix{Prefix: "/"}},
			ResponseHeadersToAdd: []*core.HeaderValueOption{{Header: &core.HeaderValue{Key: "x-version", Value: fmt.Sprint(version)}}},
			Action:               &route.Route_Route{Route: &route.RouteAction{ClusterSpecifier: &route.RouteAction_Cluster{Cluster: to}}},
		}},
	}}}
	return Change{RouteConfiguration, "routes", makeResource(t, "routes", fmt.Sprint(version), rc, Ref{Type: Cluster, Name: to})}
}

func makeListener(t testing.TB, name, host string, port int) Change {
	h := &hcm.HttpConnectionManager{
		StatPrefix:     "in",
		RouteSpecifier: &hcm.HttpConnectionManager_Rds{Rds: &hcm.Rds{RouteConfigName: "routes", ConfigSource: overADS()}},
		HttpFilters:    []*hcm.HttpFilter{{Name: "router", ConfigType: &hcm.HttpFilter_TypedConfig{TypedConfig: makeAny(t, &router.Router{})}}},
	}
	l := &listener3.Listener{Name: name, Address: address(host, port), FilterChains: []*listener3.FilterChain{{
		Filters: []*listener3.Filter{{Name: "hcm", ConfigType: &listener3.Filter_TypedConfig{TypedConfig: makeAny(t, h)}}},
	}}}
	return Change{Listener, name, makeResource(t, name, host, l, Ref{Type: RouteConfiguration, Name: "routes"})}
}

// backend answers with its name.
func backend(t testing.TB, name string) int {
	t.Helper()
	port := envoytest.FreePort(t)
	srv := &http.Server{Addr: fmt.Sprintf("127.0.0.1:%d", port), Handler: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_, _ = fmt.Fprint(w, name)
	})}
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = srv.ListenAndServe()
	}()
	t.Cleanup(func() {
		_ = srv.Close()
		<-done
	})
	return port
}

// fetch asks Envoy's listener and returns "version body", or what went wrong.
func fetch(port int) string {
	c := http.Client{Transport: &http.Transport{DisableKeepAlives: true}, Timeout: 10 * time.Second}
	resp, err := c.Get(fmt.Sprintf("http://127.0.0.1:%d/", port))
	if err != nil {
		return err.Error()
	}
	defer func() { _ = resp.Body.Close() }()
	body := make([]byte, 100)
	n, _ := resp.Body.Read(body)
	return fmt.Sprintf("%d %s %s", resp.StatusCode, resp.Header.Get("x-version"), body[:n])
}

func (r *rig) inSync(t testing.TB) {
	t.Helper()
	envoytest.Until(t, "Envoy has acknowledged everything", func() bool {
		st := r.server.Streams()
		return len(st) == 1 && st[0].InSync && len(st[0].Types) >= 4
	})
}

// TestEnvoyServes: a real Envoy takes everything, a switch to a new cluster
// fails no request, a rejected listener hurts only itself, and a restarted
// server with the same content sends next to nothing.
func TestEnvoyServes(t *testing.T) {
	reports := &Reports{}
	r := newRig(t, Config{Reports: reports, ReportTypes: []TypeURL{Listener, RouteConfiguration}, Limits: Limits{Grace: 200 * time.Millisecond}})
	store := r.cfg.Store
	one, two, port := backend(t, "one"), backend(t, "two"), envoytest.FreePort(t)
	store.Publish("fra", []Change{
		makeCluster(t, "one", 1), makeEndpoint(t, "one", one, 1), makeRoutes(t, "one", 1), makeListener(t, "main", "127.0.0.1", port),
	})
	e := r.envoy("fra", "fra-1")
	envoytest.Until(t, "the first answer", func() bool { return fetch(port) == "200 1 one" })

	t.Run("switch", func(t *testing.T) { envoySwitches(t, store, port, two) })
	t.Run("changed cluster", func(t *testing.T) {
		start := time.Now()
		store.Publish("fra", []Change{makeCluster(t, "two", 3)})
		r.inSync(t)
		envoytest.Until(t, "the cluster has warmed", func() bool {
			return strings.Contains(e.Get(t, "/stats?filter=cluster_manager.warming_clusters"), "warming_clusters: 0") &&
				strings.Contains(e.Get(t, "/config_dump?resource=dynamic_active_clusters"), `"connect_timeout": "3s"`)
		})
		t.Logf("warm after %v; without its assignment Envoy takes 15 s", time.Since(start))
	})
	t.Run("rejected", func(t *testing.T) { envoyRejects(t, r, reports, port) })
	t.Run("restart", func(t *testing.T) {
		r.inSync(t)
		r.kill()
		if got := fetch(port); got != "200 2 two" {
			t.Errorf("without a control plane: %s", got)
		}
		r.start()
		envoytest.Until(t, "Envoy is back", func() bool {
			st := r.server.Streams()
			return len(st) == 1 && len(st[0].Types) == 4 && st[0].InSync
		})
		// Something that is sent proves that all before it was answered.
		store.Publish("fra", []Change{makeEndpoint(t, "two", two, 9)})
		envoytest.Until(t, "the change arrived", func() bool { return r.server.Streams()[0].Types[1].Resources == 1 && r.server.Streams()[0].InSync })
		st := r.server.Streams()[0]
		t.Logf("%d bytes after the restart, with one change", st.BytesSent)
		if st.BytesSent >= 1000 || st.Envoy != "1.40.0" && os.Getenv("SPILLWAY_ENVOY") == "" {
			t.Errorf("got %+v", st)
		}
		if got := fetch(port); got != "200 2 two" {
			t.Errorf("after the restart: %s", got)
		}
	})
}

// TestEnvoyDoesNotWaitForWhatIsGone: many clusters get other names, as a new
// timeout has them do, and go with their assignments before these could follow.
// Envoy does not warm any until its initial fetch times out, before which it would
// acknowledge no cluster: not even the one that a route waits for.
func TestEnvoyDoesNotWaitForWhatIsGone(t *testing.T) {
	const others = 1000
	r := newRig(t, Config{Limits: Limits{Grace: 200 * time.Millisecond}})
	store := r.cfg.Store
	one, port := backend(t, "one"), envoytest.FreePort(t)
	each := func(with func(name string) []Change) (out []Change) {
		for i := range others {
			out = append(out, with(fmt.Sprintf("other-%d", i))...)
		}
		return out
	}
	store.Publish("fra", append(each(func(name string) []Change {
		return []Change{makeCluster(t, name, 1), makeEndpoint(t, name, one, 1)}
	}), makeCluster(t, "one", 1), makeEndpoint(t, "one", one, 1), makeRoutes(t, "one", 1), makeListener(t, "main", "127.0.0.1", port)))
	e := r.envoy("fra", "fra-1")
	envoytest.Until(t, "the first answer", func() bool { return fetch(port) == "200 1 one" })
	r.inSync(t)
	before := r.responses(Cluster)

	store.Publish("fra", each(func(name string) []Change { return []Change{makeEndpoint(t, name, one, 2)} }))
	store.Publish("fra", append(each(func(name string) []Change {
		return []Change{makeClusterOf(t, name+"-slow", name, 1), {Type: Cluster, Name: name}}
	}), makeClusterOf(t, "one-slow", "one", 1), makeRoutes(t, "one-slow", 2)))
	envoytest.Until(t, "clusters are sent", func() bool { return r.responses(Cluster) > before })
	store.Publish("fra", each(func(name string) []Change {
		return []Change{{Type: Cluster, Name: name + "-slow"}, {Type: ClusterLoadAssignment, Name: name}}
	}))
	envoytest.Until(t, "the next route", func() bool {
		got := fetch(port)
		if got != "200 1 one" && got != "200 2 one" {
			t.Fatalf("answered %s", got)
		}
		return got == "200 2 one"
	})
	r.inSync(t)
	if log := e.Log.String(); strings.Contains(log, "initial fetch timed out") {
		t.Errorf("Envoy waited for an assignment:\n%s", log)
	}
}

// responses is how many of a type the only stream was sent.
func (r *rig) responses(t TypeURL) (n uint64) {
	for _, st := range r.server.Streams() {
		for _, of := range st.Types {
			if of.Type == t.Short() {
				n += of.Responses
			}
		}
	}
	return n
}

// envoySwitches moves the route to a new cluster, in one publish, under load.
func envoySwitches(t *testing.T, store *Store, port, two int) {
	stop, failed := make(chan struct{}), make(chan string, 1)
	go func() {
		defer close(failed)
		for {
			select {
			case <-stop:
				return
			default:
			}
			if got := fetch(port); got != "200 1 one" && got != "200 2 two" {
				failed <- got
				return
			}
		}
	}()
	store.Publish("fra", []Change{
		makeCluster(t, "two", 2), makeEndpoint(t, "two", two, 1), makeRoutes(t, "two", 2),
		{Type: Cluster, Name: "one"}, {Type: ClusterLoadAssignment, Name: "one"},
	})
	envoytest.Until(t, "the switch", func() bool { return fetch(port) == "200 2 two" })
	close(stop)
	if got, bad := <-failed; bad {
		t.Errorf("a request failed: %s", got)
	}
}

func envoyRejects(t *testing.T, r *rig, reports *Reports, port int) {
	good := envoytest.FreePort(t)
	r.cfg.Store.Publish("fra", []Change{
		makeListener(t, "bad", "nowhere", 1), makeListener(t, "good", "127.0.0.1", good), makeListener(t, "also", "127.0.0.1", envoytest.FreePort(t)),
	})
	envoytest.Until(t, "the good listener serves", func() bool { return fetch(good) == "200 2 two" })
	said := map[string]string{}
	envoytest.Until(t, "Envoy has answered for all three", func() bool {
		_, verdicts := reports.Take()
		for _, v := range verdicts {
			if v.Type == Listener {
				said[v.Name] = v.Error
			}
		}
		return len(said) >= 3
	})
	if said["good"] != "" || said["also"] != "" || !strings.Contains(said["bad"], "nowhere") || len(said) < 3 {
		t.Errorf("got %q", said)
	}
	st := r.server.Streams()[0]
	for _, ts := range st.Types {
		if ts.Type == "Listener" && (len(ts.Quarantined) != 1 || ts.Quarantined[0].Name != "bad") {
			t.Errorf("quarantined %+v", ts.Quarantined)
		}
	}
	if got := fetch(port); got != "200 2 two" {
		t.Errorf("the other listener: %s", got)
	}
	r.cfg.Store.Publish("fra", []Change{{Type: Listener, Name: "bad"}})
	r.inSync(t)
}

// TestEnvoyIdentity: a real Envoy with another edge's certificate gets
// nothing, one with its own does; health discovery and load reporting go the
// same way.
func TestEnvoyIdentity(t *testing.T) {
	ca := envoytest.NewCA(t)
	cert, key := ca.Leaf(t, "server", envoytest.IP("127.0.0.1"))
	ep, err := ListenTLS("127.0.0.1:0", cert, key, ca.File)
	if err != nil {
		t.Fatal(err)
	}
	canary, err := net.Listen("tcp", "127.0.0.1:0") // the kernel answers for it
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = canary.Close() }()
	var up atomic.Bool
	service, _ := NewHealth(func(string) (netip.AddrPort, bool) { return canary.Addr().(*net.TCPAddr).AddrPort(), true }, up.Store)
	store := NewStore()
	port := envoytest.FreePort(t)
	store.Publish("fra", []Change{
		makeCluster(t, "one", 1), makeEndpoint(t, "one", 1, 1), makeRoutes(t, "one", 1), makeListener(t, "main", "127.0.0.1", port),
	})
	log := &envoytest.Buffer{}
	s, stop := serve(t, Config{
		Store: store, ViewOf: func(edge string) (string, bool) { return edge, true }, TrustDomain: "spillway.test",
		Services: []Service{service, Load}, Log: textLog(log),
	}, ep)
	defer stop()
	start := func(edge, certOf string) *envoytest.Process {
		cert, key := ca.Leaf(t, "edge-"+certOf, envoytest.URI("spiffe://spillway.test/edge/"+certOf))
		admin := envoytest.Loopback(t)
		conf, err := bootstrap.Render(bootstrap.Options{
			Edge: edge, NodeID: edge + "-1", XDSAddress: ep.Addr().String(), CA: ca.File, Cert: cert, Key: key, AdminAddress: admin, Health: true,
		})
		if err != nil {
			t.Fatal(err)
		}
		return envoytest.Start(t, conf, admin)
	}
	wrong := start("fra", "par")
	envoytest.Until(t, "two refusals", func() bool {
		return strings.Contains(wrong.Get(t, "/stats?filter=control_plane"), "connected_state: 0") &&
			strings.Count(wrong.Log.String(), "spiffe://spillway.test/edge/par") >= 2
	})
	if n := strings.Count(log.String(), "proxy refused"); n != 1 {
		t.Errorf("refusals were logged %d times:\n%s", n, log.String())
	}
	if len(s.Streams()) != 0 || s.beside[0].count()+s.beside[1].count() != 0 {
		t.Error("the wrong proxy has a stream")
	}
	start("fra", "fra")
	envoytest.Until(t, "the right proxy is in sync", func() bool {
		st := s.Streams()
		return len(st) == 1 && st[0].InSync && len(st[0].Types) == 4
	})
	envoytest.Until(t, "it probes", up.Load)
	envoytest.Until(t, "it could report load", func() bool { return s.beside[1].count() == 1 })
}
