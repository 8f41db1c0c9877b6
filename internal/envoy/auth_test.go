package envoy

import (
	"bufio"
	"context"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	listenerv3 "github.com/envoyproxy/go-control-plane/envoy/config/listener/v3"
	authv3 "github.com/envoyproxy/go-control-plane/envoy/service/auth/v3"
	typev3 "github.com/envoyproxy/go-control-plane/envoy/type/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/spillway-dev/spillway/internal/envoy/routetest"
	"github.com/spillway-dev/spillway/internal/fleet"
	"github.com/spillway-dev/spillway/internal/inc"
	"github.com/spillway-dev/spillway/internal/model"
)

// said is what a pod answers that is asked for a path, but for what it says of the
// connection.
func said(pod, host, path string, seen http.Header) routetest.Said {
	out := routetest.Said{Status: http.StatusOK, Header: http.Header{"X-Answered-By": {pod}, "X-Host": {host}, "X-Path": {path}, "Server": {"pod"}}}
	for name, values := range seen {
		out.Header["Got-"+name] = []string{strings.Join(values, ",")}
	}
	u, err := url.ParseRequestURI(path)
	if n, _ := strconv.Atoi(u.Query().Get("status")); err == nil && n != 0 {
		out.Status = n
	}
	return out
}

// judge is who is asked, for the model of Envoy: a pod, which speaks no gRPC.
func (tab *requestTable) judge(a routetest.Asked) routetest.Said {
	if a.Calls {
		return routetest.Said{Status: http.StatusServiceUnavailable}
	}
	return said(tab.podAt(a.Endpoints[0]), a.Host, a.Path, a.Header)
}

// permits is what users were promised of who is asked first: an answer, or the headers
// with which the request goes on.
func (tab *requestTable) permits(a model.Auth, q *request) (string, accounts) {
	if a == (model.Auth{}) {
		return "", nil
	}
	name := a.Backend.Service().String()
	members := slices.DeleteFunc(slices.Clone(tab.backends[name].members), func(m string) bool { return strings.Contains(m, ":") })
	if len(members) == 0 || a.Calls {
		return "403", accounts{"": account{answer: http.Header{}}}
	}
	sees, goes := http.Header{}, http.Header{}
	for header, values := range q.header {
		lower := strings.ToLower(header)
		if lower == "authorization" || slices.Contains(a.Send.List(), lower) {
			sees[header] = values
		}
		if sees[header] != nil || !slices.Contains(a.Take.List(), lower) {
			goes[header] = values
		}
	}
	yes := said(name+"@"+members[0], q.host, a.Path+normalize(q.path), sees)
	switch {
	case yes.Status >= 500:
		return "403", accounts{"": account{answer: http.Header{}}}
	case yes.Status != http.StatusOK:
		return yes.Header.Get("X-Answered-By"), accounts{name: observed(reply{header: yes.Header})}
	}
	for header, values := range yes.Header {
		if a.Take == "" || slices.Contains(a.Take.List(), strings.ToLower(header)) {
			goes[header] = values
		}
	}
	q.header = goes
	return "", nil
}

// auth is the pod of a member that is asked.
func (m *twoMembers) auth(t *testing.T) *pod {
	t.Helper()
	asked := newPod(t, "shop/auth@eu-1")
	m.commit(func(tx *inc.Tx) {
		m.use(tx, testView, "shop/auth/http", "")
		m.group(tx, "shop/auth/http", "eu-1", asked.endpoint())
		m.plan(tx, testView, "shop/auth/http", share("eu-1", 0))
	})
	m.settled(t)
	return asked
}

