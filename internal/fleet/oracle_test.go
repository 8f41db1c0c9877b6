package fleet_test

import (
	"cmp"
	"maps"
	"net/netip"
	"regexp"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/spillway-dev/spillway/internal/fleet"
	"github.com/spillway-dev/spillway/internal/fleet/fleettest"
	"github.com/spillway-dev/spillway/internal/inc"
	"github.com/spillway-dev/spillway/internal/model"
	"github.com/spillway-dev/spillway/internal/steer"
)

// asked is a root with all its rules.
type asked struct {
	Origin model.Origin
	model.Root
	Rules []hostRule
	Hosts []model.Host // with rules or without
}

type hostRule struct {
	Host model.Host
	model.Rule
}

// askedBy is all that a root asks for.
func askedBy(p *fleet.Program, id model.Object) asked {
	root, _ := p.In.Roots.Get(nil, id)
	out := asked{Origin: model.Origin{Created: root.Created, Object: id}, Root: root}
	for of, rules := range rowsOf(p.In.Rules) {
		if of.Root == id {
			out.Hosts = append(out.Hosts, of.Host)
		}
		for _, rule := range rules {
			if of.Root == id {
				out.Rules = append(out.Rules, hostRule{of.Host, rule})
			}
		}
	}
	return out
}

// attached finds the roots of a class as the rules are told.
func attached(p *fleet.Program, class model.Class) []asked {
	classes := rowsOf(p.In.Classes)
	var defaults []model.ClassSpec
	for _, c := range classes {
		if c.Default {
			defaults = append(defaults, c)
		}
	}
	slices.SortFunc(defaults, func(a, b model.ClassSpec) int { return a.Origin.Compare(b.Origin) })
	var out []asked
	for id, root := range rowsOf(p.In.Roots) {
		names := strings.Split(string(root.Classes), ",")
		if root.Classes == "" && len(defaults) > 0 {
			names = []string{defaults[0].Origin.Object.Name}
		}
		_, ours := classes[class]
		if _, other := p.ClassInfo.Get(nil, class); (ours || other) && slices.Contains(names, string(class)) {
			out = append(out, askedBy(p, id))
		}
	}
	slices.SortFunc(out, func(a, b asked) int { return a.Origin.Compare(b.Origin) })
	return out
}

func served(p *fleet.Program, class model.Class) bool {
	spec, ok := p.In.Classes.Get(nil, class)
	if !ok {
		_, ok = p.ClassInfo.Get(nil, class) // of another kind
		return ok
	}
	if spec.Config == "" {
		return true
	}
	_, ok = p.In.Configs.Get(nil, spec.Config)
	return ok
}

// request is what rules look at.
type request struct {
	path, method   string
	headers, query map[string]string
}

// whoServes answers a request the dumb way: of all rules that match, the best;
// else the oldest default backend. It returns the root, and false if the host has
// nothing for it.
func whoServes(p *fleet.Program, class model.Class, host model.Host, q request) (fleet.Target, bool) {
	if !served(p, class) {
		return fleet.Target{}, false
	}
	type claim struct {
		match model.Match
		rule  hostRule
		root  model.Object
	}
	var claims []claim
	var fallback *fleet.Target
	for _, root := range attached(p, class) {
		mine := slices.Contains(root.Hosts, host)
		for _, rule := range root.Rules {
			for _, m := range rule.Matches {
				if rule.Host == host && matches(m, q) {
					claims = append(claims, claim{m, rule, root.Origin.Object})
				}
			}
		}
		if root.Default != nil && fallback == nil && (mine || host == "") {
			fallback = &fleet.Target{Root: root.Origin.Object, Action: model.Action{Backends: []model.WeightedBackend{{Backend: *root.Default, Weight: 1}}}}
			fallback.Nowhere = nowhere(p, fallback.Backends)
		}
	}
	if len(claims) == 0 {
		if fallback == nil {
			return fleet.Target{}, false
		}
		return *fallback, true
	}
	slices.SortStableFunc(claims, func(a, b claim) int { return slices.Compare(merits(b.match), merits(a.match)) })
	first := claims[0]
	action := first.rule.Action
	action.Filters = action.Filters.OnlyMirrors(func(m model.Mirror) bool { return !nowhere(p, []model.WeightedBackend{{Backend: m.Backend}}) })
	return fleet.Target{Root: first.root, Rule: first.rule.Name, Action: action, Nowhere: nowhere(p, first.rule.Backends)}, true
}

