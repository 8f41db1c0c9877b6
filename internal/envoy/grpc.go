package envoy

import (
	"slices"

	clusterv3 "github.com/envoyproxy/go-control-plane/envoy/config/cluster/v3"
	endpointv3 "github.com/envoyproxy/go-control-plane/envoy/config/endpoint/v3"
	listenerv3 "github.com/envoyproxy/go-control-plane/envoy/config/listener/v3"
	routev3 "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"
	routerv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/router/v3"
	hcmv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/network/http_connection_manager/v3"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/spillway-dev/spillway/internal/fleet"
	"github.com/spillway-dev/spillway/internal/inc"
	"github.com/spillway-dev/spillway/internal/model"
)

// A gRPC client reads less than Envoy and refuses more: an unknown filter, a
// path_separated_prefix, a cluster that looks up several names. So it gets its
// own listeners, routes and clusters, as small as they can be. Sources: gRFCs
// A27, A28, A32, A37, A42, A52, and grpc-go 1.84.

// clientListener is what `xds:///NAME` asks for (A27).
func clientListener(name string) *listenerv3.Listener {
	return &listenerv3.Listener{Name: name, ApiListener: &listenerv3.ApiListener{ApiListener: pack(&hcmv3.HttpConnectionManager{
		StatPrefix: "grpc", // required, and read by nobody
		RouteSpecifier: &hcmv3.HttpConnectionManager_Rds{Rds: &hcmv3.Rds{
			ConfigSource: fromADS(), RouteConfigName: name,
		}},
		HttpFilters: []*hcmv3.HttpFilter{{
			Name:       "envoy.filters.http.router",
			ConfigType: &hcmv3.HttpFilter_TypedConfig{TypedConfig: pack(&routerv3.Router{})},
		}},
	})}}
}

// hostOf compiles a host that some view's clients may ask for, once for all views.
func (t *ClientTables) hostOf(r *inc.Reader, key model.HostKey) (Resource, bool) {
	host, ok := t.d.p.Hosts.Get(r, key)
	if !ok {
		return Resource{}, false
	}
	f := fragment{}
	// Clients take who they trust from their own bootstrap (A29), so a backend over
	// TLS is none of theirs.
	// They ask nobody whether a call may go on, so what is for who was asked about is
	// none of theirs either.
	targetOf := func(to fleet.Target) []weighted {
		if to.Auth() != (model.Auth{}) {
			return nil
		}
		return slices.DeleteFunc(t.d.targetOf(r, to, model.Dial{}, &f), func(w weighted) bool { return overTLS(w.cluster) })
	}
	vh := &routev3.VirtualHost{Name: "h", Domains: []string{"*"}} // the listener has chosen by the host
	for _, route := range host.Routes {
		vh.Routes = append(vh.Routes, clientRoutes(route.Match, targetOf(route.Target))...)
	}
	if host.Default != nil {
		vh.Routes = append(vh.Routes, clientRoutes(model.Everything, targetOf(*host.Default))...)
	}
	f.clusters = slices.DeleteFunc(f.clusters, overTLS)
	m := &routev3.RouteConfiguration{Name: string(key.Host), VirtualHosts: []*routev3.VirtualHost{vh}}
	return seal(m.Name, m, refs(ClusterType, sortedOnce(f.clusters))...), true
}

// clientRoutes are the entries of one match, first match wins. There is no
// policy of retries: a client repeats by itself what no server has seen (A6),
// and what else may be repeated it knows better. What nothing matches, and what
// has no backend or is answered by proxies, fails as UNAVAILABLE.
func clientRoutes(m model.Match, to []weighted) []*routev3.Route {
	var out []*routev3.Route
	for _, match := range clientMatches(m) {
		route := &routev3.Route{Match: match}
		if len(to) > 0 {
			route.Action = &routev3.Route_Route{Route: forward(to, routev3.RouteAction_SERVICE_UNAVAILABLE)}
		} else { // so that no shorter prefix takes it
			route.Action = &routev3.Route_DirectResponse{DirectResponse: &routev3.DirectResponseAction{Status: 503}}
		}
		out = append(out, route)
	}
	return out
}

