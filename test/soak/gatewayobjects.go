package main

import (
	"strings"

	"github.com/spillway-dev/spillway/internal/lab/user"
)

const (
	gatewayAPI = "gateway.networking.k8s.io/v1"

	sharedClass = "soak"     // Gateways at the addresses of the edges
	ownClass    = "soak-own" // and at addresses of their own

	gateName   = "gate" // has the hosts below gateDomain
	gateDomain = "gate.example"
	setName    = "set"   // a ListenerSet of the gate
	moverName  = "mover" // is at the edges' addresses and at its own, in turns
	moverHost  = "mover.example"
	relayName  = "relay" // passes connections on, at addresses of its own
	relayHost  = "relay.example"

	and = "+" // between Services that share requests
)

// gatewayClasses are both. The first has the parameters of the lab's class.
func gatewayClasses() []object {
	class := func(name, config string) object {
		return named(gatewayAPI, "GatewayClass", "", name, object{"spec": object{
			"controllerName": "spillway.dev/gateway", "parametersRef": object{"group": user.Ours.Group, "kind": "GatewayClassConfig", "name": config},
		}})
	}
	return []object{
		named(user.Ours.String(), "GatewayClassConfig", "", ownClass, object{"spec": object{"address": "Own"}}),
		class(sharedClass, config), class(ownClass, ownClass),
	}
}

func gatewayObject(name, class string, listeners ...any) object {
	return named(gatewayAPI, "Gateway", namespace, name, object{"spec": object{
		"gatewayClassName": class, "listeners": listeners, "allowedListeners": object{"namespaces": object{"from": "Same"}},
	}})
}

func (s *soak) listenerOn(name, host string) object {
	http, _ := s.lab.EdgePorts(s.fronts[0].Name)
	return object{"name": name, "protocol": "HTTP", "port": http, "hostname": host}
}

// plain is a listener for one host.
func (s *soak) plain(host string) object { return s.listenerOn("http", host) }

// gate is the Gateway as it is now.
func (s *soak) gate() object {
	_, https := s.lab.EdgePorts(s.fronts[0].Name)
	all := []any{s.listenerOn("http", "*."+gateDomain), object{
		"name": "https", "protocol": "HTTPS", "port": https, "hostname": "*." + gateDomain, "tls": object{"certificateRefs": []any{object{"name": gateName}}},
	}}
	if s.listener {
		all = append(all, s.listenerOn("extra", s.extra.host))
	}
	return gatewayObject(gateName, sharedClass, all...)
}

func (s *soak) listenerSet() object {
	return named(gatewayAPI, "ListenerSet", namespace, setName, object{"spec": object{
		"parentRef": object{"name": gateName}, "listeners": []any{s.listenerOn("set", s.sets.host)},
	}})
}

// relay has one listener for connections of any kind, and one for those of TLS, which
// pods end.
func (s *soak) relay() object {
	http, https := s.lab.EdgePorts(s.fronts[0].Name)
	return gatewayObject(relayName, ownClass,
		object{"name": "tcp", "protocol": "TCP", "port": http},
		object{"name": "tls", "protocol": "TLS", "port": https, "hostname": relayHost, "tls": object{"mode": "Passthrough"}})
}

// httpRouteObject is an HTTPRoute of a Gateway; the ListenerSet is a parent, too.
func httpRouteObject(name, parent string, hosts []string, paths routes) object {
	var rules []any
	for _, path := range []string{"/", "/x"} {
		if to, ok := paths[path]; ok {
			kind := map[bool]string{true: "PathPrefix", false: "Exact"}[path == "/"]
			rules = append(rules, object{"matches": []any{object{"path": object{"type": kind, "value": path}}}, "backendRefs": backendRefs(to, 80)})
		}
	}
	ref := object{"name": parent}
	if parent == setName {
		ref = object{"group": "gateway.networking.k8s.io", "kind": "ListenerSet", "name": parent}
	}
	names := make([]any, len(hosts))
	for i, h := range hosts {
		names[i] = h
	}
	return named(gatewayAPI, "HTTPRoute", namespace, name, object{"spec": object{"parentRefs": []any{ref}, "hostnames": names, "rules": rules}})
}

// backendRefs has several Services share the requests.
func backendRefs(services string, port int) (out []any) {
	for _, name := range strings.Split(services, and) {
		out = append(out, object{"name": name, "port": port, "weight": 1})
	}
	return out
}

// streamRouteObject passes the connections of a listener of the relay on.
func streamRouteObject(kind, listener, service string, port int) object {
	spec := object{
		"parentRefs": []any{object{"name": relayName, "sectionName": listener}},
		"rules":      []any{object{"backendRefs": backendRefs(service, port)}},
	}
	if kind == "TLSRoute" {
		spec["hostnames"] = []any{relayHost}
	}
	return named(gatewayAPI, kind, namespace, relayName, object{"spec": spec})
}
