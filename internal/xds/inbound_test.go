package xds

import (
	"testing"

	core "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	discovery "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	"github.com/google/go-cmp/cmp"
	"google.golang.org/genproto/googleapis/rpc/status"
	"google.golang.org/protobuf/proto"
	"pgregory.net/rapid"
)

// TestAcknowledgement: a request that is read without the protobuf library says
// what that library reads; and one that acknowledges and says nothing else is.
func TestAcknowledgement(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		pick := func(what string, of ...string) string { return rapid.SampledFrom(of).Draw(t, what) }
		some := func(what string) bool { return rapid.IntRange(0, 3).Draw(t, what) == 0 }
		m := &discovery.DeltaDiscoveryRequest{
			TypeUrl:       pick("type", "", string(Cluster), string(Secret), "example.com/none"),
			ResponseNonce: pick("nonce", "", "1", "ff"),
		}
		plain := true
		for _, part := range []struct {
			what string
			say  func()
		}{
			{"node", func() { m.Node = &core.Node{} }},
			{"subscribe", func() { m.ResourceNamesSubscribe = []string{"a"} }},
			{"unsubscribe", func() { m.ResourceNamesUnsubscribe = []string{""} }},
			{"initial", func() { m.InitialResourceVersions = map[string]string{"a": "1"} }},
			{"error", func() { m.ErrorDetail = &status.Status{} }},
			{"locators", func() { m.ResourceLocatorsSubscribe = []*discovery.ResourceLocator{{}} }},
		} {
			if some(part.what) {
				part.say()
				plain = false
			}
		}
		raw, err := proto.Marshal(m)
		if err != nil {
			t.Fatal(err)
		}
		if cut := rapid.IntRange(0, len(raw)).Draw(t, "cut"); some("short") {
			raw = raw[:cut]
		}
		g := &gauge{fields: deltaFields}
		g.asked[cluster] = true
		got, ok := g.acknowledgement(raw)
		var whole discovery.DeltaDiscoveryRequest
		if err := proto.Unmarshal(raw, &whole); ok && err != nil {
			t.Fatalf("%x was read, but %v", raw, err)
		}
		if want := deltaRequest(&whole).Request; ok && !cmp.Equal(got, want) {
			t.Fatalf("read %+v, want %+v", got, want)
		}
		same := proto.Equal(m, &whole)
		if want := plain && m.TypeUrl == string(Cluster) && m.ResponseNonce != ""; same && ok != want {
			t.Fatalf("%+v was read: %t, want %t", m, ok, want)
		}
	})
}
