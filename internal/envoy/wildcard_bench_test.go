package envoy

import (
	"fmt"
	"net"
	"testing"

	bootstrapv3 "github.com/envoyproxy/go-control-plane/envoy/config/bootstrap/v3"
	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	listenerv3 "github.com/envoyproxy/go-control-plane/envoy/config/listener/v3"
	routev3 "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"
	hcmv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/network/http_connection_manager/v3"
	"google.golang.org/protobuf/encoding/protojson"

	"github.com/spillway-dev/spillway/internal/fleet"
	"github.com/spillway-dev/spillway/internal/model"
	"github.com/spillway-dev/spillway/internal/xds/envoytest"
)

// How a wildcard of any depth could be found, measured before there are any
// (docs/design/scopes.md has the figures). A scope "**.shop.example" is such a
// wildcard here.
const (
	// One filter a label: it asks for the name without its first label, and so on.
	stepLabel = `function envoy_on_request(h)
  h:metadata()
  if h:streamInfo():routeName() ~= "" then return end
  local headers = h:headers()
  local table, stars, name = headers:get("` + scopeHeader + `"):match("^([^|]*|)(%**)%.?([^:]*)")
  if stars == "**" then name = name:match("%.(.*)") or "" end
  headers:replace("` + scopeHeader + `", table .. "**." .. name)
  h:clearRouteCache()
end`
	// An index: a RouteConfiguration with a virtual host for each such wildcard,
	// which Envoy matches by the longest suffix. Its route's name is the scope.
	stepIndex = `function envoy_on_request(h)
  h:metadata()
  if h:streamInfo():routeName() ~= "" then return end
  local headers = h:headers()
  headers:replace("` + scopeHeader + `", headers:get("` + scopeHeader + `"):match("^[^|]*|") .. "**")
  h:clearRouteCache()
end`
	stepIndexed = `function envoy_on_request(h)
  h:metadata()
  local name = h:streamInfo():routeName()
  if name ~= "" and name:sub(1, 3) ~= "**." then return end
  local headers = h:headers()
  headers:replace("` + scopeHeader + `", headers:get("` + scopeHeader + `"):match("^[^|]*|") .. (name ~= "" and name or "*"))
  h:clearRouteCache()
end`
)

// BenchmarkWildcards measures what a request costs Envoy, by how its host is found.
func BenchmarkWildcards(b *testing.B) {
	var labels []string
	for range 8 {
		labels = append(labels, stepLabel)
	}
	for _, way := range []struct {
		name  string
		codes []string
	}{
		{"one-label", []string{stepUp, stepOut}},
		{"index", []string{stepUp, stepIndex, stepIndexed}},
		{"eight-labels", append(append([]string{stepUp}, labels...), stepOut)},
	} {
		b.Run(way.name, func(b *testing.B) {
			at, proc := walkingEnvoy(b, way.codes)
			for b.Loop() { // figures are reported after it
			}
			for _, ask := range []struct {
				what, host string
				status     int
			}{
				{"known", "h7.example", 200}, {"below-wildcard", "a.one.example", 201}, {"unknown", "a.b.none.test", 404},
				{"deep-1", "a.deep.example", 202}, {"deep-6", "a.b.c.d.e.f.deep.example", 202},
			} {
				if way.name == "one-label" && ask.status == 202 {
					continue
				}
				const n = 20_000
				flood(b, at, ask.host+":8080", "/", ask.status, n/10)
				before := cpuOf(proc)
				flood(b, at, ask.host+":8080", "/", ask.status, n)
				b.ReportMetric(float64((cpuOf(proc)-before).Microseconds())/n, ask.what+"-us")
			}
		})
	}
}

// walkingEnvoy starts an Envoy with 10,000 exact hosts, a wildcard of one label,
// 100 of any depth and a host for all others.
func walkingEnvoy(b *testing.B, codes []string) (addr string, proc *envoytest.Process) {
	b.Helper()
	answer := func(name string, status uint32) *routev3.RouteConfiguration {
		c := configuration(&routev3.VirtualHost{Name: "h", Domains: []string{"*"}, Routes: []*routev3.Route{{
			Name: name, Match: match(model.Everything), Action: &routev3.Route_DirectResponse{DirectResponse: &routev3.DirectResponseAction{Status: status}},
		}}})
		c.Name = name
		return c
	}
	scope := func(key string, c *routev3.RouteConfiguration) *routev3.ScopedRouteConfiguration {
		return &routev3.ScopedRouteConfiguration{Name: key, RouteConfiguration: c, Key: &routev3.ScopedRouteConfiguration_Key{
			Fragments: []*routev3.ScopedRouteConfiguration_Key_Fragment{{Type: &routev3.ScopedRouteConfiguration_Key_Fragment_StringKey{StringKey: key}}},
		}}
	}
	list := []*routev3.ScopedRouteConfiguration{scope("|*.one.example", answer("one", 201)), scope("|*", answer("all", 404))}
	for i := range 10_000 {
		name := fmt.Sprintf("h%d.example", i)
		list = append(list, scope("|"+name, answer(name, 200)))
	}
	index := &routev3.RouteConfiguration{Name: "index", IgnorePortInHostMatching: true}
	for i := range 100 {
		name := fmt.Sprintf("deep%d.example", i)
		if i == 0 {
			name = "deep.example"
		}
		list = append(list, scope("|**."+name, answer(name, 202)))
		index.VirtualHosts = append(index.VirtualHosts, &routev3.VirtualHost{Name: name, Domains: []string{"*." + name}, Routes: []*routev3.Route{{
			Name: "**." + name, Match: match(model.Everything), Action: &routev3.Route_DirectResponse{DirectResponse: &routev3.DirectResponseAction{Status: 404}},
		}}})
	}
	list = append(list, scope("|**", index))
	manager := connectionManager(port{Port: fleet.Port{Number: 80}})
	manager.HttpFilters = manager.HttpFilters[len(manager.HttpFilters)-1:] // the router
	manager.HttpFilters = append(walkers(codes...), manager.HttpFilters...)
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
