package envoy

import (
	"bytes"
	"crypto/tls"
	"fmt"
	"net/http"
	"sort"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/spillway-dev/spillway/internal/inc"
	"github.com/spillway-dev/spillway/internal/model"
	"github.com/spillway-dev/spillway/internal/steer"
	"github.com/spillway-dev/spillway/internal/xds/envoytest"
)

// twoMembers serves shop.example from two pods of eu-1, and one of us-1 as the
// next tier.
type twoMembers struct {
	*rig
	eu, us []*pod
}

func newTwoMembers(t *testing.T, timing model.Timing, appProtocol string) *twoMembers {
	t.Helper()
	m := &twoMembers{
		rig: newRig(t, timing),
		eu:  []*pod{newPod(t, "web@eu-1/0"), newPod(t, "web@eu-1/1")},
		us:  []*pod{newPod(t, "web@us-1/0")},
	}
	m.commit(func(tx *inc.Tx) {
		def := target("web", "shop/web/http")
		m.host(tx, testClass, "shop.example", &def)
		m.use(tx, testView, "shop/web/http", appProtocol)
		m.group(tx, "shop/web/http", "eu-1", m.eu[0].endpoint(), m.eu[1].endpoint())
		m.group(tx, "shop/web/http", "us-1", m.us[0].endpoint())
		m.plan(tx, testView, "shop/web/http", share("eu-1", 0), share("us-1", 1))
	})
	m.settled(t)
	return m
}

// load sends requests with the given concurrency and returns the replies: n of
// them, and more while f goes on, which is called beside number at.
func (m *twoMembers) load(t *testing.T, n, concurrency int, q request, at int, f func()) []reply {
	t.Helper()
	var mu sync.Mutex
	var out []reply
	next := make(chan struct{})
	var wg sync.WaitGroup
	for range concurrency {
		wg.Go(func() {
			q := q
			if q.client == nil {
				transport := &http.Transport{MaxIdleConnsPerHost: 1, TLSClientConfig: &tls.Config{ServerName: q.sni, InsecureSkipVerify: true}}
				defer transport.CloseIdleConnections()
				q.client = &http.Client{Transport: transport}
			}
			for range next {
				q := q
				if q.method == http.MethodPost {
					q.body = bytes.NewReader(make([]byte, 100_000))
				}
				got := m.ask(t, q)
				mu.Lock()
				out = append(out, got)
				mu.Unlock()
			}
		})
	}
	changed := make(chan struct{})
	for i, going := 0, true; i < n || at >= 0 && going; i++ {
		if i == at {
			go func() {
				defer close(changed)
				f()
			}()
		}
		next <- struct{}{}
		select {
		case <-changed:
			going = false
		default:
		}
	}
	close(next)
	wg.Wait()
	return out
}

// summary tells how a load went: answers by member, failures, and times.
func summary(replies []reply) (failed int, text string) {
	by := map[string]int{}
	var took []time.Duration
	for _, r := range replies {
		took = append(took, r.took)
		if r.err != nil || r.status != 200 {
			failed++
			by[fmt.Sprintf("%d %v %s", r.status, r.err, r.body)]++
			continue
		}
		by[strings.Split(strings.Split(r.by, "@")[1], "/")[0]]++
	}
	sort.Slice(took, func(i, j int) bool { return took[i] < took[j] })
	return failed, fmt.Sprintf("%v failed=%d p50=%v p99=%v max=%v", by, failed, took[len(took)/2], took[len(took)*99/100], took[len(took)-1])
}

// noneFailed fails the test if a request did, and tells how it went.
func noneFailed(t *testing.T, replies []reply) {
	t.Helper()
	failed, text := summary(replies)
	t.Log(text)
	if failed > 0 {
		t.Errorf("%d requests failed", failed)
	}
}

var shopRequest = request{host: "shop.example", path: "/"}

func with(method string) request {
	q := shopRequest
	q.method = method
	return q
}

// A member whose pods refuse: no request fails, whatever its method, and those
// with a body are sent again whole.
func TestRefusedMember(t *testing.T) {
	for _, method := range []string{"GET", "POST"} {
		t.Run(method, func(t *testing.T) {
			m := newTwoMembers(t, timingForTests, "")
			m.load(t, 50, 4, with(method), -1, nil)
			for _, p := range m.eu { // between requests: one that is cut in the middle must not be sent again
				p.refuse(t)
			}
			noneFailed(t, m.load(t, 400, 8, with(method), -1, nil))
		})
	}
}

func TestRefusedUnderLoad(t *testing.T) {
	m := newTwoMembers(t, timingForTests, "")
	q := shopRequest
	q.path = "/?sleep=5ms"
	noneFailed(t, m.load(t, 400, 8, q, 100, func() {
		for _, p := range m.eu {
			p.refuse(t)
		}
	}))
}

// A member whose packets are lost, under connections that are open: what is
// safe to retry succeeds.
func TestDroppedMember(t *testing.T) {
	for _, appProtocol := range []string{"", "kubernetes.io/h2c"} {
		t.Run("appProtocol="+appProtocol, func(t *testing.T) {
			m := newTwoMembers(t, timingForTests, appProtocol)
			m.load(t, 50, 8, shopRequest, -1, nil)
			for _, p := range m.eu {
				p.drop(t)
			}
			noneFailed(t, m.load(t, 200, 8, shopRequest, -1, nil))
		})
	}
}

