package envoy

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/spillway-dev/spillway/internal/fleet"
	"github.com/spillway-dev/spillway/internal/fleet/fleettest"
	"github.com/spillway-dev/spillway/internal/inc"
	"github.com/spillway-dev/spillway/internal/model"
	"github.com/spillway-dev/spillway/internal/steer"
	"github.com/spillway-dev/spillway/internal/xds/envoytest"
)

// ruled is two members with one pod each, and a host whose rules are for one path each.
func ruled(t *testing.T, rules map[string]string) *twoMembers {
	t.Helper()
	m := newTwoMembers(t, timingForTests, "")
	m.commit(func(tx *inc.Tx) {
		m.group(tx, "shop/web/http", "eu-1", m.eu[0].endpoint())
		var routes []fleet.Route
		for path, words := range rules {
			to := target("web", "shop/web/http")
			to.Filters = filtersOf(t, words)
			routes = append(routes, fleet.Route{Match: prefix(path), Target: to})
		}
		slices.SortFunc(routes, func(a, b fleet.Route) int { return a.Match.Precedence(b.Match) })
		m.host(tx, testClass, "shop.example", nil, routes...)
	})
	m.settled(t)
	return m
}

func filtersOf(t testing.TB, words string) model.Filters {
	t.Helper()
	f, err := fleettest.ParseFilters(strings.Fields(words), func(name string) model.Backend { return backend(name + "/http") })
	if err != nil {
		t.Fatal(err)
	}
	return f
}

// asked is how often each member's pod was asked meanwhile.
func (m *twoMembers) asked(f func()) (eu, us int64) {
	eu, us = m.eu[0].seen.Load(), m.us[0].seen.Load()
	f()
	return m.eu[0].seen.Load() - eu, m.us[0].seen.Load() - us
}

// TestTimeoutsAndRetriesOfARule: how often a request is sent, and what the client
// gets, by what its rule says.
func TestTimeoutsAndRetriesOfARule(t *testing.T) {
	m := ruled(t, map[string]string{
		"/usual":   "",
		"/request": "timeout=300ms",
		"/backend": "backend-timeout=300ms",
		"/never":   "timeout=0s backend-timeout=0s",
		"/both":    "timeout=500ms backend-timeout=200ms retry=500*9",
		"/retry":   "backend-timeout=300ms retry=500,418*1",
		"/codes":   "retry=500*3",
		"/bare":    "retry=*2",
		"/none":    "retry=503*0",
		"/add":     "retry=500*1 set=x-a:1",
	})
	slow, dead := "?sleep=1h&at="+m.eu[0].name, "?reset="+m.eu[0].name
	for _, c := range []struct {
		methods, path string
		status        int
		eu, us        int64 // how often they are asked
	}{
		{"GET", "/usual" + slow, 200, 1, 1},
		{"GET", "/usual?status=503", 503, 2, 2},
		{"GET", "/usual?status=500", 500, 1, 0},
		{"POST", "/usual?status=503", 503, 1, 0},
		{"GET", "/usual?status=504", 504, 1, 0},
		{"POST", "/request" + slow, 504, 1, 0},
		{"GET", "/request?sleep=1h", 504, 1, 0}, // before the per-try timeout of the class
		{"GET POST", "/backend" + slow, 504, 1, 0},
		{"GET", "/backend?status=503", 503, 2, 2},
		{"POST", "/backend?status=503", 503, 1, 0},
		{"GET", "/never?sleep=600ms", 200, 1, 0}, // longer than the per-try timeout of the class
		{"GET", "/never" + dead, 200, 1, 1},
		{"GET POST", "/both?sleep=1h", 504, -1, -1}, // both are asked, as often as there is time
		{"GET POST", "/retry" + slow, 200, 1, 1},
		{"GET POST", "/retry" + dead, 200, 1, 1},
		{"GET POST", "/retry?status=500", 500, 1, 1},
		{"GET POST", "/retry?status=418", 418, 1, 1},
		{"GET POST", "/retry?status=503", 503, 1, 0},
		{"GET POST", "/codes?status=500", 500, 2, 2},
		{"GET POST", "/codes?status=502", 502, 1, 0},
		{"GET POST", "/bare?status=503", 503, 1, 0},
		{"GET POST", "/bare" + dead, 200, 1, 1},
		{"GET POST", "/none?status=503", 503, 1, 0},
		{"GET", "/none" + dead, 503, 1, 0},
		{"GET POST", "/add?status=500", 500, 1, 1},
	} {
		for method := range strings.FieldsSeq(c.methods) {
			m.ask(t, request{host: "shop.example", path: "/usual"}) // ends a row of failures
			var got reply
			eu, us := m.asked(func() { got = m.ask(t, request{method: method, host: "shop.example", path: c.path}) })
			asked := eu == c.eu && us == c.us || c.eu < 0 && eu > 0 && us > 0
			if got.status != c.status || !asked {
				t.Errorf("%s %s: %d %v, asked %d and %d times; want %d, %d and %d", method, c.path, got.status, got.err, eu, us, c.status, c.eu, c.us)
			}
		}
	}
}