// nowhere tells whether all members are known, and none has a backend.
func nowhere(p *fleet.Program, all []model.WeightedBackend) bool {
	return len(all) > 0 && !someMissing(p) && !slices.ContainsFunc(all, func(b model.WeightedBackend) bool {
		row, _ := p.Backends.Get(nil, b.Backend)
		return len(row.Members) > 0
	})
}

// someMissing tells whether rows are missing of a member that is not tainted.
func someMissing(p *fleet.Program) bool {
	for _, row := range rowsOf(p.Missing) {
		if !row.Barred {
			return true
		}
	}
	return false
}

// merits are what the standards look at, one after the other: more goes first.
func merits(m model.Match) []int {
	k := m.When.Key()
	kind := map[model.PathKind]int{model.PathExact: 4, model.PathRegex: 3, model.PathPrefix: 2, model.PathLate: 1}[m.Kind]
	if m.Path == "/" && m.Kind == model.PathPrefix {
		kind = 0
	}
	return []int{kind, len(m.Path), min(1, len(k.Method)), k.Headers.Len(), k.Query.Len()}
}

func matches(m model.Match, q request) bool {
	k := m.When.Key()
	return matchesPath(m, q.path) && (k.Method == "" || k.Method == q.method) && holds(k.Headers, q.headers) && holds(k.Query, q.query)
}

func matchesPath(m model.Match, path string) bool {
	switch m.Kind {
	case model.PathExact:
		return path == m.Path
	case model.PathRegex, model.PathLate:
		return whole(m.Path).MatchString(path)
	}
	return strings.HasPrefix(path+"/", strings.TrimSuffix(m.Path, "/")+"/")
}

func whole(pattern string) *regexp.Regexp { return regexp.MustCompile("^(?:" + pattern + ")$") }

func holds(all model.Values, has map[string]string) bool {
	return !slices.ContainsFunc(all.List(), func(v model.ValueMatch) bool {
		is, there := has[v.Name]
		return !there || v.Regex && !whole(v.Value).MatchString(is) || !v.Regex && v.Value != is
	})
}

// ask routes a request by the program's tables.
func ask(p *fleet.Program, class model.Class, host model.Host, q request) (fleet.Target, bool) {
	h, ok := p.Hosts.Get(nil, model.HostKey{Class: class, Host: host})
	for _, r := range h.Routes {
		if matches(r.Match, q) {
			return r.Target, ok
		}
	}
	if h.Default == nil {
		return fleet.Target{}, false
	}
	return *h.Default, ok
}

// requests are all that the rules of drawIngress tell apart.
var requests = func() []request {
	var out []request
	for _, path := range []string{"/", "/a", "/a/", "/a/b", "/a/b/c", "/ab", "/x"} {
		for _, method := range []string{"GET", "POST"} {
			for _, headers := range []map[string]string{nil, {"x": "1"}, {"x": "2", "y": "1"}} {
				for _, query := range []map[string]string{nil, {"q": "1"}} {
					out = append(out, request{path, method, headers, query})
				}
			}
		}
	}
	return out
}()

func TestRequestsGoWhereTheRulesSay(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p := drawWorld(t).Program
		for _, class := range anyClass {
			info, _ := p.ClassInfo.Get(nil, class)
			for _, host := range anyHost {
				if h, ok := p.Hosts.Get(nil, model.HostKey{Class: class, Host: host}); ok && h.Continues != (info.Continues && host != "") {
					t.Fatalf("%s %q goes on: %v", class, host, h.Continues)
				}
				for _, q := range requests {
					got, answered := ask(p, class, host, q)
					want, should := whoServes(p, class, host, q)
					want.Backends = allowed(p, class, want.Backends)
					want.Filters = want.Filters.OnlyMirrors(func(m model.Mirror) bool {
						return len(allowed(p, class, []model.WeightedBackend{{Backend: m.Backend}})) > 0
					})
					if a := []model.WeightedBackend{{Backend: want.Filters.Auth().Backend}}; want.Filters.Auth() != (model.Auth{}) && (nowhere(p, a) || len(allowed(p, class, a)) == 0) {
						want.Reply = &model.Reply{Status: 500}
					}
					if answered != should || !got.Equal(want) {
						t.Fatalf("%s %s%+v goes to %v %+v, not %v %+v", class, host, q, answered, got, should, want)
					}
				}
			}
		}
	})
}

