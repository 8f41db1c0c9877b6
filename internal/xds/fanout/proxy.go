package fanout

import (
	"context"
	"fmt"

	core "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	endpoint "github.com/envoyproxy/go-control-plane/envoy/config/endpoint/v3"
	discovery "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/encoding"
	"google.golang.org/grpc/mem"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/anypb"

	"github.com/spillway-dev/spillway/internal/xds"
)

// proxy is a fake Envoy that acknowledges everything and keeps nothing.
type proxy struct {
	conn   *grpc.ClientConn
	cancel context.CancelFunc
	done   chan struct{}
}

func (p *proxy) close() {
	p.cancel()
	<-p.done
	_ = p.conn.Close()
}

func dial(ctx context.Context, socket, node string, typ xds.TypeURL, names []string, w *watch) (*proxy, error) {
	conn, err := grpc.NewClient("unix://"+socket, grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(64<<20), grpc.ForceCodecV2(raw{encoding.GetCodecV2("proto")})))
	if err != nil {
		return nil, fmt.Errorf("fanout: %w", err)
	}
	ctx, cancel := context.WithCancel(ctx)
	p := &proxy{conn: conn, cancel: cancel, done: make(chan struct{})}
	str, err := discovery.NewAggregatedDiscoveryServiceClient(conn).DeltaAggregatedResources(ctx)
	if err == nil {
		err = str.Send(&discovery.DeltaDiscoveryRequest{
			Node: &core.Node{Id: node, Cluster: "bench"}, TypeUrl: string(typ), ResourceNamesSubscribe: names,
		})
	}
	if err != nil {
		close(p.done)
		p.close()
		return nil, fmt.Errorf("fanout: %w", err)
	}
	go func() {
		defer close(p.done)
		for {
			var s seen
			if err := str.RecvMsg(&s); err != nil {
				return
			}
			if err := str.Send(&discovery.DeltaDiscoveryRequest{TypeUrl: string(typ), ResponseNonce: s.nonce}); err != nil {
				return
			}
			w.add(s.bytes, s.resources)
		}
	}()
	return p, nil
}

// seen is what a proxy needs of a response.
type seen struct {
	bytes, resources int
	nonce            string
}

// raw reads only that, to leave the CPU to the server.
type raw struct{ encoding.CodecV2 }

// Unmarshal counts resources (field 2) and takes the nonce (field 5).
func (c raw) Unmarshal(data mem.BufferSlice, v any) error {
	s, ok := v.(*seen)
	if !ok {
		return c.CodecV2.Unmarshal(data, v)
	}
	b := data.Materialize()
	s.bytes = len(b)
	for len(b) > 0 {
		field, _, n := protowire.ConsumeTag(b)
		if n < 0 {
			return protowire.ParseError(n)
		}
		value, m := protowire.ConsumeBytes(b[n:])
		if m < 0 {
			return protowire.ParseError(m)
		}
		switch field {
		case 2:
			s.resources++
		case 5:
			s.nonce = string(value)
		}
		b = b[n+m:]
	}
	return nil
}

// resource has the body of an assignment whatever its type, since nobody reads
// it: endpoints in two localities, one of which depends on the generation.
func resource(typ xds.TypeURL, name string, endpoints, generation int) (xds.Change, error) {
	cla := &endpoint.ClusterLoadAssignment{ClusterName: name}
	for l := range 2 {
		in := &endpoint.LocalityLbEndpoints{Locality: &core.Locality{Region: "eu", Zone: fmt.Sprintf("eu-%d", l)}, Priority: uint32(l)}
		for e := l; e < endpoints; e += 2 {
			ip := fmt.Sprintf("10.%d.%d.%d", l, generation>>8&255, e&255)
			if e == 0 {
				ip = fmt.Sprintf("10.9.%d.%d", generation>>8&255, generation&255)
			}
			in.LbEndpoints = append(in.LbEndpoints, &endpoint.LbEndpoint{HostIdentifier: &endpoint.LbEndpoint_Endpoint{
				Endpoint: &endpoint.Endpoint{Address: &core.Address{Address: &core.Address_SocketAddress{SocketAddress: &core.SocketAddress{
					Address: ip, PortSpecifier: &core.SocketAddress_PortValue{PortValue: 8080},
				}}}},
			}})
		}
		cla.Endpoints = append(cla.Endpoints, in)
	}
	a, err := anypb.New(cla)
	if err != nil {
		return xds.Change{}, fmt.Errorf("fanout: %w", err)
	}
	body, err := proto.Marshal(a)
	if err != nil {
		return xds.Change{}, fmt.Errorf("fanout: %w", err)
	}
	return xds.Change{Type: typ, Name: name, Resource: &xds.Resource{
		Name: name, Version: fmt.Sprintf("%016x", generation), Body: body,
	}}, nil
}
