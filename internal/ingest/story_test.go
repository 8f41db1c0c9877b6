package ingest

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	routev1 "github.com/openshift/api/route/v1"
	certificatesv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"
	mcsv1beta1 "sigs.k8s.io/mcs-api/pkg/apis/v1beta1"
	"sigs.k8s.io/yaml"

	"github.com/spillway-dev/spillway/api/v1alpha1"
	"github.com/spillway-dev/spillway/internal/model"
)

var update = flag.Bool("update", false, "write what was seen into the story files")

// kinds makes an empty object of each kind, by the name of its story file.
var kinds = map[string]func() runtime.Object{
	"ingress":            func() runtime.Object { return &networkingv1.Ingress{} },
	"ingressclass":       func() runtime.Object { return &networkingv1.IngressClass{} },
	"gatewayclassconfig": func() runtime.Object { return &v1alpha1.GatewayClassConfig{} },
	"edge":               func() runtime.Object { return &v1alpha1.Edge{} },
	"dnszone":            func() runtime.Object { return &v1alpha1.DNSZone{} },
	"placement":          func() runtime.Object { return &v1alpha1.Placement{} },
	"membercluster":      func() runtime.Object { return &v1alpha1.MemberCluster{} },
	"secret":             func() runtime.Object { return &corev1.Secret{} },
	"service":            func() runtime.Object { return &corev1.Service{} },
	"endpointslice":      func() runtime.Object { return &discoveryv1.EndpointSlice{} },
	"gatewayclass":       func() runtime.Object { return &gatewayv1.GatewayClass{} },
	"gateway":            func() runtime.Object { return &gatewayv1.Gateway{} },
	"listenerset":        func() runtime.Object { return &gatewayv1.ListenerSet{} },
	"grpcroute":          func() runtime.Object { return &gatewayv1.GRPCRoute{} },
	"tlsroute":           func() runtime.Object { return &gatewayv1.TLSRoute{} },
	"tcproute":           func() runtime.Object { return &gatewayv1.TCPRoute{} },
	"udproute":           func() runtime.Object { return &gatewayv1.UDPRoute{} },
	"route":              func() runtime.Object { return &routev1.Route{} },
	"httproute":          func() runtime.Object { return &gatewayv1.HTTPRoute{} },
	"referencegrant":     func() runtime.Object { return &gatewayv1.ReferenceGrant{} },
	"backendtlspolicy":   func() runtime.Object { return &gatewayv1.BackendTLSPolicy{} },
	"clustertrustbundle": func() runtime.Object { return &certificatesv1.ClusterTrustBundle{} },
	"serviceimport":      func() runtime.Object { return &mcsv1beta1.ServiceImport{} },
	"serviceexport":      func() runtime.Object { return &mcsv1beta1.ServiceExport{} },
	"configmap":          func() runtime.Object { return &corev1.ConfigMap{} },
	"namespace":          func() runtime.Object { return &corev1.Namespace{} },
	"definition":         func() runtime.Object { return &metav1.PartialObjectMetadata{} },
}

// result is what an object gives: no row is a nil row.
type result struct {
	key, row any
	rules    []HostRules
	held     Held
	findings model.Findings
}

