package xds

import (
	"time"

	load "github.com/envoyproxy/go-control-plane/envoy/service/load_stats/v3"
	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/types/known/durationpb"
)

// silence is the interval for a proxy that is to report nothing. Envoy sends an
// empty report each time; zero would have it do so without a pause.
const silence = time.Hour

// hush is the state machine of one load stream, pure: nobody needs load
// reports. A proxy that was told nothing reports nothing. But Envoy remembers
// what it was told on an earlier stream, and goes on with that: it is told once
// to name no cluster.
type hush struct{ told bool }

// heard returns what to send, nil for nothing.
func (h *hush) heard(r *load.LoadStatsRequest) *load.LoadStatsResponse {
	if len(r.GetClusterStats()) == 0 || h.told {
		return nil
	}
	h.told = true
	return &load.LoadStatsResponse{LoadReportingInterval: durationpb.New(silence)}
}

// lrs is the gRPC face of load reporting: its streams stay open and silent. An
// Envoy whose bootstrap names the service would ask for it again and again.
type lrs struct {
	load.UnimplementedLoadReportingServiceServer
	server *Server
	at     *Endpoint
}

// StreamLoadStats asks a proxy for nothing.
func (l *lrs) StreamLoadStats(str load.LoadReportingService_StreamLoadStatsServer) error {
	s := l.server
	recv := reader[load.LoadStatsRequest](str, atMost(loadReportBytes, "a load report"))
	first, err := await(str.Context(), recv)
	if err != nil {
		return err
	}
	proxy, cred, err := s.identify(str.Context(), l.at, first.GetNode(), Envoy)
	if err != nil {
		return err
	}
	g, err := s.guard(proxy, cred)
	defer g.stop()
	if err != nil {
		return err
	}
	defer s.loads.Add(-1)
	if s.loads.Add(1) > int64(s.cfg.MaxStreams) {
		return s.refuse(proxy, codes.ResourceExhausted, "too_many", "this server has as many load streams as it may")
	}
	in := receive(str.Context(), recv)
	var h hush
	hear := func(r *load.LoadStatsRequest) error {
		if answer := h.heard(r); answer != nil {
			return str.Send(answer)
		}
		return nil
	}
	for err = hear(first); err == nil; {
		select {
		case r, ok := <-in.in:
			if !ok {
				_, err = ended(in.err)
				return err
			}
			err = hear(r)
		case <-g.changed:
			err = g.check()
		case <-g.timer.C:
			err = g.check()
		case <-str.Context().Done():
			return nil
		}
	}
	return err
}
