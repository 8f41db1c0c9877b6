package envoy

import (
	"fmt"
	"slices"
	"strings"

	mutationv3 "github.com/envoyproxy/go-control-plane/envoy/config/common/mutation_rules/v3"
	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	routev3 "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"
	luav3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/lua/v3"
	hcmv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/network/http_connection_manager/v3"
	"google.golang.org/protobuf/types/known/anypb"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/spillway-dev/spillway/internal/fleet"
	"github.com/spillway-dev/spillway/internal/inc"
	"github.com/spillway-dev/spillway/internal/model"
)

// The scheme: every host is a scope with a RouteConfiguration of its own, so
// that a change of a route costs that host. Envoy finds the scope of a request
// by one exact look-up of a header that holds the host and, before it, which
// listeners it is for. Scopes know no wildcards; who is not found that way is
// walked on to the wildcard one label up and to the catch-all by two small
// filters, which the RouteConfiguration of a host that is found takes out of
// the way. A listener whose table may have wildcards of any depth has three, and
// looks for these in between (see index). A host that says so ends without a match
// for what none of its rules is for: such a request has no route, so the filters
// walk on with it as with one whose host is not there.
//
// Names last: a scope and its RouteConfiguration are named after the host, and
// the key of a host does not change when classes come, go or change ports. A
// host that was found under another name would be answered 404 until Envoy had
// fetched what that leads to.

// scopeHeader holds the key of a request's scope. No client and no pod sees it.
const scopeHeader = "x-spillway-scope"

// scopeKey is what the header of a request for a host holds. No host has a "|".
func scopeKey(id fleet.HostIn) string { return id.In.Key().Table + "|" + domain(id.Host) }

// scopeName is that of the scope and of its RouteConfiguration: never "*", which in
// xDS asks for everything.
func scopeName(id fleet.HostIn) string {
	if id.Host == "" {
		return scopeKey(id)
	}
	return strings.TrimPrefix(scopeKey(id), "|")
}

// subscribe makes a connection manager read the routes of a port's table, and
// returns what writes the key of the scope.
func subscribe(m *hcmv3.HttpConnectionManager, p port) *mutationv3.HeaderMutation {
	// Up to the ":" of a port. An IPv6 literal is cut short, and is no host of ours.
	host := &hcmv3.ScopedRoutes_ScopeKeyBuilder_FragmentBuilder_HeaderValueExtractor{
		Name: scopeHeader, ElementSeparator: ":",
		ExtractType: &hcmv3.ScopedRoutes_ScopeKeyBuilder_FragmentBuilder_HeaderValueExtractor_Index{Index: 0},
	}
	m.RouteSpecifier = &hcmv3.HttpConnectionManager_ScopedRoutes{ScopedRoutes: &hcmv3.ScopedRoutes{
		Name: "hosts",
		ScopeKeyBuilder: &hcmv3.ScopedRoutes_ScopeKeyBuilder{Fragments: []*hcmv3.ScopedRoutes_ScopeKeyBuilder_FragmentBuilder{{
			Type: &hcmv3.ScopedRoutes_ScopeKeyBuilder_FragmentBuilder_HeaderValueExtractor_{HeaderValueExtractor: host},
		}}},
		RdsConfigSource: fromADS(),
		ConfigSpecifier: &hcmv3.ScopedRoutes_ScopedRds{ScopedRds: &hcmv3.ScopedRds{ScopedRdsConfigSource: fromADS()}},
	}}
	m.HttpFilters = append(walkers(steps[p.Deep]...), m.HttpFilters...)
	if p.TellsApart() {
		m.HttpFilters = slices.Insert(m.HttpFilters, 0, apartFilter())
	}
	return overwritten(scopeHeader, p.Table+"|%REQ(:authority)%")
}

// steps are the filters of a listener, by whether its table may have wildcards of
// any depth.
var steps = map[bool][]string{false: {stepUp, stepOut}, true: {stepUp, stepIndex, stepOn}}

// The steps from a host that has no scope, or no route for a request. Envoy
// resolves the route before each filter, and once more for one that asks for its
// metadata; Envoy 1.40 does so only once a filter, so a loop in one filter would
// not work. The route's name tells whether there is one. What is to be tried after
// a key stands behind it, with a ":" in between: the key ends there, see subscribe.
const (
	stepUp = `function envoy_on_request(h)
  local headers = h:headers()
  local table, host = headers:get("` + scopeHeader + `"):match("^([^|]*|)([^:]*)")
  local lower = host:lower()
  if lower ~= host then
    headers:replace("` + scopeHeader + `", table .. lower)
    h:clearRouteCache()
    h:metadata()
    if h:streamInfo():routeName() ~= "" then return end
  end
  local parent = lower:match("%.(.*)")
  headers:replace("` + scopeHeader + `", table .. (parent and "*." .. parent or "*"))
  h:clearRouteCache()
end`
	stepOut = `function envoy_on_request(h)
  h:metadata()
  if h:streamInfo():routeName() ~= "" then return end
  local headers = h:headers()
  headers:replace("` + scopeHeader + `", headers:get("` + scopeHeader + `"):match("^[^|]*|") .. "*")
  h:clearRouteCache()
end`
	stepIndex = `function envoy_on_request(h)
  if h:streamInfo():routeName() ~= "" then return end
  local headers = h:headers()
  local table = headers:get("` + scopeHeader + `"):match("^[^|]*|")
  headers:replace("` + scopeHeader + `", table .. "` + string(indexHost) + `")
  h:clearRouteCache()
  h:metadata()
  local tried = h:streamInfo():routeName()
  headers:replace("` + scopeHeader + `", table .. (tried ~= "" and tried .. ":*" or "*"))
  h:clearRouteCache()
end`
	stepOn = `function envoy_on_request(h)
  local headers = h:headers()
  local function on()
    if h:streamInfo():routeName() ~= "" then return false end
    local table, rest = headers:get("` + scopeHeader + `"):match("^([^|]*|)[^:]*:(.*)")
    if not rest then return false end
    headers:replace("` + scopeHeader + `", table .. rest)
    h:clearRouteCache()
    return true
  end
  if on() then
    h:metadata()
    on()
  end
end`
)