// allowed drops ExternalNames where the class refuses them.
func allowed(p *fleet.Program, class model.Class, all []model.WeightedBackend) []model.WeightedBackend {
	spec, _ := p.In.Classes.Get(nil, class)
	config, _ := p.In.Configs.Get(nil, spec.Config)
	var out []model.WeightedBackend
	for _, b := range all {
		if _, external := membersOf(p, b.Backend); !external || config.ExternalNames {
			out = append(out, b)
		}
	}
	return out
}

// membersOf resolves a backend the dumb way.
func membersOf(p *fleet.Program, b model.Backend) (members []model.Member, external bool) {
	type offer struct {
		member  model.Member
		created int64
		what    string
	}
	var offers []offer
	sought, says := soughtOf(p, b)
	for id, spec := range rowsOf(p.In.Services) {
		m, ok := p.In.Members.Get(nil, id.Member)
		if id.Service != b.Service() || !ok {
			continue
		}
		created := m.Created
		if b.Imported() && !says.written {
			if created, ok = says.exports[id.Member]; !ok {
				continue
			}
		}
		for _, port := range spec.Ports {
			if port.Protocol != "TCP" || !sought(port) {
				continue
			}
			what := "endpoints "
			if spec.Kind == model.ServiceExternal {
				what = "external "
			}
			if says.app != "" {
				port.AppProtocol = says.app
			}
			offers = append(offers, offer{id.Member, created, what + port.AppProtocol})
			break
		}
	}
	slices.SortFunc(offers, func(a, b offer) int {
		if a.created != b.created {
			return int(a.created - b.created)
		}
		return a.member.Compare(b.member)
	})
	for _, o := range offers {
		if o.what == offers[0].what {
			members = append(members, o.member)
		}
	}
	slices.Sort(members)
	return members, len(offers) > 0 && strings.HasPrefix(offers[0].what, "external")
}

// says is what is said of a ServiceImport, by whoever says it.
type says struct {
	written bool
	app     string                 // how pods are spoken to, as it is written
	exports map[model.Member]int64 // that count
}

// soughtOf tells which port of a member's Service is that of a backend. Of a
// ServiceImport it is the one with the same name as the port of that number; of
// exports the oldest has the number of a name, and the name of a number (KEP-1645).
func soughtOf(p *fleet.Program, b model.Backend) (func(model.ServicePort) bool, says) {
	ref := b.Port()
	if !b.Imported() {
		return func(port model.ServicePort) bool {
			return ref.Name != "" && port.Name == ref.Name || ref.Name == "" && port.Number == ref.Number
		}, says{}
	}
	out := says{exports: map[model.Member]int64{}}
	s := b.Service()
	written, ok := p.In.Imports.Get(nil, model.Object{Kind: model.ImportKind, Namespace: s.Namespace(), Name: s.Name()})
	ports := written.Ports
	if out.written = ok; !ok {
		ports = exportedPorts(p, s, out.exports)
	}
	for _, port := range ports {
		if port.Protocol != "TCP" || port.Number != ref.Number && ref.Name == "" || port.Name != ref.Name && ref.Name != "" {
			continue
		}
		if ok {
			out.app = port.AppProtocol
		}
		return func(o model.ServicePort) bool {
			return o.Name == port.Name || port.Name == "" && (ref.Name == "" && o.Number == ref.Number)
		}, out
	}
	return func(model.ServicePort) bool { return false }, out
}