// TestSharesOfWays: of a rule with filters for backends, each backend has its share,
// its parts have theirs, and what is done is done for the backend that answers.
func TestSharesOfWays(t *testing.T) {
	for _, c := range []struct{ a, b, c uint32 }{{1, 2, 1}, {1_000_000, 500_000, 500_000}} {
		to := []weighted{
			{cluster: "a/0", weight: c.a, of: 2}, {cluster: "a/1", weight: c.a, of: 2}, // parts: twice the weight is of the backend
			{cluster: "b", weight: 2 * c.b, of: 1, filters: model.FiltersKey{Rewrite: model.Rewrite{Path: "/b"}}.Filters()},
			{cluster: "c", weight: 2 * c.c, of: 1},
		}
		all := ways(to)
		var got []string
		for _, w := range all {
			var names []string
			for _, x := range w.to {
				names = append(names, fmt.Sprint(x.cluster, "=", x.weight))
			}
			got = append(got, fmt.Sprint(w.share.GetDefaultValue().GetNumerator(), " ", strings.Join(names, " ")))
		}
		total := float64(c.a + c.b + c.c)
		want := []string{
			fmt.Sprint(int(float64(c.a)/total*1e6), " a/0=1 a/1=1"), fmt.Sprint(int(float64(c.a+c.b)/total*1e6), " b=1"), "0 c=1",
		}
		if !slices.Equal(got, want) {
			t.Errorf("%v, want %v", got, want)
		}
	}
	if one := ways([]weighted{{cluster: "a", weight: 3, of: 1}, {cluster: "b", weight: 1, of: 1}}); len(one) != 1 || one[0].share != nil {
		t.Errorf("without filters: %v", one)
	}
}

// TestSharesInEnvoy: of 600 requests each backend gets about its share, and about
// a third is copied. By chance one in a million runs has fewer or more.
func TestSharesInEnvoy(t *testing.T) {
	r := newRig(t, timingForTests)
	pods := map[string]*pod{}
	r.commit(func(tx *inc.Tx) {
		to := target("web", "shop/a/http", "shop/b/http", "shop/c/http")
		for i, words := range []string{"path=/a", "path=/b", ""} {
			to.Backends[i].Weight, to.Backends[i].Filters = []uint32{1, 2, 3}[i], filtersOf(t, words)
		}
		to.Filters = filtersOf(t, "mirror=shop/m@1/3")
		r.host(tx, testClass, "shop.example", &to)
		for _, name := range []string{"shop/a", "shop/b", "shop/c", "shop/m"} {
			p := newPod(t, name+"@eu-1")
			pods[name] = p
			r.use(tx, testView, name+"/http", "")
			r.group(tx, name+"/http", "eu-1", p.endpoint())
			r.plan(tx, testView, name+"/http", []steer.Share{share("eu-1", 0)}...)
		}
	})
	validateAll(t, r.world)
	r.settled(t)
	const n = 600
	client := &http.Client{Transport: &http.Transport{}}
	t.Cleanup(client.CloseIdleConnections)
	got := map[string]int{}
	for range n {
		reply := r.ask(t, request{host: "shop.example", path: "/x", client: client})
		got[backendOf(reply.by)+" "+reply.header.Get("X-Path")]++
	}
	if len(got) != 3 {
		t.Errorf("asked for %v", got)
	}
	for what, part := range map[string]int{"shop/a /a": n / 6, "shop/b /b": n / 3, "shop/c /x": n / 2} {
		if d := got[what] - part; d < -62 || d > 62 {
			t.Errorf("%s: %d of %d", what, got[what], n)
		}
	}
	copies := func() int { return int(pods["shop/m"].seen.Load()) }
	envoytest.Until(t, "copies", func() bool { return copies() >= n/3-62 })
	if d := copies() - n/3; d > 62 {
		t.Errorf("%d copies of %d", copies(), n)
	}
}

