package main

import (
	"fmt"
	"strconv"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"

	"github.com/spillway-dev/spillway/api/v1alpha1"
)

// Gateways are in the namespace of the hosts that answer, and take routes of all.
const (
	gatewaySpace = "bench"
	oneGateway   = "one" // of a fleet in which HTTPRoutes are beside Ingresses
	otherPort    = httpPort + 1
	markHeader   = "X-Mark"
)

func gatewayNamed(i int) string { return fmt.Sprintf("gw-%04d", i) }

// perGateway is how many hosts each Gateway has.
func (f *fleet) perGateway() int { return f.hosts / f.gateways }

// routed reports whether a host is of an HTTPRoute.
func (f *fleet) routed(i int) bool {
	return i >= 0 && (f.gateways > 0 || f.mixed && (i%2 == 1 || i >= f.hosts))
}

// hostname is what a host is called: below the domain of its Gateway, if it has one of
// its own.
func (f *fleet) hostname(i int) string {
	if f.gateways > 0 && i >= 0 {
		return nameOf(i) + "." + gatewayDomain(i/f.perGateway())
	}
	return hostOf(i)
}

func gatewayDomain(i int) string { return gatewayNamed(i) + ".example" }

// gatewayClasses are one for each configuration of constant.
func gatewayClasses() (out []runtime.Object) {
	for _, config := range constant("gatewayclassconfigs") {
		name := config.(metav1.Object).GetName()
		o := &gatewayv1.GatewayClass{ObjectMeta: named("", name)}
		o.Spec.ControllerName = v1alpha1.ControllerGateway
		o.Spec.ParametersRef = &gatewayv1.ParametersReference{Group: v1alpha1.GroupName, Kind: "GatewayClassConfig", Name: name}
		out = append(out, o)
	}
	return out
}

// gatewayObjects are the Gateways that there are.
func (f *fleet) gatewayObjects() (out []runtime.Object) {
	for i := range f.gateways {
		out = append(out, f.gateway(i, class))
	}
	if f.mixed {
		out = append(out, gatewayObject(oneGateway, class, listenerAt("http", httpPort, "")))
	}
	return out
}

// gateway has a listener for all hosts below its domain, and more by their hosts. Every
// other has an address of its own, and may have another port there, for a host that no
// route has.
func (f *fleet) gateway(i int, config string, more ...string) *gatewayv1.Gateway {
	if i%2 == 1 && f.gateways > 1 {
		config += own
	}
	listeners := []gatewayv1.Listener{listenerAt("http", httpPort, "*."+gatewayDomain(i))}
	for n, host := range more {
		listeners = append(listeners, listenerAt(fmt.Sprintf("more-%d", n), httpPort, host))
	}
	if f.ports[i] {
		listeners = append(listeners, listenerAt("other", otherPort, "other.example"))
	}
	return gatewayObject(gatewayNamed(i), config, listeners...)
}

func gatewayObject(name, class string, listeners ...gatewayv1.Listener) *gatewayv1.Gateway {
	o := &gatewayv1.Gateway{ObjectMeta: named(gatewaySpace, name)}
	o.Spec.GatewayClassName, o.Spec.Listeners = gatewayv1.ObjectName(class), listeners
	return o
}

// listenerAt takes routes of all namespaces.
func listenerAt(name string, port int, host string) gatewayv1.Listener {
	all := gatewayv1.NamespacesFromAll
	l := gatewayv1.Listener{Name: gatewayv1.SectionName(name), Port: gatewayv1.PortNumber(port), Protocol: gatewayv1.HTTPProtocolType}
	l.AllowedRoutes = &gatewayv1.AllowedRoutes{Namespaces: &gatewayv1.RouteNamespaces{From: &all}}
	if host != "" {
		l.Hostname = new(gatewayv1.Hostname(host))
	}
	return l
}

// httpRoute is the HTTPRoute of a host: a path to its Service and, once it was marked, a
// header that each answer has.
func (f *fleet) httpRoute(i int) *gatewayv1.HTTPRoute {
	o := &gatewayv1.HTTPRoute{ObjectMeta: named(namespaceOf(i), nameOf(i))}
	gateway, space := oneGateway, gatewayv1.Namespace(gatewaySpace)
	if f.gateways > 0 {
		gateway = gatewayNamed(i / f.perGateway())
	}
	o.Spec.ParentRefs = []gatewayv1.ParentReference{{Name: gatewayv1.ObjectName(gateway), Namespace: &space}}
	o.Spec.Hostnames = []gatewayv1.Hostname{gatewayv1.Hostname(f.hostname(i))}
	rule := gatewayv1.HTTPRouteRule{
		Matches: []gatewayv1.HTTPRouteMatch{{Path: &gatewayv1.HTTPPathMatch{Type: new(gatewayv1.PathMatchPathPrefix), Value: new(pathAfter(f.paths[i]))}}},
	}
	to := gatewayv1.BackendRef{BackendObjectReference: gatewayv1.BackendObjectReference{Name: gatewayv1.ObjectName(nameOf(i)), Port: new(gatewayv1.PortNumber(80))}}
	rule.BackendRefs = []gatewayv1.HTTPBackendRef{{BackendRef: to}}
	if n := f.marks[i]; n > 0 {
		rule.Filters = []gatewayv1.HTTPRouteFilter{{
			Type:                   gatewayv1.HTTPRouteFilterResponseHeaderModifier,
			ResponseHeaderModifier: &gatewayv1.HTTPHeaderFilter{Set: []gatewayv1.HTTPHeader{{Name: markHeader, Value: strconv.Itoa(n)}}},
		}}
	}
	o.Spec.Rules = []gatewayv1.HTTPRouteRule{rule}
	return o
}

// changeGateway is told of a Gateway, of which the routes are there.
func (f *fleet) changeGateway(i int, typ watch.EventType, config string, more ...string) edit {
	f.mu.Lock()
	defer f.mu.Unlock()
	return edit{place{member: hub, plural: "gateways"}, typ, f.gateway(i, config, more...)}
}

// openPort gives a Gateway another port.
func (f *fleet) openPort(i int) edit {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.ports[i] = true
	return edit{place{member: hub, plural: "gateways"}, watch.Modified, f.gateway(i, class)}
}

// mark changes what a host's route adds to answers.
func (f *fleet) mark(i int) edit {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.marks[i]++
	return f.told(watch.Modified, i)
}
