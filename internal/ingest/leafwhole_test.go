package ingest_test

import (
	"fmt"
	"strings"
	"testing"

	routev1 "github.com/openshift/api/route/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"
	"sigs.k8s.io/yaml"

	"github.com/spillway-dev/spillway/internal/ingest"
	"github.com/spillway-dev/spillway/internal/model"
)

const wholeYAML = `
metadata: {name: web, namespace: shop, uid: u, labels: {app: web, app.kubernetes.io/instance: x}, annotations: {a: b, kubectl.kubernetes.io/x: y}}
spec:
  parentRefs: [{name: gw}, {name: gw, namespace: infra, sectionName: http}]
  hostnames: [a.example, "*.b.example"]
  rules:
  - name: first
    matches: [{path: {type: Exact, value: /a}}, {method: GET, headers: [{name: X-A, value: "1"}]}]
    filters: [{type: RequestHeaderModifier, requestHeaderModifier: {set: [{name: namespace, value: x}]}}]
    timeouts: {request: 5s}
    backendRefs: [{name: web, port: 80, weight: 3}, {name: api, namespace: other, port: 81}]
  - backendRefs: [{name: rest, port: 80}]`

func route(t *testing.T) *gatewayv1.HTTPRoute {
	t.Helper()
	o := &gatewayv1.HTTPRoute{}
	if err := yaml.UnmarshalStrict([]byte(wholeYAML), o); err != nil {
		t.Fatal(err)
	}
	return o
}

// TestWhole: all of a route is kept but what leaves never have, and what it is cut to is
// what is asked for; the object stays as it is.
func TestWhole(t *testing.T) {
	o := route(t)
	before := fmt.Sprint(o)
	id, m := ingest.RouteManifest("HTTPRoute", o, nil)
	if id.String() != "HTTPRoute shop/web" || m.UID != "u" {
		t.Errorf("%v %v", id, m)
	}
	w, err := ingest.WholeOf(m.Body)
	if err != nil || w.Text() != m.Body {
		t.Errorf("%v: %s\nis %s", err, m.Body, w.Text())
	}
	for _, want := range []string{`"labels":{"app":"web"}`, `"annotations":{"a":"b"}`, `"timeouts":{"request":"5s"}`, `"weight":3`, `"name":"first"`} {
		if !strings.Contains(m.Body, want) {
			t.Errorf("%s is missing in %s", want, m.Body)
		}
	}
	if !ingest.CutRules("HTTPRoute", w.Spec, func(m model.Match) bool { return m.Kind == model.PathExact || m == model.Everything }) {
		t.Error("nothing is left")
	}
	ingest.CutHosts(w.Spec, func(h model.Host) bool { return h == "**.b.example" })
	ingest.CutParents(w.Spec, func(p model.Parent) bool { return p.Section == "http" })
	ingest.Elsewhere(w.Spec, func(ns string) string { return "w--" + ns })
	const want = `{"hostnames":["*.b.example"],"parentRefs":[{"name":"gw","namespace":"w--infra","sectionName":"http"}],"rules":[` +
		`{"backendRefs":[{"name":"web","port":80,"weight":3},{"name":"api","namespace":"w--other","port":81}],"filters":[{"requestHeaderModifier":{"set":[{"name":"namespace","value":"x"}]},"type":"RequestHeaderModifier"}],` +
		`"matches":[{"path":{"type":"Exact","value":"/a"}}],"name":"first","timeouts":{"request":"5s"}},{"backendRefs":[{"name":"rest","port":80}]}]}`
	if _, got, _ := strings.Cut(w.Text(), `"spec":`); got != want+"}" {
		t.Errorf("%s\nwant %s", got, want)
	}
	if ingest.CutRules("HTTPRoute", w.Spec, func(model.Match) bool { return false }) {
		t.Error("a rule is left")
	}
	if fmt.Sprint(o) != before {
		t.Error("the object was changed")
	}
}

// TestKeysStay: the key that a Route has in itself is in no manifest, nor is what is of
// no use without.
func TestKeysStay(t *testing.T) {
	o := &routev1.Route{ObjectMeta: metav1.ObjectMeta{Name: "web", Namespace: "shop"}, Spec: routev1.RouteSpec{Host: "a.example", TLS: &routev1.TLSConfig{
		Termination: routev1.TLSTerminationReencrypt, Key: "secret", Certificate: "cert", CACertificate: "ca", DestinationCACertificate: "dest",
	}}}
	_, m := ingest.OpenShiftManifest(o, nil)
	if strings.Contains(m.Body, "secret") || strings.Contains(m.Body, `"ca"`) || !strings.Contains(m.Body, "dest") || o.Spec.TLS.Key != "secret" {
		t.Errorf("%s, of %v", m.Body, o.Spec.TLS)
	}
}

