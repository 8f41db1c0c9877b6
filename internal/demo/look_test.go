package demo

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net"
	"net/http"
	"net/netip"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/spillway-dev/spillway/examples"
)

// control is a control plane that answers from texts by path.
func control(t *testing.T, answers map[string]string) *fleet {
	t.Helper()
	at := stand(t, func(w http.ResponseWriter, r *http.Request) {
		text, ok := answers[r.URL.Path]
		if !ok {
			http.Error(w, "no such thing", http.StatusNotFound)
			return
		}
		_, _ = io.WriteString(w, text)
	})
	a := newAdmin(at.String())
	t.Cleanup(a.Client.CloseIdleConnections)
	return &fleet{tell: newTeller(io.Discard, true), admin: a}
}

func TestPathIs(t *testing.T) {
	f := control(t, map[string]string{"/v1/tables/paths": `[
		{"key":"eu/eu-a/fra -> eu-1","value":"{Health:False Proxies:1}"},
		{"key":"us/us-b/nyc -> eu-1","value":"{Health:True Proxies:1}"}]`})
	for _, c := range []struct{ edge, member, want string }{{"eu", "eu-1", "False"}, {"us", "eu-1", "True"}, {"eu", "us-1", "Unknown"}} {
		if err := f.pathIs(t.Context(), c.edge, c.member, c.want); err != nil {
			t.Errorf("%+v: %v", c, err)
		}
		if err := f.pathIs(t.Context(), c.edge, c.member, "else"); err == nil {
			t.Errorf("%+v is not else", c)
		}
	}
}

func TestInSync(t *testing.T) {
	for text, want := range map[string]string{
		`[{"edge":"eu","inSync":true},{"edge":"us","inSync":true}]`:  "",
		`[{"edge":"eu","inSync":true},{"edge":"us","inSync":false}]`: "edge us has not acknowledged",
		`[{"edge":"eu","inSync":true}]`:                              "edge us has no stream",
	} {
		err := control(t, map[string]string{"/v1/streams": text}).inSync(t.Context(), edges...)
		if (err == nil) != (want == "") || (err != nil && !strings.Contains(err.Error(), want)) {
			t.Errorf("%s: %v", text, err)
		}
	}
}

func TestPushedSince(t *testing.T) {
	before := pushed{1: 100, 2: 50}
	for _, c := range []struct {
		now  pushed
		want int64
	}{
		{pushed{1: 100, 2: 50}, 0},
		{pushed{1: 130, 2: 50}, 30},
		{pushed{2: 50, 3: 7}, 7}, // a stream that is gone counts no more, a new one from its beginning
	} {
		if got := c.now.since(before); got != c.want {
			t.Errorf("%v: %d, want %d", c.now, got, c.want)
		}
	}
}

func TestNothingPushed(t *testing.T) {
	f := control(t, map[string]string{"/v1/streams": `[{"stream":1,"bytesSent":100}]`})
	s := &scene{}
	if err := f.nothingPushed(t.Context(), s, pushed{1: 100}); err != nil || s.figures["pushed_bytes"] != 0 {
		t.Errorf("%v, %v", err, s.figures)
	}
	if err := f.nothingPushed(t.Context(), s, pushed{1: 90}); err == nil || s.figures["pushed_bytes"] != 10 {
		t.Errorf("%v, %v", err, s.figures)
	}
}

func TestSentLittle(t *testing.T) {
	for text, ok := range map[string]bool{
		`[{"stream":1,"bytesSent":1023},{"stream":2,"bytesSent":1023}]`: true,
		`[{"stream":1,"bytesSent":10},{"stream":2,"bytesSent":1024}]`:   false,
	} {
		if err := control(t, map[string]string{"/v1/streams": text}).sentLittle(t.Context(), &scene{}); (err == nil) != ok {
			t.Errorf("%s: %v", text, err)
		}
	}
}

func TestHolding(t *testing.T) {
	f := control(t, map[string]string{"/stats": "cluster_manager.active_clusters: 4\ncluster_manager.cluster_removed: 1\n" +
		"listener_manager.total_listeners_active: 2\nlistener_manager.listener_removed: 0\n" +
		"cluster.shop/web/http.membership_total: 6\ncluster.spillway-xds.membership_total: 1\n"})
	got, err := f.admin.holding(t.Context(), f.admin.Address)
	if want := (holding{clusters: 4, listeners: 2, clustersRemoved: 1, endpoints: 7}); err != nil || got != want {
		t.Errorf("%+v, %v", got, err)
	}
}

