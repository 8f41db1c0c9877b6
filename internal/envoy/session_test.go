package envoy

import (
	"encoding/base64"
	"maps"
	"net"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	endpointv3 "github.com/envoyproxy/go-control-plane/envoy/config/endpoint/v3"
	"google.golang.org/protobuf/encoding/protowire"

	"github.com/spillway-dev/spillway/internal/envoy/routetest"
	"github.com/spillway-dev/spillway/internal/fleet"
	"github.com/spillway-dev/spillway/internal/inc"
	"github.com/spillway-dev/spillway/internal/model"
	"github.com/spillway-dev/spillway/internal/steer"
	"github.com/spillway-dev/spillway/internal/xds/envoytest"
)

// Pods of a request table are named in it, in headers and cookies of requests and in what
// is told of answers, as "@shop/a@eu-1" for a cookie and "@@shop/a@eu-1" for a header:
// their addresses are known when they run.

func (tab *requestTable) nameEndpoints() {
	var names []string
	for _, name := range tab.names {
		for _, p := range tab.backends[name].pods {
			names = append(names, "@@"+p.name, routetest.SessionHeader(p.addr.String()), "@"+p.name, routetest.SessionCookie(p.addr.String()))
		}
	}
	in := strings.NewReplacer(names...)
	for i := range tab.requests {
		e := &tab.requests[i]
		for _, values := range e.q.header {
			for i := range values {
				values[i] = in.Replace(values[i])
			}
		}
		for i := range e.more {
			e.more[i].want = in.Replace(e.more[i].want)
		}
	}
}

// session is the endpoint that a client names for a backend of a target, as a pod of it
// that may get requests; empty: none.
func (tab *requestTable) session(to fleet.Target, b model.WeightedBackend, q request) string {
	s := to.Filters.Session()
	if s == (model.Session{}) || b.Weight == 0 || !takes(s, q) {
		return ""
	}
	name := b.Backend.Service().String()
	for _, p := range tab.backends[name].pods {
		_, member, _ := strings.Cut(p.name, "@")
		if slices.Contains(tab.backends[name].members, member) && shows(s, b.Backend, q, p) {
			return p.name
		}
	}
	return ""
}

// takes reports whether a client shows a cookie to the path that it asks for.
func takes(s model.Session, q request) bool {
	path, _, _ := strings.Cut(normalize(q.path), "?")
	base := strings.TrimSuffix(s.Path, "/")
	return s.Header || path == s.Path || path == base || strings.HasPrefix(path, base+"/")
}

func shows(s model.Session, b model.Backend, q request, p *pod) bool {
	if s.Header {
		return q.header.Get(s.Name) == routetest.SessionHeader(p.addr.String())
	}
	c, err := (&http.Request{Header: q.header}).Cookie(s.Of(b))
	return err == nil && c.Value == routetest.SessionCookie(p.addr.String())
}

// promisedSession adds to an answer what names the endpoint, where the client has not
// named it: that of the first member that serves.
func (tab *requestTable) promisedSession(to fleet.Target, b model.WeightedBackend, q request, answer http.Header) {
	s := to.Filters.Session()
	if s == (model.Session{}) || !takes(s, q) || tab.session(to, b, q) != "" {
		return
	}
	of := tab.backends[b.Backend.Service().String()]
	i := slices.IndexFunc(of.members, func(m string) bool { return !strings.Contains(m, ":") })
	switch {
	case i < 0:
	case s.Header:
		answer.Set(s.Name, routetest.SessionHeader(of.pods[i].addr.String()))
	default:
		answer.Add("Set-Cookie", s.Of(b.Backend)+"="+routetest.SessionCookie(of.pods[i].addr.String()))
	}
}

// cookieIn is the cookie of an answer, "-" for none.
func cookieIn(answer http.Header) string {
	all := (&http.Response{Header: answer}).Cookies()
	if len(all) == 0 {
		return "-"
	}
	var out []string
	for _, c := range all {
		out = append(out, c.Name+"="+c.Value)
	}
	return strings.Join(out, ",")
}

