package xds

import (
	"time"

	core "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	discovery "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
)

// face is how a stream talks to its session: the Session itself, or the World
// in front of it. Its methods are called holding the lock of the session's view.
type face interface {
	Put(r Request) // needs no lock
	Take(now time.Time, room int) (more bool, err error)
	Ready(now time.Time) []Response
	session() *Session
}

func faceFor(c Class, l Limits) face {
	if c == GRPC {
		return NewWorld(l)
	}
	return delta{NewSession(l)}
}

type delta struct{ *Session }

func (d delta) session() *Session { return d.Session }

func (w *World) session() *Session { return w.base }

// noun is what a data plane is called in the log.
func (c Class) noun() string {
	if c == GRPC {
		return "grpc client"
	}
	return "proxy"
}

// message is what a client says: in its first, who it is.
type message struct {
	Request
	node *core.Node
}

func deltaRequest(r *discovery.DeltaDiscoveryRequest) message {
	return message{Request{
		Type: TypeURL(r.GetTypeUrl()), Subscribe: r.GetResourceNamesSubscribe(), Unsubscribe: r.GetResourceNamesUnsubscribe(),
		Initial: r.GetInitialResourceVersions(), Nonce: r.GetResponseNonce(),
		Rejected: r.GetErrorDetail() != nil, Error: clipped(r.GetErrorDetail().GetMessage(), maxWords),
	}, r.GetNode()}
}

func worldRequest(r *discovery.DiscoveryRequest) message {
	return message{Request{
		Type: TypeURL(r.GetTypeUrl()), Names: r.GetResourceNames(), Version: r.GetVersionInfo(), Nonce: r.GetResponseNonce(),
		Rejected: r.GetErrorDetail() != nil, Error: r.GetErrorDetail().GetMessage(),
	}, r.GetNode()}
}
