package sim

import (
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/randfill"

	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"
)

// odd are what random strings are made of: near to what is valid, and far from it.
var odd = []string{
	"", "a", "x-a", "X-A", "host", ":path", "cdn-loop", "x-envoy-max-retries", "x-spillway-scope", "a b", "a\nb", "a\x00b", "\xff", "ü", "%", "%%", "$1\\1",
	"/", "/a", "/a/", "//", "/a?b", "/a b", "/../a", "/%2F", "(", "(a+)+$", "[", "web", "80", "GET", "get", "1s", "0s", "-1s", "99999999h", "1x",
	"*", "*.", "https://*.example", "https://a.example:1", "shop.example", "*.shop.example", "a..b", strings.Repeat("x", 70), strings.Repeat("/y", 2000),
	"Exact", "PathPrefix", "RegularExpression", "RequestHeaderModifier", "ResponseHeaderModifier", "RequestMirror", "RequestRedirect", "URLRewrite", "CORS", "ExternalAuth", "ExtensionRef", "GRPC", "Cookie", "Permanent", "__Host-a", "1h",
	"ReplaceFullPath", "ReplacePrefixMatch", "http", "https", "HTTP", "Service", "Gateway", "shop", "other",
}

// TestAnyRouteHarmsItselfAlone: whatever an HTTPRoute says, of the fields that a hub
// without our CRDs' validation would let through, its host is served by rules that
// Envoy takes, and so is another route that has the same host.
func TestAnyRouteHarmsItselfAlone(t *testing.T) {
	w, err := newWorld(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	for _, line := range []string{
		"edge fra region=eu", "gatewayclass spillway", "gateway shop/gw http:HTTP:80", "member eu-1 region=eu", "pods eu-1 shop/web 10.1.0.1",
		"httproute shop/good to=gw hosts=shop.example /good->web:80", "proxy fra/a",
	} {
		if _, err := w.do(line); err != nil {
			t.Fatal(err)
		}
	}
	for seed := range int64(1500) {
		o := &gatewayv1.HTTPRoute{}
		fill := randfill.NewWithSeed(seed).NilChance(.2).NumElements(0, 3).MaxDepth(14).Funcs(
			func(s *string, c randfill.Continue) { *s = odd[c.Intn(len(odd))] },
			func(*metav1.Time, randfill.Continue) {}, func(*metav1.FieldsV1, randfill.Continue) {},
		)
		fill.Fill(&o.Spec)
		for i := range o.Spec.Rules {
			r := &o.Spec.Rules[i]
			typed(r.Filters, seed)
			for j := range r.BackendRefs {
				typed(r.BackendRefs[j].Filters, seed)
			}
			if seed%2 == 0 {
				r.Matches = nil
			}
		}
		o.Namespace, o.Name = "shop", "odd"
		o.Spec.ParentRefs, o.Spec.Hostnames = []gatewayv1.ParentReference{{Name: "gw"}}, []gatewayv1.Hostname{"shop.example"}
		if err := w.put("httproutes", o); err != nil {
			t.Fatal(err)
		}
		if err := w.settle(); err != nil {
			t.Fatalf("seed %d: %v", seed, err)
		}
		if faults := w.plane.Tables().Graph.Faults(); len(faults) > 0 {
			t.Fatalf("seed %d: at fault: %v", seed, faults)
		}
		if told := w.findings("HTTPRoute"); strings.Contains(told, "InternalError") {
			t.Fatalf("seed %d: %s", seed, told)
		}
		// A path that no other rule has, below one that an odd rule may have.
		if got, err := w.do("get fra/a shop.example/good"); err != nil || !strings.Contains(got, "shop/web@eu-1") && !overruled(o) {
			t.Fatalf("seed %d: the other route is answered %q %v, by %+v", seed, got, err, o.Spec.Rules)
		}
	}
}

// typed has filters say what they have.
func typed(filters []gatewayv1.HTTPRouteFilter, seed int64) {
	for i := range filters {
		f := &filters[i]
		for n := range 7 {
			switch kind := (int(seed) + i + n) % 7; {
			case kind == 0 && f.RequestHeaderModifier != nil:
				f.Type = gatewayv1.HTTPRouteFilterRequestHeaderModifier
			case kind == 1 && f.ResponseHeaderModifier != nil:
				f.Type = gatewayv1.HTTPRouteFilterResponseHeaderModifier
			case kind == 2 && f.URLRewrite != nil:
				f.Type = gatewayv1.HTTPRouteFilterURLRewrite
			case kind == 3 && f.CORS != nil:
				f.Type = gatewayv1.HTTPRouteFilterCORS
			case kind == 4 && f.RequestMirror != nil:
				f.Type = gatewayv1.HTTPRouteFilterRequestMirror
			case kind == 5 && f.RequestRedirect != nil:
				f.Type = gatewayv1.HTTPRouteFilterRequestRedirect
			case kind == 6 && f.ExternalAuth != nil:
				f.Type = gatewayv1.HTTPRouteFilterExternalAuth
			default:
				continue
			}
			break
		}
	}
}

// overruled tells whether a rule may have what the other asks for, by a regular
// expression.
func overruled(o *gatewayv1.HTTPRoute) bool {
	for _, r := range o.Spec.Rules {
		for _, m := range r.Matches {
			if m.Path != nil && m.Path.Type != nil && *m.Path.Type == gatewayv1.PathMatchRegularExpression {
				return true
			}
		}
	}
	return false
}
