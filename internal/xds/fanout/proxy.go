package fanout

import (
	"context"
	"fmt"

	core "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	discovery "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	health "github.com/envoyproxy/go-control-plane/envoy/service/health/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/encoding"
	"google.golang.org/grpc/mem"
	"google.golang.org/protobuf/encoding/protowire"

	"github.com/spillway-dev/spillway/internal/xds"
)

// follows says which resources a resource leads to, by the same name.
var follows = map[xds.TypeURL]xds.TypeURL{
	xds.Cluster:     xds.ClusterLoadAssignment,
	xds.ScopedRoute: xds.RouteConfiguration,
}

// The flow control windows of Envoy (Http2ProtocolOptions): they stay as they
// are, where gRPC would ask for the round-trip time with each response.
const (
	streamWindow = 16 << 20
	connWindow   = 24 << 20
)

// proxy is one of them.
type proxy struct {
	node   *core.Node
	conn   *grpc.ClientConn
	str    grpc.BidiStreamingClient[discovery.DeltaDiscoveryRequest, discovery.DeltaDiscoveryResponse]
	cancel context.CancelFunc
	done   chan struct{}
	err    error // why it ended by itself
}

func (p *proxy) close() error {
	select {
	case <-p.done:
	default:
		p.cancel()
		<-p.done
		p.err = nil
	}
	p.cancel()
	_ = p.conn.Close()
	return p.err
}

func dial(ctx context.Context, o Options, i int, add func(*seen)) (*proxy, error) {
	conn, err := grpc.NewClient("unix://"+o.Socket, grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithStaticStreamWindowSize(streamWindow), grpc.WithStaticConnWindowSize(connWindow),
		grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(64<<20), grpc.ForceCodecV2(raw{encoding.GetCodecV2("proto")})))
	if err != nil {
		return nil, fmt.Errorf("fanout: %w", err)
	}
	ctx, cancel := context.WithCancel(ctx)
	node := &core.Node{Id: fmt.Sprintf("fake-%d", i), Cluster: o.Edge}
	p := &proxy{node: node, conn: conn, cancel: cancel, done: make(chan struct{})}
	p.str, err = discovery.NewAggregatedDiscoveryServiceClient(conn).DeltaAggregatedResources(ctx)
	requests := o.requests(i)
	requests[0].Node = node
	for _, req := range requests {
		if err == nil {
			err = p.str.Send(req)
		}
	}
	if err != nil {
		cancel()
		_ = conn.Close()
		return nil, fmt.Errorf("fanout: %w", err)
	}
	go func() {
		defer close(p.done)
		p.err = p.run(o, add)
	}()
	return p, nil
}

// health opens a stream of health discovery until ctx ends, and waits for what
// the proxy is asked to probe.
func (p *proxy) health(ctx context.Context) error {
	str, err := health.NewHealthDiscoveryServiceClient(p.conn).StreamHealthCheck(ctx)
	if err == nil {
		err = str.Send(&health.HealthCheckRequestOrEndpointHealthResponse{
			RequestType: &health.HealthCheckRequestOrEndpointHealthResponse_HealthCheckRequest{HealthCheckRequest: &health.HealthCheckRequest{Node: p.node}},
		})
	}
	if err == nil {
		_, err = str.Recv()
	}
	if err != nil {
		return fmt.Errorf("fanout: health: %w", err)
	}
	return nil
}

// requests are what a proxy says first. A node asks for a listener that there
// is none of, by which it is known to have all that it wants.
func (o Options) requests(i int) []*discovery.DeltaDiscoveryRequest {
	if o.Pools != nil {
		return []*discovery.DeltaDiscoveryRequest{
			{TypeUrl: string(xds.ClusterLoadAssignment), ResourceNamesSubscribe: o.Pools(i)},
			{TypeUrl: string(xds.Listener), ResourceNamesSubscribe: []string{"none"}},
		}
	}
	out := []*discovery.DeltaDiscoveryRequest{{TypeUrl: string(xds.Cluster)}, {TypeUrl: string(xds.Listener)}, {TypeUrl: string(xds.ScopedRoute)}}
	if len(o.Secrets) > 0 {
		out = append(out, &discovery.DeltaDiscoveryRequest{TypeUrl: string(xds.Secret), ResourceNamesSubscribe: o.Secrets})
	}
	return out
}

