package envoy

import (
	"slices"

	routev3 "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"
	"google.golang.org/protobuf/types/known/anypb"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/spillway-dev/spillway/internal/fleet"
	"github.com/spillway-dev/spillway/internal/model"
)

// weighted is a cluster and its part of a route's traffic.
type weighted struct {
	cluster string
	weight  uint32
	of      uint32        // parts of its backend; they follow each other
	filters model.Filters // for its backend alone
	session *anypb.Any    // how clients go back to its endpoints; nil: they don't
}

// nobody is the cluster of a part of requests that no backend gets. It is not there.
const nobody = "nobody"

// unavailable is what a client reads where no backend of a route may be used.
const unavailable = "no backend is available for this path\n"

// nothing ends the routes of a host that has no default and does not go on: what
// nobody asked for is not served, and not looked for among the wildcards.
var nothing = &routev3.Route{Name: "none", Match: match(model.Everything), Action: &routev3.Route_DirectResponse{
	DirectResponse: &routev3.DirectResponseAction{Status: 404},
}}

// besides are the clusters that a target leads to besides its backends.
type besides struct {
	mirrors     []mirror
	guard       *anypb.Any // what asks first; nil: nobody is asked
	nobodyToAsk bool       // somebody is to be asked and can't be
}

// routesFor are the entries of one match of a host, first match wins. They have
// the name of the root and of its rule, which access logs show.
func routesFor(m model.Match, of fleet.Target, host model.Host, at ports, to []weighted, also besides, t model.Timing) []*routev3.Route {
	out := append(otherwiseAsked(m, of.Filters.Over(), host, at), actionsOf(m, of, host, at.listener, to, also, t)...)
	for _, route := range out {
		route.Name = of.Root.Namespace + "/" + of.Root.Name
		if of.Rule != "" {
			route.Name += "/" + of.Rule
		}
	}
	return out
}

// actionsOf are an answer, or ways to backends.
func actionsOf(m model.Match, of fleet.Target, host model.Host, port uint16, to []weighted, also besides, t model.Timing) []*routev3.Route {
	reply := of.Reply
	if reply == nil && len(to) == 0 {
		reply = &model.Reply{Status: fleet.Unanswered(of.Root), Body: unavailable}
	}
	if also.nobodyToAsk && reply == nil {
		reply = &model.Reply{Status: fleet.Unguarded}
	}
	if reply != nil {
		route := answered(m, reply, host, port)
		respond(route, of.Filters.Key())
		return []*routev3.Route{route}
	}
	out := preflights(m, of.Filters.Key().CORS, to, lostOf(of.Root))
	for _, w := range ways(to) {
		out = append(out, attempts(m, w, of.Filters.Then(w.filters).Key(), also.mirrors, t, lostOf(of.Root))...)
	}
	if also.guard != nil {
		return guarded(m, out, also.guard)
	}
	return out
}

// attempts are one route for all methods, if its rule says what is retried, or
// two: one for the safe methods, which may be retried more freely, and one for the
// others.
func attempts(m model.Match, w way, k model.FiltersKey, mirrors []mirror, t model.Timing, lost lost) []*routev3.Route {
	route := func() *routev3.Route {
		out := &routev3.Route{Match: match(m), Action: &routev3.Route_Route{Route: forward(w.to, lost)}}
		out.Match.RuntimeFraction = w.share
		filtered(out, m, k, mirrors)
		goBack(out, w.to)
		return out
	}
	if k.Retry.Own {
		return []*routev3.Route{retried(route(), k.Retry)}
	}
	if k.Session != (model.Session{}) {
		t.PerTryTimeout = 0 // a request that is slow where its session is has nothing to win elsewhere
	}
	var out []*routev3.Route
	method := m.When.Key().Method
	if method == "" || slices.Contains(safeMethods, method) {
		out = append(out, safely(route(), k.Timeouts.Backend, t))
	}
	if method == "" || len(out) == 0 {
		out = append(out, route())
	}
	return out
}

// lost is how the part of requests is answered that no backend gets.
type lost = routev3.RouteAction_ClusterNotFoundResponseCode

func lostOf(root model.Object) lost {
	if fleet.Unfit(root) == 503 {
		return routev3.RouteAction_SERVICE_UNAVAILABLE
	}
	return routev3.RouteAction_INTERNAL_SERVER_ERROR
}

func forward(to []weighted, lost lost) *routev3.RouteAction {
	// No limit on the whole request unless its rule has one: an answer may stream for hours. What is
	// silent ends by the connection manager's stream idle timeout.
	action := &routev3.RouteAction{Timeout: durationpb.New(0)}
	if slices.ContainsFunc(to, func(t weighted) bool { return t.cluster == nobody }) {
		action.ClusterNotFoundResponseCode = lost
	}
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
