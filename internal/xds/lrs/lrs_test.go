package lrs

import (
	"testing"
	"time"

	endpoint "github.com/envoyproxy/go-control-plane/envoy/config/endpoint/v3"
	load "github.com/envoyproxy/go-control-plane/envoy/service/load_stats/v3"
)

// TestHush: a proxy that reports, as it was told on an earlier stream, is told
// once to stop.
func TestHush(t *testing.T) {
	var h hush
	report := &load.LoadStatsRequest{ClusterStats: []*endpoint.ClusterStats{{ClusterName: "a"}}}
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
		answer := h.heard(step.r)
		if (answer != nil) != step.hushed {
			t.Errorf("%s: answered %v", step.what, answer)
		}
		if answer != nil && (answer.GetSendAllClusters() || len(answer.GetClusters()) > 0 || answer.GetLoadReportingInterval().AsDuration() < time.Hour) {
			t.Errorf("%s: answered %v", step.what, answer)
		}
	}
}
