package main

import (
	"context"
	"fmt"
	"sync/atomic"

	core "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	discovery "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/protobuf/proto"

	"github.com/spillway-dev/spillway/internal/xds"
)

// client subscribes as Envoy does: everything of clusters, listeners and scopes,
// and by name the assignments and routes that those lead to. It acknowledges all.
type client struct {
	stream    grpc.BidiStreamingClient[discovery.DeltaDiscoveryRequest, discovery.DeltaDiscoveryResponse]
	conn      *grpc.ClientConn
	responses chan response
	bytes     atomic.Int64
	names     atomic.Int64
}

// response is what the measuring side wants to know of one.
type response struct {
	typ       string
	resources int
	bytes     int
}

func dial(ctx context.Context, address string) (*client, error) {
	conn, err := grpc.NewClient(address, grpc.WithTransportCredentials(insecure.NewCredentials()), grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(64<<20)))
	if err != nil {
		return nil, err
	}
	stream, err := discovery.NewAggregatedDiscoveryServiceClient(conn).DeltaAggregatedResources(ctx)
	if err != nil {
		return nil, err
	}
	c := &client{stream: stream, conn: conn, responses: make(chan response, 4096)}
	for i, typ := range []xds.TypeURL{xds.Cluster, xds.Listener, xds.ScopedRoute} {
		req := &discovery.DeltaDiscoveryRequest{TypeUrl: string(typ)}
		if i == 0 {
			req.Node = &core.Node{Id: "bench", Cluster: "fra"}
		}
		if err := stream.Send(req); err != nil {
			return nil, err
		}
	}
	go c.receive()
	return c, nil
}

func (c *client) receive() {
	defer close(c.responses)
	for {
		resp, err := c.stream.Recv()
		if err != nil {
			return
		}
		c.bytes.Add(int64(proto.Size(resp)))
		if err := c.stream.Send(c.answer(resp)); err != nil {
			return
		}
		c.responses <- response{resp.GetTypeUrl(), len(resp.GetResources()), proto.Size(resp)}
	}
}

// answer acknowledges a response and, for a cluster or a scope, subscribes
// to what it leads to.
func (c *client) answer(resp *discovery.DeltaDiscoveryResponse) *discovery.DeltaDiscoveryRequest {
	ack := &discovery.DeltaDiscoveryRequest{TypeUrl: resp.GetTypeUrl(), ResponseNonce: resp.GetNonce()}
	var follow xds.TypeURL
	switch xds.TypeURL(resp.GetTypeUrl()) {
	case xds.Cluster:
		follow = xds.ClusterLoadAssignment
	case xds.ScopedRoute:
		follow = xds.RouteConfiguration
	case xds.Listener:
		return ack
	default:
		c.names.Add(int64(len(resp.GetResources())))
		return ack
	}
	sub := &discovery.DeltaDiscoveryRequest{TypeUrl: string(follow)}
	for _, r := range resp.GetResources() {
		sub.ResourceNamesSubscribe = append(sub.ResourceNamesSubscribe, r.GetName()) // that of what it leads to, too
	}
	if err := c.stream.Send(ack); err != nil {
		return ack
	}
	return sub
}

// wait takes responses until done says so.
func (c *client) wait(ctx context.Context, done func(response) bool) error {
	for {
		select {
		case r, ok := <-c.responses:
			if !ok {
				return fmt.Errorf("the stream ended")
			}
			if done(r) {
				return nil
			}
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}
