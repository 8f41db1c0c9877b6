package envoy

import (
	"bufio"
	"crypto/tls"
	"fmt"
	"maps"
	"net/http"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/spillway-dev/spillway/internal/envoy/routetest"
	"github.com/spillway-dev/spillway/internal/fleet"
	"github.com/spillway-dev/spillway/internal/fleet/fleettest"
	"github.com/spillway-dev/spillway/internal/inc"
	"github.com/spillway-dev/spillway/internal/model"
	"github.com/spillway-dev/spillway/internal/steer"
)

func itoa(n uint32) string { return strconv.Itoa(int(n)) }

// requestTable is a file of testdata/requests: what is served, "----", and requests with
// the answer that is expected of each.
//
//	front deep                 the table may have wildcards of any depth, so its HTTPS port is one of Gateways
//	listener HOST|*            a listener of it; without any it is one for all names
//	host NAME|* [continues] [calls]  begins a host; "*" is the catch-all, "**.NAME" a wildcard of any depth; what no route of one that continues matches goes on, and one of calls speaks HTTP/2 to pods
//	exact|prefix PATH BACKEND  a route of it; BACKEND may be "none", or "none:KIND" of a root of another kind
//	rule MATCH[;MATCH...] BACKEND|REPLY [FILTER...]  a rule of it, as fleettest.ParseMatches, ParseReply and ParseFilters read them; BACKEND is NAME[=WEIGHT][{FILTER;...}],...
//	                           over=http, https or moved: by which of HTTP and HTTPS it may be asked for
//	pass NAME BACKEND [moved]  connections for a TLS name that go to a backend unread, and what becomes of requests without TLS
//	layer                      what follows of the host goes after what was before, whatever its matches are
//	default BACKEND            what no route matches
//	backend NAME [appProtocol=P] [MEMBER[:STATE]...]  tiers of one pod each; a backend that is only named has one pod in eu-1
//	secure NAME AUTHORITY      its pods speak TLS, with a certificate of it; whoever Pods signs is trusted, whatever its name
//	tls HOST|* SECRET          the certificate for a TLS name; "*" for names that have none, and clients that name none
//	----
//	METHOD HOST PATH [NAME:VALUE...]           BACKEND[@MEMBER]|STATUS[:LOCATION]
//	TLS SNI|- METHOD HOST PATH [NAME:VALUE...] BACKEND[@MEMBER]|STATUS[:LOCATION]|refused
//	… => [BACKEND:]DETAIL=VALUE...             what else is told of it, if that backend answers: path and host that it sees,
//	                                           cookie that the client gets, see nameEndpoints,
//	                                           NAME of a header that it sees, <NAME of one that the client sees ("-": none), mirror of backends with a copy
type requestTable struct {
	deep     bool
	of       map[model.Host]bool // listeners
	hosts    map[model.Host]layers
	order    []model.Host
	backends map[string]*tableBackend
	names    []string
	tls      map[model.Host]string
	requests []expectation
}

type tableBackend struct {
	appProtocol string
	members     []string // "eu-1" or "eu-1:Failed"
	pods        []*pod
	copies      bool   // it gets some
	called      bool   // it is asked by calls
	authority   string // of the certificate of its pods; empty: they speak no TLS
	passed      bool   // it is given connections unread
}

type expectation struct {
	line string
	q    request
	want string
	more []detail
}

func readTable(t *testing.T, file string) *requestTable {
	t.Helper()
	f, err := os.Open(file)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = f.Close() }()
	tab := &requestTable{of: map[model.Host]bool{}, hosts: map[model.Host]layers{}, backends: map[string]*tableBackend{}, tls: map[model.Host]string{}}
	asking := false
	for in := bufio.NewScanner(f); in.Scan(); {
		line := in.Text()
		words := strings.Fields(line)
		switch {
		case len(words) == 0 || strings.HasPrefix(line, "#"):
		case line == "----":
			asking = true
		case asking:
			tab.ask(t, line, words)
		default:
			tab.serve(t, line, words)
		}
	}
	return tab
}

