package envoy

import (
	routev3 "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"

	"github.com/spillway-dev/spillway/internal/fleet"
	"github.com/spillway-dev/spillway/internal/model"
)

// HTTP and HTTPS of a class have one table, so that a rule for one of them has a route in
// front for the other. Whether a client speaks TLS is what X-Forwarded-Proto says: Envoy
// writes it as the connection is, unless a proxy in front is trusted, which then knows
// better. Whatever is not HTTPS is HTTP.

const forwardedProto = "x-forwarded-proto"

// ports are those that a host's redirects name; 0: the usual ones.
type ports struct {
	listener uint16 // of a front of a Gateway
	secure   uint16 // that clients are led to for HTTPS
}

// otherwiseAsked is the route of what is asked for otherwise than a rule lets it be; none:
// both ways are let in.
func otherwiseAsked(m model.Match, over model.Over, host model.Host, at ports) []*routev3.Route {
	reply, tls := &model.Reply{Status: 404}, false
	switch over {
	case model.Both:
		return nil
	case model.OnlyHTTP:
		tls = true
	case model.MovedToHTTPS:
		reply = fleet.Moved(at.secure)
	}
	out := answered(m, reply, host, at.listener)
	is := header(model.ValueMatch{Name: forwardedProto, Value: "https"})
	is.InvertMatch = !tls
	out.Match.Headers = append(out.Match.Headers, is)
	return []*routev3.Route{out}
}