// callMethod is the method of every call.
const callMethod = "POST"

// clientMatches says without a path_separated_prefix, which clients refuse, that
// a prefix matches whole elements. A call is a POST without a query; of what
// takes only other requests there is none.
func clientMatches(m model.Match) []*routev3.RouteMatch {
	when := m.When.Key()
	if when.Method != "" && when.Method != callMethod || when.Query != "" {
		return nil
	}
	when.Method = ""
	m.When = when.Conditions()
	all := match(m)
	p, ok := all.GetPathSpecifier().(*routev3.RouteMatch_PathSeparatedPrefix)
	if !ok {
		return []*routev3.RouteMatch{all}
	}
	return []*routev3.RouteMatch{
		{PathSpecifier: &routev3.RouteMatch_Prefix{Prefix: p.PathSeparatedPrefix + "/"}, Headers: all.Headers},
		{PathSpecifier: &routev3.RouteMatch_Path{Path: p.PathSeparatedPrefix}, Headers: all.Headers},
	}
}

// clientCluster says what a client reads of a cluster: where its endpoints come
// from, that the weights of localities count, which with LEAST_REQUEST they do
// not (A52), and a limit in place of gRPC's own of 1,024 requests (A32). How
// dead endpoints are found is the client's own: it knows which connections work.
func clientCluster(name string) *clusterv3.Cluster {
	return &clusterv3.Cluster{
		Name:                 name,
		ClusterDiscoveryType: &clusterv3.Cluster_Type{Type: clusterv3.Cluster_EDS},
		EdsClusterConfig:     &clusterv3.Cluster_EdsClusterConfig{EdsConfig: fromADS()},
		LbPolicy:             clusterv3.Cluster_ROUND_ROBIN,
		CircuitBreakers: &clusterv3.CircuitBreakers{Thresholds: []*clusterv3.CircuitBreakers_Thresholds{{
			MaxRequests: wrapperspb.UInt32(limit),
		}}},
	}
}

func clientClusterUnder(n clusterName, name string) Resource {
	if i, entry := n.find(name); entry {
		return seal(name, clientEntry(name, n.from(i)), refs(ClusterType, n.from(i))...)
	}
	return seal(name, clientCluster(name), Ref{Type: AssignmentType, Name: name})
}

// clientEntry is an entry of a backend in parts (A37); CLUSTER_PROVIDED, which
// Envoy wants there, is refused.
func clientEntry(name string, to []string) *clusterv3.Cluster {
	c := entryCluster(name, to)
	return &clusterv3.Cluster{Name: name, ClusterDiscoveryType: c.ClusterDiscoveryType, LbPolicy: clusterv3.Cluster_ROUND_ROBIN}
}

// clientLookup is a cluster of which the client resolves the name. It can have
// only one (A37): that of the nearest locality. Nil if there is none.
func clientLookup(name string, all []locality) *clusterv3.Cluster {
	nearest := slices.IndexFunc(all, func(l locality) bool { return len(l.endpoints) > 0 })
	if nearest < 0 {
		return nil
	}
	c, first := clientCluster(name), all[nearest].endpoints[0]
	c.ClusterDiscoveryType = &clusterv3.Cluster_Type{Type: clusterv3.Cluster_LOGICAL_DNS}
	c.EdsClusterConfig = nil
	c.LoadAssignment = &endpointv3.ClusterLoadAssignment{ClusterName: name, Endpoints: []*endpointv3.LocalityLbEndpoints{{
		LbEndpoints: []*endpointv3.LbEndpoint{{HostIdentifier: &endpointv3.LbEndpoint_Endpoint{Endpoint: &endpointv3.Endpoint{
			Address: socket(first.name, first.port),
		}}}},
	}}}
	return c
}