func (tab *requestTable) serve(t *testing.T, line string, words []string) {
	t.Helper()
	var last *fleet.Host
	if len(tab.order) > 0 {
		all := tab.hosts[tab.order[len(tab.order)-1]]
		last = all[len(all)-1]
	}
	switch words[0] {
	case "front":
		tab.deep = words[1] == "deep"
	case "listener":
		tab.of[hostNamed(words[1])] = true
	case "host":
		name := hostNamed(words[1])
		tab.order = append(tab.order, name)
		first := &fleet.Host{Roots: []model.Object{rootObject("web")}, Continues: slices.Contains(words[2:], "continues")}
		if slices.Contains(words[2:], "calls") {
			first.Dial = overHTTP2
		}
		tab.hosts[name] = layers{first}
	case "layer":
		name := tab.order[len(tab.order)-1]
		tab.hosts[name] = append(tab.hosts[name], &fleet.Host{})
	case "exact":
		last.Routes = append(last.Routes, fleet.Route{Match: exact(words[1]), Target: tab.target(words[2])})
	case "prefix":
		last.Routes = append(last.Routes, fleet.Route{Match: prefix(words[1]), Target: tab.target(words[2])})
	case "rule":
		matches, err := fleettest.ParseMatches(words[1])
		if err != nil {
			t.Fatalf("%q: %v", line, err)
		}
		to, asked := tab.target(words[2]), model.Both
		for over, name := range map[model.Over]string{model.OnlyHTTP: "http", model.OnlyHTTPS: "https", model.MovedToHTTPS: "moved"} {
			if i := slices.Index(words, "over="+name); i >= 0 {
				asked, words = over, slices.Delete(words, i, i+1)
			}
		}
		to.Filters = tab.filters(line, words[3:]).By(asked)
		for _, m := range matches {
			last.Routes = append(last.Routes, fleet.Route{Match: m, Target: to})
		}
	case "pass":
		tab.pass(words)
	case "secure":
		tab.backend(words[1]).authority = words[2]
	case "default":
		to := tab.target(words[1])
		last.Default = &to
	case "backend":
		b := tab.backend(words[1])
		b.members = nil
		for _, w := range words[2:] {
			if p, is := strings.CutPrefix(w, "appProtocol="); is {
				b.appProtocol = p
			} else {
				b.members = append(b.members, w)
			}
		}
	case "tls":
		tab.tls[hostNamed(words[1])] = words[2]
	default:
		t.Fatalf("what is %q?", line)
	}
}

// pass begins a host of which connections go to a backend.
func (tab *requestTable) pass(words []string) {
	name := hostNamed(words[1])
	to := fleet.Target{Root: rootObject("web"), Action: model.Action{Backends: []model.WeightedBackend{{Backend: backend(words[2] + "/tls:tls"), Weight: 1}}}}
	tab.backend(words[2]).passed = true
	reply := fleet.Target{Root: rootObject("web"), Action: model.Action{Reply: &model.Reply{Status: 404}}}
	if slices.Contains(words[3:], "moved") {
		reply.Reply, reply.Filters = fleet.Moved(0), model.Filters{}.By(model.OnlyHTTP)
	}
	tab.order = append(tab.order, name)
	tab.hosts[name] = layers{{Roots: []model.Object{rootObject("web")}, Passed: &to, Routes: []fleet.Route{{Match: model.Everything, Target: reply}}}}
}

func hostNamed(text string) model.Host {
	if text == "*" {
		return ""
	}
	return model.Host(text)
}

func (tab *requestTable) backend(name string) *tableBackend {
	if tab.backends[name] == nil {
		tab.backends[name] = &tableBackend{members: []string{"eu-1"}}
		tab.names = append(tab.names, name)
	}
	return tab.backends[name]
}

func (tab *requestTable) target(to string) fleet.Target {
	if kind, none := strings.CutPrefix(to, "none:"); none {
		out := target("web")
		out.Root.Kind = kind
		return out
	}
	if to == "none" {
		return target("web")
	}
	if reply, err := fleettest.ParseReply(to); reply != nil || err != nil {
		out := target("web")
		out.Reply = reply
		return out
	}
	out := fleet.Target{Root: rootObject("web")}
	for _, part := range eachBackend(to) {
		part, words := fleettest.CutFilters(part)
		name, weight, has := strings.Cut(part, "=")
		tab.backend(name)
		n := 1
		if has {
			n, _ = strconv.Atoi(weight)
		}
		out.Backends = append(out.Backends, model.WeightedBackend{Backend: backend(name + "/http"), Weight: uint32(n), Filters: tab.filters(to, words)})
	}
	return out
}

// eachBackend cuts at the commas that are in no braces.
func eachBackend(text string) []string {
	inside := false
	return strings.FieldsFunc(text, func(r rune) bool {
		inside = r == '{' || inside && r != '}'
		return r == ',' && !inside
	})
}

func (tab *requestTable) filters(line string, words []string) model.Filters {
	out, err := fleettest.ParseFilters(words, func(name string) model.Backend {
		tab.backend(name)
		return backend(name + "/http")
	})
	if err != nil {
		panic(line + ": " + err.Error())
	}
	for _, m := range out.Mirrors() {
		tab.backends[m.Backend.Service().String()].copies = true
	}
	if a := out.Auth(); a.Calls {
		tab.backends[a.Backend.Service().String()].called = true
	}
	return out
}

