package xds

import (
	"crypto/x509"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// verifyEvery is how often the client CA is asked about the certificate of an
// open stream, when nothing else happens.
const verifyEvery = time.Minute

// credential is how the client of an open stream proved who it is. A nil one is
// that of a socket of ours, or of loopback by the user's choice: it never ends.
type credential struct {
	id       string              // the SPIFFE ID
	chain    []*x509.Certificate // as the client sent it, its own first
	until    time.Time           // from then on no chain that was verified is valid
	cas      func() *x509.CertPool
	by       *x509.CertPool // those that vouched for it
	verified time.Time
}

// identity is what the client proved to be: its SPIFFE ID, or where we ask for
// no proof the Edge that it speaks for.
func (c *credential) identity(p Proxy) string {
	if c == nil {
		return p.Edge
	}
	return c.id
}

// next is when a stream with this credential is to be rechecked; zero: never.
func (c *credential) next() time.Time {
	if c == nil {
		return time.Time{}
	}
	if next := c.verified.Add(verifyEvery); next.Before(c.until) {
		return next
	}
	return c.until
}

func (c *credential) due(now time.Time) bool { return c != nil && !now.Before(c.next()) }

// verify asks the client CAs again, if they changed.
func (c *credential) verify(now time.Time) error {
	c.verified = now
	pool := c.cas()
	if pool == nil || pool == c.by {
		return nil
	}
	rest := x509.NewCertPool()
	for _, more := range c.chain[1:] {
		rest.AddCert(more)
	}
	chains, err := c.chain[0].Verify(x509.VerifyOptions{
		Roots: pool, Intermediates: rest, CurrentTime: now, KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
	})
	if err != nil {
		return err
	}
	c.by, c.until = pool, validUntil(chains)
	return nil
}

// validUntil is when the last of the chains ends: each with the first of its
// certificates.
func validUntil(chains [][]*x509.Certificate) (last time.Time) {
	for _, chain := range chains {
		first := chain[0].NotAfter
		for _, c := range chain {
			if c.NotAfter.Before(first) {
				first = c.NotAfter
			}
		}
		if first.After(last) {
			last = first
		}
	}
	return last
}

// permits tells whether a stream may be sent something now. It is asked for
// each response, after what it is made of was read: whatever the loop publishes
// with a revocation or after it, the stream is not sent.
func (s *Server) permits(p Proxy, c *credential, now time.Time) (reason string, err error) {
	if _, there := s.viewOf(p); !there {
		return edgeGone(p)
	}
	return s.allows(p, c, now)
}

func edgeGone(p Proxy) (reason string, err error) {
	return reasonEdgeGone, status.Errorf(codes.NotFound, "the Edge %q was deleted", p.Edge)
}

// allows tells whether a credential is still good for a data plane.
func (s *Server) allows(p Proxy, c *credential, now time.Time) (reason string, err error) {
	switch {
	case c == nil:
	case !now.Before(c.until):
		return reasonExpired, status.Errorf(codes.Unauthenticated, "the client's certificate has expired: it was valid until %s", c.until.UTC().Format(time.RFC3339))
	case s.cfg.Allow != nil && !s.cfg.Allow(p.Edge, c.id):
		return reasonRevoked, status.Error(codes.PermissionDenied, notListed(p, c.id))
	}
	return "", nil
}

// recheck is the same, and asks the client CAs, too.
func (s *Server) recheck(p Proxy, c *credential, now time.Time) (reason string, err error) {
	if c != nil && now.Before(c.until) {
		if err := c.verify(now); err != nil {
			return reasonRevoked, status.Errorf(codes.Unauthenticated, "the client CA does not vouch for the client's certificate any more: %v", err)
		}
	}
	return s.allows(p, c, now)
}
