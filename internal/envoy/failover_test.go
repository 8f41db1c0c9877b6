package envoy

import (
	"bytes"
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

// load sends n requests with the given concurrency and returns the replies. At
// request number at, f is called once.
func (m *twoMembers) load(t *testing.T, n, concurrency int, q request, at int, f func()) []reply {
	t.Helper()
	out := make([]reply, n)
	next := make(chan int)
	var wg sync.WaitGroup
	for range concurrency {
		wg.Go(func() {
			q := q
			q.client = &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 1}}
			for i := range next {
				q := q
				if q.method == http.MethodPost {
					q.body = bytes.NewReader(make([]byte, 100_000))
				}
				out[i] = m.ask(t, q)
			}
			q.client.CloseIdleConnections()
		})
	}
	for i := range n {
		if i == at {
			f()
		}
		next <- i
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

func TestRefusedMemberFailsNoRequest(t *testing.T) {
	for _, method := range []string{"GET", "POST"} {
		t.Run(method, func(t *testing.T) {
			m := newTwoMembers(t, timingForTests, "")
			m.load(t, 50, 4, request{host: "shop.example", path: "/", method: method}, 0, func() {})
			for _, p := range m.eu { // between requests, so that none is cut in the middle
				p.refuse(t)
			}
			replies := m.load(t, 400, 8, request{host: "shop.example", path: "/", method: method}, -1, nil)
			failed, text := summary(replies)
			t.Log(text)
			if failed > 0 {
				t.Errorf("%d requests failed", failed)
			}
		})
	}
}

func TestRefusedUnderLoad(t *testing.T) {
	m := newTwoMembers(t, timingForTests, "")
	replies := m.load(t, 600, 8, request{host: "shop.example", path: "/?sleep=5ms"}, 200, func() {
		for _, p := range m.eu {
			p.refuse(t)
		}
	})
	failed, text := summary(replies)
	t.Log(text)
	if failed > 0 {
		t.Errorf("%d requests failed", failed)
	}
}

func TestDroppedMember(t *testing.T) {
	for _, proto := range []string{"", "kubernetes.io/h2c"} {
		for _, method := range []string{"GET", "POST"} {
			t.Run(method+" "+proto, func(t *testing.T) {
				m := newTwoMembers(t, timingForTests, proto)
				q := request{host: "shop.example", path: "/", method: method}
				m.load(t, 50, 8, q, 0, func() {})
				for _, p := range m.eu {
					p.drop(t)
				}
				replies := m.load(t, 300, 8, q, -1, nil)
				failed, text := summary(replies)
				t.Log(text)
				if failed > 0 && method == "GET" {
					t.Errorf("%d requests failed", failed)
				}
			})
		}
	}
}

func TestDroppedWhileWaiting(t *testing.T) {
	m := newTwoMembers(t, timingForTests, "")
	q := request{host: "shop.example", path: "/?sleep=1s&at=none"}
	q.path = "/?sleep=300ms"
	var once sync.Once
	replies := m.load(t, 20, 8, q, 8, func() {
		once.Do(func() {
			for _, p := range m.eu {
				p.drop(t)
			}
		})
	})
	failed, text := summary(replies)
	t.Log(text)
	if failed > 0 {
		t.Errorf("%d requests failed", failed)
	}
}

func TestSlowAnswerIsNotCut(t *testing.T) {
	m := newTwoMembers(t, timingForTests, "")
	for _, path := range []string{"/?sleep=3s", "/?sleep=3s&chunks=1", "/?sleep=1s&chunks=4"} {
		before := m.eu[0].seen.Load() + m.eu[1].seen.Load() + m.us[0].seen.Load()
		got := m.ask(t, request{host: "shop.example", path: path})
		t.Logf("%s: %d by %s in %v, attempts %d", path, got.status, got.by, got.took, m.eu[0].seen.Load()+m.eu[1].seen.Load()+m.us[0].seen.Load()-before)
		if got.status != 200 || got.err != nil {
			t.Errorf("%s: %+v", path, got)
		}
	}
	got := m.ask(t, request{host: "shop.example", path: "/?sleep=3s", method: "POST"})
	if got.status != 200 {
		t.Errorf("POST: %+v", got)
	}
	t.Log(m.proc.Stats(t, "cluster.shop"))
}

func TestFailedShare(t *testing.T) {
	m := newTwoMembers(t, timingForTests, "")
	done := make(chan reply, 1)
	go func() { done <- m.ask(t, request{host: "shop.example", path: "/?sleep=4s", method: "POST"}) }()
	m.load(t, 20, 4, request{host: "shop.example", path: "/"}, 0, func() {})
	m.commit(func(tx *inc.Tx) {
		failed := share("eu-1", 1)
		failed.State, failed.Weight = steer.Failed, 0
		m.plan(tx, testView, "shop/web/http", share("us-1", 0), failed)
	})
	m.settled(t)
	began := time.Now()
	var first time.Duration
	for time.Since(began) < 2*time.Second {
		m.eu[0].mu.Lock()
		n := len(m.eu[0].conns)
		m.eu[0].mu.Unlock()
		m.eu[1].mu.Lock()
		n += len(m.eu[1].conns)
		m.eu[1].mu.Unlock()
		if n <= 1 {
			first = time.Since(began)
			break
		}
	}
	t.Logf("idle connections closed after %v", first)
	got := <-done
	t.Logf("in flight: %d by %s in %v %v", got.status, got.by, got.took, got.err)
	r := m.load(t, 20, 4, request{host: "shop.example", path: "/"}, 0, func() {})
	_, text := summary(r)
	t.Log(text)
}