func (tab *requestTable) ask(t *testing.T, line string, words []string) {
	t.Helper()
	e := expectation{line: line}
	if i := slices.Index(words, "=>"); i >= 0 {
		for _, w := range words[i+1:] {
			e.more = append(e.more, parseDetail(w))
		}
		words = words[:i]
	}
	if words[0] == "TLS" {
		sni, err := strconv.Unquote(`"` + strings.TrimPrefix(words[1], "-") + `"`)
		if err != nil {
			t.Fatalf("%q: %v", line, err)
		}
		e.q.tls, e.q.sni, words = true, sni, words[2:]
	}
	if len(words) < 4 {
		t.Fatalf("what is %q?", line)
	}
	e.q.method, e.q.host, e.q.path, e.want = words[0], words[1], words[2], words[len(words)-1]
	e.q.header = http.Header{}
	for _, w := range words[3 : len(words)-1] {
		name, value, _ := strings.Cut(w, ":")
		e.q.header.Add(name, value)
	}
	tab.requests = append(tab.requests, e)
}

// build writes the table's rows and starts its pods.
func (tab *requestTable) build(t *testing.T, w *world, tx *inc.Tx) {
	class, _ := w.p.ClassInfo.Get(nil, testClass)
	class.Deep = tab.deep
	w.specs.Set(tx, testClass, class)
	if len(tab.of) > 0 {
		w.p.ListenerHosts.Set(tx, testClass, slices.Sorted(maps.Keys(tab.of)))
	}
	for name, host := range tab.hosts {
		w.p.Hosts.Set(tx, model.HostKey{Class: testClass, Host: name}, host.joined())
	}
	for _, name := range tab.names {
		b := tab.backends[name]
		port := "/http"
		if b.passed {
			port = "/tls:tls"
		}
		used := w.use(tx, testView, name+port, b.appProtocol)
		var secure *tls.Config
		if b.authority != "" {
			of := strings.ReplaceAll(name, "/", ".")
			secure = routetest.Backend{Name: of, TLS: true, For: of + ".internal", By: b.authority}.Server()
		}
		if b.authority != "" && !b.passed {
			key := model.UpstreamTLSKey{Host: "web.shop.svc", CA: string(routetest.Authority(routetest.Pods).CertPEM()), AnyName: true}
			w.p.Backends.Set(tx, backend(name+port), fleet.Backend{AppProtocol: b.appProtocol, TLS: key.UpstreamTLS()})
		}
		for _, host := range tab.hosts {
			if used.dial = host[0].Dial; used.dial != (model.Dial{}) {
				w.needs.Set(tx, used, model.There{})
			}
		}
		if b.called {
			used.dial = overHTTP2
			w.needs.Set(tx, used, model.There{})
		}
		var shares []steer.Share
		for i, member := range b.members {
			member, state, _ := strings.Cut(member, ":")
			s := share(model.Member(member), i)
			for _, known := range []steer.State{steer.Failed, steer.Drained} {
				if known.String() == state {
					s.State = known
				}
			}
			p := newPodWith(t, name+"@"+member, netip.MustParseAddr("127.0.0.1"), secure)
			b.pods = append(b.pods, p)
			w.group(tx, name+port, model.Member(member), p.endpoint())
			shares = append(shares, s)
		}
		w.plan(tx, testView, name+port, shares...)
	}
	for host, name := range tab.tls {
		id := model.SecretID{Namespace: "shop", Name: name}
		w.p.In.Certificates.Set(tx, id, selfSigned(t, name))
		w.p.Chains.Set(tx, model.HostKey{Class: testClass, Host: host}, fleet.Chain{Secrets: []model.SecretID{id}})
	}
}