// A request that can't have been received is sent elsewhere, whatever its method.
func TestDroppedBeforeConnecting(t *testing.T) {
	m := newTwoMembers(t, timingForTests, "")
	for _, p := range m.eu {
		p.drop(t)
	}
	noneFailed(t, m.load(t, 50, 4, with("POST"), -1, nil))
}

// A member is lost while requests wait for its answer.
func TestDroppedWhileWaiting(t *testing.T) {
	m := newTwoMembers(t, timingForTests, "")
	q := shopRequest
	q.path = "/?sleep=100ms"
	noneFailed(t, m.load(t, 40, 8, q, 12, func() {
		for _, p := range m.eu {
			p.drop(t)
		}
	}))
}

// An answer that takes longer than the per-try timeout arrives, also when every
// pod is that slow, and whether it is the whole or the rest that is slow.
func TestSlowAnswerIsNotCut(t *testing.T) {
	m := newTwoMembers(t, timingForTests, "")
	for _, path := range []string{"/?sleep=2s", "/?sleep=500ms&chunks=4"} {
		for _, method := range []string{"GET", "POST"} {
			q := with(method)
			q.path = path
			before := m.seen()
			got := m.ask(t, q)
			attempts := m.seen() - before
			if got.status != 200 || got.err != nil {
				t.Errorf("%s %s: %+v", method, path, got)
			}
			if method == "POST" && attempts != 1 || attempts > 1+retries {
				t.Errorf("%s %s was sent %d times", method, path, attempts)
			}
		}
	}
}

func (m *twoMembers) seen() (n int64) {
	for _, p := range append(m.eu, m.us...) {
		n += p.seen.Load()
	}
	return n
}

// away moves eu-1 out of the tiers that serve.
func (m *twoMembers) away(state steer.State) {
	m.commit(func(tx *inc.Tx) {
		s := share("eu-1", 1)
		s.State, s.Weight = state, 0
		m.plan(tx, testView, "shop/web/http", share("us-1", 0), s)
	})
}

// A member that is failed or drained gets no new request; what is in flight
// ends in peace, and connections that nobody uses are closed.
func TestMemberLeaves(t *testing.T) {
	for _, state := range []steer.State{steer.Failed, steer.Drained} {
		t.Run(state.String(), func(t *testing.T) {
			m := newTwoMembers(t, timingForTests, "")
			m.load(t, 20, 4, shopRequest, -1, nil)
			slow := make(chan reply, 1)
			before := m.seen()
			q := with("POST")
			q.path = "/?sleep=2s"
			go func() { slow <- m.ask(t, q) }()
			envoytest.Until(t, "the slow request to arrive", func() bool { return m.seen() > before })
			m.away(state)
			envoytest.Until(t, "the pods to lose their connections", func() bool { return m.eu[0].open()+m.eu[1].open() <= 1 })
			for _, r := range m.load(t, 40, 4, shopRequest, -1, nil) {
				if r.by != "web@us-1/0" {
					t.Errorf("answered by %s: %+v", r.by, r)
				}
			}
			if got := <-slow; got.status != 200 || got.by == "web@us-1/0" {
				t.Errorf("what was in flight: %+v", got)
			}
		})
	}
}

// Pods are replaced one after another under load.
func TestRollingRestart(t *testing.T) {
	m := newTwoMembers(t, timingForTests, "")
	q := shopRequest
	q.path = "/?sleep=2ms"
	replies := m.load(t, 600, 8, q, 100, func() {
		for i, old := range m.eu {
			fresh := newPod(t, fmt.Sprintf("web@eu-1/%d", i+2))
			m.eu[i] = fresh
			m.commit(func(tx *inc.Tx) { m.group(tx, "shop/web/http", "eu-1", m.eu[0].endpoint(), m.eu[1].endpoint()) })
			envoytest.Until(t, "the old pod to be left alone", func() bool { return old.open() == 0 })
			old.refuse(t)
		}
	})
	noneFailed(t, replies)
	for _, r := range replies {
		if strings.Contains(r.by, "us-1") {
			t.Errorf("a request spilled to %s, while eu-1 was well", r.by)
			break
		}
	}
}

// An answer of 503 is tried elsewhere if that is safe, and is the answer
// otherwise; what an application says with 500 is always the answer.
func TestErrorAnswers(t *testing.T) {
	m := newTwoMembers(t, timingForTests, "")
	for _, c := range []struct {
		method string
		says   int64
		want   int
	}{{"GET", 503, 200}, {"GET", 502, 200}, {"GET", 500, 500}, {"POST", 503, 503}, {"GET", 404, 404}} {
		for _, p := range m.eu {
			p.broken.Store(c.says)
		}
		if got := m.ask(t, with(c.method)); got.status != c.want {
			t.Errorf("%s where eu-1 says %d: %d, want %d", c.method, c.says, got.status, c.want)
		}
	}
}

// The last endpoint of a backend is never ejected, however it answers.
func TestLastEndpointStays(t *testing.T) {
	m := newTwoMembers(t, timingForTests, "")
	m.commit(func(tx *inc.Tx) {
		m.group(tx, "shop/web/http", "eu-1", m.eu[0].endpoint())
		m.plan(tx, testView, "shop/web/http", share("eu-1", 0))
	})
	m.settled(t)
	m.eu[0].broken.Store(503)
	for _, r := range m.load(t, 60, 4, with("POST"), -1, nil) {
		if r.by == "" {
			t.Fatalf("the only endpoint was not asked: %+v", r)
		}
	}
	m.eu[0].broken.Store(0)
	if got := m.ask(t, shopRequest); got.status != 200 {
		t.Errorf("%+v", got)
	}
}
