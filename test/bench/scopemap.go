package main

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"time"

	clusterv3 "github.com/envoyproxy/go-control-plane/envoy/config/cluster/v3"
	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	endpointv3 "github.com/envoyproxy/go-control-plane/envoy/config/endpoint/v3"
	listenerv3 "github.com/envoyproxy/go-control-plane/envoy/config/listener/v3"
	routev3 "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"
	routerv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/router/v3"
	hcmv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/network/http_connection_manager/v3"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/anypb"

	"github.com/spillway-dev/spillway/internal/model"
	"github.com/spillway-dev/spillway/internal/xds"
	"github.com/spillway-dev/spillway/internal/xds/lrs"
)

// scopeMap measures what a host that comes or goes costs our Envoy, and what it
// costs a plain one, in which nothing but a scope and a route configuration
// comes or goes. By so much a host of ours may cost more among many than among
// few. The two take turns: where a machine is slower for a while, it is so for
// both.
func (w *world) scopeMap(ctx context.Context) error {
	if err := w.settle(ctx, true); err != nil {
		return err
	}
	other, err := startPlain(ctx, plainContent(w.hosts), w.hosts-1)
	if err != nil {
		return err
	}
	defer other.close()
	tell := func(change func(int) edit) func(int) { return func(i int) { w.api.tell(change(i)) } }
	publish := func(change func(int) []xds.Change) func(int) {
		return func(i int) { other.store.Publish(edge, change(i)) }
	}
	for _, step := range []struct {
		name        string
		ours, plain func(i int)
		statuses    [2]int // afterwards
	}{
		{"add", tell(w.fleet.addHost), publish(plainHost), [2]int{http.StatusOK, http.StatusNoContent}},
		{"remove", tell(w.fleet.removeHost), publish(gone), [2]int{http.StatusNotFound, http.StatusNotFound}},
	} {
		sides := []*side{{envoy: w.envoy, change: step.ours}, {envoy: other.envoy, change: step.plain}}
		if err := takeTurns(ctx, sides, w.hosts); err != nil {
			return err
		}
		last := hostOf(w.hosts + spares - 1)
		for i, p := range []*prober{newProber(httpPort), other.prober} {
			if err := p.until(ctx, last, step.statuses[i]); err != nil {
				return fmt.Errorf("%s: %w", step.name, err)
			}
		}
		w.add("scope_map.ours_"+step.name+"_envoy_main_ms", milli(median(sides[0].took)), "ms")
		w.add("scope_map."+step.name+"_envoy_main_ms", milli(median(sides[1].took)), "ms")
	}
	return w.settle(ctx, true)
}

// side is one of two Envoys that take turns.
type side struct {
	envoy  *envoy
	change func(i int)
	before time.Duration
	took   []time.Duration // of its main thread, from one change of its own to the next
}

// takeTurns makes one change after the other, so far apart that Envoy is done,
// and all of them before the first cluster leaves after its grace.
func takeTurns(ctx context.Context, sides []*side, first int) error {
	const between = 3 * apart / 2
	for round := range spares + 1 {
		for _, s := range sides {
			now := s.envoy.main()
			if round > 0 {
				s.took = append(s.took, now-s.before)
			}
			if round == spares {
				continue
			}
			s.before = now
			s.change(first + round)
			if err := pause(ctx, between); err != nil {
				return err
			}
		}
	}
	return nil
}

// plainEnvoy has listeners, and for each host a scope and a route configuration
// that answers by itself. Beside ours it has a cluster with endpoints for each, too,
// which no route leads to: it is of about the size of ours. Without the clusters
// what a scope costs grows 6 to 10 % less (measured in turns, 10,000 hosts).
type plainEnvoy struct {
	dir    string
	store  *xds.Store
	stop   context.CancelFunc
	ended  chan struct{}
	envoy  *envoy
	prober *prober
}

// plainContent is two listeners, and what is to be of hosts.
func plainContent(hosts int) []xds.Change {
	all := []xds.Change{plainListener("127.0.0.1", plainPort), plainListener("127.0.0.1", plainPort+1)}
	for i := range hosts {
		all = append(all, plainCluster(i)...)
		all = append(all, plainHost(i)...)
	}
	return all
}

