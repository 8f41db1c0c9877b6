package fleet_test

import (
	"cmp"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/spillway-dev/spillway/internal/fleet"
	"github.com/spillway-dev/spillway/internal/fleet/fleettest"
	"github.com/spillway-dev/spillway/internal/model"
)

// drawGateways draws a command about Gateways, over a domain as small as that of
// drawLine.
func drawGateways(t *rapid.T) string {
	one := func(name string, from ...string) string { return rapid.SampledFrom(from).Draw(t, name) }
	switch one("command", "gateway", "gateway", "listenerset", "listenerset", "httproute", "httproute", "httproute", "grpcroute", "relay", "relay", "gatewayclass", "grant", "namespace", "tlspolicy", "bundle", "delete") {
	case "gateway":
		line := join("gateway", one("namespace", "ns", "odd")+"/"+one("gateway", "g1", "g2"), one("class", "class=gc", "class=gc", "class=gone"), one("client", "", "", "client=t1", "client=odd/t2"), one("clients", "", "", "clients=c1", "clients=c1!", "clients=odd/c1", "clients=c2,443:-", "clients=80:c1"), one("addresses", "", "", "addresses=10.0.0.1", "addresses=10.9.0.2,fd00::9", "addresses=any", "addresses=any,any@Cluster", "addresses=any@x.example/vpc,10.9.0.2@Cluster,any,10.0.0.1", "addresses=10.9.0.3,any@Cluster,any@Cluster,any@Cluster"), one("sets", "", "sets=Same", "sets=All", "sets=All", "sets=team=a"), "age="+one("age", "1", "2"))
		return drawListeners(t, line)
	case "listenerset":
		line := join("listenerset", one("namespace", "ns", "odd")+"/"+one("set", "s1", "s2"), "to="+one("gateway", "ns/g1", "ns/g1", "ns/g2", "odd/g1"), "age="+one("age", "1", "2"))
		return drawListeners(t, line)
	case "grpcroute":
		line := join("grpcroute", one("namespace", "ns", "ns", "odd")+"/"+one("route", "c1", "w1"), "age="+one("age", "1", "2"),
			one("parent", "to=ns/g1", "to=ns/g1", "to=ns/g2", "to=ns/g1/l1", "to=ns/g1:80,odd/g1", "sets=ns/s1", "sets=odd/s1:80 to=ns/g1"), one("hosts", "", "hosts=h1", "hosts=x.h,y.x.h", "hosts=**.h"))
		for range rapid.IntRange(0, 2).Draw(t, "rules") {
			line = join(line, one("path", "/", "/a", "=/a/b", "%/[^/]+/b")+one("condition", "", "", "@x:1")+"->"+one("backend", "a:80", "b:80", "odd/c:80", "?"))
		}
		return line
	case "relay":
		kind := one("kind", "tlsroute", "tlsroute", "tcproute", "udproute")
		line := join(kind, one("namespace", "ns", "ns", "odd")+"/"+one("route", "r1", "r2"), "age="+one("age", "1", "2"), "to="+one("parent", "ns/g1", "ns/g1", "ns/g2", "ns/g1/l1"))
		if kind == "tlsroute" {
			line = join(line, one("hosts", "", "hosts=h1", "hosts=x.h,y.x.h", "hosts=**.h", "hosts=**.x.h,h1"))
		}
		return join(line, "/->"+one("backend", "a:80", "b:80", "odd/c:80", "?", "a:80*3+?*1"))
	case "httproute":
		line := join("httproute", one("namespace", "ns", "ns", "odd")+"/"+one("route", "w1", "w2", "w3"), "age="+one("age", "1", "2"),
			one("parent", "to=ns/g1", "to=ns/g1", "to=ns/g2", "to=odd/g1", "to=ns/g1/l1", "to=ns/g1:80", "to=ns/g1/l2,ns/g2", "sets=ns/s1", "sets=ns/s1/l1,odd/s1", "sets=ns/s2:80 to=ns/g1"), one("hosts", "", "", "hosts=h1", "hosts=x.h,y.x.h", "hosts=**.h", "hosts=**.x.h,h1"))
		for range rapid.IntRange(0, 3).Draw(t, "rules") {
			match := one("path", "/", "/a", "=/a", "=/a/b", "~/.*b") + one("condition", "", "", "@POST", "@x:1")
			line = join(line, match+"->"+one("backend", "a:80", "b:80", "^a:80", "odd/c:80", "^odd/c:80", "?", "a:80*3+?*1", "a:80+odd/c:80", "a:80*1+^a:80*2"))
		}
		return line
	case "gatewayclass":
		return join("gatewayclass", "gc", one("config", "", "config=k"))
	case "grant":
		return join(one("deletion", "", "", "delete"), "grant", one("namespace", "ns", "odd"), one("from", "HTTPRoute", "GRPCRoute", "Gateway", "ListenerSet")+"@"+one("namespace", "ns", "odd"), one("to", "Service", "Service/c", "ServiceImport", "Secret", "ConfigMap"))
	case "tlspolicy":
		return join("tlspolicy", "ns/"+one("policy", "p1", "p2"), one("target", "a", "a:http", "b", "a b", "c", "^a"), "host=a", one("trust", "ca=c1", "ca=c1,c2", "system", "refused=Invalid"), "age="+one("age", "1", "2"))
	case "bundle":
		return join("bundle", one("namespace", "ns", "ns", "odd")+"/"+one("bundle", "c1", "c2"), one("text", "", "x", "y"))
	case "namespace":
		return join("namespace", one("namespace", "ns", "odd"), one("label", "", "team=a", "team=b"))
	}
	return one("deletion", "delete gateway ns/g1", "delete gateway ns/g2", "delete gateway odd/g1", "delete gatewayclass gc", "delete listenerset ns/s1", "delete listenerset odd/s1", "delete httproute ns/w1", "delete httproute ns/w2", "delete grpcroute ns/c1", "delete grpcroute ns/w1", "delete tlsroute ns/r1", "delete tcproute ns/r1", "delete udproute ns/r1",
		"delete tlspolicy ns/p1", "delete bundle ns/c1")
}

