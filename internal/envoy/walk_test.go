package envoy

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"regexp"
	"strconv"
	"strings"
	"testing"

	listenerv3 "github.com/envoyproxy/go-control-plane/envoy/config/listener/v3"
	luav3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/lua/v3"
	hcmv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/network/http_connection_manager/v3"
	"google.golang.org/protobuf/proto"

	"github.com/spillway-dev/spillway/internal/fleet"
	"github.com/spillway-dev/spillway/internal/inc"
	"github.com/spillway-dev/spillway/internal/model"
)

// TestListenersHaveNoCode: each Lua filter with code takes 91 KB of each thread of Envoy.
// Listeners have none, and one RouteConfiguration has it for all of them, under one name
// with the same bytes.
func TestListenersHaveNoCode(t *testing.T) {
	w := newWorld()
	w.g.Commit(func(tx *inc.Tx) {
		w.plain(tx)
		w.together(tx, "deep", "flat")
		w.classWith(tx, "deep", 2, 80, 443, onDemand, true)
		w.classWith(tx, "flat", 3, 8080, 8443, onDemand, false)
	})
	filters := 0
	for _, key := range w.t.Listeners.Keys() {
		res, _ := w.t.Listeners.Get(nil, key)
		for _, chain := range decode(t, res).(*listenerv3.Listener).FilterChains {
			var m hcmv3.HttpConnectionManager
			unpackInto(t, chain.Filters[len(chain.Filters)-1].GetTypedConfig().Value, &m)
			for _, f := range m.HttpFilters {
				var code luav3.Lua
				if f.GetTypedConfig().TypeUrl != typeURL(&code) {
					continue
				}
				filters++
				if unpackInto(t, f.GetTypedConfig().Value, &code); !proto.Equal(&code, &luav3.Lua{}) {
					t.Errorf("%s: the filter %s has code of its own", res.Name, f.Name)
				}
			}
		}
	}
	if filters == 0 {
		t.Error("no listener walks")
	}
	versions := map[string]int{}
	for _, key := range w.t.Routes.Keys() {
		res, _ := w.t.Routes.Get(nil, key)
		if strings.Contains(string(res.Bytes()), "envoy_on_request") != (res.Name == string(walkHost)) {
			t.Errorf("%s: has code, or has none", res.Name)
		}
		if res.Name == string(walkHost) {
			versions[res.Version]++
		}
	}
	if len(versions) != 1 {
		t.Errorf("versions of the walk, and how many listeners have them: %v", versions)
	}
}

func unpackInto(t *testing.T, raw []byte, m proto.Message) {
	t.Helper()
	if err := proto.Unmarshal(raw, m); err != nil {
		t.Fatal(err)
	}
}

// TestStepsOfTheWalk: how many steps Envoy takes for a request. A known host costs none,
// also where connections are told apart.
func TestStepsOfTheWalk(t *testing.T) {
	r := newRigCounting(t)
	r.commit(func(tx *inc.Tx) {
		class, _ := r.p.ClassInfo.Get(nil, testClass)
		class.Deep = true
		r.specs.Set(tx, testClass, class)
		r.p.ListenerHosts.Set(tx, testClass, inc.List[model.Host]{"**.shop.example", "else.example"})
		for status, h := range map[uint16]model.Host{201: "a.shop.example", 202: "*.one.shop.example", 203: "**.shop.example", 204: ""} {
			to := target("web")
			to.Reply = &model.Reply{Status: status}
			r.host(tx, testClass, h, &to)
		}
		id := model.SecretID{Namespace: "shop", Name: "cert"}
		r.p.In.Certificates.Set(tx, id, selfSigned(t, "cert"))
		r.p.Chains.Set(tx, model.HostKey{Class: testClass}, fleet.Chain{Secrets: []model.SecretID{id}})
	})
	r.settled(t)
	port := ":" + strconv.Itoa(r.https)
	const name = "a.shop.example"
	for _, c := range []struct {
		tls       bool
		sni, host string
		status    int
		steps     int
	}{
		{false, "", name, 201, 0},
		{false, "", name + ":1", 201, 0},
		{false, "", "b.one.shop.example", 202, 1},
		{false, "", "b.shop.example", 203, 3},
		{false, "", "else.test", 204, 2},
		{false, "", "A.shop.example", 201, 1},
		{false, "", "B.one.shop.example", 202, 2},
		{false, "", "nobody", 204, 1},
		{true, name, name, 201, 0},
		{true, name, name + port, 201, 0},
		{true, name, name + ":1", 201, 1}, // no client writes another port than it came to
		{true, name, "A.shop.example", 201, 2},
		{true, name, "b.one.shop.example", 202, 3},
		{true, name, "else.example", 421, 1},
		{true, "b.one.shop.example", "b.one.shop.example", 202, 1},
	} {
		before := r.steps(t)
		got := r.ask(t, request{method: http.MethodGet, tls: c.tls, sni: c.sni, host: c.host, path: "/"})
		if steps := r.steps(t) - before; got.status != c.status || steps != c.steps {
			t.Errorf("%s for %q with TLS %t: %d %v in %d steps, want %d in %d", c.host, c.sni, c.tls, got.status, got.err, steps, c.status, c.steps)
		}
	}
}

var executions = regexp.MustCompile(`lua\.executions: (\d+)`)

// steps is how often Envoy ran code.
func (r *rig) steps(t *testing.T) (sum int) {
	t.Helper()
	for _, m := range executions.FindAllStringSubmatch(r.proc.Stats(t, "http."), -1) {
		n, err := strconv.Atoi(m[1])
		if err != nil {
			t.Fatal(err)
		}
		sum += n
	}
	return sum
}

// TestNobodyAsksForTheWalk: what a client writes does not lead to the code, nor past it.
func TestNobodyAsksForTheWalk(t *testing.T) {
	r := newRigWith(t, timingForTests, static, usual)
	r.commit(func(tx *inc.Tx) {
		for status, h := range map[uint16]model.Host{201: "a.example", 202: "*.b.example"} {
			to := target("web")
			to.Reply = &model.Reply{Status: status}
			r.host(tx, testClass, h, &to)
		}
	})
	r.settled(t)
	for _, c := range []struct {
		host, scope string
		status      int
	}{
		{"?", "", 400}, {"?:80", "", 400}, {"?:d:h", "", 400}, {"?|a.example", "", 400}, {"|a.example", "", 400},
		{"a.example", "?::h:|x.b.example", 201}, {"c.example", "|a.example", 404}, {"c.example", "?::u:|x.b.example", 404}, {"c.b.example", "?", 202},
	} {
		scope := ""
		if c.scope != "" {
			scope = scopeHeader + ": " + c.scope + "\r\n"
		}
		if got := r.raw(t, "GET / HTTP/1.1\r\nHost: "+c.host+"\r\n"+scope+"\r\n"); got != c.status {
			t.Errorf("host %q with %q: %d, want %d", c.host, c.scope, got, c.status)
		}
	}
}

// raw sends these bytes, and returns the status of the answer.
func (r *rig) raw(t *testing.T, text string) int {
	t.Helper()
	c, err := net.Dial("tcp", fmt.Sprintf("127.0.0.1:%d", r.http))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = c.Close() }()
	if _, err := io.WriteString(c, text); err != nil {
		t.Fatal(err)
	}
	resp, err := http.ReadResponse(bufio.NewReader(c), nil)
	if err != nil {
		t.Fatal(err)
	}
	_ = resp.Body.Close()
	return resp.StatusCode
}
