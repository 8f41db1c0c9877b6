package ingest

import (
	"cmp"
	"slices"
	"strings"
)

// Asking is what an object in a member asks its controller for: what is needed of it
// to know whether it contends with a leaf there.
type Asking struct {
	Class     string   // of an Ingress, or of a Gateway
	Fronts    []string // of a route, the Gateways by which it is asked for, namespace/name, sorted
	Addresses []string // of a Gateway, that its status names, sorted
	Asks      []string // hosts, each with a path of it: "a.example /path"; sorted
}

// Equal reports whether both ask for the same.
func (a Asking) Equal(b Asking) bool {
	return a.Class == b.Class && slices.Equal(a.Fronts, b.Fronts) && slices.Equal(a.Addresses, b.Addresses) && slices.Equal(a.Asks, b.Asks)
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
	return out.sorted()
}

// RouteAsking is that of an HTTPRoute or a GRPCRoute. One without host names has those of
// its listeners, and claims none here.
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
	var out Asking
	spec, own := mapIn(o, "spec"), TextIn(mapIn(o, "metadata"), "namespace")
	for _, p := range MapsIn(spec, "parentRefs") {
		if cmp.Or(TextIn(p, "kind"), "Gateway") == "Gateway" {
			out.Fronts = append(out.Fronts, cmp.Or(TextIn(p, "namespace"), own)+"/"+TextIn(p, "name"))
		}
	}
	names, _ := spec["hostnames"].([]any)
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
	out := Asking{Class: TextIn(mapIn(o, "spec"), "gatewayClassName")}
	for _, a := range MapsIn(mapIn(o, "status"), "addresses") {
		if value := TextIn(a, "value"); value != "" && len(out.Addresses) < mostOfAddresses {
			out.Addresses = append(out.Addresses, strings.ToLower(value))
		}
	}
	return out.sorted()
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
	for _, list := range []*[]string{&a.Fronts, &a.Addresses, &a.Asks} {
		slices.Sort(*list)
		*list = slices.Compact(*list)
	}
	return a
}