func read(o runtime.Object) result {
	some := func(key, row any, ok bool, f model.Findings) result {
		if !ok {
			row = nil
		}
		return result{key: key, row: row, findings: f}
	}
	switch o := o.(type) {
	case *networkingv1.Ingress:
		id, root, rules, f := Ingress(o)
		return result{key: id, row: root, rules: rules, findings: f}
	case *networkingv1.IngressClass:
		k, v, ok, f := IngressClass(o)
		return some(k, v, ok, f)
	case *v1alpha1.GatewayClassConfig:
		k, v, ok, f := GatewayClassConfig(o)
		return some(k, v, ok, f)
	case *v1alpha1.Edge:
		k, v, ok, f := Edge(o)
		return some(k, v, ok, f)
	case *v1alpha1.DNSZone:
		k, v, ok, f := DNSZone(o)
		return some(k, v, ok, f)
	case *v1alpha1.Placement:
		k, v, f := Placement(o)
		return some(k, v, true, f)
	case *v1alpha1.MemberCluster:
		k, v, c, ok, f := MemberCluster(o)
		return some(k, struct {
			model.MemberSpec
			Connection Connection
		}{v, c}, ok, f)
	case *corev1.Secret:
		k, v := Secret(o)
		return some(k, v, true, nil)
	case *mcsv1beta1.ServiceImport:
		k, v, f := ServiceImport(o)
		return some(k, v, true, f)
	case *mcsv1beta1.ServiceExport:
		k, v := ServiceExport("eu-1", o)
		return some(k, v, true, nil)
	case *corev1.Service:
		k, v, ok, f := Service("eu-1", o)
		return some(k, v, ok, f)
	case *discoveryv1.EndpointSlice:
		k, v, ok, f := EndpointSlice("eu-1", o)
		return some(k, struct {
			Ports     []model.SlicePort
			Endpoints []model.Endpoint
		}{v.Ports, v.Endpoints.List()}, ok, f)
	case *gatewayv1.GatewayClass:
		k, v, ok, f := GatewayClass(o)
		return some(k, v, ok, f)
	case *gatewayv1.Gateway:
		k, v, f := Gateway(o)
		return some(k, v, true, f)
	case *gatewayv1.ListenerSet:
		k, v, f := ListenerSet(o)
		return some(k, v, true, f)
	case *gatewayv1.GRPCRoute:
		id, root, rules, f := GRPCRoute(o)
		return result{key: id, row: root, rules: rules, findings: f}
	case *gatewayv1.TLSRoute:
		id, root, rules, f := TLSRoute(o)
		return result{key: id, row: root, rules: rules, findings: f}
	case *gatewayv1.TCPRoute:
		id, root, rules, f := TCPRoute(o)
		return result{key: id, row: root, rules: rules, findings: f}
	case *gatewayv1.UDPRoute:
		id, root, rules, f := UDPRoute(o)
		return result{key: id, row: root, rules: rules, findings: f}
	case *routev1.Route:
		id, root, rules, held, f := Route(o)
		return result{id, root, rules, held, f}
	case *gatewayv1.HTTPRoute:
		id, root, rules, f := HTTPRoute(o)
		return result{key: id, row: root, rules: rules, findings: f}
	case *gatewayv1.ReferenceGrant:
		k, v := ReferenceGrant(o)
		return some(k, v, true, nil)
	case *gatewayv1.BackendTLSPolicy:
		k, v, f := BackendTLSPolicy(o)
		return some(k, v, true, f)
	case *certificatesv1.ClusterTrustBundle:
		k, v := ClusterTrustBundle(o)
		return some(k, v, true, nil)
	case *corev1.ConfigMap:
		k, v, ok := ConfigMap(o)
		return some(k, v, ok, nil)
	case *metav1.PartialObjectMetadata:
		k, v := Definition(o)
		return some(k, v, true, nil)
	case *corev1.Namespace:
		k, v := Namespace(o)
		return some(k, struct{ Labels model.Labels }{v}, true, nil)
	}
	panic(fmt.Sprintf("no reader of %T", o))
}

// text is the result as stories show it: fields that have a value, one a line.
func (r result) text() string {
	var b strings.Builder
	switch {
	case r.row == nil && len(r.findings) == 0:
		b.WriteString("nothing\n")
	case r.row != nil:
		fmt.Fprintf(&b, "%v\n", r.key)
		if c, ok := r.row.(model.Certificate); ok && c.Problem == "" {
			fmt.Fprintf(&b, "  a certificate for %q\n", c.To.List()) // made anew in each run
		} else if s, ok := r.row.(fmt.Stringer); ok {
			fmt.Fprintf(&b, "  %v\n", s)
		} else {
			show(&b, r.row)
		}
	}
	for _, of := range r.rules {
		if len(of.Rules) == 0 {
			fmt.Fprintf(&b, "  %q: no rule\n", of.Host)
		}
		for _, rule := range of.Rules {
			fmt.Fprintf(&b, "  %q: %+v\n", of.Host, rule)
		}
	}
	if c := r.held.Certificate; c != nil {
		fmt.Fprintf(&b, "  holds a certificate for %s\n", strings.Join(c.Names, ", "))
	}
	if r.held.Authorities != nil {
		fmt.Fprintf(&b, "  holds authorities\n")
	}
	for _, f := range r.findings {
		mark := "!"
		if f.Severity != model.Error {
			mark = "! " + f.Severity.String()
		}
		fmt.Fprintf(&b, "%s %v %s %s: %s\n", mark, f.Object, f.Reason, f.Field, f.Message)
	}
	return b.String()
}

// TestStories reads objects and compares what they give. A story is prose
// behind #, an object, ----, and what it gives, up to an empty line.
func TestStories(t *testing.T) {
	for kind, empty := range kinds {
		t.Run(kind, func(t *testing.T) {
			file := filepath.Join("testdata", kind+".txt")
			data, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			var out []string
			for _, story := range strings.Split(strings.TrimSpace(string(data)), "\n\n") {
				object, want, found := strings.Cut(story+"\n", "----\n")
				if !found {
					t.Fatalf("no ---- in %q", story)
				}
				o := empty()
				if err := yaml.UnmarshalStrict([]byte(expand(t, object)), o); err != nil {
					t.Fatalf("%v in\n%s", err, object)
				}
				got := read(o).text()
				if got != want && !*update {
					t.Errorf("%s----\ngot:\n%swant:\n%s", object, got, want)
				}
				out = append(out, object+"----\n"+got)
			}
			if *update {
				if err := os.WriteFile(file, []byte(strings.Join(out, "\n")), 0o644); err != nil {
					t.Fatal(err)
				}
			}
		})
	}
}