// TestBodiesAreAskedAbout: who is asked sees as much of a body as its rule says, and
// what has more goes to nobody.
func TestBodiesAreAskedAbout(t *testing.T) {
	m := ruled(t, map[string]string{
		"/none": "auth=shop/auth auth-take=x-body", "/some": "auth=shop/auth auth-body=1000 auth-take=x-body",
		"/large": "auth=shop/auth auth-body=3000000 auth-take=x-body", // more than is kept for retries
	})
	m.auth(t)
	for _, c := range []struct {
		path   string
		body   int
		status int
		seen   string // by who is asked
	}{
		{"/none", 5000, 200, "0"}, {"/some", 1000, 200, "1000"}, {"/some", 0, 200, "0"}, {"/some", 1001, 413, ""}, {"/some?status=401", 5000, 413, ""},
		{"/some?status=401", 5, 401, ""}, {"/large", 2_500_000, 200, "2500000"}, {"/large", 3_500_000, 413, ""},
	} {
		backend := m.eu[0].seen.Load()
		got := m.ask(t, request{method: http.MethodPost, host: "shop.example", path: c.path, body: strings.NewReader(strings.Repeat("x", c.body))})
		if got.status != c.status || c.seen != "" && got.header.Get("Got-X-Body") != c.seen || c.status == 200 && got.header.Get("X-Body") != strconv.Itoa(c.body) {
			t.Errorf("%s with %d bytes: %d %v, asked about %s, sent %s", c.path, c.body, got.status, got.err, got.header.Get("Got-X-Body"), got.header.Get("X-Body"))
		}
		if sent := m.eu[0].seen.Load() - backend; c.status != 200 && sent != 0 {
			t.Errorf("%s with %d bytes: the backend got it", c.path, c.body)
		}
	}
}

// TestNoAnswerIsANo: who is asked and is dead, or falls silent, lets nothing through.
func TestNoAnswerIsANo(t *testing.T) {
	m := ruled(t, map[string]string{"/": "auth=shop/auth", "/gone": "auth=shop/gone", "/open": ""})
	asked := m.auth(t)
	check := func(path string, status int) {
		t.Helper()
		before := m.eu[0].seen.Load()
		got := m.ask(t, request{host: "shop.example", path: path})
		if passed := m.eu[0].seen.Load() > before; got.status != status || passed != (status == 200) {
			t.Errorf("%s: %d %v, the backend got it: %v", path, got.status, got.err, passed)
		}
	}
	check("/open", 200)
	check("/", 200)
	check("/gone", 500)
	check("/?reset=shop/auth@eu-1", 403)
	close(asked.frozen)
	check("/", 403) // after its time is over
	asked.refuse(t)
	check("/", 403)
}

// judge says yes to those who say "please".
type judge struct {
	authv3.UnimplementedAuthorizationServer
}

func (judge) Check(_ context.Context, r *authv3.CheckRequest) (*authv3.CheckResponse, error) {
	of := r.Attributes.Request.Http
	set := func(name, value string) *corev3.HeaderValueOption {
		return &corev3.HeaderValueOption{Header: &corev3.HeaderValue{Key: name, Value: value}, AppendAction: corev3.HeaderValueOption_OVERWRITE_IF_EXISTS_OR_ADD}
	}
	if of.Headers["x-say"] != "please" {
		return &authv3.CheckResponse{Status: status.New(codes.PermissionDenied, "").Proto(), HttpResponse: &authv3.CheckResponse_DeniedResponse{DeniedResponse: &authv3.DeniedHttpResponse{
			Status: &typev3.HttpStatus{Code: typev3.StatusCode_Unauthorized}, Body: "say please", Headers: []*corev3.HeaderValueOption{set("x-why", of.Path)},
		}}}, nil
	}
	return &authv3.CheckResponse{Status: status.New(codes.OK, "").Proto(), HttpResponse: &authv3.CheckResponse_OkResponse{OkResponse: &authv3.OkHttpResponse{
		Headers: []*corev3.HeaderValueOption{set("x-user", "me"), set("x-saw", of.Headers["x-other"]+" "+strconv.Itoa(len(of.RawBody))), set("x-scope", of.Headers["x-spillway-scope"]), set("content-length", "1"), set("cdn-loop", "x")},
	}}}, nil
}

