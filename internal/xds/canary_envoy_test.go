package xds

import (
	"strings"
	"testing"

	"github.com/spillway-dev/spillway/internal/xds/envoytest"
)

// TestTwoEnvoysDecide: two real Envoys are sent what Envoy refuses, a third one
// never; all take what else was published and keep the copy they have.
func TestTwoEnvoysDecide(t *testing.T) {
	reports := &Reports{}
	r := newRig(t, Config{Reports: reports})
	main, good := envoytest.FreePort(t), envoytest.FreePort(t)
	r.cfg.Store.Publish("fra", []Change{
		makeCluster(t, "one", 1), makeEndpoint(t, "one", backend(t, "one"), 1), makeRoutes(t, "one", 1), makeListener(t, "main", "127.0.0.1", main),
	})
	envoys := []*envoytest.Process{r.envoy("fra", "fra-1"), r.envoy("fra", "fra-2")}
	r.allInSync(t, len(envoys))

	r.cfg.Store.Publish("fra", []Change{
		makeListener(t, "main", "nowhere", main), makeListener(t, "bad", "somewhere", 1), makeListener(t, "good", "127.0.0.1", good),
	})
	envoytest.Until(t, "both have the good listener and the old main one", func() bool {
		for _, e := range envoys {
			if got := e.Get(t, "/listeners"); strings.Count(got, "\n") != 2 || !strings.Contains(got, "main::") || !strings.Contains(got, "good::") {
				return false
			}
		}
		return true
	})
	r.allAtRest(t, len(envoys))
	r.rejectedBy(t, 2)
	if got := fetch(main); got != "200 1 one" {
		t.Errorf("the old copy: %s", got)
	}
	_, verdicts := reports.Take()
	said := map[string]string{}
	for _, v := range verdicts {
		if v.Error != "" {
			said[v.Name] += v.Error
		}
	}
	if len(said) != 2 || !strings.Contains(said["main"], "nowhere") || !strings.Contains(said["bad"], "somewhere") {
		t.Errorf("said %q", said)
	}

	// A third proxy is not asked, and a new version reaches all.
	envoys = append(envoys, r.envoy("fra", "fra-3"))
	r.allAtRest(t, len(envoys))
	r.rejectedBy(t, 2)
	second := envoytest.FreePort(t)
	r.cfg.Store.Publish("fra", []Change{makeListener(t, "bad", "127.0.0.2", second)})
	envoytest.Until(t, "all have it", func() bool {
		for _, e := range envoys {
			if !strings.Contains(e.Get(t, "/listeners"), "bad::127.0.0.2") {
				return false
			}
		}
		return true
	})
}

// allInSync waits until so many proxies are past their first load and quiet.
func (r *rig) allInSync(t testing.TB, n int) {
	t.Helper()
	envoytest.Until(t, "all proxies are in sync", func() bool {
		st := r.server.Streams()
		for _, s := range st {
			if !s.InSync || len(s.Types) < 3 {
				return false
			}
		}
		return len(st) == n
	})
}

// allAtRest waits until so many proxies are past their first load and nothing
// is to be said to them. In sync they are not: they lack a listener.
func (r *rig) allAtRest(t testing.TB, n int) {
	t.Helper()
	envoytest.Until(t, "all proxies are at rest", func() bool {
		st := r.server.Streams()
		for _, s := range st {
			for _, ts := range s.Types {
				if ts.Pending+ts.Gated+ts.Waiting > 0 || s.InSync {
					return false
				}
			}
			if len(s.Types) < 3 {
				return false
			}
		}
		return len(st) == n
	})
}

// rejectedBy checks how many streams were ever rejected anything.
func (r *rig) rejectedBy(t testing.TB, n int) {
	t.Helper()
	got := 0
	for _, s := range r.server.Streams() {
		for _, ts := range s.Types {
			if ts.NACKs > 0 {
				got++
				t.Logf("%s: %+v", s.Node, ts)
			}
		}
	}
	if got != n {
		t.Errorf("%d streams rejected something, want %d", got, n)
	}
}
