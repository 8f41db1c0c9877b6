package echo

import (
	"context"
	"encoding/json"
	"net/http"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/peer"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/structpb"
)

// EchoMethod takes a google.protobuf.Struct and answers with an Answer as a
// google.protobuf.Struct whose field "received" is the request in JSON.
const EchoMethod = "/spillway.lab.v1.Echo/Echo"

func (s *Server) grpcServer() *grpc.Server {
	srv := grpc.NewServer()
	srv.RegisterService(&grpc.ServiceDesc{
		ServiceName: "spillway.lab.v1.Echo",
		HandlerType: (*any)(nil),
		Methods:     []grpc.MethodDesc{{MethodName: "Echo", Handler: s.unary}},
	}, s)
	grpc_health_v1.RegisterHealthServer(srv, healthServer{s: s})
	return srv
}

func (s *Server) unary(_ any, ctx context.Context, decode func(any) error, _ grpc.UnaryServerInterceptor) (any, error) {
	in := new(structpb.Struct)
	if err := decode(in); err != nil {
		return nil, err
	}
	received, err := in.MarshalJSON()
	if err != nil {
		return nil, status.Error(codes.InvalidArgument, err.Error())
	}
	md, _ := metadata.FromIncomingContext(ctx)
	a := Answer{Identity: s.cfg.Identity, Protocol: "gRPC", Method: EchoMethod, Headers: map[string][]string{}, Received: string(received)}
	for k, v := range md {
		if k == ":authority" {
			a.Host = v[0]
			continue
		}
		a.Headers[http.CanonicalHeaderKey(k)] = v
	}
	if p, ok := peer.FromContext(ctx); ok {
		a.Remote = p.Addr.String()
	}
	b, err := json.Marshal(a)
	if err != nil {
		return nil, status.Error(codes.Internal, err.Error())
	}
	out := new(structpb.Struct)
	return out, out.UnmarshalJSON(b)
}

// healthServer is the standard health service over the same readiness.
type healthServer struct {
	grpc_health_v1.UnimplementedHealthServer
	s *Server
}

func (h healthServer) Check(context.Context, *grpc_health_v1.HealthCheckRequest) (*grpc_health_v1.HealthCheckResponse, error) {
	state := grpc_health_v1.HealthCheckResponse_SERVING
	if h.s.leaving.Load() {
		state = grpc_health_v1.HealthCheckResponse_NOT_SERVING
	}
	return &grpc_health_v1.HealthCheckResponse{Status: state}, nil
}
