package main

import (
	"strings"
	"testing"

	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"

	"github.com/spillway-dev/spillway/internal/ingest"
	"github.com/spillway-dev/spillway/internal/xds"
)

// TestGateways: what the fleet says of Gateways can be read without a finding; each route
// is of a host below the domain of its Gateway, and every other Gateway has addresses of
// its own.
func TestGateways(t *testing.T) {
	f := newFleet(size{hosts: 40, endpoints: 2, members: 2, gateways: 4}, [2]certificate{})
	f.spares = 0
	classes := map[string]bool{}
	for _, o := range f.hub("gatewayclasses", "", nil) {
		k, _, ok, findings := ingest.GatewayClass(o.(*gatewayv1.GatewayClass))
		if !ok || len(findings) > 0 {
			t.Errorf("%v: %v", k, findings)
		}
		classes[o.(*gatewayv1.GatewayClass).Name] = true
	}
	domains, ownOnes := map[string]string{}, 0
	for _, o := range f.hub("gateways", "", nil) {
		g := o.(*gatewayv1.Gateway)
		if _, _, findings := ingest.Gateway(g); len(findings) > 0 || !classes[string(g.Spec.GatewayClassName)] {
			t.Errorf("%s of class %s: %v", g.Name, g.Spec.GatewayClassName, findings)
		}
		domains[g.Name] = strings.TrimPrefix(string(*g.Spec.Listeners[0].Hostname), "*")
		if strings.HasSuffix(string(g.Spec.GatewayClassName), own) {
			ownOnes++
		}
	}
	of := map[string]int{}
	for _, o := range f.hub("httproutes", "", nil) {
		r := o.(*gatewayv1.HTTPRoute)
		if _, _, _, findings := ingest.HTTPRoute(r); len(findings) > 0 {
			t.Errorf("%s: %v", r.Name, findings)
		}
		gateway := string(r.Spec.ParentRefs[0].Name)
		if !strings.HasSuffix(string(r.Spec.Hostnames[0]), domains[gateway]) {
			t.Errorf("%s is of %s, and not below %q", r.Spec.Hostnames[0], gateway, domains[gateway])
		}
		of[gateway]++
	}
	if len(domains) != 4 || ownOnes != 2 || len(of) != 4 || of[gatewayNamed(3)] != 10 {
		t.Errorf("%d Gateways, %d with addresses of their own, routes %v", len(domains), ownOnes, of)
	}
	if got := f.hub("ingresses", "", nil); len(got) != 2 {
		t.Errorf("%d Ingresses, want those of the hosts that answer", len(got))
	}
}

// TestMixed: every other host is of an HTTPRoute, and so is what comes; an edit is told
// where the list has the object.
func TestMixed(t *testing.T) {
	f := newFleet(size{hosts: 10, endpoints: 2, members: 2, mixed: true}, [2]certificate{})
	for host, plural := range map[int]string{probeHost: "ingresses", 4: "ingresses", 5: "httproutes", 10: "httproutes", 11: "httproutes"} {
		if e := f.addHost(host); e.at.plural != plural {
			t.Errorf("host %d is told of in %s, want %s", host, e.at.plural, plural)
		}
	}
	if routes, ingresses := len(f.hub("httproutes", "", nil)), len(f.hub("ingresses", "", nil)); routes != 5+2 || ingresses != 5+2 {
		t.Errorf("%d HTTPRoutes and %d Ingresses", routes, ingresses)
	}
	f.mark(5)
	r := f.mark(5).object.(*gatewayv1.HTTPRoute)
	if got := r.Spec.Rules[0].Filters[0].ResponseHeaderModifier.Set[0].Value; got != "2" {
		t.Errorf("after two edits the mark is %q", got)
	}
}

func TestNamesBut(t *testing.T) {
	var n names
	n.add(xds.RouteConfiguration, "a.example", 10)
	n.add(xds.RouteConfiguration, "a.example", 10)
	if got := n.but(xds.RouteConfiguration, "a.example"); got != 0 {
		t.Errorf("%d others", got)
	}
	n.add(xds.Cluster, "a.example", 0)
	n.add(xds.RouteConfiguration, "b.example", 10)
	if got := n.but(xds.RouteConfiguration, "a.example"); got != 2 {
		t.Errorf("%d others, want 2", got)
	}
}
