package example

import (
	"context"
	"net"

	"google.golang.org/genproto/googleapis/rpc/code"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/structpb"
)

// grpc makes a call on a connection of its own.
func (a *asker) grpc(ctx context.Context, e Expectation) (reply, error) {
	host, port, method, secure, err := target(e.URL)
	if err != nil {
		return reply{}, err
	}
	as := insecure.NewCredentials()
	if secure {
		conf, err := a.tls(e, host)
		if err != nil {
			return reply{}, err
		}
		as = credentials.NewTLS(conf)
	}
	c, err := grpc.NewClient("passthrough:///"+net.JoinHostPort(a.Address, port), grpc.WithTransportCredentials(as), grpc.WithAuthority(host))
	if err != nil {
		return reply{}, err
	}
	defer func() { _ = c.Close() }()
	out := new(structpb.Struct)
	failed := status.Convert(c.Invoke(ctx, method, new(structpb.Struct), out))
	if failed.Code() != codes.OK {
		return reply{status: code.Code(failed.Code()).String(), body: []byte(failed.Message())}, nil
	}
	body, err := out.MarshalJSON()
	return reply{status: code.Code_OK.String(), body: body}, err
}