// browser asks as a client that keeps cookies.
type browser struct {
	m       *rig
	host    string
	cookies map[string]string
	header  http.Header
}

func (m *rig) browser() *browser {
	return &browser{m: m, host: "shop.example", cookies: map[string]string{}, header: http.Header{}}
}

// ask asks for a path; the pod's name, or the status.
func (b *browser) ask(t *testing.T, method, path string) string {
	t.Helper()
	h := b.header.Clone()
	for name, value := range b.cookies {
		h.Add("Cookie", name+"="+value)
	}
	got := b.m.ask(t, request{method: method, host: b.host, path: path, header: h})
	for _, c := range (&http.Response{Header: got.header}).Cookies() {
		b.cookies[c.Name] = c.Value
	}
	return short(got)
}

// stays asks some times, and is answered by one pod, whose name it returns.
func (b *browser) stays(t *testing.T, path string) string {
	t.Helper()
	first := b.ask(t, http.MethodGet, path)
	for i := range 12 {
		if now := b.ask(t, []string{http.MethodGet, http.MethodPost}[i%2], path); now != first {
			t.Errorf("%s: %s and then %s", path, first, now)
		}
	}
	return first
}

// ofSessions is a rule for all of a host, with sessions.
func (m *twoMembers) ofSessions(t *testing.T, words string, backends ...string) {
	t.Helper()
	m.commit(func(tx *inc.Tx) {
		to := target("web", backends...)
		to.Filters = filtersOf(t, words)
		m.host(tx, testClass, "shop.example", &to)
	})
	m.settled(t)
}

// TestSessionsStay: a client stays with its pod while pods come and go, while a nearer
// member is back, and with no other that is there.
func TestSessionsStay(t *testing.T) {
	for _, words := range []string{"cookie=s,shop/web", "cookie=s,shop/web cookie-age=3600"} {
		m := newTwoMembers(t, timingForTests, "")
		m.ofSessions(t, words, "shop/web/http")
		plan := func(eu []*pod, shares ...steer.Share) {
			m.commit(func(tx *inc.Tx) {
				m.group(tx, "shop/web/http", "eu-1", endpointsOfPods(eu)...)
				m.plan(tx, testView, "shop/web/http", shares...)
			})
			m.settled(t)
			m.hasEndpoints(t)
		}
		near, far := share("eu-1", 0), share("us-1", 1)
		lost := near
		lost.State, lost.Weight = steer.Failed, 0
		// A session that began far away, while the near member was lost.
		plan(m.eu, lost, far)
		away := m.browser()
		if got := away.stays(t, "/"); got != m.us[0].name {
			t.Fatalf("while eu-1 is lost: %s", got)
		}
		plan(m.eu, near, far)
		if got := away.stays(t, "/"); got != m.us[0].name {
			t.Errorf("once eu-1 is back, a session moved to %s", got)
		}
		b, other := m.browser(), m.browser()
		first := b.stays(t, "/")
		for range 20 { // the other pod of eu-1, by the balancer
			if other = m.browser(); other.ask(t, http.MethodGet, "/") != first {
				break
			}
		}
		second := other.stays(t, "/")
		if second == first || !strings.Contains(first+second, "eu-1") {
			t.Fatalf("sessions at %s and %s", first, second)
		}
		more := append(slices.Clone(m.eu), newPod(t, "web@eu-1/2"), newPod(t, "web@eu-1/3"))
		plan(more, near, far)
		if a, c := b.stays(t, "/"), other.stays(t, "/"); a != first || c != second {
			t.Errorf("with more pods sessions moved from %s and %s to %s and %s", first, second, a, c)
		}
		// The pod of one of them goes, and comes back when that has another.
		left := slices.DeleteFunc(slices.Clone(more), func(p *pod) bool { return p.name == first })
		plan(left, near, far)
		now := b.stays(t, "/")
		if now == first || other.stays(t, "/") != second {
			t.Errorf("without %s sessions are at %s, and %s", first, now, other.ask(t, http.MethodGet, "/"))
		}
		plan(more, near, far)
		if got := b.stays(t, "/"); got != now {
			t.Errorf("a session moved from %s back to %s", now, got)
		}
		// The member is drained, and all go elsewhere.
		plan(more, lost, far)
		if a, c := b.stays(t, "/"), other.stays(t, "/"); a != m.us[0].name || c != a {
			t.Errorf("without eu-1: %s and %s", a, c)
		}
	}
}

