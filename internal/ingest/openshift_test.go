package ingest

import (
	"fmt"
	"strings"
	"testing"

	routev1 "github.com/openshift/api/route/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// TestKeysOfRoutesAreNotTold: whatever is wrong with a Route, nothing but the row of its
// certificate has a word of its key, and the text of that has none.
func TestKeysOfRoutesAreNotTold(t *testing.T) {
	cert, key := pairs["ecdsa"]()
	other, _ := pairs["other"]()
	good, pem := string(decode(t, cert)), string(decode(t, key))
	lines := strings.Split(strings.TrimSpace(pem), "\n")
	for name, change := range map[string]func(*routev1.Route){
		"good":               func(*routev1.Route) {},
		"of another key":     func(o *routev1.Route) { o.Spec.TLS.Certificate = string(decode(t, other)) },
		"key as certificate": func(o *routev1.Route) { o.Spec.TLS.Certificate = pem },
		"key as authority": func(o *routev1.Route) {
			o.Spec.TLS.Termination = "reencrypt"
			o.Spec.TLS.DestinationCACertificate = pem
		},
		"cut off":               func(o *routev1.Route) { o.Spec.TLS.Key = pem[:len(pem)/2] },
		"another policy":        func(o *routev1.Route) { o.Spec.TLS.InsecureEdgeTerminationPolicy = "Maybe" },
		"passed on":             func(o *routev1.Route) { o.Spec.TLS.Termination = "passthrough" },
		"another termination":   func(o *routev1.Route) { o.Spec.TLS.Termination = "both" },
		"and external":          func(o *routev1.Route) { o.Spec.TLS.ExternalCertificate = &routev1.LocalObjectReference{Name: "cert"} },
		"a broken path as well": func(o *routev1.Route) { o.Spec.Path = "a" },
	} {
		o := &routev1.Route{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web"}, Spec: routev1.RouteSpec{
			Host: "shop.example", To: routev1.RouteTargetReference{Kind: "Service", Name: "web"},
			TLS: &routev1.TLSConfig{Termination: "edge", Certificate: good, Key: pem},
		}}
		change(o)
		got := read(o)
		if name == "good" && (got.held.Certificate == nil || string(got.held.Certificate.Key) != pem) {
			t.Fatalf("the key is not where proxies get it from: %v", got.findings)
		}
		told := got.text() + fmt.Sprintf("%v %+v %#v", got.row, got.row, got.row) + fmt.Sprint(got.held.Certificate)
		for _, line := range lines[1 : len(lines)-1] {
			if strings.Contains(told, line) {
				t.Errorf("%s: the key is told:\n%s", name, told)
			}
		}
	}
}
