package ingest

import (
	"encoding/json"
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
			Asking{Fronts: []string{"infra/gw", "shop/gw"}, Asks: []string{"*.example /", "*.example /s/m", "*.example /x"}}},
		{RouteAsking, `{"spec": {"parentRefs": [{"name": "gw"}], "rules": [{}]}}`, Asking{Fronts: []string{"/gw"}}},
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
