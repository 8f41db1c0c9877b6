package ingest

import (
	"encoding/json"
	"testing"
)

// TestLeafClaims: what objects in members ask for; what can't be read asks for nothing.
func TestLeafClaims(t *testing.T) {
	for _, c := range []struct {
		of   func(map[string]any) LeafClaim
		json string
		want LeafClaim
	}{
		{IngressClaim, `{"spec": {"ingressClassName": "nginx", "rules": [{"host": "B.example", "http": {"paths": [{"path": "/x/"}, {}]}}, {"host": "a.example"}, {"http": {"paths": [{"path": "/all"}]}}]}}`,
			LeafClaim{Class: "nginx", Asks: []string{"a.example /", "b.example /", "b.example /x"}}},
		{IngressClaim, `{"metadata": {"annotations": {"kubernetes.io/ingress.class": "old"}}}`, LeafClaim{Class: "old"}},
		{IngressClaim, `{"spec": {"rules": [7, {"host": 7, "http": []}], "ingressClassName": []}, "metadata": null}`, LeafClaim{}},
		{RouteClaim, `{"metadata": {"namespace": "shop"}, "spec": {"parentRefs": [{"name": "gw"}, {"namespace": "infra", "name": "gw"}, {"kind": "Service", "name": "x"}], "hostnames": ["*.example"], "rules": [{}, {"matches": [{"path": {"value": "/x"}}, {"method": {"service": "s", "method": "m"}}]}]}}`,
			LeafClaim{Fronts: []string{"infra/gw", "shop/gw"}, Asks: []string{"*.example /", "*.example /s/m", "*.example /x"}}},
		{RouteClaim, `{"spec": {"parentRefs": [{"name": "gw"}], "rules": [{}]}}`, LeafClaim{Fronts: []string{"/gw"}}},
		{TLSRouteClaim, `{"spec": {"hostnames": ["a.example"]}}`, LeafClaim{Asks: []string{"a.example TLS"}}},
		{OpenShiftClaim, `{"spec": {"host": "a.example", "path": "/x"}}`, LeafClaim{Asks: []string{"a.example /x"}}},
		{GatewayClaim, `{"spec": {"gatewayClassName": "contour"}, "status": {"addresses": [{"value": "B.example"}, {"value": "192.0.2.1"}, {}]}}`,
			LeafClaim{Class: "contour", Addresses: []string{"192.0.2.1", "b.example"}}},
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
