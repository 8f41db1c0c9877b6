package ingest

import (
	"encoding/json"
	"slices"
	"testing"
)

// TestAsking: what objects in members ask for; what can't be read asks for nothing.
func TestAsking(t *testing.T) {
	for _, c := range []struct {
		of   func(map[string]any) Asking
		json string
		want Asking
	}{
		{IngressAsking, `{"spec": {"ingressClassName": "nginx", "rules": [{"host": "B.example", "http": {"paths": [{"path": "/x/"}, {}]}}, {"host": "a.example"}, {"http": {"paths": [{"path": "/all"}]}}]}}`,
			Asking{Class: "nginx", Asks: []string{"a.example /", "b.example /", "b.example /x"}}},
		{IngressAsking, `{"metadata": {"annotations": {"kubernetes.io/ingress.class": "old"}}}`, Asking{Class: "old"}},
		{IngressAsking, `{"spec": {"rules": [7, {"host": 7, "http": []}], "ingressClassName": []}, "metadata": null}`, Asking{}},
		{RouteAsking, `{"metadata": {"namespace": "shop"}, "spec": {"parentRefs": [{"name": "gw"}, {"namespace": "infra", "name": "gw"}, {"kind": "Service", "name": "x"}], "hostnames": ["*.example"], "rules": [{}, {"matches": [{"path": {"value": "/x"}}, {"method": {"service": "s", "method": "m"}}]}]}}`,
			Asking{Fronts: []Front{{Of: "Gateway infra/gw"}, {Of: "Gateway shop/gw", Own: true}}, Asks: []string{"*.example /", "*.example /s/m", "*.example /x"}}},
		{RouteAsking, `{"kind": "HTTPRoute", "spec": {"parentRefs": [{"name": "gw", "port": 80}], "rules": [{}]}}`, Asking{Kind: "HTTPRoute", Fronts: []Front{{Of: "Gateway /gw", Port: 80, Own: true}}, Paths: []string{"/"}}},
		{TLSRouteAsking, `{"spec": {"parentRefs": [{"name": "a", "sectionName": "x"}, {"name": "b"}, {"name": "b"}]}, "status": {"parents": [7, {"parentRef": {"name": "a"}, "conditions": [{"type": "Accepted", "status": "False"}]},
{"parentRef": {"name": "a", "sectionName": "x"}, "conditions": [{"type": "Accepted", "status": "True"}]}, {"parentRef": {"name": "b"}, "conditions": [{"type": "Accepted", "status": "False"}]}]}}`,
			Asking{Fronts: []Front{{Of: "Gateway /a", Section: "x", Own: true, Accepted: true}, {Of: "Gateway /b", Own: true, Refused: true}}, Paths: []string{"TLS"}}},
		{IngressAsking, `{"status": {"loadBalancer": {"ingress": [{"ip": "192.0.2.1"}, {"hostname": "LB.example"}, {}]}}}`, Asking{Addresses: []string{"192.0.2.1", "lb.example"}}},
		{GatewayAsking, `{"spec": {"listeners": [{"name": "web", "port": 80, "protocol": "HTTP", "hostname": "A.example"}, {"name": "tls", "port": 443, "protocol": "TLS", "allowedRoutes": {"namespaces": {"from": "All"}, "kinds": [{"kind": "TLSRoute"}, {"kind": "TCPRoute"}]}}, 7]}}`,
			Asking{Listeners: []Listener{{"web", 80, "a.example", ",HTTPRoute,GRPCRoute,", "Same", false}, {"tls", 443, "", ",TLSRoute,TCPRoute,", "All", false}}}},
		{RouteAsking, `{"kind": "HTTPRoute", "metadata": {"namespace": "shop"}, "spec": {"parentRefs": [{"kind": "ListenerSet", "name": "gw"}, {"name": "gw"}], "rules": [{}]}, "status": {"parents": [{"parentRef": {"kind": "ListenerSet", "name": "gw"}, "conditions": [{"type": "Accepted", "status": "False"}]}]}}`,
			Asking{Kind: "HTTPRoute", Fronts: []Front{{Of: "Gateway shop/gw", Own: true}, {Of: "ListenerSet shop/gw", Own: true, Refused: true}}, Paths: []string{"/"}}},
		{ListenerSetAsking, `{"metadata": {"namespace": "shop"}, "spec": {"parentRef": {"name": "gw", "namespace": "infra"}, "listeners": [{"name": "web", "port": 80, "protocol": "HTTP", "hostname": "A.example"}]}, "status": {"conditions": [{"type": "Accepted", "status": "True"}]}}`,
			Asking{Gateway: "Gateway infra/gw", Listeners: []Listener{{"web", 80, "a.example", ",HTTPRoute,GRPCRoute,", "Same", false}}}},
		{ListenerSetAsking, `{"metadata": {"namespace": "shop"}, "spec": {"parentRef": {"name": "gw"}, "listeners": 7}, "status": {"conditions": [7, {"type": "Accepted", "status": "True"}]}}`, Asking{Gateway: "Gateway shop/gw"}},
		{ListenerSetAsking, `{"metadata": {"namespace": "shop"}, "spec": {"parentRef": {"name": "gw"}, "listeners": [{"name": "web", "port": 80, "protocol": "HTTP"}]}}`, Asking{}},
		{ListenerSetAsking, `{"metadata": {"namespace": "shop"}, "spec": {"parentRef": {"name": "gw"}, "listeners": [{"name": "a", "port": 80, "protocol": "HTTP"}, {"name": "b", "port": 81, "protocol": "HTTP"}, {"name": "c", "port": 82, "protocol": "HTTP"}, {"name": "d", "port": 83, "protocol": "HTTP"}]},
"status": {"conditions": [{"type": "Accepted", "status": "True"}], "listeners": [7, {"name": "a", "conditions": [{"type": "Accepted", "status": "False"}]}, {"name": "b", "conditions": [7, {"type": "Conflicted", "status": "True"}]}, {"name": "c", "conditions": [{"type": "Accepted", "status": "Unknown"}, {"type": "Programmed", "status": "False"}]}]}}`,
			Asking{Gateway: "Gateway shop/gw", Listeners: []Listener{{"a", 80, "", ",HTTPRoute,GRPCRoute,", "Same", true}, {"b", 81, "", ",HTTPRoute,GRPCRoute,", "Same", true}, {"c", 82, "", ",HTTPRoute,GRPCRoute,", "Same", false}, {"d", 83, "", ",HTTPRoute,GRPCRoute,", "Same", false}}}},
		{GatewayAsking, `{"spec": {"listeners": [{"name": "a", "port": 80, "protocol": "HTTP"}, {"name": "b", "port": 81, "protocol": "HTTP"}]}, "status": {"listeners": [{"name": "a", "conditions": [{"type": "Accepted", "status": "True"}, {"type": "Conflicted", "status": "False"}]}, {"name": "b", "conditions": [{"type": "Accepted", "status": "False"}]}]}}`,
			Asking{Listeners: []Listener{{"a", 80, "", ",HTTPRoute,GRPCRoute,", "Same", false}, {"b", 81, "", ",HTTPRoute,GRPCRoute,", "Same", true}}}},
		{TLSRouteAsking, `{"spec": {"hostnames": ["a.example"]}}`, Asking{Asks: []string{"a.example TLS"}}},
		{OpenShiftAsking, `{"spec": {"host": "a.example", "path": "/x"}}`, Asking{Asks: []string{"a.example /x"}}},
		{GatewayAsking, `{"spec": {"gatewayClassName": "contour"}, "status": {"addresses": [{"value": "B.example"}, {"value": "192.0.2.1"}, {}]}}`,
			Asking{Class: "contour", Addresses: []string{"192.0.2.1", "b.example"}}},
	} {
		var o map[string]any
		if err := json.Unmarshal([]byte(c.json), &o); err != nil {
			t.Fatal(err)
		}
		if got := c.of(o); !got.Equal(c.want) {
			t.Errorf("%s: %+v, want %+v", c.json, got, c.want)
		}
	}
}

