package xds

import (
	"time"

	core "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	discovery "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
)

// Face is how a stream talks to its session: the Session itself, for Envoy, or
// what stands in front of it for another kind of client. Its methods are called
// holding the store of the session.
type Face interface {
	Put(r Request) // needs no lock
	Take(now time.Time, room int) (more bool, err error)
	Ready(now time.Time) []Response
	Base() *Session
}

// Base is the session, which is its own face.
func (s *Session) Base() *Session { return s }

func (s *Server) faceFor(c Class) Face {
	if c == GRPC {
		return s.cfg.ClientFace(s.cfg.Limits)
	}
	return NewSession(s.cfg.Limits)
}

// noun is what a data plane is called in the log.
func (c Class) noun() string {
	if c == GRPC {
		return "grpc client"
	}
	return "proxy"
}

// message is what a client says: in its first, who it is. It is handed on by
// pointer: on the stack of a handler, which waits for most of its life, it would
// double that (8 KB a stream).
type message struct {
	Request
	node *core.Node
}

func deltaRequest(r *discovery.DeltaDiscoveryRequest) *message {
	return &message{Request{
		Type: TypeURL(r.GetTypeUrl()), Subscribe: r.GetResourceNamesSubscribe(), Unsubscribe: r.GetResourceNamesUnsubscribe(),
		Initial: r.GetInitialResourceVersions(), Nonce: r.GetResponseNonce(),
		Rejected: r.GetErrorDetail() != nil, Error: r.GetErrorDetail().GetMessage(),
	}, r.GetNode()}
}

func worldRequest(r *discovery.DiscoveryRequest) *message {
	return &message{Request{
		Type: TypeURL(r.GetTypeUrl()), Names: r.GetResourceNames(), Version: r.GetVersionInfo(), Nonce: r.GetResponseNonce(),
		Rejected: r.GetErrorDetail() != nil, Error: r.GetErrorDetail().GetMessage(),
	}, r.GetNode()}
}
