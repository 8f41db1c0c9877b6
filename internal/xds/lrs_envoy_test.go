package xds

import (
	"strings"
	"testing"
	"time"

	"github.com/spillway-dev/spillway/internal/xds/envoytest"
)

// next returns the first report that cond holds for.
func next(t *testing.T, reports <-chan LoadReport, what string, cond func(LoadReport) bool) LoadReport {
	t.Helper()
	deadline := time.NewTimer(time.Minute)
	defer deadline.Stop()
	for {
		select {
		case r := <-reports:
			if cond(r) {
				return r
			}
		case <-deadline.C:
			t.Fatalf("waited a minute for: %s", what)
		}
	}
}

func sent(r LoadReport, cluster string) float64 {
	for _, c := range r.Clusters {
		if c.Name == cluster {
			return c.Requests
		}
	}
	return 0
}

// TestEnvoyReportsLoad: of the real Envoys of an edge one reports, its requests
// and no others; the next takes over when it leaves. After a restart of the
// server, one that is not chosen again stops.
func TestEnvoyReportsLoad(t *testing.T) {
	reports := make(chan LoadReport, 1000)
	const every = 200 * time.Millisecond
	r := newRig(t, Config{Load: func(l LoadReport) { reports <- l }, LoadInterval: every})
	port := envoytest.FreePort(t)
	r.cfg.Store.Publish("fra", []Change{
		makeCluster(t, "a", 1), makeEndpoint(t, "a", backend(t, "a"), 1), makeCluster(t, "idle", 1), makeEndpoint(t, "idle", backend(t, "idle"), 1),
		makeRoutes(t, "a", 1), makeListener(t, "in", "127.0.0.1", port),
	})
	first := r.envoy("fra", "fra-1")
	next(t, reports, "a first report", func(l LoadReport) bool { return l.Node == "fra-1" && l.Proxies == 1 })
	envoytest.Until(t, "an answer", func() bool { return fetch(port) == "200 1 a" })
	next(t, reports, "rest", func(l LoadReport) bool { return len(l.Clusters) == 0 })
	const requests = 50
	for range requests {
		if got := fetch(port); got != "200 1 a" {
			t.Fatal(got)
		}
	}
	issued := 0.0
	next(t, reports, "all requests and then none", func(l LoadReport) bool {
		issued += sent(l, "a") * every.Seconds() // a report is about this time or more
		if sent(l, "idle") > 0 {
			t.Errorf("reported %v", l.Clusters)
		}
		return issued > 0 && len(l.Clusters) == 0
	})
	if issued > requests*1.05 {
		t.Errorf("%v requests reported, %d were sent", issued, requests)
	}

	second := r.envoy("fra", "fra-2")
	next(t, reports, "a second proxy", func(l LoadReport) bool { return l.Node == "fra-1" && l.Proxies == 2 })
	for range 5 {
		next(t, reports, "more reports of the first", func(l LoadReport) bool { return l.Node == "fra-1" })
	}
	for what, want := range map[string]string{"requests": ": 0", "responses": ": 1", "retries": ": 0"} {
		if got := second.Stats(t, "load_reporter."+what); !strings.Contains(got, want) {
			t.Errorf("the stream of the second is not silent: %s", got)
		}
	}

	// After a restart another one is chosen. The first would go on as it was told.
	r.kill()
	e, err := ListenUnix(r.socket)
	if err != nil {
		t.Fatal(err)
	}
	r.server = NewServer(r.cfg)
	other, _ := r.server.reporters.join("fra", 3)
	r.stop = run(t, r.server, e)
	for len(reports) > 0 {
		<-reports
	}
	envoytest.Until(t, "both to be back", func() bool { return r.server.reporters.of("fra") == 3 })
	envoytest.Until(t, "the first to be hushed", func() bool { return strings.Contains(first.Stats(t, "load_reporter.requests"), ": 2") })
	if len(reports) > 0 {
		t.Errorf("%v of one that was not chosen", <-reports)
	}

	r.server.reporters.leave(other)
	chosen := next(t, reports, "one to take over", func(l LoadReport) bool { return l.Proxies == 2 })
	(map[string]*envoytest.Process{"fra-1": first, "fra-2": second})[chosen.Node].Stop()
	next(t, reports, "the last to take over", func(l LoadReport) bool { return l.Node != chosen.Node && l.Proxies == 1 })
}
