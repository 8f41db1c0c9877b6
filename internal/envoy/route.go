package envoy

import (
	"strings"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	routev3 "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/spillway-dev/spillway/internal/model"
)

// weighted is a cluster and its part of a route's traffic.
type weighted struct {
	cluster string
	weight  uint32
	of      uint32 // parts of its backend
}

// unavailable is what a client reads where no backend of a route may be used.
const unavailable = "no backend is available for this path\n"

// withoutBackend is the status there. Ingress says nothing about it; the Gateway
// API wants 500 of an HTTPRoute without a valid backendRef.
func withoutBackend(root model.Object) uint32 {
	if root.Kind == "HTTPRoute" {
		return 500
	}
	return 503
}

// nothing ends the routes of a host that has no default: what nobody asked for
// is not served, and not looked for among the wildcards.
var nothing = &routev3.Route{Name: "none", Match: match(everything), Action: &routev3.Route_DirectResponse{
	DirectResponse: &routev3.DirectResponseAction{Status: 404},
}}

// routesFor are the entries of one match of a root, first match wins: one for
// the safe methods, which may be retried more freely, and one for the others.
// They have the root's name, which access logs show.
func routesFor(m model.Match, root model.Object, to []weighted, t model.Timing) []*routev3.Route {
	name := root.Namespace + "/" + root.Name
	if len(to) == 0 {
		return []*routev3.Route{{Name: name, Match: match(m), Action: &routev3.Route_DirectResponse{DirectResponse: &routev3.DirectResponseAction{
			Status: withoutBackend(root),
			Body:   &corev3.DataSource{Specifier: &corev3.DataSource_InlineString{InlineString: unavailable}},
		}}}}
	}
	return []*routev3.Route{
		safely(match(m), forward(to), name, t),
		{Name: name, Match: match(m), Action: &routev3.Route_Route{Route: forward(to)}},
	}
}

// match compares the path without the query. A prefix matches whole elements;
// "/" matches every path.
func match(m model.Match) *routev3.RouteMatch {
	switch {
	case m.Kind == model.PathExact:
		return &routev3.RouteMatch{PathSpecifier: &routev3.RouteMatch_Path{Path: m.Path}}
	case matchesAll(m):
		return &routev3.RouteMatch{PathSpecifier: &routev3.RouteMatch_Prefix{Prefix: "/"}}
	}
	return &routev3.RouteMatch{PathSpecifier: &routev3.RouteMatch_PathSeparatedPrefix{PathSeparatedPrefix: strings.TrimRight(m.Path, "/")}}
}

// matchesAll reports whether a match takes every path.
func matchesAll(m model.Match) bool {
	return m.Kind == model.PathPrefix && strings.Trim(m.Path, "/") == ""
}

// everything is the match of a default target.
var everything = model.Match{Kind: model.PathPrefix, Path: "/"}

func forward(to []weighted) *routev3.RouteAction {
	// No limit on the whole request: an answer may stream for hours. What is
	// silent ends by the connection manager's stream idle timeout.
	action := &routev3.RouteAction{Timeout: durationpb.New(0)}
	if len(to) == 1 {
		action.ClusterSpecifier = &routev3.RouteAction_Cluster{Cluster: to[0].cluster}
		return action
	}
	w := &routev3.WeightedCluster{}
	for _, t := range to {
		w.Clusters = append(w.Clusters, &routev3.WeightedCluster_ClusterWeight{Name: t.cluster, Weight: wrapperspb.UInt32(t.weight)})
	}
	action.ClusterSpecifier = &routev3.RouteAction_WeightedClusters{WeightedClusters: w}
	return action
}
