// Package lrs is the load reporting service of Envoy, as far as proxies need it:
// its streams stay open and silent, since nothing needs load reports. An Envoy
// whose bootstrap names the service asks for it again and again where there is
// none. docs/design/architecture.md says why it reports nothing.
package lrs

import (
	"time"

	core "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	load "github.com/envoyproxy/go-control-plane/envoy/service/load_stats/v3"
	"google.golang.org/grpc"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/spillway-dev/spillway/internal/xds"
)

// reportBytes is the largest report: 45 bytes an idle cluster, so 4.5 MB of
// 100,000.
const reportBytes = 16 << 20

// silence is the interval for a proxy that is to report nothing. Envoy sends an
// empty report each time; zero would have it do so without a pause.
const silence = time.Hour

// hush is the state machine of one stream, pure. A proxy that was told nothing
// reports nothing. But Envoy remembers what it was told on an earlier stream, and
// goes on with that: it is told once to name no cluster.
type hush struct{ told bool }

// heard returns what to send, nil for nothing.
func (h *hush) heard(r *load.LoadStatsRequest) *load.LoadStatsResponse {
	if len(r.GetClusterStats()) == 0 || h.told {
		return nil
	}
	h.told = true
	return &load.LoadStatsResponse{LoadReportingInterval: durationpb.New(silence)}
}

// Service is for [xds.Config].
type Service struct{}

// Register is for [xds.Server].
func (Service) Register(g grpc.ServiceRegistrar, a *xds.Admission) {
	load.RegisterLoadReportingServiceServer(g, &face{admission: a})
}

type face struct {
	load.UnimplementedLoadReportingServiceServer
	admission *xds.Admission
}

var says = xds.Says[*load.LoadStatsRequest]{
	Name: "load", Bytes: reportBytes,
	Node: func(r *load.LoadStatsRequest) *core.Node { return r.GetNode() },
}

// StreamLoadStats asks a proxy for nothing.
func (f *face) StreamLoadStats(str load.LoadReportingService_StreamLoadStatsServer) error {
	return xds.Admit(f.admission, str, says, func(s *xds.SideStream[*load.LoadStatsRequest]) error {
		var h hush
		for r := s.First; ; {
			if answer := h.heard(r); answer != nil {
				if err := str.Send(answer); err != nil {
					return err
				}
			}
			var err error
			if r, _, err = s.Next(nil); err != nil {
				return err
			}
		}
	})
}