// TestAskedByCalls: a server of ext_authz is asked over HTTP/2, whatever its port says,
// and sees the headers that the rule lists.
func TestAskedByCalls(t *testing.T) {
	m := ruled(t, map[string]string{"/all": "auth=shop/auth@grpc auth-body=1000", "/few": "auth=shop/auth@grpc auth-send=x-say", "/open": ""})
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s := grpc.NewServer()
	authv3.RegisterAuthorizationServer(s, judge{})
	go func() { _ = s.Serve(l) }()
	t.Cleanup(s.Stop)
	at := netip.MustParseAddrPort(l.Addr().String())
	m.commit(func(tx *inc.Tx) {
		need := m.use(tx, testView, "shop/auth/http", "")
		need.dial = overHTTP2
		m.needs.Set(tx, need, model.There{})
		m.group(tx, "shop/auth/http", "eu-1", model.Endpoint{Addr: at.Addr(), Port: at.Port()})
		m.plan(tx, testView, "shop/auth/http", share("eu-1", 0))
	})
	m.settled(t)
	for _, c := range []struct {
		path, say string
		status    int
		saw       string
	}{{"/all", "please", 200, "other 4"}, {"/few", "please", 200, " 0"}, {"/all", "", 401, ""}, {"/few", "no", 401, ""}, {"/open", "", 200, ""}} {
		got := m.ask(t, request{method: http.MethodPost, host: "shop.example", path: c.path, body: strings.NewReader("body"), header: http.Header{"X-Say": {c.say}, "X-Other": {"other"}, "X-User": {"forged"}}})
		switch {
		case got.status != c.status:
			t.Errorf("%+v: %d %v", c, got.status, got.err)
		case c.status == 401 && (got.body != "say please" || got.header.Get("X-Why") != c.path || got.by != ""):
			t.Errorf("%+v: %+v", c, got)
		case c.saw != "" && (got.header.Get("Got-X-Saw") != strings.TrimSpace(c.saw) && got.header.Get("Got-X-Saw") != c.saw || got.header.Get("Got-X-User") != "me" || got.header.Get("Got-X-Scope") != "" || got.header.Get("X-Body") != "4"):
			t.Errorf("%+v: %v", c, got.header)
		}
	}
}

// TestListenersWithoutTheFilterPassNothing: a listener of a version before has the routes
// of this one until it is drained, and does not ask.
func TestListenersWithoutTheFilterPassNothing(t *testing.T) {
	w := newWorld()
	w.g.Commit(w.plain)
	w.g.Commit(func(tx *inc.Tx) {
		for _, name := range []string{"shop/web/http", "shop/auth/http"} {
			w.use(tx, testView, name, "")
			w.group(tx, name, "eu-1", model.Endpoint{Addr: netip.MustParseAddr("10.1.0.1"), Port: 80})
			w.plan(tx, testView, name, share("eu-1", 0))
		}
		to := target("web", "shop/web/http")
		to.Filters = filtersOf(t, "auth=shop/auth")
		w.host(tx, testClass, "shop.example", nil, fleet.Route{Match: prefix("/"), Target: to})
	})
	for _, before := range []bool{false, true} {
		s := newSim(t, w)
		s.EachListener(func(l *listenerv3.Listener) {
			for _, chain := range l.FilterChains {
				if before {
					chain.Filters = chain.Filters[len(chain.Filters)-1:]
				}
			}
		})
		o := s.route(httpPort, request{method: "GET", host: "shop.example", path: "/"})
		if passed := len(o.Endpoints) > 0; passed == before || before && o.Status != fleet.Unguarded {
			t.Errorf("before: %v: %+v", before, o)
		}
	}
}