// TestLeafStatus: of what members write into statuses so much is kept, and no more.
func TestLeafStatus(t *testing.T) {
	long := strings.Repeat("x", 5000)
	for _, c := range []struct{ kind, status, addresses, said string }{
		{"Ingress", `{"loadBalancer": {"ingress": [{"ip": "192.0.2.1"}]}}`, "[192.0.2.1]", ""},
		{"Gateway", `{"addresses": [{"value": "LB.example"}, {"value": "192.0.2.1"}], "conditions": [{"type": "Other", "status": "True"}, {"type": "Programmed", "status": "False", "reason": "R", "message": "` + long + `", "observedGeneration": 7, "lastTransitionTime": "2026-01-01T00:00:00Z"}],
"listeners": [{"name": "http", "attachedRoutes": 5, "conditions": [{"type": "Accepted", "status": "True", "reason": "Accepted"}]}]}`, "[192.0.2.1 lb.example]",
			`{"conditions":[{"type":"Programmed","status":"False","reason":"R","message":"` + strings.Repeat("x", 253) + `…"}],"listeners":[{"name":"http","conditions":[{"type":"Accepted","status":"True","reason":"Accepted"}]}]}`},
		{"ListenerSet", `{"addresses": [{"value": "192.0.2.1"}], "conditions": [{"type": "Programmed", "status": "False", "reason": "R"}, {"type": "Accepted", "status": "True"}, {"type": "Conflicted", "status": "True"}],
"listeners": [{"name": "z", "attachedRoutes": 5, "conditions": [{"type": "ResolvedRefs", "status": "False"}]}, {"name": "a", "port": 80, "conditions": [{"type": "Accepted", "status": "Unknown"}]}, {"name": "none"}]}`, "[]",
			`{"conditions":[{"type":"Accepted","status":"True"},{"type":"Programmed","status":"False","reason":"R"}],"listeners":[{"name":"a","conditions":[{"type":"Accepted","status":"Unknown"}]},{"name":"z","conditions":[{"type":"ResolvedRefs","status":"False"}]}]}`},
		{"ListenerSet", "{}", "[]", ""},
		{"HTTPRoute", `{"parents": [{"controllerName": "c", "parentRef": {"kind": "ListenerSet", "name": "more"}, "conditions": [{"type": "Accepted", "status": "True"}]}]}`, "[]",
			`{"parents":[{"parent":{"Group":"gateway.networking.k8s.io","Kind":"ListenerSet","Namespace":"","Name":"more","Section":"","Port":0},"conditions":[{"type":"Accepted","status":"True"}]}]}`},
		{"HTTPRoute", `{"parents": [{"controllerName": "c", "parentRef": {"name": "gw"}, "conditions": [{"type": "ResolvedRefs", "status": "False"}, {"type": "Accepted", "status": "True"}]}]}`, "[]",
			`{"parents":[{"parent":{"Group":"gateway.networking.k8s.io","Kind":"Gateway","Namespace":"","Name":"gw","Section":"","Port":0},"conditions":[{"type":"Accepted","status":"True"},{"type":"ResolvedRefs","status":"False"}]}]}`},
		{"Route", `{"ingress": [{"conditions": [{"type": "Admitted", "status": "True"}]}, {"conditions": [{"type": "Admitted", "status": "False", "reason": "HostAlreadyClaimed"}]}]}`, "[]",
			`{"conditions":[{"type":"Admitted","status":"False","reason":"HostAlreadyClaimed"}]}`},
		{"Gateway", "", "[]", ""},
		{"UDPRoute", "{}", "[]", ""},
	} {
		addresses, said, err := ingest.LeafStatus(c.kind, []byte(c.status))
		if err != nil || addresses.String() != c.addresses || string(said) != c.said {
			t.Errorf("%s: %v %s %s\nwant %s %s", c.kind, err, addresses, said, c.addresses, c.said)
		}
		if said.Report().Text() != said {
			t.Errorf("%s is read as %v", said, said.Report())
		}
	}
	for _, kind := range []string{"Ingress", "Gateway", "ListenerSet", "HTTPRoute", "Route"} {
		if _, _, err := ingest.LeafStatus(kind, []byte(`{"conditions": 7, "parents": 7, "ingress": 7, "loadBalancer": 7}`)); err == nil {
			t.Errorf("%s: a status that can't be read is read", kind)
		}
	}
}