// TestMirrorsHarmNobody: a backend with copies that answers nothing, or is not
// there, is noticed by no client.
func TestMirrorsHarmNobody(t *testing.T) {
	m := ruled(t, map[string]string{"/": "mirror=shop/m", "/gone": "mirror=shop/gone"})
	silent := newPod(t, "shop/m@eu-1")
	close(silent.frozen)
	m.commit(func(tx *inc.Tx) {
		m.use(tx, testView, "shop/m/http", "")
		m.group(tx, "shop/m/http", "eu-1", silent.endpoint())
		m.plan(tx, testView, "shop/m/http", share("eu-1", 0))
	})
	m.settled(t)
	for _, path := range []string{"/", "/gone"} {
		if got := m.ask(t, request{method: http.MethodPost, host: "shop.example", path: path, body: strings.NewReader("body"), timeout: 20 * time.Second}); got.by != m.eu[0].name {
			t.Errorf("%s: %+v", path, got)
		}
	}
	envoytest.Until(t, "a copy", func() bool { return silent.seen.Load() == 1 })
}

// TestClientsHaveNoFilters: what a gRPC client gets of a host is the same whatever
// else its rules do: it would refuse some, and do nothing of the rest.
func TestClientsHaveNoFilters(t *testing.T) {
	w := newWorld()
	set := func(words, ofBackend string) []byte {
		w.g.Commit(func(tx *inc.Tx) {
			to := target("web", "shop/web/http", "shop/b/http")
			to.Filters, to.Backends[0].Filters = filtersOf(t, words), filtersOf(t, ofBackend)
			w.host(tx, testClass, "shop.example", &to)
		})
		validateAll(t, w)
		res, ok := w.lookIn(w.t.Clients.Routes, testView, "shop.example")
		if !ok {
			t.Fatal("no routes")
		}
		return res.Bytes()
	}
	w.g.Commit(func(tx *inc.Tx) {
		w.plain(tx)
		w.t.Clients.Demand.Set(tx, "fra", model.There{})
		for _, name := range []string{"shop/web/http", "shop/b/http", "shop/m/http"} {
			w.use(tx, testView, name, "")
			w.plan(tx, testView, name, share("eu-1", 0))
		}
	})
	plain := set("", "")
	if got := set("set=x:1 >add=y:2 path=/z host=h timeout=1s backend-timeout=1s retry=500*1 mirror=shop/m cors=* cookie=s", "path=/y"); string(got) != string(plain) {
		t.Errorf("%q, without filters %q", got, plain)
	}
	if got := set("auth=shop/m", ""); strings.Contains(string(got), "shop/web") {
		t.Errorf("%q goes to who is to be asked about", got)
	}
}

// TestFiltersAreValid: what no user can write in an API object is found before a
// proxy refuses all of the host for it.
func TestFiltersAreValid(t *testing.T) {
	w := newWorld()
	w.g.Commit(w.plain)
	for _, c := range []struct {
		words string
		valid bool
	}{{"set=x-a:1", true}, {"set=x-a:1\n2", false}, {">remove=a\x00b", false}} {
		w.g.Commit(func(tx *inc.Tx) {
			w.use(tx, testView, "shop/web/http", "")
			to := target("web", "shop/web/http")
			f, err := fleettest.ParseFilters([]string{c.words}, nil)
			if err != nil {
				t.Fatal(err)
			}
			to.Filters = f
			w.host(tx, testClass, "shop.example", &to)
		})
		f, ok := w.t.d.fragments.Get(nil, model.HostKey{Class: testClass, Host: "shop.example"})
		if !ok || (f.invalid == "") != c.valid {
			t.Errorf("%q: %v, %q", c.words, ok, f.invalid)
		}
	}
}
