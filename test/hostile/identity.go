package main

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	core "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	endpoint "github.com/envoyproxy/go-control-plane/envoy/config/endpoint/v3"
	discovery "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	health "github.com/envoyproxy/go-control-plane/envoy/service/health/v3"
	loads "github.com/envoyproxy/go-control-plane/envoy/service/load_stats/v3"
	status "google.golang.org/genproto/googleapis/rpc/status"
	"google.golang.org/grpc"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/spillway-dev/spillway/internal/lab/user"
	"github.com/spillway-dev/spillway/internal/xds"
)

// stolen is the edge whose certificate and key the attackers have. Its own
// proxy serves on.
const stolen = "us"

const (
	stormLasts   = 3 * time.Second
	dropAfter    = time.Second
	refusals     = 2
	megabyte     = 1 << 20
	namesAtOnce  = 20_000
	deadReported = 100
	loadClusters = 200
)

// stream is a stream of discovery under a stolen identity, on a connection of
// its own.
type stream = grpc.BidiStreamingClient[discovery.DeltaDiscoveryRequest, discovery.DeltaDiscoveryResponse]

// as calls do with a connection of the stolen identity, which it closes.
func (a *attackers) as(ctx context.Context, most time.Duration, do func(context.Context, *grpc.ClientConn) error) error {
	conn, err := dial(a.xdsPort, a.identity)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, most)
	defer cancel()
	return errors.Join(do(ctx, conn), conn.Close())
}

func (a *attackers) streaming(ctx context.Context, most time.Duration, do func(context.Context, stream) error) error {
	return a.as(ctx, most, func(ctx context.Context, conn *grpc.ClientConn) error {
		str, err := discovery.NewAggregatedDiscoveryServiceClient(conn).DeltaAggregatedResources(ctx)
		if err != nil {
			return err
		}
		return do(ctx, str)
	})
}

func node(n int) *core.Node {
	return &core.Node{Id: fmt.Sprintf("hostile-%d", n), Cluster: stolen}
}

// madeUp are names that nobody has, each of some bytes.
func madeUp(n, count, size int) (out []string) {
	for i := range count {
		name := fmt.Sprintf("made-up/%d-%d/http", n, i)
		out = append(out, name+strings.Repeat("x", max(0, size-len(name))))
	}
	return out
}

// wanted are the types that a proxy asks for at first.
var wanted = []xds.TypeURL{xds.Cluster, xds.Listener, xds.ScopedRoute}

// send sends requests, the first of which names the node.
func send(str stream, n int, all ...*discovery.DeltaDiscoveryRequest) error {
	all[0].Node = node(n)
	for _, r := range all {
		if err := str.Send(r); err != nil {
			return why(str, err)
		}
	}
	return nil
}

// why is the reason of a stream that takes nothing any more.
func why(str stream, err error) error {
	if _, told := str.Recv(); told != nil {
		return told
	}
	return err
}

// unless is err, or nil where our own time was up.
func unless(ctx context.Context, err error) error {
	select {
	case <-ctx.Done():
		return nil
	default:
		return err
	}
}

func (a *attackers) storm(ctx context.Context, n int) error {
	return a.streaming(ctx, 2*stormLasts, func(ctx context.Context, str stream) error {
		var all []*discovery.DeltaDiscoveryRequest
		for _, t := range wanted {
			all = append(all, &discovery.DeltaDiscoveryRequest{TypeUrl: string(t)})
		}
		for _, t := range []xds.TypeURL{xds.ClusterLoadAssignment, xds.Secret, xds.RouteConfiguration} {
			all = append(all, &discovery.DeltaDiscoveryRequest{TypeUrl: string(t), ResourceNamesSubscribe: madeUp(n, 100, 300)})
		}
		err := send(str, n, all...)
		user.Rest(ctx, stormLasts)
		return err
	})
}

func (a *attackers) names(ctx context.Context, n int) error {
	return a.streaming(ctx, 4*dropAfter, func(ctx context.Context, str stream) error {
		all := madeUp(n, namesAtOnce, 0)
		if err := send(str, n, &discovery.DeltaDiscoveryRequest{TypeUrl: string(xds.ClusterLoadAssignment), ResourceNamesSubscribe: all}); err != nil {
			return err
		}
		user.Rest(ctx, dropAfter)
		if err := str.Send(&discovery.DeltaDiscoveryRequest{TypeUrl: string(xds.ClusterLoadAssignment), ResourceNamesUnsubscribe: all}); err != nil {
			return why(str, err)
		}
		user.Rest(ctx, dropAfter)
		return nil
	})
}

