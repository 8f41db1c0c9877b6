package envoy

import (
	"fmt"
	"strings"
	"testing"

	routev3 "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"
	"pgregory.net/rapid"

	"github.com/spillway-dev/spillway/internal/fleet"
	"github.com/spillway-dev/spillway/internal/model"
)

// TestBodiesAreTheirMessages: what is rendered is what the library writes, byte
// for byte, so that versions are those of messages.
func TestBodiesAreTheirMessages(t *testing.T) {
	scope := func(id fleet.HostIn) message {
		return &routev3.ScopedRouteConfiguration{
			Name: scopeName(id), RouteConfigurationName: scopeName(id),
			Key: &routev3.ScopedRouteConfiguration_Key{Fragments: []*routev3.ScopedRouteConfiguration_Key_Fragment{{
				Type: &routev3.ScopedRouteConfiguration_Key_Fragment_StringKey{StringKey: scopeKey(id)},
			}}},
		}
	}
	rapid.Check(t, func(t *rapid.T) {
		same := func(name string, body model.Body, m message) {
			got := body.Append(nil, name)
			if want := sealed(m); string(got) != string(want) {
				t.Fatalf("%q\nwant\n%q", got, want)
			}
			if body.Size(name) != len(got) {
				t.Fatalf("%d bytes, Size says %d", len(got), body.Size(name))
			}
		}
		host := model.Host(strings.Repeat("h", rapid.SampledFrom([]int{0, 1, 58, 59, 60, 124, 125, 126, 253}).Draw(t, "length")))
		id := fleet.HostIn{In: model.FrontOf("c", rapid.SampledFrom([]string{"", "8080"}).Draw(t, "table")), Host: host}
		same(scopeName(id), scopeBody{}, scope(id))

		vh := &routev3.VirtualHost{Name: "h", Domains: []string{"*"}, Routes: []*routev3.Route{nothing}}
		whole := configuration(vh)
		f := &fragment{config: encode(whole)}
		whole.Name = scopeName(id)
		same(scopeName(id), f, whole)

		p := rapid.SampledFrom([]protocol{http1, http2}).Draw(t, "protocol")
		name := "shop/web" + string(host) + "/http" + suffixes[p]
		same(name, usualClusters[p], cluster(clusterName{protocol: p}, name))
	})
}

// TestTextsShowNoKeys: whatever is printed of a secret, it is not its key.
func TestTextsShowNoKeys(t *testing.T) {
	res := seal("shop/cert", secret("shop/cert", model.Certificate{Chain: []byte("CHAIN"), Key: []byte("PRIVATE")}))
	if !strings.Contains(string(res.Bytes()), "PRIVATE") {
		t.Fatal("the secret has no key")
	}
	for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%q", "%x"} {
		for _, v := range []any{res, &res, *res.Resource, res.Resource, res.Body, []Resource{res}, assigned{[]Resource{res}}, model.Doubtful{Body: res.Body}} {
			if text := fmt.Sprintf(verb, v); strings.Contains(text, "PRIVATE") || strings.Contains(text, fmt.Sprintf("%x", "PRIVATE")) {
				t.Errorf("%s of %T shows the key: %s", verb, v, text)
			}
		}
	}
}
