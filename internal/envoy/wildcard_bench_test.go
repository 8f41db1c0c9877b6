package envoy

import (
	"fmt"
	"net"
	"slices"
	"testing"

	bootstrapv3 "github.com/envoyproxy/go-control-plane/envoy/config/bootstrap/v3"
	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	listenerv3 "github.com/envoyproxy/go-control-plane/envoy/config/listener/v3"
	routev3 "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"
	hcmv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/network/http_connection_manager/v3"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"

	"github.com/spillway-dev/spillway/internal/fleet"
	"github.com/spillway-dev/spillway/internal/model"
	"github.com/spillway-dev/spillway/internal/xds/envoytest"
)

// BenchmarkWildcards measures what a request costs Envoy, by how its host is found,
// in listeners with wildcards of one label and in those with wildcards of any depth.
func BenchmarkWildcards(b *testing.B) {
	for _, way := range []struct {
		name string
		deep bool
	}{{"one-label", false}, {"any-depth", true}} {
		b.Run(way.name, func(b *testing.B) {
			at, proc := walkingEnvoy(b, way.deep)
			for b.Loop() { // figures are reported after it
			}
			for _, ask := range []struct {
				what, host, path string
				status           int
			}{
				{"known", "h7.example", "/", 200}, {"below-wildcard", "a.one.example", "/", 201}, {"unknown", "a.b.none.test", "/", 404},
				{"known-goes-on", "on.deep.example", "/on", 200}, {"goes-on-1", "on.deep.example", "/", 202}, {"goes-on-2", "on.deeper.deep.example", "/", 202},
				{"deep-1", "a.deep.example", "/", 202}, {"deep-6", "a.b.c.d.e.f.deep.example", "/", 202},
			} {
				if !way.deep && (ask.status == 202 || ask.path == "/on") {
					continue
				}
				const n = 20_000
				flood(b, at, ask.host+":8080", ask.path, ask.status, n/10)
				before := cpuOf(proc)
				flood(b, at, ask.host+":8080", ask.path, ask.status, n)
				b.ReportMetric(float64((cpuOf(proc)-before).Microseconds())/n, ask.what+"-us")
			}
		})
	}
}

// walkingEnvoy starts an Envoy with 10,000 exact hosts and two that go on, a
// wildcard of one label, 101 of any depth, one of them below another from which it
// goes on, and a host for all others.
func walkingEnvoy(b *testing.B, deep bool) (addr string, proc *envoytest.Process) {
	b.Helper()
	answer := func(name string, m model.Match, status uint32) *routev3.RouteConfiguration {
		c := configuration(&routev3.VirtualHost{Name: "h", Domains: []string{"*"}, Routes: []*routev3.Route{{
			Name: name, Match: match(m), Action: &routev3.Route_DirectResponse{DirectResponse: &routev3.DirectResponseAction{Status: status}},
		}}})
		c.Name = name
		return c
	}
	scope := func(key string, c *routev3.RouteConfiguration) *routev3.ScopedRouteConfiguration {
		return &routev3.ScopedRouteConfiguration{Name: key, RouteConfiguration: c, Key: &routev3.ScopedRouteConfiguration_Key{
			Fragments: []*routev3.ScopedRouteConfiguration_Key_Fragment{{Type: &routev3.ScopedRouteConfiguration_Key_Fragment_StringKey{StringKey: key}}},
		}}
	}
	all := model.Everything
	list := []*routev3.ScopedRouteConfiguration{scope("|*.one.example", answer("one", all, 201)), scope("|*", answer("all", all, 404))}
	for i := range 10_000 {
		name := fmt.Sprintf("h%d.example", i)
		list = append(list, scope("|"+name, answer(name, all, 200)))
	}
	hosts := []model.Host{"**.deep.example", "**.deeper.deep.example"}
	for i := range 99 {
		hosts = append(hosts, model.Host(fmt.Sprintf("**.deep%d.example", i)))
	}
	slices.Sort(hosts)
	add := func(key string, x *index) {
		c := new(routev3.RouteConfiguration)
		if err := proto.Unmarshal(x.config, c); err != nil {
			b.Fatal(err)
		}
		c.Name = key
		list = append(list, scope(key, c))
	}
	add(string(walkHost), walk)
	if deep {
		for _, name := range []string{"on.deep.example", "on.deeper.deep.example"} {
			list = append(list, scope("|"+name, answer(name, exact("/on"), 200)))
		}
		for _, h := range hosts {
			to := all
			if h == "**.deeper.deep.example" {
				to = exact("/on")
			}
			list = append(list, scope("|"+domain(h), answer(string(h), to, 202)))
		}
		add("|"+domain(indexHost), indexOf(hosts))
	}
	manager := connectionManager(port{Port: fleet.Port{Socket: model.Socket{Number: 80, Deep: deep}}})
	manager.GetScopedRoutes().RdsConfigSource = nil
	manager.GetScopedRoutes().ConfigSpecifier = &hcmv3.ScopedRoutes_ScopedRouteConfigurationsList{
		ScopedRouteConfigurationsList: &hcmv3.ScopedRouteConfigurationsList{ScopedRouteConfigurations: list},
	}
	number, admin := envoytest.FreePort(b), envoytest.Loopback(b)
	_, adminPort, _ := net.SplitHostPort(admin)
	var adminNumber uint16
	_, _ = fmt.Sscan(adminPort, &adminNumber)
	boot, err := protojson.Marshal(&bootstrapv3.Bootstrap{
		Node:  &corev3.Node{Id: "bench", Cluster: "bench"},
		Admin: &bootstrapv3.Admin{Address: socket("127.0.0.1", adminNumber)},
		StaticResources: &bootstrapv3.Bootstrap_StaticResources{Listeners: []*listenerv3.Listener{{
			Name: "http", Address: socket("127.0.0.1", uint16(number)),
			FilterChains: []*listenerv3.FilterChain{{Filters: []*listenerv3.Filter{{
				Name: "envoy.filters.network.http_connection_manager", ConfigType: &listenerv3.Filter_TypedConfig{TypedConfig: pack(manager)},
			}}}},
		}}},
	})
	if err != nil {
		b.Fatal(err)
	}
	proc = envoytest.Start(b, boot, admin)
	addr = fmt.Sprintf("127.0.0.1:%d", number)
	envoytest.Until(b, "Envoy to listen", func() bool {
		c, err := net.Dial("tcp", addr)
		if err == nil {
			_ = c.Close()
		}
		return err == nil
	})
	return addr, proc
}
