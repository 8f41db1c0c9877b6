package envoy

import (
	"fmt"
	"strings"

	mutationv3 "github.com/envoyproxy/go-control-plane/envoy/config/common/mutation_rules/v3"
	routev3 "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"
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
// walked on to the wildcard one label up and to the catch-all by filters (see
// walk.go), which the RouteConfiguration of a host that is found takes out of
// the way. A listener whose table may have wildcards of any depth looks for these
// in between (see index). A host that says so ends without a match
// for what none of its rules is for: such a request has no route, so the filters
// walk on with it as with one whose host is not there.
//
// Names last: a scope and its RouteConfiguration are named after the host, and
// the key of a host does not change when classes come, go or change ports. A
// host that was found under another name would be answered 404 until Envoy had
// fetched what that leads to.

// scopeHeader holds the key of a request's scope. No client and no pod sees it.
const scopeHeader = "x-spillway-scope"

// scopeKey is what the header of a request for a host holds. No host has a "|", and
// each key has one but that of the walk.
func scopeKey(id fleet.HostIn) string {
	if id.Host == walkHost {
		return string(walkHost)
	}
	return id.In.Key().Table + "|" + domain(id.Host)
}

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
	m.HttpFilters = append(walkers(p), m.HttpFilters...)
	key := p.Table + "|%REQ(:authority)%"
	if p.TellsApart() {
		key = fromElsewhere(p.Number) + key
	}
	return overwritten(scopeHeader, key)
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
	shared := inc.IndexBy(d.p.Collections, func(_ model.View, all inc.List[model.Collection]) []fleet.HostIn { return walksIn(fleet.Few(all)) })
	alone := inc.IndexBy(d.p.Holdings, func(_ model.LeaseID, h fleet.Holding) []fleet.HostIn { return walksIn(h.Collections) })
	d.served = inc.Derive(g, "envoy.Routes", d.servedOf, d.p.OwnHosts, d.p.Owners, d.indexes, shared, alone)
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
	if id.Host == walkHost {
		return d.servedBy(id, walk), true
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
	if name == string(walkHost) {
		return walkHost
	}
	_, host, _ := strings.Cut(keyOfScope(name), "|")
	return hostOf(host)
}

// tableOfScope is the table of a scope's name.
func tableOfScope(name string) string {
	table, _, _ := strings.Cut(keyOfScope(name), "|")
	return table
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
	if strings.Contains(name, "|") || name == string(walkHost) {
		return name
	}
	return "|" + name
}