func TestNumbers(t *testing.T) {
	got := numbers("# HELP x y\nx 1.5\ny{a=\"b\"} 2\nz: 3\nw: P0(nan)\n")
	if len(got) != 3 || got["x"] != 1.5 || got[`y{a="b"}`] != 2 || got["z"] != 3 {
		t.Error(got)
	}
}

func TestExamplesAreKnown(t *testing.T) {
	for name, text := range map[string][]byte{"shop": examples.Shop, "member": examples.ShopMember} {
		objects, err := parse(text)
		if err != nil || len(objects) == 0 {
			t.Errorf("%s: %d objects, %v", name, len(objects), err)
		}
	}
	if _, err := exampleRoots(); err != nil {
		t.Error(err)
	}
	if _, err := parse([]byte("apiVersion: v1\nkind: Node\n")); err == nil {
		t.Error("an unknown kind is an error")
	}
}

func TestWithHost(t *testing.T) {
	objects, err := parse(examples.Shop)
	if err != nil {
		t.Fatal(err)
	}
	was := objects[len(objects)-1]
	text, err := was.MarshalJSON()
	if err != nil {
		t.Fatal(err)
	}
	rules, _, _ := unstructured.NestedSlice(withHost(was, "www.shop.example").Object, "spec", "rules")
	if len(rules) != 2 || rules[0].(object)["host"] != shopHost || rules[1].(object)["host"] != "www.shop.example" {
		t.Fatalf("rules %v", rules)
	}
	first, _, _ := unstructured.NestedSlice(rules[0].(object), "http", "paths")
	other, _, _ := unstructured.NestedSlice(rules[1].(object), "http", "paths")
	if len(first) != 2 || len(other) != 1 {
		t.Errorf("paths %v and %v", first, other)
	}
	if again, _ := was.MarshalJSON(); string(again) != string(text) {
		t.Error("the original has changed")
	}
}

func TestStatusTexts(t *testing.T) {
	o := &unstructured.Unstructured{}
	if err := json.Unmarshal([]byte(`{"kind":"X","status":{
		"conditions":[{"type":"Connected","status":"False"},{"type":"Healthy","status":"True"}],
		"loadBalancer":{"ingress":[{"ip":"127.0.10.1"},{"hostname":"lb.example"}]}}}`), &o.Object); err != nil {
		t.Fatal(err)
	}
	if condition(o, "Connected") != "False" || condition(o, "Healthy") != "True" || condition(o, "Synced") != "" {
		t.Error("conditions")
	}
	if got := strings.Join(addresses(o), " "); got != "127.0.10.1 lb.example" {
		t.Error(got)
	}
}

func TestAwaitSaysWhatItSaw(t *testing.T) {
	f := &fleet{tell: newTeller(io.Discard, true)}
	n := 0
	if err := f.await(t.Context(), "three", func(context.Context) error {
		if n++; n < 3 {
			return errors.New("not yet")
		}
		return nil
	}); err != nil || n != 3 {
		t.Errorf("%d, %v", n, err)
	}
}

func TestPorts(t *testing.T) {
	taken, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	port := int(netip.MustParseAddrPort(taken.Addr().String()).Port())
	o := Options{XDSPort: port, DNSPort: 1, AdminPort: 2, plot: &edgePlot}
	if err := o.freePorts(); err == nil || !strings.Contains(err.Error(), "--xds-port") {
		t.Error(err)
	}
	for port, want := range map[int]string{0: "use 1 to 65535", 65536: "use 1 to 65535", 1: "must differ"} {
		o.XDSPort = port
		if err := o.validate(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%d: %v", port, err)
		}
	}
}

func TestOnlyKnownChapters(t *testing.T) {
	o := Options{Only: []string{"nearest", "nothing"}, plot: &edgePlot}
	if err := o.prepare(); err == nil || !strings.Contains(err.Error(), "nearest, gateway") {
		t.Error(err)
	}
}