// exportedPorts notes the members whose exports of a Service count, and since when, and
// returns their ports.
func exportedPorts(p *fleet.Program, s model.Service, since map[model.Member]int64) (ports []model.ServicePort) {
	for id, e := range rowsOf(p.In.Exports) {
		m, member := p.In.Members.Get(nil, id.Member)
		spec, has := p.In.Services.Get(nil, id)
		if id.Service == s && member && has && spec.Kind != model.ServiceExternal {
			since[id.Member] = max(e.Created, m.Created)
		}
	}
	for _, m := range slices.SortedFunc(maps.Keys(since), func(a, b model.Member) int { return cmp.Or(cmp.Compare(since[a], since[b]), a.Compare(b)) }) {
		spec, _ := p.In.Services.Get(nil, model.MemberService{Service: s, Member: m})
		for _, port := range spec.Ports {
			if !slices.ContainsFunc(ports, func(o model.ServicePort) bool {
				return o.Protocol == port.Protocol && (o.Name == port.Name || o.Number == port.Number)
			}) {
				ports = append(ports, port)
			}
		}
	}
	return ports
}

func TestBackendsAreWhatMembersHave(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p := drawWorld(t).Program
		for b, row := range rowsOf(p.Backends) {
			members, external := membersOf(p, b)
			if !slices.Equal(row.Members, members) || row.External != external {
				t.Fatalf("%s: %+v, not %v external=%v", b, row, members, external)
			}
			for _, m := range members {
				checkGroup(t, p, fleet.GroupID{Backend: b, Member: m})
			}
		}
		for id := range rowsOf(p.Groups) {
			if row, _ := p.Backends.Get(nil, id.Backend); !slices.Contains(row.Members, id.Member) {
				t.Fatalf("group %s is not of its backend", id)
			}
		}
	})
}

// checkGroup compares a group with a walk over all slices.
func checkGroup(t *rapid.T, p *fleet.Program, id fleet.GroupID) {
	group, ok := p.Groups.Get(nil, id)
	if !ok {
		t.Fatalf("no group %s", id)
	}
	spec, _ := p.In.Services.Get(nil, model.MemberService{Service: id.Backend.Service(), Member: id.Member})
	if spec.Kind == model.ServiceExternal {
		want := spec.External
		for _, edge := range rowsOf(p.In.Edges) {
			if slices.Contains(edge.Hostnames, want) {
				want = ""
			}
		}
		if _, guarded := p.In.Guarded.Get(nil, fleet.Guarded{Host: want, Port: uint16(spec.Ports[0].Number)}); guarded {
			want = ""
		}
		if name, _ := group.External(); name != want || (want == "") != (len(group.Refused()) > 0) {
			t.Fatalf("group %s: %+v", id, group)
		}
		return
	}
	name := spec.Ports[0].Name // services of the domain have one port
	best, refused := map[string]model.EndpointState{}, false
	for k, s := range rowsOf(p.In.Slices) {
		if k.Service != id.Backend.Service() || k.Member != id.Member {
			continue
		}
		for _, port := range s.Ports {
			for e := range s.Endpoints.All() {
				if port.Name == name && mustNotDial(p, id.Member, e.Addr, port.Number) {
					refused = true
					continue
				}
				e.Port = port.Number
				at := address(e)
				if state, seen := best[at]; port.Name == name && (!seen || e.State < state) {
					best[at] = e.State
				}
			}
		}
	}
	if refused != (len(group.Refused()) > 0) {
		t.Fatalf("group %s: refused %v: %+v", id, refused, group)
	}
	if len(best) != group.Endpoints.Len() {
		t.Fatalf("group %s has %d endpoints, not %d", id, group.Endpoints.Len(), len(best))
	}
	for e := range group.Endpoints.All() {
		if state, ok := best[address(e)]; !ok || state != e.State {
			t.Fatalf("group %s: %+v", id, e)
		}
	}
}