// hasEndpoints waits until Envoy holds the endpoints of the assignments.
func (m *twoMembers) hasEndpoints(t *testing.T) {
	t.Helper()
	want := map[string]bool{}
	for _, key := range m.t.Assignments.Keys() {
		res, _ := m.t.Assignments.Get(nil, key)
		for _, l := range decode(t, res).(*endpointv3.ClusterLoadAssignment).Endpoints {
			for _, e := range l.LbEndpoints {
				a := e.GetEndpoint().Address.GetSocketAddress()
				want[net.JoinHostPort(a.Address, itoa(a.GetPortValue()))] = true
			}
		}
	}
	envoytest.Until(t, "the endpoints", func() bool {
		got := map[string]bool{}
		for _, line := range strings.Split(m.proc.Get(t, "/clusters"), "\n") {
			if part := strings.Split(line, "::"); len(part) > 2 && part[0] == "shop/web/http" && part[2] == "cx_active" {
				got[part[1]] = true
			}
		}
		return maps.Equal(got, want)
	})
}

// TestSessionsOfTheDead: who goes back to a pod that refuses, or resets, is served by
// another, and stays there.
func TestSessionsOfTheDead(t *testing.T) {
	m := newTwoMembers(t, timingForTests, "")
	m.ofSessions(t, "cookie=s,shop/web", "shop/web/http")
	b := m.browser()
	reset := b.stays(t, "/")
	first := b.ask(t, http.MethodGet, "/?reset="+reset)
	if first == reset || b.stays(t, "/") != first {
		t.Errorf("%s resets a connection, and a client is answered by %s, and stays with %s", reset, first, b.ask(t, http.MethodGet, "/"))
	}
	all := append(slices.Clone(m.eu), m.us...)
	all[slices.IndexFunc(all, func(p *pod) bool { return p.name == first })].refuse(t)
	if now := b.stays(t, "/"); now == first || now == "503" {
		t.Errorf("%s is gone, and a client is answered by %s", first, now)
	}
}

// TestSlowSessionsStay: a request that is slow is not sent to where its session is not.
func TestSlowSessionsStay(t *testing.T) {
	m := newTwoMembers(t, timingForTests, "")
	m.ofSessions(t, "cookie=s,shop/web", "shop/web/http")
	b := m.browser()
	first := b.ask(t, http.MethodGet, "/")
	before := m.seen()
	if got := b.ask(t, http.MethodGet, "/?sleep=700ms"); got != first || m.seen() != before+1 {
		t.Errorf("a slow answer of %s came from %s, and %d requests were sent", first, got, m.seen()-before)
	}
}

// TestSessionsOfWeights: the weights of backends hold whatever cookies a client has, and
// with each it goes back to one pod. Of 400 requests about a quarter goes to one: by
// chance, one run in a million has a difference as large as this.
func TestSessionsOfWeights(t *testing.T) {
	for _, filters := range []string{"", "path=/x"} { // with a filter for one of them, each has a route
		m := newTwoMembers(t, timingForTests, "")
		others := []*pod{newPod(t, "b@eu-1/0"), newPod(t, "b@eu-1/1"), newPod(t, "b@eu-1/2")}
		m.commit(func(tx *inc.Tx) {
			to := target("web", "shop/web/http", "shop/b/http")
			to.Backends[0].Weight, to.Backends[1].Weight, to.Backends[1].Filters = 1, 3, filtersOf(t, filters)
			to.Filters = filtersOf(t, "cookie=s,shop/web")
			m.host(tx, testClass, "shop.example", &to)
			m.use(tx, testView, "shop/b/http", "")
			m.group(tx, "shop/b/http", "eu-1", endpointsOfPods(others)...)
			m.plan(tx, testView, "shop/b/http", share("eu-1", 0))
		})
		m.settled(t)
		b, by := m.browser(), map[string]int{}
		for range 400 {
			by[b.ask(t, http.MethodGet, "/")]++
		}
		web := 0
		for name, n := range by {
			if strings.HasPrefix(name, "web@") {
				web += n
			}
		}
		if len(by) != 2 || len(b.cookies) != 2 || web < 55 || web > 145 {
			t.Errorf("%q: answered by %v, with cookies %v", filters, by, b.cookies)
		}
	}
}