func drawListeners(t *rapid.T, line string) string {
	one := func(name string, from ...string) string { return rapid.SampledFrom(from).Draw(t, name) }
	for i := range rapid.IntRange(0, 4).Draw(t, "listeners") {
		options := one("from", "", ",from=All", ",from=team=a") + one("secret", "", ",secret=t1", ",secret=ns/t2")
		line = join(line, []string{"l1", "l2", "l3", "l4"}[i]+":"+one("protocol", "HTTP:80", "HTTP:80", "HTTP:8080", "HTTPS:443", "HTTPS:80")+":"+one("host", gatewayHosts...)+options)
	}
	return line
}

var gatewayHosts = []string{"", "h1", "**.h", "**.x.h", "x.h", "y.x.h"}

// TestGatewaysChooseAsTheStandardSays compares what becomes of requests with the
// rules of the Gateway API, told in their own words: the listener of the port with
// the most specific hostname has a request (HTTPListenerIsolation). Of the rules of
// the routes that are attached to it, the one with the most specific hostname has it
// (HTTPRouteSpec.hostnames), in common with the listener and then of its own; then the
// most specific match (HTTPRouteRule.matches),
// then the oldest route, by name, and the first rule. A host is of routes of one kind,
// that of the oldest (GRPCRouteSpec.hostnames).
func TestGatewaysChooseAsTheStandardSays(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := fleettest.New(nil)
		do(t, w, "edge e1 region=r1 pool=10.0.0.1,10.9.0.2!,10.9.0.3", "member m1", "gatewayclass gc", "pods m1 ns/a 10.0.0.1")
		do(t, w, rapid.SliceOfN(rapid.Custom(drawGateways), 5, 30).Draw(t, "lines")...)
		w.Commit()
		p := w.Program
		for id, row := range rowsOf(p.Gateways) {
			for _, front := range []model.Class{id.Front(model.HTTP, 80), id.Front(model.HTTP, 8080), id.Front(model.HTTPS, 443)} {
				for _, host := range []model.Host{"h1", "h", "a.h", "x.h", "y.x.h", "z.x.h", "z.y.x.h", "else"} {
					for _, path := range []string{"/", "/a", "/a/b", "/b"} {
						got, want := found(p, front, host, path), expected(p, row, front, host, path)
						if got != want {
							t.Fatalf("%s%s at %s goes to %q, want %q", host, path, front, got, want)
						}
					}
				}
			}
		}
	})
}

