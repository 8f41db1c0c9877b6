package main

import (
	"github.com/spillway-dev/spillway/internal/lab"
	"github.com/spillway-dev/spillway/internal/lab/user"
	"github.com/spillway-dev/spillway/test/rig"
)

// Namespaces.
const (
	own    = "users"        // Gateways and most routes
	vault  = "users-vault"  // a backend that others need a grant for
	tenant = "users-tenant" // its routes attach by a label of it
)

// Gateways. Both have a listener for HTTP and one for HTTPS with the bystander's host.
const (
	mine  = "mine"  // what is edited and revoked
	other = "other" // nothing ever
)

// Hosts, each with a route and, of HTTPS, a listener and a Secret of its name.
const (
	weightedHost  = "weighted.example"
	grantedHost   = "granted.example"
	tenantHost    = "tenant.example"
	secureHost    = "secure.example"
	editedHost    = "edited.example"
	bystanderHost = "bystander.example"
	setHost       = "set.example" // of a ListenerSet, for the bystander's route
)

const (
	gatewayAPI = "gateway.networking.k8s.io/v1"
	group      = "gateway.networking.k8s.io"
	attach     = "users.example/attach" // label of namespaces whose routes may attach
	replicas   = 2
)

// deployment is pods and their Service, in one member.
type deployment struct{ member, namespace, name string }

// blue and green are in one member each, so that weights go from one to the other.
var deployments = []deployment{
	{eu1, own, "blue"},
	{eu2, own, "green"},
	{eu2, vault, "red"},
}

type object = user.Object

var named = user.Named

func (d deployment) objects() []object {
	labels := object{"app": d.name}
	return []object{
		named("v1", "Namespace", "", d.namespace, nil),
		named("v1", "Service", d.namespace, d.name, object{"spec": object{
			"selector": labels, "ports": []any{object{"name": "http", "port": 80, "targetPort": "http"}},
		}}),
		named("apps/v1", "Deployment", d.namespace, d.name, object{"spec": object{
			"replicas": replicas, "selector": object{"matchLabels": labels},
			"strategy": object{"rollingUpdate": object{"maxUnavailable": 0, "maxSurge": 1}},
			"template": object{"metadata": object{"labels": labels}, "spec": object{
				"terminationGracePeriodSeconds": 15,
				"containers": []any{object{
					"name": "echo", "image": lab.EchoImage, "ports": []any{object{"name": "http", "containerPort": 8080}},
					"readinessProbe": object{"httpGet": object{"path": "/healthz", "port": "http"}, "periodSeconds": 1},
				}},
			}},
		}}),
	}
}

// hubObjects are all on the hub but the Secrets.
func (w *world) hubObjects() []object {
	return []object{
		namespaceObject(own, true), namespaceObject(vault, false), namespaceObject(tenant, true),
		gatewayObject(mine, listener("http", "HTTP", httpPort, ""), listener("secure", "HTTPS", httpsPort, secureHost), listener("bystander", "HTTPS", httpsPort, bystanderHost)),
		gatewayObject(other, listener("http", "HTTP", httpPort, ""), listener("bystander", "HTTPS", httpsPort, bystanderHost)),
		listenerSetObject(),
		routeObject(own, "bystander", []any{parent(mine), parent(other), object{"group": group, "kind": "ListenerSet", "name": "set"}}, []any{bystanderHost, setHost}, rule(backend("blue", own, 1))),
		routeObject(own, "weighted", []any{parent(mine)}, []any{weightedHost}, weightedRule(0, weightSteps[0])),
		routeObject(own, "granted", []any{parent(mine)}, []any{grantedHost}, rule(backend("red", vault, 1))),
		routeObject(tenant, "tenant", []any{parent(mine)}, []any{tenantHost}, rule(backend("green", own, 1))),
		routeObject(own, "secure", []any{parent(mine)}, []any{secureHost}, rule(backend("green", own, 1))),
		routeObject(own, "edited", []any{parent(mine), parent(elsewhere)}, []any{editedHost}, rule(backend("blue", own, 1))),
		grantObject("to-users", vault, own), grantObject("to-tenant", own, tenant),
		named(gatewayAPI, "GatewayClass", "", elsewhere, object{"spec": object{"controllerName": otherController}}),
		named(gatewayAPI, "Gateway", own, elsewhere, object{"spec": object{"gatewayClassName": elsewhere, "listeners": []any{object{"name": "http", "protocol": "HTTP", "port": 80}}}}),
	}
}

func namespaceObject(name string, attaches bool) object {
	labels := object{}
	if attaches {
		labels[attach] = "yes"
	}
	return object{"apiVersion": "v1", "kind": "Namespace", "metadata": object{"name": name, "labels": labels}}
}

// listener lets routes of labelled namespaces attach. One of HTTPS has the Secret of its
// hostname.
func listener(name, protocol string, port int, host string) object {
	out := object{"name": name, "protocol": protocol, "port": port, "allowedRoutes": object{"namespaces": object{
		"from": "Selector", "selector": object{"matchLabels": object{attach: "yes"}},
	}}}
	if host != "" {
		out["hostname"] = host
	}
	if protocol == "HTTPS" {
		out["tls"] = object{"certificateRefs": []any{object{"name": host}}}
	}
	return out
}

func gatewayObject(name string, listeners ...any) object {
	return named(gatewayAPI, "Gateway", own, name, object{"spec": object{
		"gatewayClassName": rig.Class, "listeners": listeners, "allowedListeners": object{"namespaces": object{"from": "Same"}},
	}})
}

func listenerSetObject() object {
	return named(gatewayAPI, "ListenerSet", own, "set", object{"spec": object{
		"parentRef": object{"name": mine}, "listeners": []any{object{"name": "set", "protocol": "HTTP", "port": httpPort, "hostname": setHost}},
	}})
}

// parent is a reference to a Gateway, from any namespace.
func parent(gateway string) object { return object{"name": gateway, "namespace": own} }

func routeObject(namespace, name string, parents, hosts []any, rules ...any) object {
	return named(gatewayAPI, "HTTPRoute", namespace, name, object{"spec": object{"parentRefs": parents, "hostnames": hosts, "rules": rules}})
}

func backend(service, namespace string, weight int) object {
	return object{"name": service, "namespace": namespace, "port": 80, "weight": weight}
}

func rule(backends ...any) object { return object{"backendRefs": backends} }

// grantObject lets the HTTPRoutes of one namespace use the Services of another.
func grantObject(name, in, from string) object {
	return named(gatewayAPI, "ReferenceGrant", in, name, object{"spec": object{
		"from": []any{object{"group": group, "kind": "HTTPRoute", "namespace": from}}, "to": []any{object{"group": "", "kind": "Service"}},
	}})
}

func secretObject(host string, cert, key []byte) object {
	return named("v1", "Secret", own, host, object{"type": "kubernetes.io/tls", "data": object{"tls.crt": cert, "tls.key": key}})
}
