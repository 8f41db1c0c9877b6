package envoy

import (
	routev3 "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"
	"net/http"
	"testing"
	"time"

	"github.com/spillway-dev/spillway/internal/inc"
	"github.com/spillway-dev/spillway/internal/model"
)

// What a backend has seen is sent elsewhere only if the method is safe: after a
// reset, and when no answer comes in time. No header of a client changes that.
func TestSentAgain(t *testing.T) {
	m := newTwoMembers(t, timingForTests, "")
	m.commit(func(tx *inc.Tx) { m.group(tx, "shop/web/http", "eu-1", m.eu[0].endpoint()) })
	m.settled(t)
	first, second := m.eu[0], m.us[0]
	forged := http.Header{
		"X-Envoy-Retry-On": {"5xx,reset,retriable-status-codes"}, "X-Envoy-Retry-Grpc-On": {"unavailable"}, "X-Envoy-Max-Retries": {"5"},
		"X-Envoy-Retriable-Status-Codes": {"503"}, "X-Envoy-Hedge-On-Per-Try-Timeout": {"true"}, "X-Envoy-Upstream-Rq-Per-Try-Timeout-Ms": {"100"},
	}
	for _, c := range []struct {
		methods []string
		again   bool
	}{
		{[]string{"GET", "HEAD", "OPTIONS"}, true},
		{[]string{"POST", "DELETE"}, false},
	} {
		for _, method := range c.methods {
			for _, path := range []string{"/?reset=" + first.name, "/?sleep=1h&at=" + first.name} {
				for _, header := range []http.Header{nil, forged} {
					if got := m.ask(t, shopRequest); got.by != first.name { // also ends a row of failures
						t.Fatalf("between requests: %+v", got)
					}
					q := request{method: method, host: "shop.example", path: path, header: header}
					if !c.again {
						q.timeout = time.Second // of some tries
					}
					one, two := first.seen.Load(), second.seen.Load()
					got := m.ask(t, q)
					one, two = first.seen.Load()-one, second.seen.Load()-two
					if one > 1 || (two > 0) != c.again || (got.by == second.name) != c.again {
						t.Errorf("%s %s with %v: seen %d and %d times: %+v", method, path, header, one, two, got)
					}
				}
			}
		}
	}
}

// TestSafeRouteKeepsItsMatch: the route of the safe methods takes what the
// match takes, headers included.
func TestSafeRouteKeepsItsMatch(t *testing.T) {
	m := prefix("/a")
	m.When = model.ConditionsKey{Headers: model.ValuesOf(model.ValueMatch{Name: "x-tenant", Value: "a"})}.Conditions()
	got := attempts(m, way{to: []weighted{{cluster: "shop/web/http"}}}, model.FiltersKey{}, nil, timingForTests, routev3.RouteAction_SERVICE_UNAVAILABLE)[0]
	if h := got.Match.Headers; len(h) != 2 || h[0].Name != "x-tenant" || h[1] != isSafe {
		t.Errorf("it matches %v", h)
	}
}
