package cluster

import (
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/client-go/rest"
)

// answering answers every request alike, and counts.
type answering struct {
	code int
	text string
	n    int
}

func (a *answering) RoundTrip(*http.Request) (*http.Response, error) {
	a.n++
	return respond(a.code, a.text), nil
}

// TestOffers: a server lacks what it says it does not have, and nothing where it says
// something else. What it said is good for a time, for all kinds of the group.
func TestOffers(t *testing.T) { synctest.Test(t, testOffers) }

func testOffers(t *testing.T) {
	const gatewaysOnly = `{"kind":"APIResourceList","apiVersion":"v1","groupVersion":"gateway.networking.k8s.io/v1","resources":[{"name":"gateways"},{"name":"gateways/status"}]}`
	for _, c := range []struct {
		what               string
		code               int
		text               string
		gateways, tcpRoute bool // whether they are lacking
	}{
		{"no group", 404, `{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"NotFound","code":404}`, true, true},
		{"some kinds", 200, gatewaysOnly, false, true},
		{"denied", 403, `{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"Forbidden","code":403}`, false, false},
		{"fails", 500, `{"kind":"Status","apiVersion":"v1","status":"Failure","code":500}`, false, false},
		{"something else", 200, `{"kind":"GatewayList","items":[]}`, false, false},
		{"no JSON", 200, `<html>busy</html>`, false, false},
	} {
		server := &answering{code: c.code, text: c.text}
		a, err := dial(&rest.Config{Host: "https://hub.example:6443"}, nil)
		if err != nil {
			t.Fatal(err)
		}
		a.client.Transport = server
		client, err := a.group(gatewayAPI)
		if err != nil {
			t.Fatal(err)
		}
		o := newOffers()
		lack := func(plural string) bool { return o.lack(t.Context(), client, plural, time.Second) }
		if got := lack("gateways"); got != c.gateways {
			t.Errorf("%s: lacks gateways: %v", c.what, got)
		}
		if got := lack("tcproutes"); got != c.tcpRoute || server.n != 1 {
			t.Errorf("%s: lacks tcproutes: %v, after %d requests", c.what, got, server.n)
		}
		server.code, server.text = 200, gatewaysOnly
		time.Sleep(2 * time.Second)
		if lack("gateways") || server.n != 2 {
			t.Errorf("%s: gateways came, and are lacking after %d requests", c.what, server.n)
		}
	}
}