// model answers a request from the rows themselves, in the plainest way: this
// is what a user was promised.
func (tab *requestTable) model(q request) (string, accounts) {
	if q.tls {
		for _, name := range matching(tab.hosts, strings.ToLower(q.sni)) {
			if to := tab.hosts[name][0].Passed; to != nil {
				return tab.serving(*to, q), tab.promised(*to, model.Everything, q)
			}
		}
	}
	if q.tls && !tab.presents(q.sni) {
		return "refused", nil
	}
	if normalize(q.path) == "" {
		return "400", nil
	}
	if path, _, _ := strings.Cut(q.path, "?"); model.EscapesSlash(path) {
		return "307:" + normalize(q.path), nil
	}
	if !hostOrPort(q.host) {
		return "400", nil
	}
	if q.method == http.MethodTrace {
		return "405", nil
	}
	name, _, _ := strings.Cut(strings.ToLower(q.host), ":")
	if q.tls && tab.deep {
		if of := tab.listener(strings.TrimSuffix(name, ".")); of != "" && of != tab.listener(strings.ToLower(q.sni)) {
			return "421", nil
		}
	}
	var to *fleet.Target
	var m model.Match
	for _, h := range matching(tab.hosts, strings.TrimSuffix(name, ".")) {
		if to, m = tab.hosts[h].promisedTo(q); to != nil || !tab.hosts[h][0].Continues {
			break
		}
	}
	if to == nil {
		return "404", nil
	}
	switch over := to.Filters.Over(); {
	case over == model.MovedToHTTPS && !q.tls:
		return "302:" + redirected(m, *fleet.Moved(0).Redirect, q), nil
	case over == model.OnlyHTTPS && !q.tls, over == model.OnlyHTTP && q.tls:
		return "404", nil
	}
	own := accounts{"": account{answer: promisedAnswer(http.Header{}, to.Filters)}}
	switch {
	case to.Reply != nil && to.Reply.Redirect != nil:
		return fmt.Sprintf("%d:%s", to.Reply.Status, redirected(m, *to.Reply.Redirect, q)), own
	case to.Reply != nil:
		return fmt.Sprint(to.Reply.Status), own
	}
	if answer := promisedPreflight(to.Filters, q); answer != nil {
		status := "200"
		if len(answer) == 0 {
			status = "204"
		}
		return status, accounts{"": account{answer: answer}}
	}
	if len(to.Backends) > 0 {
		text, told := tab.permits(to.Filters.Auth(), &q)
		for _, no := range told {
			maps.Copy(no.answer, promisedSharing(to.Filters, q))
		}
		if text != "" {
			return text, told
		}
	}
	return tab.serving(*to, q), tab.promised(*to, m, q)
}

// listener is the one that a name belongs to; empty: there is none.
func (tab *requestTable) listener(name string) string {
	if len(tab.of) == 0 {
		return "all"
	}
	for _, h := range matching(tab.of, name) {
		return h.Described()
	}
	return ""
}

// hostOrPort reports whether a Host header is one host, and a port if it has any.
func hostOrPort(text string) bool {
	host, port, _ := strings.Cut(text, ":")
	if literal, is := strings.CutPrefix(text, "["); is {
		inside, rest, closed := strings.Cut(literal, "]")
		if !closed || rest != "" && rest[0] != ':' {
			return false
		}
		host, port = inside, strings.TrimPrefix(rest, ":")
	}
	return !strings.ContainsAny(host, ",@[]") && strings.Trim(port, "0123456789") == ""
}

// matching are the hosts that stand for a name, in the order in which they are
// promised to serve it, found by looking at all.
func matching[V any](hosts map[model.Host]V, name string) []model.Host {
	var out []model.Host
	rank := func(h model.Host) []int {
		base := strings.TrimLeft(string(h), "*")
		switch {
		case string(h) == name:
			return []int{3, 0, 0}
		case h == "":
			return []int{1, 0, 0}
		case strings.HasPrefix(string(h), "**.") && strings.HasSuffix(name, base):
			return []int{2, len(base), 0}
		case strings.HasPrefix(string(h), "*.") && strings.HasSuffix(name, base) && !strings.Contains(strings.TrimSuffix(name, base), "."):
			return []int{2, len(base), 1}
		}
		return nil
	}
	for h := range hosts {
		if rank(h) != nil {
			out = append(out, h)
		}
	}
	slices.SortFunc(out, func(a, b model.Host) int { return slices.Compare(rank(b), rank(a)) })
	return out
}

func (tab *requestTable) presents(sni string) bool {
	sni = strings.ToLower(sni)
	if tab.tls[""] != "" {
		return true
	}
	for name := sni; name != ""; name = parent(name) {
		if tab.tls[model.Host(name)] != "" && name == sni || tab.tls[model.Host("*."+name)] != "" && name != sni {
			return true
		}
	}
	return false
}

func (tab *requestTable) serving(to fleet.Target, q request) string {
	var all []string
	for _, b := range to.Backends {
		name := b.Backend.Service().String()
		if at := tab.session(to, b, q); at != "" {
			all = append(all, at)
			continue
		}
		for _, m := range tab.backends[name].members {
			if by := tab.backends[name].authority; by != "" && by != routetest.Pods && !tab.backends[name].passed {
				continue // nobody who is trusted
			}
			if !strings.Contains(m, ":") && b.Weight > 0 {
				all = append(all, name+"@"+m)
				break
			}
		}
	}
	if len(all) == 0 {
		return map[string]string{"Ingress": "503", "HTTPRoute": "500", "GRPCRoute": "503", model.OpenShiftRoute: "503"}[to.Root.Kind]
	}
	return strings.Join(all, "|")
}