// walker is the name of all such filters, so that one entry takes them out.
const walker = "walk"

func walkers(codes ...string) []*hcmv3.HttpFilter {
	var out []*hcmv3.HttpFilter
	for _, code := range codes {
		out = append(out, &hcmv3.HttpFilter{Name: walker, ConfigType: &hcmv3.HttpFilter_TypedConfig{TypedConfig: pack(&luav3.Lua{
			DefaultSourceCode: &corev3.DataSource{Specifier: &corev3.DataSource_InlineString{InlineString: code}},
		})}})
	}
	return out
}

// found takes the walkers out of the way: Envoy makes the filters of a request
// when it knows the route.
var found = map[string]*anypb.Any{walker: brief(&routev3.FilterConfig{Disabled: true})}

// configuration is a RouteConfiguration of one host but for its name.
func configuration(vh *routev3.VirtualHost) *routev3.RouteConfiguration {
	return &routev3.RouteConfiguration{
		VirtualHosts:           []*routev3.VirtualHost{vh},
		RequestHeadersToRemove: []string{scopeHeader},
		TypedPerFilterConfig:   found,
		// Without this, a route to a cluster that is being replaced is refused.
		ValidateClusters: wrapperspb.Bool(false),
	}
}

// served is a host of a collection: its scope and its RouteConfiguration.
type served struct{ scope, route Resource }

func (a served) Equal(b served) bool { return a.scope.Equal(b.scope) && a.route.Equal(b.route) }

// String is all of it.
func (a served) String() string { return fmt.Sprint(a.scope, ", ", a.route, " of ", a.route.Hosts()) }

// indexed are the hosts that stand for the indexes of collections.
var indexed = map[model.Kind]model.Host{model.Wildcards: indexHost, model.Names: namesHost}

// declareScopes adds the scopes and what they lead to.
func (d *derivation) declareScopes(g *inc.Graph, t *Tables) {
	d.indexes = inc.IndexBy(d.p.Contests, func(c model.Collection, _ model.There) []fleet.HostIn {
		host, ok := indexed[c.Kind()]
		if !ok {
			return nil
		}
		return []fleet.HostIn{{In: c, Host: host}}
	})
	d.served = inc.Derive(g, "envoy.Routes", d.servedOf, d.p.OwnHosts, d.p.Owners, d.indexes)
	t.Scopes = &byHost{d, func(row served) Resource { return row.scope }}
	t.Routes = &byHost{d, func(row served) Resource { return row.route }}
}

// servedOf is what a collection has of a host, or its index.
func (d *derivation) servedOf(r *inc.Reader, id fleet.HostIn) (served, bool) {
	if id.Host == indexHost {
		x, ok := d.indexIn(r, id.In)
		if !ok {
			return served{}, false
		}
		return d.servedBy(id, x), true
	}
	if id.Host == namesHost {
		return d.servedBy(id, d.namesIn(r, id.In)), true
	}
	key, owned := d.p.Owner(r, id)
	if !owned {
		return served{}, false
	}
	f, ok := d.fragments.Get(r, key)
	if !ok {
		return served{}, false
	}
	return d.servedBy(id, f), true
}

func (d *derivation) servedBy(id fleet.HostIn, routes model.Body) served {
	name := scopeName(id)
	return served{d.made(name, scopeBody{}), d.made(name, routes)}
}

// servedUnder is what a collection has under a name.
func (d *derivation) servedUnder(r *inc.Reader, k Key) (served, bool) {
	id := fleet.HostIn{In: k.Collection, Host: hostOfScope(k.Name)}
	row, ok := d.served.Get(r, id)
	return row, ok && scopeName(id) == k.Name
}

// hostOfScope is the host of a scope's name.
func hostOfScope(name string) model.Host {
	_, host, _ := strings.Cut(keyOfScope(name), "|")
	return hostOf(host)
}

// scopeBody is the body of all scopes: the name says it all. See scopeKey.
type scopeBody struct{}

// Append appends a ScopedRouteConfiguration, whose RouteConfiguration has the
// same name.
func (scopeBody) Append(b []byte, name string) []byte {
	key := keyOfScope(name)
	b = openAny(b, ScopeType, 2*sizeText(name)+sizeMessage(sizeMessage(sizeText(key))))
	b = appendText(b, 1, name)
	b = appendText(b, 2, name) // route_configuration_name
	return nest(b, 3, func(b []byte) []byte {
		return nest(b, 1, func(b []byte) []byte { return appendText(b, 1, key) })
	})
}

// Size is the length of one.
func (scopeBody) Size(name string) int {
	return sizeAny(ScopeType, 2*sizeText(name)+sizeMessage(sizeMessage(sizeText(keyOfScope(name)))))
}

// Refs is the RouteConfiguration.
func (scopeBody) Refs(name string) []Ref { return []Ref{{Type: RouteType, Name: name}} }

// keyOfScope is the inverse of scopeName.
func keyOfScope(name string) string {
	if strings.Contains(name, "|") {
		return name
	}
	return "|" + name
}
