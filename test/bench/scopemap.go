package main

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"time"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	listenerv3 "github.com/envoyproxy/go-control-plane/envoy/config/listener/v3"
	routev3 "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"
	routerv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/router/v3"
	hcmv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/network/http_connection_manager/v3"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/anypb"

	"github.com/spillway-dev/spillway/internal/xds"
)

// scopeMap measures what a host that comes or goes costs an Envoy that has
// nothing but scopes: two listeners, and for each host a scope and a route
// configuration that answers by itself. By so much a host of ours may cost more
// among many than among few.
func scopeMap(ctx context.Context, hosts, rounds int, out *figures) error {
	dir, err := os.MkdirTemp("", "spillway-bench-")
	if err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(dir) }()
	store := xds.NewStore()
	all := []xds.Change{bareListener(httpPort), bareListener(httpsPort)}
	for i := range hosts {
		all = append(all, bareHost(i)...)
	}
	store.Publish(edge, all)
	socket := filepath.Join(dir, "xds.sock")
	at, err := xds.ListenUnix(socket)
	if err != nil {
		return err
	}
	server := xds.NewServer(xds.Config{Store: store, ViewOf: func(string) (string, bool) { return edge, true }})
	serving, stop := context.WithCancel(ctx)
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_ = server.Serve(serving, at) // if it fails, Envoy never serves, which is told
	}()
	defer func() { stop(); <-ended }()
	e, err := startEnvoy(dir, socket)
	if err != nil {
		return err
	}
	defer e.kill()
	p := newProber()
	has := func(i, status int) func() (bool, error) {
		return func() (bool, error) {
			a, err := p.ask(hostOf(i), "/")
			return err == nil && a.status == status, nil
		}
	}
	if _, err := served(ctx, func() {}, has(hosts-1, http.StatusNoContent)); err != nil {
		return err
	}
	for _, c := range []struct {
		name    string
		changes func(i int) []xds.Change
		status  int
	}{
		{"scope_map.add_envoy_main_ms", bareHost, http.StatusNoContent},
		{"scope_map.remove_envoy_main_ms", gone, http.StatusNotFound},
	} {
		var main []time.Duration
		for round := range rounds {
			i, next, before := hosts+round, time.Now().Add(apart), e.main()
			store.Publish(edge, c.changes(i))
			if err := pause(ctx, time.Until(next)); err != nil {
				return err
			}
			main = append(main, e.main()-before)
		}
		if _, err := served(ctx, func() {}, has(hosts+rounds-1, c.status)); err != nil {
			return fmt.Errorf("%s: %w", c.name, err)
		}
		out.add(c.name, params{"hosts": hosts}, milli(median(main)), "ms")
	}
	return nil
}

// gone removes a host.
func gone(i int) []xds.Change {
	out := bareHost(i)
	for at := range out {
		out[at].Resource = nil
	}
	return out
}

// bareHost is a scope and what it leads to.
func bareHost(i int) []xds.Change {
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

// bareListener finds a host by its name and has no filter but the router.
func bareListener(port uint32) xds.Change {
	ads := &corev3.ConfigSource{
		ConfigSourceSpecifier: &corev3.ConfigSource_Ads{Ads: &corev3.AggregatedConfigSource{}}, ResourceApiVersion: corev3.ApiVersion_V3,
	}
	manager := &hcmv3.HttpConnectionManager{
		StatPrefix: "bare",
		HttpFilters: []*hcmv3.HttpFilter{{
			Name: "router", ConfigType: &hcmv3.HttpFilter_TypedConfig{TypedConfig: packed(&routerv3.Router{})},
		}},
		RouteSpecifier: &hcmv3.HttpConnectionManager_ScopedRoutes{ScopedRoutes: &hcmv3.ScopedRoutes{
			Name: "hosts", RdsConfigSource: ads,
			ScopeKeyBuilder: &hcmv3.ScopedRoutes_ScopeKeyBuilder{Fragments: []*hcmv3.ScopedRoutes_ScopeKeyBuilder_FragmentBuilder{{
				Type: &hcmv3.ScopedRoutes_ScopeKeyBuilder_FragmentBuilder_HeaderValueExtractor_{
					HeaderValueExtractor: &hcmv3.ScopedRoutes_ScopeKeyBuilder_FragmentBuilder_HeaderValueExtractor{
						Name: ":authority", ElementSeparator: ":",
						ExtractType: &hcmv3.ScopedRoutes_ScopeKeyBuilder_FragmentBuilder_HeaderValueExtractor_Index{Index: 0},
					},
				},
			}}},
			ConfigSpecifier: &hcmv3.ScopedRoutes_ScopedRds{ScopedRds: &hcmv3.ScopedRds{ScopedRdsConfigSource: ads}},
		}},
	}
	name := fmt.Sprintf("http-%d", port)
	return plain(xds.Listener, name, &listenerv3.Listener{
		Name: name,
		Address: &corev3.Address{Address: &corev3.Address_SocketAddress{SocketAddress: &corev3.SocketAddress{
			Address: "127.0.0.1", PortSpecifier: &corev3.SocketAddress_PortValue{PortValue: port},
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
	return xds.Change{Type: t, Name: name, Resource: &xds.Resource{Name: name, Version: "1", Body: slices.Clip(body), Refs: refs}}
}

func packed(m proto.Message) *anypb.Any {
	out, err := anypb.New(m)
	if err != nil {
		panic(err)
	}
	return out
}
