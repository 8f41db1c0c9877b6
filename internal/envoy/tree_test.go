package envoy

import (
	"cmp"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"testing"

	routev3 "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"
	"pgregory.net/rapid"

	"github.com/spillway-dev/spillway/internal/fleet"
	"github.com/spillway-dev/spillway/internal/inc"
	"github.com/spillway-dev/spillway/internal/model"
)

// asTrees makes a tree of every host.
var asTrees = sizes{treeFrom: 1, part: partSize, dealtFrom: dealtFrom}

// pathsInTrees is how many backends someHost draws from; route i leads to the i-th.
const pathsInTrees = 12

// elements are such that one begins another, and one needs no "/" to go on.
var elements = []string{"a", "b", "ab", "a.b", "a-", "a%3Fb"}

// somePath draws a path without "/" at its end.
func somePath(t *rapid.T) string {
	var out strings.Builder
	for range rapid.IntRange(1, 4).Draw(t, "depth") {
		out.WriteString("/" + rapid.SampledFrom(elements).Draw(t, "element"))
	}
	return out.String()
}

// someConditions are what a match may ask for besides the path. Of two that one
// request fits, one goes first, or the first in the list.
var someConditions = []model.Conditions{
	model.ConditionsKey{Method: "POST"}.Conditions(),
	model.ConditionsKey{Headers: model.ValuesOf(model.ValueMatch{Name: "x-a", Value: "1"})}.Conditions(),
	model.ConditionsKey{Method: "GET", Headers: model.ValuesOf(model.ValueMatch{Name: "x-a", Value: "1|2", Regex: true}, model.ValueMatch{Name: "x-b", Value: "1"})}.Conditions(),
	model.ConditionsKey{Query: model.ValuesOf(model.ValueMatch{Name: "q", Value: "[0-9]", Regex: true})}.Conditions(),
}

// someHost draws a host in a layer or several: each match once, with a default or
// without.
func someHost(t *rapid.T) layers {
	seen := map[model.Match]bool{}
	for range rapid.IntRange(0, pathsInTrees-1).Draw(t, "routes") {
		m := prefix(somePath(t))
		switch rapid.IntRange(0, 7).Draw(t, "kind") {
		case 0:
			m.Path = "/"
		case 1, 2:
			m.Kind = model.PathExact
		case 3:
			m = exact(m.Path + "/")
		case 4:
			m = exact("/")
		}
		switch rapid.IntRange(0, 9).Draw(t, "pattern") {
		case 0:
			m = model.Match{Kind: model.PathRegex, Path: m.Path + ".*"}
		case 1:
			m = model.Match{Kind: model.PathRegex, Path: ".*" + m.Path}
		}
		if rapid.IntRange(0, 2).Draw(t, "more") == 0 {
			m.When = rapid.SampledFrom(someConditions).Draw(t, "when")
		}
		seen[m] = true
	}
	matches := slices.SortedFunc(maps.Keys(seen), func(a, b model.Match) int {
		return cmp.Or(a.Precedence(b), strings.Compare(a.String(), b.String()))
	})
	out := layers{{}}
	for range rapid.SampledFrom([]int{0, 0, 1, 2}).Draw(t, "layers") {
		out = append(out, &fleet.Host{})
	}
	for i, m := range matches {
		layer := out[rapid.IntRange(0, len(out)-1).Draw(t, "layer")]
		layer.Routes = append(layer.Routes, fleet.Route{Match: m, Target: pathTarget(i)})
	}
	if rapid.Bool().Draw(t, "default") {
		to := pathTarget(len(matches))
		out[len(out)-1].Default = &to
	}
	return out
}

func pathTarget(i int) fleet.Target { return target("web", pathBackend(i)) }

func pathBackend(i int) string { return fmt.Sprintf("shop/to-%d/http", i) }

// someRequest draws a request that is near to a route of the host.
func someRequest(t *rapid.T, host layers) request {
	routes := host.joined().Routes
	q := request{path: somePath(t), method: rapid.SampledFrom([]string{"GET", "POST"}).Draw(t, "method"), header: http.Header{}}
	for _, name := range []string{"X-A", "X-B"} {
		if v := rapid.SampledFrom([]string{"", "1", "2"}).Draw(t, "header"); v != "" {
			q.header.Set(name, v)
		}
	}
	if len(routes) > 0 && rapid.IntRange(0, 3).Draw(t, "near") > 0 {
		q.path = strings.ReplaceAll(rapid.SampledFrom(routes).Draw(t, "route").Match.Path, ".*", "")
	}
	q.path += rapid.SampledFrom([]string{"", "", "/", "?", "?x=/a/b", "?q=1", "?q=x", "?x&q=3", "x", "/x", "//", "/a", "/a/b?/a", "%3F", ";v=1", "x/../a"}).Draw(t, "then")
	return q
}