// startPlain returns when the Envoy serves the last of its hosts.
func startPlain(ctx context.Context, content []xds.Change, last int) (*plainEnvoy, error) {
	dir, err := os.MkdirTemp("", "spillway-bench-")
	if err != nil {
		return nil, err
	}
	b := &plainEnvoy{dir: dir, store: xds.NewStore(), ended: make(chan struct{}), prober: newProber(plainPort)}
	b.store.Publish(edge, content)
	socket := filepath.Join(dir, "xds.sock")
	at, err := xds.ListenUnix(socket)
	if err != nil {
		_ = os.RemoveAll(dir)
		return nil, err
	}
	server := xds.NewServer(xds.Config{Store: b.store, Services: []xds.Service{lrs.Service{}}, ViewOf: func(string) (string, bool) { return edge, true }})
	var serving context.Context
	serving, b.stop = context.WithCancel(ctx)
	go func() {
		defer close(b.ended)
		_ = server.Serve(serving, at) // if it fails, Envoy never serves, which is told
	}()
	if b.envoy, err = startEnvoy(dir, socket, plainAdmin); err == nil {
		err = b.prober.until(ctx, hostOf(last), http.StatusNoContent)
	}
	if err != nil {
		b.close()
		return nil, err
	}
	return b, nil
}

func (b *plainEnvoy) close() {
	if b.envoy != nil {
		b.envoy.kill()
	}
	b.stop()
	<-b.ended
	_ = os.RemoveAll(b.dir)
}

// turns makes changes, so far apart that Envoy is done, and returns what each costs
// its main thread above what that spends at rest.
func (b *plainEnvoy) turns(ctx context.Context, rounds int, change func(round int) []xds.Change) ([]time.Duration, error) {
	const between = 3 * apart / 2
	took := make([][]time.Duration, 2)
	for kind, n := range []int{50, rounds} {
		for round := range n {
			before := b.envoy.main()
			if kind == 1 {
				b.store.Publish(edge, change(round))
			}
			if err := pause(ctx, between); err != nil {
				return nil, err
			}
			took[kind] = append(took[kind], b.envoy.main()-before)
		}
	}
	rest := median(took[0])
	for i := range took[1] {
		took[1][i] -= rest
	}
	return took[1], nil
}

// gone removes a host.
func gone(i int) []xds.Change { return without(plainHost(i)) }

// without removes what changes add.
func without(out []xds.Change) []xds.Change {
	for at := range out {
		out[at].Resource = nil
	}
	return out
}

// plainCluster is a cluster that no route leads to.
func plainCluster(i int) []xds.Change {
	name := clusterOf(i)
	endpoints := make([]*endpointv3.LbEndpoint, perHost)
	for at := range endpoints {
		endpoints[at] = &endpointv3.LbEndpoint{HostIdentifier: &endpointv3.LbEndpoint_Endpoint{Endpoint: &endpointv3.Endpoint{
			Address: &corev3.Address{Address: &corev3.Address_SocketAddress{SocketAddress: &corev3.SocketAddress{
				Address: fmt.Sprintf("198.18.%d.%d", i>>8&255, i&255), PortSpecifier: &corev3.SocketAddress_PortValue{PortValue: uint32(backendPort + at)},
			}}},
		}}}
	}
	return []xds.Change{
		plain(xds.Cluster, name, &clusterv3.Cluster{
			Name: name, ClusterDiscoveryType: &clusterv3.Cluster_Type{Type: clusterv3.Cluster_EDS},
			EdsClusterConfig: &clusterv3.Cluster_EdsClusterConfig{EdsConfig: ads()},
		}, xds.Ref{Type: xds.ClusterLoadAssignment, Name: name}),
		plain(xds.ClusterLoadAssignment, name, &endpointv3.ClusterLoadAssignment{
			ClusterName: name, Endpoints: []*endpointv3.LocalityLbEndpoints{{LbEndpoints: endpoints}},
		}),
	}
}

