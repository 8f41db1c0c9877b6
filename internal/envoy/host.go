package envoy

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	routev3 "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"
	matcherv3 "github.com/envoyproxy/go-control-plane/envoy/type/matcher/v3"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/spillway-dev/spillway/internal/fleet"
	"github.com/spillway-dev/spillway/internal/inc"
	"github.com/spillway-dev/spillway/internal/model"
)

// retryBuffer is how much of a request's body is kept so that it can be sent
// again: 1 MiB. A longer request is not retried once that much was sent.
const retryBuffer = 1 << 20

// fragment is one host, compiled once for all views: a VirtualHost in two
// parts, which make the whole when joined. Protobuf messages concatenate.
type fragment struct {
	key      model.HostKey
	head     []byte   // all but the routes
	routes   []byte   // the routes
	clusters []string // that the routes refer to, sorted, each once
	held     bool     // a backend is left out that a missing member may have
}

func (a fragment) Equal(b fragment) bool {
	return a.key == b.key && string(a.head) == string(b.head) && string(a.routes) == string(b.routes) && a.held == b.held
}

// fragmentOf compiles a host of a class.
func (d *derivation) fragmentOf(r *inc.Reader, key model.HostKey) (fragment, bool) {
	host, ok := d.p.Hosts.Get(r, key)
	if !ok {
		return fragment{}, false
	}
	t, _ := d.timings.Get(r, key.Class)
	f := fragment{key: key}
	var routes []*routev3.Route
	for _, route := range host.Routes {
		routes = append(routes, routesFor(route.Match, d.targetOf(r, route.Target, &f), t.Timing)...)
	}
	if host.Default != nil {
		routes = append(routes, routesFor(everything, d.targetOf(r, *host.Default, &f), t.Timing)...)
	}
	slices.Sort(f.clusters)
	f.clusters = slices.Compact(f.clusters)
	f.head = encode(&routev3.VirtualHost{
		Name: domain(key.Host), Domains: []string{domain(key.Host)}, RetryPolicy: retryAny(),
		RequestBodyBufferLimit: wrapperspb.UInt64(retryBuffer),
	})
	f.routes = encode(&routev3.VirtualHost{Routes: routes})
	return f, true
}

// targetOf finds the clusters of a target. A backend that no member has gets no
// cluster and is left out.
func (d *derivation) targetOf(r *inc.Reader, t fleet.Target, f *fragment) []weighted {
	var out []weighted
	for _, b := range t.Backends {
		name, ok := d.clusterNames.Get(r, b.Backend)
		if !ok {
			f.held = f.held || d.incomplete(r)
			continue
		}
		if b.Weight > 0 {
			out = append(out, weighted{name.name, b.Weight})
			f.clusters = append(f.clusters, name.name)
		}
	}
	return out
}

// domain is a host as Envoy's virtual hosts name it.
func domain(h model.Host) string {
	if h == "" {
		return "*"
	}
	return string(h)
}

// byDomain orders hosts so that a table of them reads well: exact names and
// wildcards by name, the catch-all last. Envoy's choice does not depend on it.
func byDomain(a, b fragment) int {
	last := func(h model.Host) int {
		if h == "" {
			return 1
		}
		return 0
	}
	return cmp.Or(cmp.Compare(last(a.key.Host), last(b.key.Host)), strings.Compare(string(a.key.Host), string(b.key.Host)))
}

// deeper returns, as the routes of a VirtualHost, what a wildcard host answers
// for names that are more than one label below it. Envoy's "*.x" covers names
// of any depth; ours covers one label, and deeper names belong to the
// catch-all, whose routes are given (nil: there is none).
func deeper(wildcard model.Host, catchAll []byte) []byte {
	only := &routev3.HeaderMatcher{
		Name: ":authority",
		HeaderMatchSpecifier: &routev3.HeaderMatcher_StringMatch{StringMatch: &matcherv3.StringMatcher{
			MatchPattern: &matcherv3.StringMatcher_SafeRegex{SafeRegex: &matcherv3.RegexMatcher{
				// More dots than the wildcard itself has; a port has none.
				Regex: fmt.Sprintf(`([^.]*\.){%d}.*`, strings.Count(string(wildcard), ".")+1),
			}},
		}},
	}
	var vh routev3.VirtualHost
	if err := proto.Unmarshal(catchAll, &vh); err != nil {
		panic("envoy: " + err.Error()) // we made these bytes
	}
	for _, route := range vh.Routes {
		route.Match.Headers = append(route.Match.Headers, only)
	}
	rest := match(everything)
	rest.Headers = []*routev3.HeaderMatcher{only}
	vh.Routes = append(vh.Routes, &routev3.Route{Match: rest, Action: &routev3.Route_DirectResponse{
		DirectResponse: &routev3.DirectResponseAction{Status: 404},
	}})
	return encode(&routev3.VirtualHost{Routes: vh.Routes})
}
