package envoy

import (
	"fmt"
	"net/http"
	"slices"
	"sync"
	"testing"
	"time"

	routev3 "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"

	"github.com/spillway-dev/spillway/internal/inc"
	"github.com/spillway-dev/spillway/internal/model"
	"github.com/spillway-dev/spillway/internal/xds/envoytest"
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

// backingOff is an Envoy that sends what is answered 503 again, after a pause.
const backingOff = `{"admin": {"address": %s},
"static_resources": {
 "listeners": [{"name": "http", "address": %s, "filter_chains": [{"filters": [{"name": "hcm", "typed_config": {
  "@type": "type.googleapis.com/envoy.extensions.filters.network.http_connection_manager.v3.HttpConnectionManager",
  "stat_prefix": "http",
  "http_filters": [{"name": "router", "typed_config": {"@type": "type.googleapis.com/envoy.extensions.filters.http.router.v3.Router"}}],
  "route_config": {"virtual_hosts": [{"name": "all", "domains": ["*"], "routes": [{"match": {"prefix": "/"}, "route": {"cluster": "pods", "timeout": "0s",
   "retry_policy": {"retry_on": "retriable-status-codes", "retriable_status_codes": [503], "num_retries": 1, "retry_back_off": {"base_interval": "4s", "max_interval": "8s"}}}}]}]}
 }}]}]}],
 "clusters": [{"name": "pods", "type": "STATIC", "circuit_breakers": {"thresholds": [{"max_retries": 1000}]}, "load_assignment": {"cluster_name": "pods", "endpoints": [{"lb_endpoints": [{"endpoint": {"address": %s}}]}]}}]
}}`

// TestEnvoyHasNoLeastPause: why retry.backoff is not served. It is the least time between
// two attempts (GEP-1731), and Envoy waits a random one that is up to what is set
// (retry_back_off). When this fails, Envoy can do it.
func TestEnvoyHasNoLeastPause(t *testing.T) {
	const least, requests = 4 * time.Second, 24
	p := newPod(t, "web@eu-1/0")
	p.broken.Store(http.StatusServiceUnavailable)
	var mu sync.Mutex
	came := map[string][]time.Time{}
	note := func(r *http.Request) {
		mu.Lock()
		defer mu.Unlock()
		came[r.URL.Path] = append(came[r.URL.Path], time.Now())
	}
	p.heard.Store(&note)
	address := func(port int) string {
		return fmt.Sprintf(`{"socket_address": {"address": "127.0.0.1", "port_value": %d}}`, port)
	}
	r := &rig{http: envoytest.FreePort(t)}
	admin := envoytest.FreePort(t)
	r.proc = envoytest.Start(t, fmt.Appendf(nil, backingOff, address(admin), address(r.http), address(int(p.addr.Port()))), fmt.Sprintf("127.0.0.1:%d", admin))
	envoytest.Until(t, "Envoy to listen", func() bool { return r.listens(r.http) })
	var all sync.WaitGroup
	for i := range requests {
		all.Go(func() { r.ask(t, request{host: "shop.example", path: fmt.Sprint("/", i)}) })
	}
	all.Wait()
	var pauses []time.Duration
	for path, at := range came {
		if len(at) != 2 {
			t.Fatalf("%s was sent %d times", path, len(at))
		}
		pauses = append(pauses, at[1].Sub(at[0]))
	}
	slices.Sort(pauses)
	t.Logf("pauses of %v to %v, where the least is to be %v", pauses[0], pauses[len(pauses)-1], least)
	if pauses[0] >= least {
		t.Errorf("no pause was below %v: the least was %v", least, pauses[0])
	}
}