func (a *attackers) refuse(ctx context.Context, n int) error {
	return a.streaming(ctx, 5*time.Second, func(_ context.Context, str stream) error {
		var all []*discovery.DeltaDiscoveryRequest
		for _, t := range wanted {
			all = append(all, &discovery.DeltaDiscoveryRequest{TypeUrl: string(t)})
		}
		if err := send(str, n, all...); err != nil {
			return err
		}
		words := strings.Repeat("no\x1b[2J", megabyte/6-100)
		for range refusals {
			r, err := str.Recv()
			if err != nil {
				return err
			}
			if err := str.Send(&discovery.DeltaDiscoveryRequest{
				TypeUrl: r.TypeUrl, ResponseNonce: r.Nonce, ErrorDetail: &status.Status{Code: 3, Message: words},
			}); err != nil {
				return why(str, err)
			}
		}
		return nil
	})
}

func (a *attackers) foreign(ctx context.Context, n int) error {
	return a.streaming(ctx, dropAfter, func(ctx context.Context, str stream) error {
		r := &discovery.DeltaDiscoveryRequest{TypeUrl: "type.googleapis.com/nobody.serves.This", ResourceNamesSubscribe: madeUp(n, 1000, 100)}
		if n%2 == 0 {
			r = &discovery.DeltaDiscoveryRequest{TypeUrl: string(xds.Secret), ResourceNamesSubscribe: madeUp(n, 1, 4096)}
		}
		if err := send(str, n, r); err != nil {
			return err
		}
		_, err := str.Recv()
		return unless(ctx, err) // without an end of its own it was not refused
	})
}

func (a *attackers) health(ctx context.Context, n int) error {
	return a.as(ctx, stormLasts, func(ctx context.Context, conn *grpc.ClientConn) error {
		str, err := health.NewHealthDiscoveryServiceClient(conn).StreamHealthCheck(ctx)
		if err != nil {
			return err
		}
		err = str.Send(&health.HealthCheckRequestOrEndpointHealthResponse{
			RequestType: &health.HealthCheckRequestOrEndpointHealthResponse_HealthCheckRequest{HealthCheckRequest: &health.HealthCheckRequest{
				Node: node(n), Capability: &health.Capability{HealthCheckProtocols: []health.Capability_Protocol{health.Capability_HTTP, health.Capability_TCP}},
			}},
		})
		if err == nil {
			_, err = str.Recv()
		}
		for err == nil && ctx.Err() == nil {
			err = str.Send(&health.HealthCheckRequestOrEndpointHealthResponse{
				RequestType: &health.HealthCheckRequestOrEndpointHealthResponse_EndpointHealthResponse{EndpointHealthResponse: deadEndpoints(n)},
			})
			user.Rest(ctx, dropAfter/2)
		}
		return unless(ctx, err)
	})
}

// deadEndpoints says that endpoints are dead that nobody has.
func deadEndpoints(n int) *health.EndpointHealthResponse {
	at := &health.LocalityEndpointsHealth{Locality: &core.Locality{}}
	for i := range deadReported {
		at.EndpointsHealth = append(at.EndpointsHealth, &health.EndpointHealth{
			HealthStatus: core.HealthStatus_UNHEALTHY,
			Endpoint: &endpoint.Endpoint{Address: &core.Address{Address: &core.Address_SocketAddress{SocketAddress: &core.SocketAddress{
				Address: fmt.Sprintf("10.99.%d.%d", n%256, i), PortSpecifier: &core.SocketAddress_PortValue{PortValue: 8080},
			}}}},
		})
	}
	return &health.EndpointHealthResponse{ClusterEndpointsHealth: []*health.ClusterEndpointsHealth{{
		ClusterName: "made-up", LocalityEndpointsHealth: []*health.LocalityEndpointsHealth{at},
	}}}
}

func (a *attackers) load(ctx context.Context, n int) error {
	return a.as(ctx, stormLasts, func(ctx context.Context, conn *grpc.ClientConn) error {
		str, err := loads.NewLoadReportingServiceClient(conn).StreamLoadStats(ctx)
		if err != nil {
			return err
		}
		r := &loads.LoadStatsRequest{Node: node(n)}
		for _, name := range madeUp(n, loadClusters, 100) {
			r.ClusterStats = append(r.ClusterStats, &endpoint.ClusterStats{
				ClusterName: name, LoadReportInterval: durationpb.New(time.Second),
				UpstreamLocalityStats: []*endpoint.UpstreamLocalityStats{{TotalIssuedRequests: 1 << 62, TotalSuccessfulRequests: 1 << 62}},
			})
		}
		for err == nil && ctx.Err() == nil {
			err = str.Send(r)
			user.Rest(ctx, dropAfter/2)
		}
		if err != nil {
			_, err = str.Recv() // which says why
		}
		return unless(ctx, err)
	})
}
