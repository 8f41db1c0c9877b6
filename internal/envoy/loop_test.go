package envoy

import (
	"fmt"
	"net/http"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/spillway-dev/spillway/internal/inc"
	"github.com/spillway-dev/spillway/internal/model"
)

// looped is a rig whose shop.example leads back to the edge itself, and whose
// well.example is served by a pod.
func looped(t *testing.T, more ...*pod) *rig {
	r := newRig(t, timingForTests)
	well := newPod(t, "well@eu-1/0")
	r.commit(func(tx *inc.Tx) {
		for host, name := range map[model.Host]string{"shop.example": "shop/web/http", "well.example": "shop/well/http"} {
			def := target("web", name)
			r.host(tx, testClass, host, &def)
			r.use(tx, testView, name, "")
			r.plan(tx, testView, name, share("eu-1", 0))
		}
		r.group(tx, "shop/well/http", "eu-1", well.endpoint())
		eps := []model.Endpoint{endpointAt("127.0.0.1", uint16(r.http))}
		for _, p := range more {
			eps = append(eps, p.endpoint())
		}
		r.group(tx, "shop/web/http", "eu-1", eps...)
	})
	r.settled(t)
	return r
}

// passed counts the requests that came to the edge.
func (r *rig) passed(t *testing.T) int {
	t.Helper()
	stats := r.proc.Stats(t, fmt.Sprintf("http.http-%d.downstream_rq_total", r.http))
	found := regexp.MustCompile(`: (\d+)`).FindStringSubmatch(stats)
	if found == nil {
		t.Fatalf("no count of requests in %q", stats)
	}
	n, err := strconv.Atoi(found[1])
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// Four requests to an endpoint that is an edge: an error, nothing else.
func TestLoop(t *testing.T) {
	r := looped(t)
	before := r.passed(t)
	requests := []request{shopRequest, {method: "POST", host: "shop.example", path: "/", body: strings.NewReader("x")},
		shopRequest.overHTTP2(t), shopRequest}
	var all sync.WaitGroup
	for _, q := range requests {
		all.Go(func() {
			if got := r.ask(t, q); got.status != loopDetected || !strings.Contains(got.body, "loop") {
				t.Errorf("%+v", got)
			}
		})
	}
	all.Wait()
	if n := r.passed(t) - before; n != len(requests)*(maxPassed+2) {
		t.Errorf("%d requests of clients are %d of the edge", len(requests), n)
	}
	if got := r.ask(t, request{host: "well.example", path: "/"}); got.status != 200 {
		t.Errorf("another host: %+v", got)
	}
}

// A loop ends in bounded work whatever else the backend has: endpoints that
// answer 503 are tried again, and lead round again.
func TestLoopAndRetries(t *testing.T) {
	bad := newPod(t, "bad@eu-1/0")
	bad.broken.Store(503)
	r := looped(t, bad)
	before := r.passed(t)
	for range 10 {
		if got := r.ask(t, shopRequest); got.status != loopDetected && got.status != 503 {
			t.Errorf("%+v", got)
		}
	}
	most := 1 // of one request
	for range maxPassed + 1 {
		most = 1 + most*(retries+1)
	}
	if n := r.passed(t) - before; n > 10*most {
		t.Errorf("10 requests of clients are %d of the edge", n)
	}
}

// The count travels in CDN-Loop (RFC 8586): pods see it, others' names in it
// stay, and a client that sends it harms its own request only.
func TestLoopHeader(t *testing.T) {
	r := oneHost(t, newPod(t, "web@eu-1/0"), "")
	for _, c := range []struct {
		sent   []string
		status int
		got    string
	}{
		{nil, 200, "spillway"},
		{[]string{"other.example; v=1"}, 200, "other.example; v=1,spillway"},
		{[]string{"spillway, other", "spillway;x=y", "spillway"}, 200, "spillway, other,spillway;x=y,spillway,spillway"},
		{[]string{"spillway, other, spillway", "spillway, spillway"}, loopDetected, ""},
		{[]string{strings.Repeat("spillway,", 5000) + "x"}, loopDetected, ""},
		{[]string{`;;"`}, 400, ""},
	} {
		for _, q := range []request{shopRequest, shopRequest.overHTTP2(t)} {
			q.header = http.Header{"Cdn-Loop": c.sent}
			got := r.ask(t, q)
			if got.status != c.status || got.header.Get("Got-Cdn-Loop") != c.got {
				t.Errorf("%.80q: %d, pods see %q", c.sent, got.status, got.header.Get("Got-Cdn-Loop"))
			}
		}
	}
	// Connection can't take the count away on the way round.
	r = looped(t)
	for _, h := range []http.Header{
		{"Connection": {"cdn-loop"}},
		{"Connection": {"upgrade, cdn-loop"}, "Upgrade": {"websocket"}},
	} {
		before := r.passed(t)
		got := r.ask(t, request{host: "shop.example", path: "/", header: h, timeout: 10 * time.Second})
		if n := r.passed(t) - before; got.status != loopDetected || n != maxPassed+2 {
			t.Errorf("%v: %+v, after %d", h, got, n)
		}
	}
}
