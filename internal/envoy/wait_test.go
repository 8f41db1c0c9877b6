package envoy

import (
	"maps"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/spillway-dev/spillway/internal/inc"
)

// drawEvent draws a command about a few hosts, or about what all of them read:
// classes, members, edges, what edges report.
func drawEvent(t *rapid.T) string {
	one := func(name string, from ...string) string { return rapid.SampledFrom(from).Draw(t, name) }
	var words []string
	switch one("command", "ingress", "service", "slice", "member", "edge", "config", "class", "report", "secret", "delete") {
	case "ingress":
		words = []string{"ingress", "ns/" + one("root", "r1", "r2", "r3"), one("class", "", "class=c2"), one("host", "h1", "h2", "*.h") + one("path", "/", "/a") + "->" +
			one("backend", "a", "b", "c") + ":80", one("tls", "", "tls=t1")}
	case "service":
		words = []string{"service", one("member", "m1", "m2"), "ns/" + one("service", "a", "b", "c"), one("port", "http:80", "http:80+grpc", "http:81"), one("kind", "", "", "external=x.example")}
	case "slice":
		words = []string{"slice", one("member", "m1", "m2"), "ns/" + one("service", "a", "b", "c"), "s", "http=8080", one("pod", "10.0.0.1", "10.0.0.2", "10.0.0.1@z1")}
	case "member":
		words = []string{"member", one("member", "m1", "m2"), "age=" + one("age", "1", "2"), "region=" + one("region", "r1", "r2"), one("state", "", "drain", "seen unread")}
	case "edge":
		words = []string{"edge", one("edge", "e1", "e2"), "region=" + one("region", "r1", "r2")}
	case "config":
		words = []string{"config", "k", one("external", "", "external"), one("connect", "", "connect=100", "connect=200"), one("edges", "", "names=e1")}
	case "class":
		words = []string{"class", one("class", "c1 default", "c2"), one("config", "", "config=k")}
	case "report":
		words = []string{"report", one("edge", "e1", "e2") + "/p", one("member", "m1", "m2"), one("seen", "-", "1/1", "0/1")}
	case "secret":
		words = []string{"secret", "ns/t1", one("names", "h1", "*.h", "h1 h2 x.h")}
	default:
		words = []string{"delete", one("what", "member m1", "edge e2", "class c2", "config k", "ingress ns/r1", "ingress ns/r2", "secret ns/t1", "service m1 ns/a", "slice m1 ns/a s")}
	}
	return strings.Join(strings.Fields(strings.Join(words, " ")), " ")
}

// TestNoRouteWithoutItsCluster: while rows wait, however many and for however
// long, all that a resource refers to is there, as it is when none does: a host
// with an old class or plan is a whole one. In the end all is as from scratch.
func TestNoRouteWithoutItsCluster(t *testing.T) {
	waited := false
	rapid.Check(t, func(t *rapid.T) {
		fw, w := newProgram()
		lines := []string{"config k", "class c1 default config=k", "class c2", "edge e1 region=r1", "edge e2 region=r2", "member m1 region=r1", "member m2 region=r2"}
		for range rapid.IntRange(1, 40).Draw(t, "events") {
			lines = append(lines, drawEvent(t))
		}
		for _, line := range lines {
			if _, err := fw.Do(line); err != nil {
				t.Fatal(err)
			}
			if rapid.IntRange(0, 2).Draw(t, "commit") > 0 {
				fw.Graph.Portion(rapid.IntRange(1, 3).Draw(t, "portion"))
				fw.Commit()
				unions(t, w, w.p.Spreads.Waiting() > 0)
			}
			waited = waited || fw.Graph.Backlog() > 0
		}
		for fw.Commit(); fw.Graph.Backlog() > 0; {
			fw.Graph.Commit(func(*inc.Tx) {})
			unions(t, w, w.p.Spreads.Waiting() > 0)
		}
		validateAll(t, w)
		again, scratch := newProgram()
		if _, err := again.Do(lines...); err != nil {
			t.Fatal(err)
		}
		again.Commit()
		sameContents(t, w, scratch)
	})
	if !waited {
		t.Error("no row ever waited")
	}
}

// TestLookupsStayWithTheirHosts: a class may no longer have backends whose
// addresses proxies look up. Hosts that wait to be told so refer to them, and these
// clusters are in the view until the last one has left.
func TestLookupsStayWithTheirHosts(t *testing.T) {
	fw, w := newProgram()
	if _, err := fw.Do("config k external", "class c default config=k", "edge e region=r", "member m region=r", "service m ns/out http:80 external=x.example",
		"ingress ns/a a/->out:80", "ingress ns/b b/->out:80", "ingress ns/c c/->out:80"); err != nil {
		t.Fatal(err)
	}
	for fw.Commit(); fw.Graph.Backlog() > 0; {
		fw.Graph.Commit(func(*inc.Tx) {})
	}
	unions(t, w, false)
	if _, err := fw.Do("config k"); err != nil {
		t.Fatal(err)
	}
	waited := 0
	fw.Graph.Portion(1)
	for fw.Commit(); fw.Graph.Backlog() > 0; waited++ {
		unions(t, w, false)
		fw.Graph.Commit(func(*inc.Tx) {})
	}
	unions(t, w, false)
	if waited < 2 {
		t.Errorf("hosts waited for %d commits, want more", waited)
	}
	for _, k := range w.t.Clusters.Keys() {
		t.Errorf("%v is still there", k)
	}
}

// sameContents checks that two programs hold the same.
func sameContents(t reporter, a, b *world) {
	t.Helper()
	for _, types := range [][2][]Type{{a.t.Types(), b.t.Types()}, {a.t.Clients.Types(), b.t.Clients.Types()}} {
		x, y := contents(types[0]), contents(types[1])
		for c, rows := range x {
			if !maps.EqualFunc(rows, y[c], Resource.Equal) {
				t.Errorf("%s has %v, from scratch %v", c, rows, y[c])
			}
		}
		if len(x) != len(y) {
			t.Errorf("%d collections, from scratch %d", len(x), len(y))
		}
	}
	if x, y := a.findings(), b.findings(); x != y {
		t.Errorf("found %s, from scratch %s", x, y)
	}
}