// TestAskedOverTLS: who is asked may be spoken to over TLS; one whose certificate is of
// nobody that is trusted is not asked, and lets nothing through.
func TestAskedOverTLS(t *testing.T) {
	m := ruled(t, map[string]string{"/": "auth=shop/auth"})
	asked := newTLSPod(t, "", "auth.internal")
	for _, c := range []struct {
		ca     []byte
		status int
	}{{asked.authority.CertPEM(), 200}, {newTLSPod(t, "", "auth.internal").authority.CertPEM(), 403}} {
		m.commit(func(tx *inc.Tx) {
			m.use(tx, testView, "shop/auth/http", "")
			m.p.Backends.Set(tx, backend("shop/auth/http"), fleet.Backend{TLS: model.UpstreamTLSKey{Host: "auth.internal", CA: string(c.ca)}.UpstreamTLS()})
			m.group(tx, "shop/auth/http", "eu-1", asked.endpoint())
			m.plan(tx, testView, "shop/auth/http", share("eu-1", 0))
		})
		validateAll(t, m.world)
		m.settled(t)
		before := m.eu[0].seen.Load()
		got := m.ask(t, request{host: "shop.example", path: "/"})
		if passed := m.eu[0].seen.Load() > before; got.status != c.status || passed != (c.status == 200) {
			t.Errorf("%d (%v), want %d; the backend got it: %v", got.status, got.err, c.status, passed)
		}
	}
}

// TestDenialsAreAnswersOfTheRule: what a rule changes of answers, it changes of a no.
func TestDenialsAreAnswersOfTheRule(t *testing.T) {
	m := ruled(t, map[string]string{"/": "auth=shop/auth >set=x-rule:set"})
	m.auth(t)
	for path, want := range map[string]string{"/": "set", "/?status=401": "set"} {
		if got := m.ask(t, request{host: "shop.example", path: path}); got.header.Get("X-Rule") != want {
			t.Errorf("%s: %d with x-rule %q, want %q", path, got.status, got.header.Get("X-Rule"), want)
		}
	}
}

// TestConnectionsAreGuarded: a client that asks to leave HTTP (WebSocket) is asked about
// before the backend hears of it, and gets the answer where that is a no.
func TestConnectionsAreGuarded(t *testing.T) {
	m := ruled(t, map[string]string{"/": "auth=shop/auth"})
	m.auth(t)
	web := upgrader(t)
	m.commit(func(tx *inc.Tx) {
		m.group(tx, "shop/web/http", "eu-1", web)
	})
	m.settled(t)
	for path, want := range map[string]string{"/": "101 hello", "/?status=401": "401"} {
		if got := upgraded(t, m.http, path); got != want {
			t.Errorf("%s: %q, want %q", path, got, want)
		}
	}
}

// upgrader is a pod that leaves HTTP, and sends back the first line that it gets.
func upgrader(t *testing.T) model.Endpoint {
	t.Helper()
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Upgrade") != "websocket" {
			w.WriteHeader(http.StatusBadRequest)
			return
		}
		c, b, err := http.NewResponseController(w).Hijack()
		if err != nil {
			t.Error(err)
			return
		}
		defer func() { _ = c.Close() }()
		_, _ = c.Write([]byte("HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n"))
		line, _ := b.ReadString('\n')
		_, _ = c.Write([]byte(line))
	}))
	t.Cleanup(s.Close)
	at := netip.MustParseAddrPort(s.Listener.Addr().String())
	return model.Endpoint{Addr: at.Addr(), Port: at.Port()}
}

// upgraded is the status of a request to leave HTTP, and what comes back of a line.
func upgraded(t *testing.T, port int, path string) string {
	t.Helper()
	c, err := net.Dial("tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(port)))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = c.Close() }()
	_ = c.SetDeadline(time.Now().Add(20 * time.Second))
	_, _ = io.WriteString(c, "GET "+path+" HTTP/1.1\r\nHost: shop.example\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: MDEyMzQ1Njc4OWFiY2RlZg==\r\n\r\n")
	in := bufio.NewReader(c)
	r, err := http.ReadResponse(in, nil)
	if err != nil {
		return err.Error()
	}
	if r.StatusCode != http.StatusSwitchingProtocols {
		_ = r.Body.Close()
		return strconv.Itoa(r.StatusCode)
	}
	_, _ = io.WriteString(c, "hello\n")
	line, _ := in.ReadString('\n')
	return "101 " + strings.TrimSpace(line)
}
