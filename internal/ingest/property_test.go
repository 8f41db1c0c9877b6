package ingest

import (
	"encoding/json"
	"reflect"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"
	"sigs.k8s.io/randfill"

	"github.com/spillway-dev/spillway/api/v1alpha1"
	"github.com/spillway-dev/spillway/internal/model"
)

// words are what random strings are made of, so that they come near to what is valid.
var words = []string{
	"", "a", "shop", "Shop.Example", "*.shop.example", "*", ".", "..", "/", "//", "/a/", "/a?b", "%2F", "\x00", "\xff", "ü", ":80",
	"192.0.2.1", "127.0.0.1", "2001:db8::1", "fe80::1%eth0", "::ffff:192.0.2.1", "None", "80", "http", "spillway.dev", "GatewayClassConfig",
	"spillway.dev/ingress", "kubernetes.io/tls", "kubernetes.io/service-name", "IPv4", "IPv6", "FQDN", "Prefix", "Exact",
	"ImplementationSpecific", "edge", "passthrough", "reencrypt", "None", "Allow", "Redirect", "Subdomain", "30s", "haproxy.router.openshift.io/timeout",
	"haproxy.router.openshift.io/ip_allowlist", "haproxy.router.openshift.io/hsts_header", "max-age=1", "Set", "Delete", "x-a", "ExternalName", "spillway.dev/gateway", "HTTP", "HTTPS", "HTTPRoute", "GRPCRoute", "Secret", "Service", "Gateway", "RegularExpression",
	"PathPrefix", "RequestRedirect", "ReplacePrefixMatch", "All", "Selector", "(", "a.*", "true", "NoTraffic", "Namespace", "Ingress", "Exists", "Equal", "In", "gateway.networking.k8s.io", "networking.k8s.io", strings.Repeat("x", 64), strings.Repeat("y.", 130),
}

func filler(seed int64) *randfill.Filler {
	return randfill.NewWithSeed(seed).NilChance(.3).NumElements(0, 3).MaxDepth(12).Funcs(
		func(s *string, c randfill.Continue) { *s = words[c.Intn(len(words))] },
		func(t *metav1.Time, c randfill.Continue) { *t = metav1.Unix(c.Int63n(4e9)-1e9, 0) },
		func(f *metav1.FieldsV1, c randfill.Continue) {},
		func(e *runtime.RawExtension, c randfill.Continue) {},
	)
}

// TestRandomObjects: never panics, never changes its argument, same object,
// same row; no row and no finding only where the object is not for us.
func TestRandomObjects(t *testing.T) {
	for kind, empty := range kinds {
		t.Run(kind, func(t *testing.T) {
			for seed := range int64(2000) {
				o := empty()
				filler(seed).Fill(o)
				check(t, o)
			}
		})
	}
}

func check(t *testing.T, o runtime.Object) {
	t.Helper()
	before := o.DeepCopyObject()
	got := read(o)
	if !reflect.DeepEqual(o, before) {
		t.Fatalf("the argument was changed:\n%+v\nwas\n%+v", o, before)
	}
	if again := read(before); !reflect.DeepEqual(got, again) {
		t.Fatalf("the same object gave\n%+v\nthen\n%+v", got, again)
	}
	if got.row == nil && len(got.findings) == 0 && !foreign(o) {
		t.Fatalf("nothing came of %+v", o)
	}
	if !slices.IsSortedFunc(got.findings, model.Finding.Compare) {
		t.Fatalf("findings are not sorted: %v", got.findings)
	}
	for _, f := range got.findings {
		if f.Message == "" || f.Field == "" || f.Reason == "" || f.Object.Name != o.(metav1.Object).GetName() {
			t.Fatalf("incomplete finding %+v", f)
		}
	}
	for _, of := range got.rules {
		checkRules(t, of)
	}
	if slice, ok := got.row.(model.Slice); ok {
		checkSlice(t, slice)
	}
}

// foreign tells whether an object is another controller's business.
func foreign(o runtime.Object) bool {
	switch c := o.(type) {
	case *networkingv1.IngressClass:
		return c.Spec.Controller != v1alpha1.ControllerIngress
	case *gatewayv1.GatewayClass:
		return c.Spec.ControllerName != v1alpha1.ControllerGateway
	case *corev1.ConfigMap:
		_, ok := c.Data[bundleKey]
		return !ok
	}
	return false
}

