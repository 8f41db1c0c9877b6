package ingest_test

import (
	"strings"
	"testing"

	networkingv1 "k8s.io/api/networking/v1"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"
	"sigs.k8s.io/yaml"

	"github.com/spillway-dev/spillway/internal/ingest"
	"github.com/spillway-dev/spillway/internal/model"
)

const futureYAML = `
metadata: {name: web, namespace: shop}
spec:
  future: {a: 1, big: 9007199254740993}
  parentRefs: [{name: gw}]
  hostnames: [a.example]
  rules:
  - matches: [{path: {type: Glob, value: "/a*"}, future: {a: 1}}, {path: {type: Exact, value: /b}}]
    filters: [{type: Future, future: {a: 1}}]
    backendRefs: [{name: web, port: 80, filters: [{type: Future}]}]`

// TestFutureRoute: what edges can't do is no fault of a route of which there are leaves
// only; its Services are known, and its leaf has all that it says.
func TestFutureRoute(t *testing.T) {
	o := &gatewayv1.HTTPRoute{}
	if err := yaml.Unmarshal([]byte(futureYAML), o); err != nil {
		t.Fatal(err)
	}
	if _, _, rules, found := ingest.HTTPRoute(o); len(found) != 2 || len(rules[0].Rules[0].Matches) != 1 {
		t.Errorf("on edges: %v, %v", rules, found)
	}
	_, root, rules, found := ingest.LeafHTTPRoute(o)
	if len(found) > 0 || len(rules) != 1 || len(rules[0].Rules) != 1 || root.Route.Refused != (model.Refusal{}) {
		t.Fatalf("%v, %v, %v", root, rules, found)
	}
	rule := rules[0].Rules[0]
	if len(rule.Matches) != 2 || len(rule.Backends) != 1 || rule.Backends[0].Backend == (model.Backend{}) {
		t.Errorf("%+v", rule)
	}
	text, err := yaml.YAMLToJSON([]byte(strings.Replace(futureYAML, "big: 9007199254740993", "big: 7", 1)))
	if err != nil {
		t.Fatal(err)
	}
	text = []byte(strings.Replace(string(text), `"big":7`, `"big":9007199254740993`, 1))
	_, m := ingest.RouteManifest("HTTPRoute", o, text)
	w, err := ingest.WholeOf(m.Body)
	if err != nil || w.Text() != m.Body {
		t.Errorf("%v: %s", err, m.Body)
	}
	if !ingest.CutRules("HTTPRoute", w.Spec, func(m model.Match) bool { return m == rule.Matches[0] }) {
		t.Error("nothing is left")
	}
	const want = `{"future":{"a":1,"big":9007199254740993},"hostnames":["a.example"],"parentRefs":[{"name":"gw"}],"rules":[{"backendRefs":[{"filters":[{"type":"Future"}],"name":"web","port":80}],` +
		`"filters":[{"future":{"a":1},"type":"Future"}],"matches":[{"future":{"a":1},"path":{"type":"Glob","value":"/a*"}}]}]}}`
	if _, got, _ := strings.Cut(w.Text(), `"spec":`); got != want {
		t.Errorf("%s\nwant %s", got, want)
	}
	o.Spec.Rules[0].BackendRefs[0].Port = nil
	if _, root, _, found := ingest.LeafHTTPRoute(o); len(found) != 1 || root.Route.Broken == (model.Refusal{}) {
		t.Errorf("a backend without a port: %v", found)
	}
}

// TestFutureIngress: the same of an Ingress.
func TestFutureIngress(t *testing.T) {
	kind, service := networkingv1.PathType("Glob"), &networkingv1.IngressServiceBackend{Name: "web", Port: networkingv1.ServiceBackendPort{Number: 80}}
	o := &networkingv1.Ingress{}
	o.Spec.Rules = []networkingv1.IngressRule{{Host: "a.example", IngressRuleValue: networkingv1.IngressRuleValue{HTTP: &networkingv1.HTTPIngressRuleValue{
		Paths: []networkingv1.HTTPIngressPath{{Path: "a*", PathType: &kind, Backend: networkingv1.IngressBackend{Service: service}}},
	}}}}
	if _, _, _, found := ingest.Ingress(o); len(found) != 1 {
		t.Errorf("on edges: %v", found)
	}
	if _, _, rules, found := ingest.LeafIngress(o); len(found) > 0 || len(rules) != 1 || len(rules[0].Rules) != 1 || len(rules[0].Rules[0].Backends) != 1 {
		t.Errorf("%v, %v", rules, found)
	}
}