// TestSessionsEnd: a cookie says for how long it is, and is not taken for longer, whatever
// a client keeps.
func TestSessionsEnd(t *testing.T) {
	m := newTwoMembers(t, timingForTests, "")
	cookies := func(header http.Header) (string, []*http.Cookie) {
		got := m.ask(t, request{host: "shop.example", path: "/", header: header})
		return got.by, (&http.Response{Header: got.header}).Cookies()
	}
	m.ofSessions(t, "cookie=__Host-s,shop/web", "shop/web/http")
	if by, all := cookies(nil); len(all) != 1 || all[0].MaxAge != 0 || all[0].RawExpires != "" || !all[0].HttpOnly || !all[0].Secure || all[0].SameSite != http.SameSiteLaxMode || all[0].Path != "/" {
		t.Errorf("%s: %v", by, all)
	}
	m.ofSessions(t, "cookie=s,shop/web cookie-age=3600 cookie-path=/", "shop/web/http")
	by, all := cookies(nil)
	if len(all) != 1 || all[0].MaxAge != 3600 || all[0].Secure {
		t.Fatalf("%s: %v", by, all)
	}
	far := m.us[0]
	until := func(end time.Time) http.Header {
		raw, _ := base64.StdEncoding.DecodeString(routetest.SessionCookie(far.addr.String()))
		raw = protowire.AppendVarint(protowire.AppendTag(raw, 2, protowire.VarintType), uint64(end.Unix()))
		return http.Header{"Cookie": {"s=" + base64.StdEncoding.EncodeToString(raw)}}
	}
	if by, all := cookies(until(time.Now().Add(time.Hour))); by != far.name || len(all) != 0 {
		t.Errorf("within its time: %s %v", by, all)
	}
	if by, all := cookies(until(time.Now().Add(-time.Hour))); by == far.name || len(all) != 1 {
		t.Errorf("after its time: %s %v", by, all)
	}
}

// TestSessionsByHeader: who shows the header again is answered by the same pod.
func TestSessionsByHeader(t *testing.T) {
	m := newTwoMembers(t, timingForTests, "")
	m.ofSessions(t, "session=x-session", "shop/web/http")
	for range 4 {
		got := m.ask(t, shopRequest)
		shown := got.header.Get("X-Session")
		for range 6 {
			again := m.ask(t, request{host: "shop.example", path: "/", header: http.Header{"X-Session": {shown}}})
			if again.by != got.by || again.header.Get("Got-X-Session") != shown || shown == "" {
				t.Fatalf("%q of %s: answered by %s, which saw %q", shown, got.by, again.by, again.header.Get("Got-X-Session"))
			}
		}
	}
}

// TestNoSessionsInParts: clients of a backend in parts get no cookie, which would not
// hold, and whose rule it is is told.
func TestNoSessionsInParts(t *testing.T) {
	s := newSplit(t, 8)
	s.ofSessions(t, "cookie=s,shop/web", "shop/web/http")
	for range 4 {
		if got := s.ask(t, shopRequest); got.status != 200 || cookieIn(got.header) != "-" {
			t.Errorf("%d %s", got.status, cookieIn(got.header))
		}
	}
	told, _ := s.t.Findings.Get(nil, rootObject("web"))
	if len(told) != 1 || !strings.Contains(told[0].Message, "in 4 parts") || told[0].Reason != model.ReasonUnsupported {
		t.Errorf("told: %v", told)
	}
	s.ofSessions(t, "", "shop/web/http")
	if told, _ := s.t.Findings.Get(nil, rootObject("web")); len(told) != 0 {
		t.Errorf("without sessions: %v", told)
	}
}
