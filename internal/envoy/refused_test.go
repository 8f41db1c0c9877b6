package envoy

import (
	"net/netip"
	"testing"

	endpointv3 "github.com/envoyproxy/go-control-plane/envoy/config/endpoint/v3"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	networkingv1 "k8s.io/api/networking/v1"
	"sigs.k8s.io/yaml"

	"github.com/spillway-dev/spillway/api/v1alpha1"
	"github.com/spillway-dev/spillway/internal/fleet"
	"github.com/spillway-dev/spillway/internal/inc"
	"github.com/spillway-dev/spillway/internal/ingest"
	"github.com/spillway-dev/spillway/internal/model"
)

// parsed is an object as its user writes it.
func parsed[T any](t *testing.T, text string) *T {
	t.Helper()
	o := new(T)
	if err := yaml.UnmarshalStrict([]byte(text), o); err != nil {
		t.Fatal(err)
	}
	return o
}

// TestRefusedEndpoints: what a member's objects say of edges, of the hub, of the
// proxy's own machine and of what is outside its ranges is in no assignment, and each has a
// Finding that names the object and the field.
func TestRefusedEndpoints(t *testing.T) {
	g := inc.New()
	p := fleet.Declare(g)
	tables := Declare(g, p)
	class := parsed[networkingv1.IngressClass](t, `{metadata: {name: spillway}, spec: {controller: `+v1alpha1.ControllerIngress+`}}`)
	edge := parsed[v1alpha1.Edge](t, `{metadata: {name: fra}, spec: {addresses: [{value: 198.51.100.7}]}}`)
	member := parsed[v1alpha1.MemberCluster](t, `{metadata: {name: eu-1}, spec: {taints: [], connection: {kubeconfigSecretRef: {name: x}}, podRanges: [10.1.0.0/16, 198.51.100.0/24]}}`)
	ingress := parsed[networkingv1.Ingress](t, `{metadata: {namespace: shop, name: web}, spec: {ingressClassName: spillway, rules: [{host: shop.example, http: {paths: [
		{path: /, pathType: Prefix, backend: {service: {name: web, port: {name: http}}}}, {path: /out, pathType: Prefix, backend: {service: {name: out, port: {number: 9901}}}}]}}]}}`)
	service := parsed[corev1.Service](t, `{metadata: {namespace: shop, name: web}, spec: {ports: [{name: http, port: 80}]}}`)
	out := parsed[corev1.Service](t, `{metadata: {namespace: shop, name: out}, spec: {type: ExternalName, externalName: admin.localhost}}`)
	slice := parsed[discoveryv1.EndpointSlice](t, `{metadata: {namespace: shop, name: web-1, labels: {kubernetes.io/service-name: web}}, addressType: IPv4, ports: [{name: http, port: 8080}],
		endpoints: [{addresses: [10.1.0.1]}, {addresses: [198.51.100.7]}, {addresses: [10.9.0.1]}, {addresses: [127.0.0.1]}, {addresses: [255.255.255.255]}, {addresses: [198.51.100.9]}]}`)
	g.Commit(func(tx *inc.Tx) {
		in := p.In
		problem := func(o model.Object, f model.Findings) {
			if len(f) > 0 {
				in.Problems.Set(tx, o, f)
			}
		}
		name, spec, _, _ := ingest.IngressClass(class)
		in.Classes.Set(tx, name, spec)
		fra, fraSpec, _, _ := ingest.Edge(edge)
		in.Edges.Set(tx, fra, fraSpec)
		hub := fleet.Guarded{Host: "hub.example", Port: 8080}
		in.Guarded.Set(tx, hub, fleet.Guard{What: "the hub", Addresses: []netip.Addr{netip.MustParseAddr("198.51.100.9")}})
		m, mSpec, _, _, _ := ingest.MemberCluster(member)
		in.Members.Set(tx, m, mSpec)
		in.Sources.Set(tx, m, model.Source{Connected: true})
		setIngress(tx, in, ingress)
		for _, s := range []*corev1.Service{service, out} {
			id, row, _, f := ingest.Service(m, s)
			in.Services.Set(tx, id, row)
			problem(model.Object{Member: m, Kind: "Service", Namespace: s.Namespace, Name: s.Name}, f)
		}
		id, row, _, f := ingest.EndpointSlice(m, slice)
		in.Slices.Set(tx, id, row)
		problem(model.Object{Member: m, Kind: "EndpointSlice", Namespace: "shop", Name: "web-1"}, f)
	})
	var assigned string
	for _, k := range tables.Assignments.Keys() {
		res, _ := tables.Assignments.Get(nil, k)
		assigned += describe(decode(t, res).(*endpointv3.ClusterLoadAssignment))
	}
	if assigned != "p0 eu-1 w1: 10.1.0.1:8080\n" {
		t.Errorf("assigned:\n%s", assigned)
	}
	type place struct {
		kind  string
		field model.Field
	}
	told := map[place]int{}
	for _, k := range p.Findings.Keys() {
		all, _ := p.Findings.Get(nil, k)
		for _, f := range all {
			told[place{k.Kind, f.Field}]++
			t.Log(f)
		}
	}
	for at, n := range map[place]int{
		{"EndpointSlice", "endpoints"}:                                  3, // an edge, outside the ranges, the hub
		{"EndpointSlice", "endpoints[3].addresses"}:                     1,
		{"EndpointSlice", "endpoints[4].addresses"}:                     1,
		{"Service", "spec.externalName"}:                                1,
		{"Ingress", "spec.rules[0].http.paths[0].backend.service.name"}: 1,
		{"Ingress", "spec.rules[0].http.paths[1].backend.service.port"}: 1,
	} {
		if told[at] != n {
			t.Errorf("%v: %d findings, not %d", at, told[at], n)
		}
	}
}
