package envoy

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	endpointv3 "github.com/envoyproxy/go-control-plane/envoy/config/endpoint/v3"
	tlsv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/transport_sockets/tls/v3"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/anypb"

	"github.com/spillway-dev/spillway/internal/xds/envoytest"
)

// dumpPages says where Envoy's /config_dump shows the resources of a type: on
// which page and, in an entry, in which field of which state.
var dumpPages = []struct{ typeURL, page, state, field string }{
	{ClusterType, "dynamic_active_clusters", "", "cluster"},
	{AssignmentType, "dynamic_endpoint_configs&include_eds", "", "endpoint_config"},
	{ListenerType, "dynamic_listeners", "active_state", "listener"},
	{ScopeType, "dynamic_scoped_route_configs", "", "scoped_route_configs"},
	{RouteType, "dynamic_route_configs", "", "route_config"},
	{SecretType, "dynamic_active_secrets", "", "secret"},
}

// holding is resources as text, by name.
type holding map[string]string

// dumpOf reads what an Envoy holds of a type.
func dumpOf(t testing.TB, p *envoytest.Process, page, state, field string) holding {
	t.Helper()
	var dump struct{ Configs []map[string]json.RawMessage }
	text := p.Get(t, "/config_dump?resource="+page)
	if err := json.Unmarshal([]byte(text), &dump); err != nil {
		t.Fatalf("%s: %v: %.300s", page, err, text)
	}
	out := holding{}
	for _, entry := range dump.Configs {
		if state != "" {
			inner := map[string]json.RawMessage{}
			if entry[state] == nil {
				continue // what it never took
			}
			if err := json.Unmarshal(entry[state], &inner); err != nil {
				t.Fatal(err)
			}
			entry = inner
		}
		raw := entry[field]
		if !strings.HasPrefix(string(raw), "[") { // scopes are a list
			raw = json.RawMessage("[" + string(raw) + "]")
		}
		var list []json.RawMessage
		if err := json.Unmarshal(raw, &list); err != nil {
			t.Fatalf("%s: %v", page, err)
		}
		for _, one := range list {
			var a anypb.Any
			if err := protojson.Unmarshal(one, &a); err != nil {
				t.Fatalf("%s: %v: %s", page, err, one)
			}
			name, text := canonical(t, &a)
			out[name] = text
		}
	}
	return out
}

// viewOf is what the program says that a type holds in the usual view.
func (w *world) viewOf(t testing.TB, typeURL string) holding {
	t.Helper()
	out := holding{}
	for _, res := range w.rowsOf(w.t.typeOf(typeURL), testView) {
		var a anypb.Any
		if err := proto.Unmarshal(res.Bytes(), &a); err != nil {
			t.Fatal(err)
		}
		name, text := canonical(t, &a)
		if name != res.Name {
			t.Fatalf("%s %s is named %s inside", typeURL, res.Name, name)
		}
		out[name] = text
	}
	return out
}

// canonical is a resource as text that two of the same content share: nested
// messages are written in one way, as the way over JSON does. Of assignments
// and secrets Envoy does not show what it was sent: of those it is what they mean.
func canonical(t testing.TB, a *anypb.Any) (name, text string) {
	t.Helper()
	m, err := a.UnmarshalNew()
	if err != nil {
		t.Fatal(err)
	}
	switch m := m.(type) {
	case *endpointv3.ClusterLoadAssignment:
		return m.ClusterName, meaning(m)
	case *tlsv3.Secret: // the key is redacted
		return m.Name, string(m.GetTlsCertificate().GetCertificateChain().GetInlineBytes())
	case interface{ GetName() string }:
		name = m.GetName()
	}
	body, err := protojson.Marshal(m)
	if err != nil {
		t.Fatal(err)
	}
	again := m.ProtoReflect().New().Interface()
	if err := protojson.Unmarshal(body, again); err != nil {
		t.Fatal(err)
	}
	body, err = proto.MarshalOptions{Deterministic: true}.Marshal(again)
	if err != nil {
		t.Fatal(err)
	}
	return name, string(body)
}

// meaning lists the endpoints of an assignment with all that decides about
// requests, sorted. A locality without endpoints means nothing.
func meaning(m *endpointv3.ClusterLoadAssignment) string {
	var out []string
	for _, l := range m.Endpoints {
		for _, e := range l.LbEndpoints {
			at := e.GetEndpoint().GetAddress().GetSocketAddress()
			drained := e.HealthStatus == corev3.HealthStatus_DRAINING || e.HealthStatus == corev3.HealthStatus_UNHEALTHY
			out = append(out, fmt.Sprintf("p%d %s %s/%s weight %d: %s:%d weight %d drained %v", l.Priority, l.Locality.GetRegion(),
				l.Locality.GetZone(), l.Locality.GetSubZone(), l.GetLoadBalancingWeight().GetValue(), at.GetAddress(), at.GetPortValue(),
				max(e.GetLoadBalancingWeight().GetValue(), 1), drained))
		}
	}
	slices.Sort(out)
	return strings.Join(out, "\n")
}

// differences are what an Envoy holds otherwise than the view says, empty when
// it holds just that. Secrets are those that it has asked for.
func (w *world) differences(t testing.TB, p *envoytest.Process) (out []string) {
	t.Helper()
	for _, d := range dumpPages {
		have, want := dumpOf(t, p, d.page, d.state, d.field), w.viewOf(t, d.typeURL)
		short := d.typeURL[strings.LastIndexByte(d.typeURL, '.')+1:]
		for _, name := range slices.Sorted(maps.Keys(want)) {
			switch text, ok := have[name]; {
			case !ok && d.typeURL == SecretType:
			case !ok:
				out = append(out, fmt.Sprintf("%s %s is missing", short, name))
			case text != want[name]:
				out = append(out, fmt.Sprintf("%s %s differs:\n%q\nthe view says\n%q", short, name, text, want[name]))
			}
		}
		for _, name := range slices.Sorted(maps.Keys(have)) {
			if _, ok := want[name]; !ok {
				out = append(out, fmt.Sprintf("%s %s should not be there", short, name))
			}
		}
	}
	return out
}