// TestRequestTables asks the same of the rows, of the model of Envoy and of
// Envoy itself.
func TestRequestTables(t *testing.T) { askTables(t, usual) }

// TestRequestTablesAsTrees: every host has a tree, and answers the same. It is left out of
// short runs, which are for what one of both shows.
func TestRequestTablesAsTrees(t *testing.T) {
	if testing.Short() {
		t.Skip("a minute of Envoys")
	}
	askTables(t, asTrees)
}

func askTables(t *testing.T, s sizes) {
	files, err := filepath.Glob("testdata/requests/*.txt")
	if err != nil || len(files) == 0 {
		t.Fatal("no tables", err)
	}
	for _, file := range files {
		for _, certificates := range []delivery{static, onDemand} {
			t.Run(strings.TrimSuffix(filepath.Base(file), ".txt")+", "+certificates.String(), func(t *testing.T) {
				testRequestTable(t, readTable(t, file), certificates, s)
			})
		}
	}
}

func testRequestTable(t *testing.T, tab *requestTable, certificates delivery, of sizes) {
	r := newRigWith(t, timingForTests, certificates, of)
	r.commit(func(tx *inc.Tx) { tab.build(t, r.world, tx) })
	validateAll(t, r.world)
	r.settled(t)
	tab.nameEndpoints()
	s := newSim(t, r.world)
	s.Judge = tab.judge
	s.Greet = tab.greets
	heard := tab.listen()
	for i, e := range tab.requests {
		got, promised := tab.model(e.q)
		e.check(t, "the rows say", got, promised)
		o := s.route(r.port(e.q), e.q)
		e.check(t, "the model of Envoy says", tab.text(o), tab.simulated(o))
		for version, q := range []request{e.q, e.q.overHTTP2(t)} {
			q.header = q.header.Clone()
			ask := fmt.Sprintf("%d-%d", i, version)
			q.header.Set("X-Ask", ask)
			got := r.ask(t, q)
			e.check(t, []string{"Envoy says", "Envoy says over HTTP/2:"}[version], short(got), accounts{backendOf(got.by): observed(got)})
			if version == 0 || len(e.more) > 0 {
				tab.checkCopies(t, e, heard, ask)
			}
		}
	}
	if log := r.proc.Log.String(); log != "" {
		t.Errorf("Envoy warns:\n%s", log)
	}
}

func (r *rig) port(q request) int {
	if q.tls {
		return r.https
	}
	return r.http
}

// greets reports whether a pod and a proxy that connects to it take each other.
func (tab *requestTable) greets(endpoint string, h routetest.Hello) bool {
	for name, b := range tab.backends {
		for _, p := range b.pods {
			if p.addr.String() == endpoint {
				of := strings.ReplaceAll(name, "/", ".")
				return b.passed || routetest.Backend{Name: of, TLS: b.authority != "", For: of + ".internal", By: b.authority}.Takes(h)
			}
		}
	}
	return true
}

// agree compares an expected answer with one, or with several that may be
// given; "shop/web" stands for any member.
func agree(want, got string) bool {
	for w := range strings.SplitSeq(want, "|") {
		for g := range strings.SplitSeq(got, "|") {
			if g == w || strings.HasPrefix(g, w+"@") {
				return true
			}
		}
	}
	return false
}

func (tab *requestTable) text(o routetest.Outcome) string {
	switch {
	case o.Refused:
		return "refused"
	case o.Location != "":
		return fmt.Sprintf("%d:%s", o.Status, o.Location)
	case o.Header.Get("X-Answered-By") != "": // who was asked
		return o.Header.Get("X-Answered-By")
	case len(o.Endpoints) == 0:
		return fmt.Sprint(o.Status)
	}
	var all []string
	for _, at := range o.Endpoints {
		for _, b := range tab.backends {
			for _, p := range b.pods {
				if p.addr.String() == at {
					all = append(all, p.name)
				}
			}
		}
	}
	return strings.Join(all, "|")
}

func short(r reply) string {
	switch {
	case r.err != nil:
		return "refused"
	case r.by != "":
		return r.by
	case r.header.Get("Location") != "":
		return fmt.Sprintf("%d:%s", r.status, r.header.Get("Location"))
	}
	return fmt.Sprint(r.status)
}
