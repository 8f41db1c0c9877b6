package ingest

import (
	"cmp"
	"slices"
	"strings"

	"github.com/spillway-dev/spillway/internal/model"
)

// Asking is what an object in a member asks its controller for: what is needed of it
// to know whether it contends with a leaf there.
type Asking struct {
	Class     string     // of an Ingress, or of a Gateway
	Kind      string     // of a route
	Fronts    []Front    // of a route, sorted
	Paths     []string   // of a route without host names, sorted: it asks for those of its listeners
	Listeners []Listener // of a Gateway or a ListenerSet
	Gateway   string     // of a ListenerSet: to which it adds its listeners, as FrontOf has it
	Addresses []string   // of a Gateway or an Ingress, that its status names, sorted
	Asks      []string   // hosts, each with a path of it: "a.example /path"; sorted
}

// Equal reports whether both ask for the same.
func (a Asking) Equal(b Asking) bool {
	return a.Class == b.Class && a.Kind == b.Kind && slices.Equal(a.Fronts, b.Fronts) && slices.Equal(a.Paths, b.Paths) && a.Gateway == b.Gateway &&
		slices.Equal(a.Listeners, b.Listeners) && slices.Equal(a.Addresses, b.Addresses) && slices.Equal(a.Asks, b.Asks)
}

// HostAsked is the host of one of Asking.Asks.
func HostAsked(ask string) string {
	host, _, _ := strings.Cut(ask, " ")
	return host
}

// IngressAsking is that of an Ingress, given as JSON has it. What is not as it should be
// asks for nothing: no API server has it.
func IngressAsking(o map[string]any) Asking {
	spec, metadata := mapIn(o, "spec"), mapIn(o, "metadata")
	out := Asking{Class: cmp.Or(TextIn(spec, "ingressClassName"), TextIn(mapIn(metadata, "annotations"), "kubernetes.io/ingress.class"))}
	for _, rule := range MapsIn(spec, "rules") {
		var paths []string
		for _, p := range MapsIn(mapIn(rule, "http"), "paths") {
			paths = append(paths, TextIn(p, "path"))
		}
		out.ask(TextIn(rule, "host"), paths)
	}
	for _, at := range MapsIn(mapIn(mapIn(o, "status"), "loadBalancer"), "ingress") {
		out.at(TextIn(at, "ip"))
		out.at(TextIn(at, "hostname"))
	}
	return out.sorted()
}

// RouteAsking is that of an HTTPRoute or a GRPCRoute.
func RouteAsking(o map[string]any) Asking {
	var paths []string
	for _, rule := range MapsIn(mapIn(o, "spec"), "rules") {
		matches := MapsIn(rule, "matches")
		if len(matches) == 0 {
			paths = append(paths, "/")
		}
		for _, m := range matches {
			if method := mapIn(m, "method"); method != nil {
				paths = append(paths, "/"+TextIn(method, "service")+"/"+TextIn(method, "method"))
				continue
			}
			paths = append(paths, TextIn(mapIn(m, "path"), "value"))
		}
	}
	return routeAsking(o, paths)
}

// TLSRouteAsking is that of a TLSRoute. Connections have no paths.
func TLSRouteAsking(o map[string]any) Asking { return routeAsking(o, []string{"TLS"}) }

func routeAsking(o map[string]any, paths []string) Asking {
	out := Asking{Kind: TextIn(o, "kind"), Fronts: frontsIn(o)}
	names, _ := mapIn(o, "spec")["hostnames"].([]any)
	if len(names) == 0 {
		out.Paths = paths
	}
	for _, n := range names {
		host, _ := n.(string)
		out.ask(host, paths)
	}
	return out.sorted()
}

// OpenShiftAsking is that of a Route of OpenShift.
func OpenShiftAsking(o map[string]any) Asking {
	var out Asking
	spec := mapIn(o, "spec")
	out.ask(TextIn(spec, "host"), []string{TextIn(spec, "path")})
	return out.sorted()
}

// GatewayAsking is that of a Gateway: it asks for no hosts, and routes are asked for at its
// addresses.
func GatewayAsking(o map[string]any) Asking {
	out := Asking{Class: TextIn(mapIn(o, "spec"), "gatewayClassName"), Listeners: listenersIn(o)}
	for _, a := range MapsIn(mapIn(o, "status"), "addresses") {
		out.at(TextIn(a, "value"))
	}
	return out.sorted()
}

// ListenerSetAsking is that of a ListenerSet: it asks for no hosts, and adds listeners to a
// Gateway once the controller of that says that it may.
func ListenerSetAsking(o map[string]any) Asking {
	if accepted, refused := saidIn(mapIn(o, "status"), "Accepted"); !accepted || refused {
		return Asking{}
	}
	to := mapIn(mapIn(o, "spec"), "parentRef")
	namespace := cmp.Or(TextIn(to, "namespace"), TextIn(mapIn(o, "metadata"), "namespace"))
	return Asking{Gateway: FrontOf(cmp.Or(TextIn(to, "kind"), model.GatewayKind), namespace, TextIn(to, "name")), Listeners: listenersIn(o)}
}

// at adds an address.
func (a *Asking) at(address string) {
	if address != "" && len(a.Addresses) < mostOfAddresses {
		a.Addresses = append(a.Addresses, strings.ToLower(address))
	}
}

// ask adds the paths of a host; none: all of it.
func (a *Asking) ask(host string, paths []string) {
	if host == "" {
		return
	}
	if len(paths) == 0 {
		paths = []string{"/"}
	}
	host = strings.ToLower(host)
	for _, p := range paths {
		if p != "TLS" {
			p = "/" + strings.Trim(p, "/")
		}
		a.Asks = append(a.Asks, host+" "+p)
	}
}

func (a Asking) sorted() Asking {
	for _, list := range []*[]string{&a.Paths, &a.Addresses, &a.Asks} {
		slices.Sort(*list)
		*list = slices.Compact(*list)
	}
	return a
}