// mustNotDial walks over all edges, what is guarded, and the ranges of the member.
func mustNotDial(p *fleet.Program, m model.Member, ip netip.Addr, port uint16) bool {
	for k, g := range rowsOf(p.In.Guarded) {
		if k.Port == port && slices.Contains(g.Addresses, ip) {
			return true
		}
	}
	spec, _ := p.In.Members.Get(nil, m)
	for _, edge := range rowsOf(p.In.Edges) {
		near := slices.ContainsFunc(edge.Networks, func(n string) bool { return slices.Contains(spec.Networks, n) })
		of := slices.Clone(edge.Addresses)
		for _, a := range edge.Pool {
			of = append(of, a.Address, a.Bind)
		}
		if slices.Contains(of, ip) && (near || !ip.IsPrivate()) {
			return true
		}
	}
	return spec.Fenced && !slices.ContainsFunc(spec.PodRanges, func(r netip.Prefix) bool { return r.Contains(ip) })
}

func address(e model.Endpoint) string { return e.Addr.String() + " " + string(rune(e.Port)) }

// TestWhatIsLeftOutHasAFinding: a rule that does not serve what it asks for, a
// backend that nobody has, a TLS host without its certificate.
func TestWhatIsLeftOutHasAFinding(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p := drawWorld(t).Program
		for k, a := range rowsOf(p.Attachments) {
			for _, class := range a.Classes.List() {
				isTold(t, p, k, a, class)
			}
		}
	})
}

func isTold(t *rapid.T, p *fleet.Program, k model.Object, a fleet.Attachment, class model.Class) {
	t.Helper()
	missing := someMissing(p)
	all, _ := p.Findings.Get(nil, k)
	told := func(reasons ...model.Reason) bool {
		return slices.ContainsFunc(all, func(f model.Finding) bool { return slices.Contains(reasons, f.Reason) })
	}
	if !served(p, class) {
		if !told(model.ReasonConfigNotFound) {
			t.Fatalf("%s is not served and not told: %v", k, all)
		}
		return
	}
	for _, rule := range askedBy(p, k).Rules {
		h, _ := p.Hosts.Get(nil, model.HostKey{Class: class, Host: rule.Host})
		at := -1
		for _, m := range rule.Matches {
			i := slices.IndexFunc(h.Routes, func(r fleet.Route) bool { return r.Match == m })
			if i < 0 || h.Routes[i].Target.Root != k {
				if !told(model.ReasonConflict) {
					t.Fatalf("%s lost %v and is not told: %v", k, m, all)
				}
				continue
			}
			at = i
		}
		if at < 0 {
			continue
		}
		for _, b := range rule.Backends {
			row, _ := p.Backends.Get(nil, b.Backend)
			if len(row.Members) == 0 && !missing && !told(model.ReasonServiceNotFound, model.ReasonPortNotFound) {
				t.Fatalf("%s: nobody has %s, and it is not told: %v", k, b.Backend, all)
			}
			for _, m := range row.Members {
				if g, _ := p.Groups.Get(nil, fleet.GroupID{Backend: b.Backend, Member: m}); len(g.Refused()) > 0 && !told(model.ReasonEndpointRefused) {
					t.Fatalf("%s: %v is not told: %v", k, g.Refused(), all)
				}
			}
			if len(row.Problems) > 0 && !told(model.ReasonPortNotFound, model.ReasonProtocolConflict) {
				t.Fatalf("%s: %v is not told: %v", k, row.Problems, all)
			}
			if len(h.Routes[at].Target.Backends) == 0 && !told(model.ReasonExternalNameRefused) {
				t.Fatalf("%s: %s is refused and not told: %v", k, b.Backend, all)
			}
		}
	}
	for _, entry := range a.TLS {
		for _, h := range entry.Hosts {
			chain, _ := p.Chains.Get(nil, model.HostKey{Class: class, Host: h})
			if !slices.Contains(chain.Secrets, entry.Secret) && !told(model.ReasonSecretNotFound, model.ReasonSecretInvalid, model.ReasonCertificateMismatch, model.ReasonConflict) {
				t.Fatalf("%s: %s is not served with %s, and it is not told: %v", k, h, entry.Secret, all)
			}
		}
	}
}

