package lrs

import (
	"strings"
	"testing"
	"time"

	load "github.com/envoyproxy/go-control-plane/envoy/service/load_stats/v3"
	"google.golang.org/grpc"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/spillway-dev/spillway/internal/xds"
	"github.com/spillway-dev/spillway/internal/xds/envoytest"
	"github.com/spillway-dev/spillway/internal/xds/xdstest"
)

// demanding is a service that has proxies report.
type demanding struct {
	load.UnimplementedLoadReportingServiceServer
	admission *xds.Admission
	reports   chan string
}

func (d *demanding) Register(g grpc.ServiceRegistrar, a *xds.Admission) {
	load.RegisterLoadReportingServiceServer(g, &demanding{admission: a, reports: d.reports})
}

func (d *demanding) StreamLoadStats(str load.LoadReportingService_StreamLoadStatsServer) error {
	return xds.Admit(d.admission, str, says, func(s *xds.SideStream[*load.LoadStatsRequest]) error {
		err := str.Send(&load.LoadStatsResponse{SendAllClusters: true, LoadReportingInterval: durationpb.New(100 * time.Millisecond)})
		for err == nil {
			var r *load.LoadStatsRequest
			if r, _, err = s.Next(nil); err == nil && len(r.GetClusterStats()) > 0 {
				select {
				case d.reports <- s.Proxy.Node:
				default:
				}
			}
		}
		return err
	})
}

// TestEnvoyIsHushed: a real Envoy that a server had report goes on with that on
// its next stream, until it is told to stop. One that was never asked is silent.
func TestEnvoyIsHushed(t *testing.T) {
	before := &demanding{reports: make(chan string, 1)}
	r := xdstest.New(t, xds.Config{Services: []xds.Service{before}})
	r.Config.Store.Publish("fra", nil)
	e := r.Envoy("fra", "fra-1")
	if node := <-before.reports; node != "fra-1" {
		t.Errorf("%s reports", node)
	}
	r.Kill()
	r.Config.Services = []xds.Service{Service{}}
	r.Start()
	// "requests" counts what it was told: to report, and to stop.
	envoytest.Until(t, "it to be told", func() bool { return strings.Contains(e.Stats(t, "load_reporter.requests"), ": 2") })

	fresh := r.Envoy("fra", "fra-2")
	envoytest.Until(t, "its stream", func() bool { return strings.Contains(fresh.Stats(t, "load_reporter.responses"), ": 1") })
	if got := fresh.Stats(t, "load_reporter.requests"); !strings.Contains(got, ": 0") {
		t.Errorf("one that was never asked is told: %s", got)
	}
}
