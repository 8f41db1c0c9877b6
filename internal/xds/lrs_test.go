package xds

import (
	"slices"
	"testing"
	"time"

	endpoint "github.com/envoyproxy/go-control-plane/envoy/config/endpoint/v3"
	load "github.com/envoyproxy/go-control-plane/envoy/service/load_stats/v3"
	"google.golang.org/protobuf/types/known/durationpb"
)

// issued is what a report says of a cluster: requests to each locality in a time.
func issued(cluster string, in time.Duration, requests ...uint64) *endpoint.ClusterStats {
	s := &endpoint.ClusterStats{ClusterName: cluster, LoadReportInterval: durationpb.New(in)}
	for _, n := range requests {
		s.UpstreamLocalityStats = append(s.UpstreamLocalityStats, &endpoint.UpstreamLocalityStats{TotalIssuedRequests: n})
	}
	return s
}

func TestTallyRates(t *testing.T) {
	tl := &tally{every: time.Minute}
	if r := tl.choose(); !r.GetSendAllClusters() || r.GetLoadReportingInterval().AsDuration() != time.Minute {
		t.Errorf("asked %v", r)
	}
	if _, ok, answer := tl.heard(&load.LoadStatsRequest{}); ok || answer != nil {
		t.Error("a request without clusters is taken for a report")
	}
	got, ok, answer := tl.heard(&load.LoadStatsRequest{ClusterStats: []*endpoint.ClusterStats{
		issued("a", 2*time.Second, 10, 20), issued("idle", time.Second), issued("none", time.Second, 0), issued("no time", 0, 9),
		issued("before", -time.Second, 9), issued("b", 500*time.Millisecond, 1),
	}})
	if want := []ClusterLoad{{"a", 15}, {"b", 2}}; !ok || answer != nil || !slices.Equal(got, want) {
		t.Errorf("heard %v, %v, want %v", got, ok, want)
	}
	if got, ok, _ := tl.heard(&load.LoadStatsRequest{ClusterStats: []*endpoint.ClusterStats{issued("idle", time.Second)}}); !ok || len(got) != 0 {
		t.Errorf("that nothing is sent is a report too: %v, %v", got, ok)
	}
}

// TestTallyHushes: one that is not chosen and reports, as it was told on an
// earlier stream, is told once to stop.
func TestTallyHushes(t *testing.T) {
	tl := &tally{every: time.Minute}
	report := &load.LoadStatsRequest{ClusterStats: []*endpoint.ClusterStats{issued("a", time.Second, 1)}}
	for _, step := range []struct {
		what   string
		r      *load.LoadStatsRequest
		hushed bool
	}{
		{"it says who it is", &load.LoadStatsRequest{}, false},
		{"it reports", report, true},
		{"what was on its way", report, false},
		{"an empty report", &load.LoadStatsRequest{}, false},
	} {
		loads, ok, answer := tl.heard(step.r)
		if ok || loads != nil || (answer != nil) != step.hushed {
			t.Errorf("%s: %v, %v, answered %v", step.what, loads, ok, answer)
		}
		if answer != nil && (answer.GetSendAllClusters() || len(answer.GetClusters()) > 0 || answer.GetLoadReportingInterval().AsDuration() < time.Hour) {
			t.Errorf("%s: answered %v", step.what, answer)
		}
	}
	tl.choose()
	if _, ok, answer := tl.heard(report); !ok || answer != nil {
		t.Error("chosen later, it is not believed")
	}
}

func TestReporters(t *testing.T) {
	var r reporters
	join := func(edge string) *reporter {
		me, ok := r.join(edge, 4)
		if !ok {
			t.Fatalf("no room for one of %s", edge)
		}
		return me
	}
	chosen := func(me *reporter) bool {
		select {
		case <-me.chosen:
			return true
		default:
			return false
		}
	}
	a, b, c, other := join("fra"), join("fra"), join("fra"), join("par")
	if _, ok := r.join("sin", 4); ok {
		t.Error("the limit is not kept")
	}
	if !chosen(a) || chosen(b) || chosen(c) || !chosen(other) {
		t.Error("not the oldest of each edge is chosen")
	}
	r.leave(b)
	if chosen(c) || r.of("fra") != 2 {
		t.Error("one that was not chosen is succeeded")
	}
	r.leave(a)
	if !chosen(c) {
		t.Error("nobody took over")
	}
	r.leave(c)
	r.leave(other)
	if r.n != 0 || len(r.edges) != 0 {
		t.Errorf("left behind: %d, %v", r.n, r.edges)
	}
}
