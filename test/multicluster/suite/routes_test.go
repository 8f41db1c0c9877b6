package suite

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strconv"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	gateway "sigs.k8s.io/gateway-api/apis/v1"
)

const (
	gatewayName = "gateway"
	domain      = "example.com"
)

// host is what requests of the test are for, so that Gateways may share an address.
func (w *world) host() string { return w.namespace + "." + domain }

// gateway makes the test's Gateway, and returns its address and port when it is programmed.
func (w *world) gateway() string {
	w.Helper()
	w.apply(w.hub, "Gateway", w.namespace, gatewayName, w.gatewayText(w.host()))
	address := ""
	w.await("the Gateway to be programmed", func(ctx context.Context) error {
		g, err := w.readGateway(ctx)
		if err != nil {
			return err
		}
		if err := hasCondition(g.Status.Conditions, g.Generation, string(gateway.GatewayConditionProgrammed), metav1.ConditionTrue, ""); err != nil {
			return err
		}
		if len(g.Status.Addresses) == 0 {
			return errors.New("expected an address in status.addresses, and there is none")
		}
		address = net.JoinHostPort(g.Status.Addresses[0].Value, strconv.Itoa(w.port))
		return nil
	})
	return address
}

// gatewayText is of a Gateway with a listener for a hostname.
func (w *world) gatewayText(hostname string) string {
	return fmt.Sprintf("spec: {gatewayClassName: %s, listeners: [{name: http, protocol: HTTP, port: %d, hostname: %q}]}", w.class, w.port, hostname)
}

func (w *world) readGateway(ctx context.Context) (g gateway.Gateway, err error) {
	err = w.hub.read(ctx, "Gateway", w.namespace, gatewayName, &g)
	return g, err
}

// ref is a backendRef; its namespace is the test's.
func (w *world) ref(name string) string { return refTo(w.kind, name, port, "") }

// refTo is any backendRef. more is of its other fields.
func refTo(k kind, name string, port int, more string) string {
	if more != "" {
		more = ", " + more
	}
	return fmt.Sprintf("{group: %q, kind: %s, name: %s, port: %d%s}", k.group(), k, name, port, more)
}

// leads is a rule that has no matches.
func (w *world) leads(name string) string { return "[{backendRefs: [" + w.ref(name) + "]}]" }

// route applies an HTTPRoute of the test's Gateway. rules are in YAML.
func (w *world) route(name, rules string) *unstructured.Unstructured {
	w.Helper()
	return w.apply(w.hub, "HTTPRoute", w.namespace, name, w.routeText(rules))
}

func (w *world) routeText(rules string) string {
	return fmt.Sprintf("spec:\n  parentRefs: [{name: %s}]\n  hostnames: [%s]\n  rules: %s\n", gatewayName, w.host(), rules)
}

// accepted returns when routes are accepted.
func (w *world) accepted(routes ...string) {
	w.Helper()
	for _, r := range routes {
		w.becomes(r, gateway.RouteConditionAccepted, metav1.ConditionTrue, "")
	}
}

// becomes returns when a route has a condition.
func (w *world) becomes(route string, typ gateway.RouteConditionType, status metav1.ConditionStatus, reason gateway.RouteConditionReason) {
	w.Helper()
	w.await(fmt.Sprintf("HTTPRoute %s to have %s", route, conditionText(string(typ), status, string(reason))), func(ctx context.Context) error {
		return w.routeHas(ctx, route, typ, status, reason)
	})
}

// resolved returns when all backends of a route are, and unresolved when one is not.
func (w *world) resolved(route string) {
	w.Helper()
	w.becomes(route, gateway.RouteConditionResolvedRefs, metav1.ConditionTrue, "")
}

func (w *world) unresolved(route string, reason gateway.RouteConditionReason) {
	w.Helper()
	w.becomes(route, gateway.RouteConditionResolvedRefs, metav1.ConditionFalse, reason)
}

// routeHas looks at what the implementation says of a route to the test's Gateway.
func (w *world) routeHas(ctx context.Context, route string, typ gateway.RouteConditionType, status metav1.ConditionStatus, reason gateway.RouteConditionReason) error {
	var r gateway.HTTPRoute
	if err := w.hub.read(ctx, "HTTPRoute", w.namespace, route, &r); err != nil {
		return err
	}
	for _, p := range r.Status.Parents {
		if p.ParentRef.Name == gatewayName && string(p.ControllerName) == w.controller {
			return hasCondition(p.Conditions, r.Generation, string(typ), status, string(reason))
		}
	}
	return fmt.Errorf("expected a parent of controller %s in status.parents, and there are %d others", w.controller, len(r.Status.Parents))
}