// TestAttaches: to which listeners a route attaches, whose names it then asks for.
func TestAttaches(t *testing.T) {
	http := Listener{Name: "web", Port: 80, Host: "a.example", Kinds: kindsTaken["HTTP"], From: "All"}
	with := func(edit func(*Listener)) Listener { l := http; edit(&l); return l }
	for name, c := range map[string]struct {
		p    Front
		l    Listener
		want bool
	}{
		"any":                           {Front{}, http, true},
		"by name":                       {Front{Section: "web"}, http, true},
		"by another name":               {Front{Section: "x"}, http, false},
		"by port":                       {Front{Port: 80}, http, true},
		"by another port":               {Front{Port: 81}, http, false},
		"refused":                       {Front{Refused: true}, http, false},
		"another protocol":              {Front{}, with(func(l *Listener) { l.Kinds = kindsTaken["TLS"] }), false},
		"a protocol of somebody's own":  {Front{}, with(func(l *Listener) { l.Kinds = kindsTaken["x"] }), false},
		"its own namespace":             {Front{Own: true}, with(func(l *Listener) { l.From = "Same" }), true},
		"another namespace":             {Front{}, with(func(l *Listener) { l.From = "Same" }), false},
		"no namespace":                  {Front{Own: true}, with(func(l *Listener) { l.From = "None" }), false},
		"selected, nobody says":         {Front{Section: "web"}, with(func(l *Listener) { l.From = "Selector" }), false},
		"selected":                      {Front{Section: "web", Accepted: true}, with(func(l *Listener) { l.From = "Selector" }), true},
		"selected, but by any listener": {Front{Accepted: true}, with(func(l *Listener) { l.From = "Selector" }), false},
	} {
		if got := c.p.Attaches("HTTPRoute", c.l); got != c.want {
			t.Errorf("%s: %v", name, got)
		}
	}
	a := Asking{Kind: "HTTPRoute", Fronts: []Front{{Of: "Gateway x/gw"}, {Of: "Gateway x/gw", Port: 80}, {Of: "ListenerSet x/gw"}}, Paths: []string{"/", "/x"}}
	all := map[string][]Listener{"Gateway x/gw": {http, with(func(l *Listener) { l.Host = "" })}}
	if got := a.With(func(front string) []Listener { return all[front] }); !slices.Equal(got, []string{"a.example /", "a.example /x"}) {
		t.Errorf("with the names of listeners: %q", got)
	}
}