// fits reports whether a path fits a match that asks for nothing else.
func fits(m model.Match, path string) bool {
	switch {
	case m.When != (model.Conditions{}):
		return false
	case m.Kind == model.PathExact:
		return path == m.Path
	case m.Kind.Regex():
		return strings.HasSuffix(path, "b")
	}
	return m.Path == "/" || path == m.Path || strings.HasPrefix(path, m.Path+"/")
}

// found walks the hosts of a front as proxies do.
func found(p *fleet.Program, front model.Class, host model.Host, path string) string {
	for h := range func(yield func(model.Host) bool) {
		if yield(host) {
			host.Wider()(yield)
		}
	} {
		row, ok := p.Hosts.Get(nil, model.HostKey{Class: front, Host: h})
		if !ok {
			continue
		}
		for _, r := range row.Routes {
			if fits(r.Match, path) {
				return r.Target.Root.String() + " " + r.Match.String()
			}
		}
		if !row.Continues {
			break
		}
	}
	return ""
}

// specific is how specific a hostname is: characters of one without a wildcard, then
// characters.
func specific(h model.Host) int {
	switch n := len(h.Written()); {
	case h.Exact():
		return 1000 + n
	default:
		return n
	}
}

func covers(h, name model.Host) bool {
	base, deep := strings.CutPrefix(string(h), "**.")
	return h == "" || h == name || deep && strings.HasSuffix(string(name), "."+base)
}

func expected(p *fleet.Program, row *fleet.Gateway, front model.Class, name model.Host, path string) string {
	var best *model.Listener
	for _, part := range row.Parts {
		for _, l := range part.Listeners {
			if l.Front == front && covers(l.Spec.Host, name) && (best == nil || specific(l.Spec.Host) > specific(best.Host)) {
				best = l.Spec
			}
		}
	}
	if best == nil {
		return ""
	}
	type candidate struct {
		host   model.Host // in common with the listener
		own    model.Host
		match  model.Match
		origin model.Origin
		rule   int
	}
	listener := best.Host
	var all []candidate
	oldest := map[model.Host]model.Origin{} // that has a rule
	for root, parents := range rowsOf(p.Parents) {
		attached := slices.ContainsFunc(parents, func(a fleet.Attached) bool {
			return slices.Contains(a.Fronts, fleet.OnFront{Front: front, Host: listener})
		})
		if !attached {
			continue
		}
		spec, _ := p.In.Roots.Get(nil, root)
		for of, rules := range rowsOf(p.In.Rules) {
			if of.Root != root || !covers(of.Host, name) {
				continue
			}
			host := of.Host // of two that both stand for the name, one is within the other
			if specific(listener) > specific(host) {
				host = listener
			}
			origin := model.Origin{Created: spec.Created, Object: root}
			if first, some := oldest[host]; len(rules) > 0 && (!some || origin.Compare(first) < 0) {
				oldest[host] = origin
			}
			for i, r := range rules {
				for _, m := range r.Matches {
					if fits(m, path) {
						all = append(all, candidate{host, of.Host, m, origin, i})
					}
				}
			}
		}
	}
	all = slices.DeleteFunc(all, func(c candidate) bool { return c.origin.Object.Kind != oldest[c.host].Object.Kind })
	if len(all) == 0 {
		return ""
	}
	first := slices.MinFunc(all, func(a, b candidate) int {
		return cmp.Or(cmp.Compare(specific(b.host), specific(a.host)), cmp.Compare(specific(b.own), specific(a.own)), a.match.Precedence(b.match), a.origin.Compare(b.origin), a.rule-b.rule)
	})
	return first.origin.Object.String() + " " + first.match.String()
}
