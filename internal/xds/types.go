package xds

import "github.com/spillway-dev/spillway/internal/model"

// TypeURL names a resource type as xDS messages do.
type TypeURL = model.TypeURL

// The types served.
const (
	Cluster               TypeURL = "type.googleapis.com/envoy.config.cluster.v3.Cluster"
	ClusterLoadAssignment TypeURL = "type.googleapis.com/envoy.config.endpoint.v3.ClusterLoadAssignment"
	Listener              TypeURL = "type.googleapis.com/envoy.config.listener.v3.Listener"
	ScopedRoute           TypeURL = "type.googleapis.com/envoy.config.route.v3.ScopedRouteConfiguration"
	RouteConfiguration    TypeURL = "type.googleapis.com/envoy.config.route.v3.RouteConfiguration"
	Secret                TypeURL = "type.googleapis.com/envoy.extensions.transport_sockets.tls.v3.Secret"
)

// Types lists the types served, in the order in which one flush sends them.
var Types = []TypeURL{Cluster, ClusterLoadAssignment, Listener, ScopedRoute, RouteConfiguration, Secret}

// Ref names a resource that another one uses.
type Ref = model.Ref

// Resource is one resource of a view. It is shared by all streams and must
// not change after it was published.
type Resource = model.Resource

// Change sets a resource of a view or, with a nil Resource, deletes it.
type Change struct {
	Type     TypeURL
	Name     string
	Resource *Resource
}

// kind is a type's place in Types.
type kind uint8

const (
	cluster kind = iota
	assignment
	listener
	scope
	routes
	secret
	kinds // their number
)

// order is the sequence of types in one flush: what is used goes before what
// uses it. An upsert of a type in gatedKinds waits, besides, until the
// clusters it leads to are acknowledged with their assignments.
//
//	type                   upsert waits for              removal waits for the answers to
//	Cluster                -                             listeners, scopes, routes; grace
//	ClusterLoadAssignment  -                             the same, clusters; grace
//	Listener               clusters, direct or routed;   -
//	                       hosts, see hosts.go
//	ScopedRoute            clusters of its routes        listeners, if any is under way or drains; see linger.go
//	RouteConfiguration     its clusters                  listeners, scopes; grace
//	Secret                 -                             listeners, clusters; grace
var order = [...]kind{cluster, assignment, listener, scope, routes, secret}

// gatedKinds are the types whose upserts may have to wait for clusters.
var gatedKinds = [...]kind{listener, scope, routes}

// removals tells, for each type, which types must have answered what was
// pending before a removal is sent. No entry: it is sent at once.
var removals = [kinds][]kind{
	cluster:    {listener, scope, routes},
	assignment: {listener, scope, routes, cluster},
	scope:      {listener},
	routes:     {listener, scope},
	secret:     {listener, cluster},
}

// wildcards are the types a client may subscribe to as a whole. Secrets,
// assignments and route configurations go only to those that name them.
var wildcards = [kinds]bool{cluster: true, listener: true, scope: true}

var kindOf = func() map[TypeURL]kind {
	m := make(map[TypeURL]kind, len(Types))
	for i, t := range Types {
		m[t] = kind(i)
	}
	return m
}()

func (k kind) url() TypeURL { return Types[k] }
