package xds

import (
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"net/url"
	"strings"

	core "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/peer"
)

// identify returns the data plane that a stream's first request speaks for, and
// how it proved that, or a gRPC status if it may not. class is what the method
// that was called is for.
func (s *Server) identify(ctx context.Context, at *Endpoint, node *core.Node, class Class) (Proxy, *credential, error) {
	p := Proxy{Edge: clipped(node.GetCluster(), maxNode), Node: clipped(node.GetId(), maxNode), Class: class}
	if p.Edge == "" || p.Node == "" {
		return p, nil, s.refuse(p, codes.InvalidArgument, "no_node", "the first request must name node.cluster (the Edge) and node.id")
	}
	pr, ok := peer.FromContext(ctx)
	if !ok {
		return p, nil, s.refuse(p, codes.Unauthenticated, "no_peer", "the connection has no peer")
	}
	auth, ok := pr.AuthInfo.(credentials.TLSInfo)
	if !ok {
		return p, nil, nil // a unix socket of ours, or loopback by the user's choice
	}
	if len(auth.State.PeerCertificates) == 0 {
		return p, nil, s.refuse(p, codes.Unauthenticated, "no_certificate", "the client sent no certificate")
	}
	id, err := spiffeID(auth.State.PeerCertificates[0])
	if err != nil {
		return p, nil, s.refuse(p, codes.PermissionDenied, "identity", err.Error()+paths[class]+"<name>")
	}
	if message := s.mismatch(id, p); message != "" {
		return p, nil, s.refuse(p, codes.PermissionDenied, "identity", message)
	}
	now := s.cfg.Now()
	return p, &credential{
		id: id.String(), chain: auth.State.PeerCertificates, until: validUntil(auth.State.VerifiedChains), cas: at.clientCAs, verified: now,
	}, nil
}

// paths are those of SPIFFE IDs, before the name of an Edge.
var paths = map[Class]string{Envoy: "/edge/", GRPC: "/grpc/"}

// mismatch tells why a SPIFFE ID may not speak for a data plane; empty if it may.
func (s *Server) mismatch(id *url.URL, p Proxy) string {
	name, ok := strings.CutPrefix(id.Path, paths[p.Class])
	switch {
	case s.cfg.TrustDomain != "" && id.Host != s.cfg.TrustDomain:
		return fmt.Sprintf("the certificate is for %s, which is not of the trust domain %s", id, s.cfg.TrustDomain)
	case !ok && p.Class == GRPC:
		return fmt.Sprintf("the certificate is for %s, which is no gRPC client: use a certificate for spiffe://%s/grpc/%s; for Envoy, set api_type: DELTA_GRPC in dynamic_resources.ads_config",
			id, id.Host, p.Edge)
	case !ok || name != p.Edge:
		return fmt.Sprintf("the certificate is for %s but node.cluster is %q: use a certificate for spiffe://%s%s%s, or set node.cluster to the edge of the certificate",
			id, p.Edge, id.Host, paths[p.Class], p.Edge)
	case s.cfg.Allow != nil && !s.cfg.Allow(p.Edge, id.String()):
		return notListed(p, id.String())
	}
	return ""
}

func notListed(p Proxy, id string) string {
	return fmt.Sprintf("the Edge %q does not list the identity %s in spec.identity.spiffeIDs", p.Edge, id)
}

// spiffeID returns the one URI SAN of a certificate. Source: SPIFFE X.509-SVID,
// section 2: exactly one URI SAN, with scheme spiffe.
func spiffeID(c *x509.Certificate) (*url.URL, error) {
	if len(c.URIs) != 1 || c.URIs[0].Scheme != "spiffe" || c.URIs[0].Host == "" {
		return nil, errors.New("the client's certificate must have exactly one URI name, spiffe://<trust domain>")
	}
	return c.URIs[0], nil
}