func checkRules(t *testing.T, of HostRules) {
	t.Helper()
	if h := string(of.Host); h != strings.ToLower(h) || strings.Count(h, "*") > 1 || strings.HasSuffix(h, ".") {
		t.Fatalf("host %q got through", h)
	}
	for i, rule := range of.Rules {
		for j, m := range rule.Matches {
			if slices.Contains(rule.Matches[:j], m) || slices.ContainsFunc(of.Rules[:i], func(o model.Rule) bool { return slices.Contains(o.Matches, m) }) {
				t.Fatalf("%v is there twice", m)
			}
			checkPath(t, m)
		}
		for _, b := range rule.Backends {
			if b.Backend == (model.Backend{}) { // of a Gateway API route: answered 500
				continue
			}
			if n := b.Backend.Port().Number; n < 0 || n > 65535 || (n == 0) == (b.Backend.Port().Name == "") {
				t.Fatalf("port %v got through", b.Backend.Port())
			}
		}
	}
}

func checkPath(t *testing.T, m model.Match) {
	t.Helper()
	if p := m.Path; !m.Kind.Regex() && !strings.HasPrefix(p, "/") || m.Kind == model.PathPrefix && p != "/" && strings.HasSuffix(p, "/") {
		t.Fatalf("path %q got through", p)
	}
}

func checkSlice(t *testing.T, s model.Slice) {
	t.Helper()
	all := s.Endpoints.List()
	for i, e := range all {
		if i > 0 && !all[i-1].Addr.Less(e.Addr) {
			t.Fatalf("endpoints are not in order, each once: %v", all)
		}
		if !e.Addr.IsValid() || e.Addr.IsLoopback() || e.Addr.Is4In6() {
			t.Fatalf("address %v got through", e.Addr)
		}
	}
}

// FuzzObjects does the same for whatever a JSON decoder lets through.
func FuzzObjects(f *testing.F) {
	names := make([]string, 0, len(kinds))
	for kind := range kinds {
		names = append(names, kind)
	}
	slices.Sort(names)
	for i, kind := range names {
		o := kinds[kind]()
		filler(int64(i)).Fill(o)
		if data, err := json.Marshal(o); err == nil {
			f.Add(uint8(i), data)
		}
	}
	f.Fuzz(func(t *testing.T, kind uint8, data []byte) {
		o := kinds[names[int(kind)%len(names)]]()
		if json.Unmarshal(data, o) == nil {
			check(t, o)
		}
	})
}

func TestSecretOfEachKindOfKey(t *testing.T) {
	for _, kind := range []string{"ecdsa", "rsa"} {
		cert, key := pairs[kind]()
		noise := append([]byte("# a comment\n"), decode(t, cert)...)
		o := &corev1.Secret{
			ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "cert"},
			Type:       corev1.SecretTypeTLS,
			Data:       map[string][]byte{"tls.crt": noise, "tls.key": decode(t, key)},
		}
		id, c := Secret(o)
		if want := (model.SecretID{Namespace: "shop", Name: "cert"}); id != want {
			t.Errorf("id %v, want %v", id, want)
		}
		if c.Problem != "" || string(c.Chain) != string(decode(t, cert)) || string(c.Key) != string(decode(t, key)) {
			t.Errorf("%s: %v: chain or key differ from what was written", kind, c)
		}
		if !slices.Equal(c.Names, []string{"*.shop.example", "shop.example"}) || c.NotAfter != 2_000_000_000 {
			t.Errorf("%s: names %v, not after %d", kind, c.Names, c.NotAfter)
		}
		check(t, o)
	}
}

// TestAllEndpointConditions compares endpointState with the table of the API's documentation.
func TestAllEndpointConditions(t *testing.T) {
	yes, no := new(true), new(false)
	values := []*bool{nil, yes, no}
	is := func(b *bool, unset bool) bool { return b == nil && unset || b == yes }
	for _, ready := range values {
		for _, serving := range values {
			for _, terminating := range values {
				c := discoveryv1.EndpointConditions{Ready: ready, Serving: serving, Terminating: terminating}
				state, takes := endpointState(&c)
				wantReady := is(ready, true)
				wantDraining := !wantReady && is(serving, false) && is(terminating, false)
				if takes != (wantReady || wantDraining) || takes && (state == model.EndpointReady) != wantReady {
					t.Errorf("%+v: %v %v", c, state, takes)
				}
			}
		}
	}
}