// plainHost is a scope and what it leads to.
func plainHost(i int) []xds.Change {
	name := hostOf(i)
	return []xds.Change{
		plain(xds.ScopedRoute, name, &routev3.ScopedRouteConfiguration{
			Name: name, RouteConfigurationName: name,
			Key: &routev3.ScopedRouteConfiguration_Key{Fragments: []*routev3.ScopedRouteConfiguration_Key_Fragment{{
				Type: &routev3.ScopedRouteConfiguration_Key_Fragment_StringKey{StringKey: name},
			}}},
		}, xds.Ref{Type: xds.RouteConfiguration, Name: name}),
		plain(xds.RouteConfiguration, name, &routev3.RouteConfiguration{
			Name: name,
			VirtualHosts: []*routev3.VirtualHost{{Name: "h", Domains: []string{"*"}, Routes: []*routev3.Route{{
				Match:  &routev3.RouteMatch{PathSpecifier: &routev3.RouteMatch_Prefix{Prefix: "/"}},
				Action: &routev3.Route_DirectResponse{DirectResponse: &routev3.DirectResponseAction{Status: http.StatusNoContent}},
			}}}},
		}),
	}
}

func ads() *corev3.ConfigSource {
	return &corev3.ConfigSource{
		ConfigSourceSpecifier: &corev3.ConfigSource_Ads{Ads: &corev3.AggregatedConfigSource{}}, ResourceApiVersion: corev3.ApiVersion_V3,
	}
}

// plainListener finds a host by its name and has no filter but the router.
func plainListener(address string, port uint32) xds.Change {
	manager := &hcmv3.HttpConnectionManager{
		StatPrefix: "plain",
		HttpFilters: []*hcmv3.HttpFilter{{
			Name: "router", ConfigType: &hcmv3.HttpFilter_TypedConfig{TypedConfig: packed(&routerv3.Router{})},
		}},
		RouteSpecifier: &hcmv3.HttpConnectionManager_ScopedRoutes{ScopedRoutes: &hcmv3.ScopedRoutes{
			Name: "hosts", RdsConfigSource: ads(),
			ScopeKeyBuilder: &hcmv3.ScopedRoutes_ScopeKeyBuilder{Fragments: []*hcmv3.ScopedRoutes_ScopeKeyBuilder_FragmentBuilder{{
				Type: &hcmv3.ScopedRoutes_ScopeKeyBuilder_FragmentBuilder_HeaderValueExtractor_{
					HeaderValueExtractor: &hcmv3.ScopedRoutes_ScopeKeyBuilder_FragmentBuilder_HeaderValueExtractor{
						Name: ":authority", ElementSeparator: ":",
						ExtractType: &hcmv3.ScopedRoutes_ScopeKeyBuilder_FragmentBuilder_HeaderValueExtractor_Index{Index: 0},
					},
				},
			}}},
			ConfigSpecifier: &hcmv3.ScopedRoutes_ScopedRds{ScopedRds: &hcmv3.ScopedRds{ScopedRdsConfigSource: ads()}},
		}},
	}
	name := fmt.Sprintf("http-%d@%s", port, address)
	return plain(xds.Listener, name, &listenerv3.Listener{
		Name: name,
		Address: &corev3.Address{Address: &corev3.Address_SocketAddress{SocketAddress: &corev3.SocketAddress{
			Address: address, PortSpecifier: &corev3.SocketAddress_PortValue{PortValue: port},
		}}},
		FilterChains: []*listenerv3.FilterChain{{Filters: []*listenerv3.Filter{{
			Name: "http", ConfigType: &listenerv3.Filter_TypedConfig{TypedConfig: packed(manager)},
		}}}},
	})
}

func plain(t xds.TypeURL, name string, m proto.Message, refs ...xds.Ref) xds.Change {
	body, err := proto.Marshal(packed(m))
	if err != nil {
		panic(err)
	}
	return xds.Change{Type: t, Name: name, Resource: &xds.Resource{Name: name, Version: "1", Body: model.BodyOf(body, refs...)}}
}

func packed(m proto.Message) *anypb.Any {
	out, err := anypb.New(m)
	if err != nil {
		panic(err)
	}
	return out
}