// run answers until the stream ends.
func (p *proxy) run(o Options, add func(*seen)) error {
	for {
		s := seen{watched: o.Name, all: o.Resource != nil}
		if err := p.str.RecvMsg(&s); err != nil {
			return err
		}
		if err := p.str.Send(&discovery.DeltaDiscoveryRequest{TypeUrl: s.typ, ResponseNonce: s.nonce}); err != nil {
			return err
		}
		next := follows[xds.TypeURL(s.typ)]
		if next != "" && len(s.names)+len(s.gone) > 0 {
			if err := p.str.Send(&discovery.DeltaDiscoveryRequest{
				TypeUrl: string(next), ResourceNamesSubscribe: s.names, ResourceNamesUnsubscribe: s.gone,
			}); err != nil {
				return err
			}
		}
		if s.hits > 0 && o.Seen != nil {
			o.Seen()
		}
		for _, r := range s.each {
			o.Resource(xds.TypeURL(s.typ), r.name, r.bytes)
		}
		add(&s)
	}
}

// seen is what a proxy needs of a response.
type seen struct {
	watched string // in: an assignment to look for
	all     bool   // in: whether each resource is told of

	typ, nonce                string
	bytes, resources, removed int
	names, gone               []string // of types that lead to others
	hits                      int
	each                      []told
}

// told is a resource that came, or with 0 bytes one that went.
type told struct {
	name  string
	bytes int
}

// raw reads only that, to leave the CPU to the server.
type raw struct{ encoding.CodecV2 }

// Unmarshal reads a DeltaDiscoveryResponse: resources (field 2), type_url (4),
// nonce (5) and removed_resources (6).
func (c raw) Unmarshal(data mem.BufferSlice, v any) error {
	s, ok := v.(*seen)
	if !ok {
		return c.CodecV2.Unmarshal(data, v)
	}
	b := data.Materialize()
	s.bytes = len(b)
	err := fields(b, func(field protowire.Number, value []byte) {
		switch field {
		case 2:
			s.resources++
		case 4:
			s.typ = string(value)
		case 5:
			s.nonce = string(value)
		case 6:
			s.removed++
		}
	})
	leads := follows[xds.TypeURL(s.typ)] != ""
	look := s.watched != "" && s.typ == string(xds.ClusterLoadAssignment)
	if err != nil || !leads && !look && !s.all {
		return err
	}
	return fields(b, func(field protowire.Number, value []byte) { s.name(field, value, leads) })
}

// name takes the name of a resource, or of one that was removed.
func (s *seen) name(field protowire.Number, value []byte, leads bool) {
	switch field {
	case 2: // Resource: name is field 3
		_ = fields(value, func(field protowire.Number, name []byte) {
			if field != 3 {
				return
			}
			if s.all {
				s.each = append(s.each, told{string(name), len(value)})
			}
			switch {
			case leads:
				s.names = append(s.names, string(name))
			case s.typ == string(xds.ClusterLoadAssignment) && string(name) == s.watched:
				s.hits++
			}
		})
	case 6:
		if s.all {
			s.each = append(s.each, told{string(value), 0})
		}
		if leads {
			s.gone = append(s.gone, string(value))
		}
	}
}

// fields calls f for the fields of a message that have a length.
func fields(b []byte, f func(protowire.Number, []byte)) error {
	for len(b) > 0 {
		field, typ, n := protowire.ConsumeTag(b)
		if n < 0 {
			return protowire.ParseError(n)
		}
		m := protowire.ConsumeFieldValue(field, typ, b[n:])
		if m < 0 {
			return protowire.ParseError(m)
		}
		if typ == protowire.BytesType {
			value, _ := protowire.ConsumeBytes(b[n:])
			f(field, value)
		}
		b = b[n+m:]
	}
	return nil
}