// promised is the backend that a request belongs to, "404" if none.
func promised(host layers, q request) string {
	to, _ := host.promisedTo(q)
	if to == nil {
		return "404"
	}
	return to.Backends[0].Backend.Service().String()
}

// inForest makes a world of hosts that share backends.
func inForest(tx *inc.Tx, w *world, hosts []layers, at func(i int) model.Endpoint) {
	for i, host := range hosts {
		w.p.Hosts.Set(tx, model.HostKey{Class: testClass, Host: forestHost(i)}, host.joined())
	}
	for i := range pathsInTrees {
		w.use(tx, testView, pathBackend(i), "")
		w.group(tx, pathBackend(i), "eu-1", at(i))
		w.plan(tx, testView, pathBackend(i), share("eu-1", 0))
	}
}

func forestHost(i int) model.Host { return model.Host(fmt.Sprintf("h%d.example", i)) }

// TestTreeIsItsList: whatever routes a host has, a tree of them leads every
// request where the list does, and where a user was promised.
func TestTreeIsItsList(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		host := someHost(rt)
		addr := func(i int) model.Endpoint { return endpointAt("10.0.0.1", uint16(i+1)) }
		var sims []*sim
		for _, s := range []sizes{usual, asTrees} {
			w := newWorldOf(s)
			w.g.Commit(func(tx *inc.Tx) {
				w.plain(tx)
				inForest(tx, w, []layers{host}, addr)
			})
			validateAll(rt, w)
			sims = append(sims, newSim(t, w))
		}
		for range 20 {
			q := someRequest(rt, host)
			q.host = string(forestHost(0))
			want := promised(host, q)
			for i, s := range sims {
				got := s.route(httpPort, q)
				text := itoa(got.Status)
				if len(got.Endpoints) == 1 {
					text = "shop/to-" + itoa(portOf(got.Endpoints[0])-1)
				}
				if text != want {
					rt.Fatalf("%s %s: want %s, got %s from form %d of %v", q.method, q.path, want, text, i, host.joined())
				}
			}
		}
	})
}

func portOf(hostPort string) (port uint32) {
	_, text, _ := strings.Cut(hostPort, ":")
	_, _ = fmt.Sscan(text, &port)
	return port
}

// TestTreesInEnvoy asks Envoy itself about many random hosts, in both versions of HTTP.
func TestTreesInEnvoy(t *testing.T) {
	var hosts []layers
	for i := range 40 {
		hosts = append(hosts, rapid.Custom(someHost).Example(i))
	}
	r := newRigOf(t, timingForTests, asTrees)
	var pods []*pod
	for i := range pathsInTrees {
		pods = append(pods, newPod(t, fmt.Sprintf("shop/to-%d", i)))
	}
	r.commit(func(tx *inc.Tx) {
		inForest(tx, r.world, hosts, func(i int) model.Endpoint { return pods[i].endpoint() })
	})
	r.settled(t)
	http1 := &http.Client{Transport: &http.Transport{}}
	t.Cleanup(http1.CloseIdleConnections)
	http2 := request{}.overHTTP2(t).client
	for i, host := range hosts {
		draw := rapid.Custom(func(t *rapid.T) request { return someRequest(t, host) })
		for j := range 25 {
			q := draw.Example(25*i + j)
			q.host = string(forestHost(i))
			want := promised(host, q)
			for _, q.client = range []*http.Client{http1, http2} {
				if got := short(r.ask(t, q)); got != want {
					t.Errorf("%s %s%s: %s, want %s; routes %v", q.method, q.host, q.path, got, want, host.joined())
				}
			}
		}
	}
	if log := r.proc.Log.String(); log != "" {
		t.Errorf("Envoy warns:\n%s", log)
	}
}

func TestHostsOfManyRoutesBecomeTrees(t *testing.T) {
	for _, n := range []int{treeFrom - 1, treeFrom} {
		w := newWorld()
		w.g.Commit(func(tx *inc.Tx) {
			w.plain(tx)
			w.use(tx, testView, "shop/web/http", "")
			var routes []fleet.Route
			for i := range n - 1 { // and what ends them
				routes = append(routes, fleet.Route{Match: prefix(fmt.Sprintf("/p%d", i)), Target: target("web", "shop/web/http")})
			}
			w.host(tx, testClass, "shop.example", nil, routes...)
		})
		validateAll(t, w)
		vh := decode(t, w.get(t, w.t.Routes, "shop.example")).(*routev3.RouteConfiguration).VirtualHosts[0]
		if is := vh.Matcher != nil; is != (n == treeFrom) {
			t.Errorf("with %d matches it is a tree: %v", n, is)
		}
	}
}