// TestCollectionsHaveHosts: a front and a vantage need what the hosts of their
// classes need, but for those that have not come to them yet, of which nobody is
// sure. Once nothing waits they have all, and nobody else has any.
func TestCollectionsHaveHosts(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var seen keys
		w := fleettest.New(seen.declare)
		do(t, w, "class c1 default", "edge e1 region=r1", "member m1", "member m2")
		for _, line := range drawLines(t) {
			do(t, w, line)
			w.Graph.Portion(rapid.IntRange(0, 2).Draw(t, "portion"))
			w.Commit()
			seen.check(t, w.Program)
		}
		for w.Graph.Backlog() > 0 {
			w.Graph.Commit(func(*inc.Tx) {})
			seen.check(t, w.Program)
		}
		p := w.Program
		for key := range rowsOf(p.Hosts) {
			var all []fleet.Binding
			for edge := range rowsOf(p.Views) {
				if b, ok := p.Binding(nil, key.Class, edge); ok {
					all = append(all, b)
				}
			}
			if spread, _ := p.Spreads.Get(nil, key); !spread.Outlets.Equal(fleet.OutletsOf(all)) {
				t.Fatalf("%s has %s, of %v", key, spread, all)
			}
		}
	})
}

// check compares what there is with what spreads say.
func (k *keys) check(t *rapid.T, p *fleet.Program) {
	needs, uses := map[fleet.NeedID]model.There{}, map[fleet.UseID]model.There{}
	for key, host := range rowsOf(p.Hosts) {
		spread, ok := p.Spreads.Get(nil, key)
		if !ok {
			t.Fatalf("%s has no spread", key)
		}
		for _, target := range targetsOf(host) {
			var all []model.Backend
			for _, b := range target.Used() {
				all = append(all, b.Backend)
			}
			need := func(b model.Backend, dial model.Dial) {
				for _, front := range spread.Fronts {
					needs[fleet.NeedID{Front: front, Backend: b, Dial: dial}] = model.There{}
				}
				for _, at := range spread.Vantages {
					uses[fleet.UseID{Vantage: at, Backend: b}] = model.There{}
				}
			}
			for _, b := range append(all, target.Mirrors()...) {
				need(b, host.Dial)
			}
			switch a := target.Auth(); {
			case a.Calls:
				need(a.Backend, host.Dial.OverHTTP2())
			case a != (model.Auth{}):
				need(a.Backend, host.Dial)
			}
		}
		for edge, view := range rowsOf(p.Views) {
			at, bound := p.Binding(nil, key.Class, edge)
			if !bound {
				continue
			}
			got, ok := p.Reach(nil, key, at)
			want := reachOf(p, host, view.Key.Vantage())
			if !spread.Has(at) {
				want = fleet.Reach{Room: steer.NoRoom, Unsure: true}
			}
			if !ok || got != want {
				t.Fatalf("%s with %s: has %s with %s: %v, %+v; want %+v", edge, view.Key, key, spread, ok, got, want)
			}
		}
	}
	if got := rowsOf(k.needs); !maps.Equal(got, needs) {
		t.Fatalf("needs %v, want %v", got, needs)
	}
	if got := rowsOf(k.uses); !maps.Equal(got, uses) {
		t.Fatalf("uses %v, want %v", got, uses)
	}
	if n := p.Plans.Len(); n != len(uses) {
		t.Fatalf("%d plans for %v", n, uses)
	}
}

// reachOf is how the plans of a host's backends serve it from a vantage.
func reachOf(p *fleet.Program, host fleet.Host, at model.Vantage) fleet.Reach {
	out := fleet.Reach{Room: steer.NoRoom}
	for _, target := range targetsOf(host) {
		for _, b := range target.Used() {
			if plan, ok := p.Plans.Get(nil, fleet.UseID{Vantage: at, Backend: b.Backend}); ok {
				out = fleet.Reach{Room: min(out.Room, plan.Room), Unsure: out.Unsure || plan.Unsure}
			}
		}
	}
	out.Unsure = out.Unsure && out.Room != steer.Best
	return out
}

func targetsOf(h fleet.Host) []fleet.Target {
	var out []fleet.Target
	for _, r := range h.Routes {
		out = append(out, r.Target)
	}
	if h.Default != nil {
		out = append(out, *h.Default)
	}
	return out
}
