package demo

import (
	"context"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"time"

	"github.com/spillway-dev/spillway/internal/lab/user"
)

// leafClients are clients near each member.
var leafClients = map[string]client{
	leafCut:   {netip.MustParsePrefix("192.0.2.0/24"), "eu eu-a 50.11 8.68"},
	leafNamed: {netip.MustParsePrefix("198.51.100.0/24"), "us us-a 39.04 -77.49"},
	leafApart: {netip.MustParsePrefix("203.0.113.0/24"), "ap ap-a 1.35 103.82"},
}

// leafDNS is what DNS tells a client near a member.
func (f *fleet) leafDNS(ctx context.Context, member string) ([]netip.Addr, error) {
	return resolve(ctx, f.opts.dns(), leafHost, leafClients[member].subnet)
}

// leafDNSNear is nil when clients near each member are sent to it first, and a pod there
// answers them.
func (f *fleet) leafDNSNear(ctx context.Context) error {
	for _, m := range leafMembers {
		got, err := f.leafDNS(ctx, m)
		if err != nil {
			return err
		}
		if want := f.lab.IngressAddress(m); len(got) == 0 || got[0] != want {
			return fmt.Errorf("DNS sends clients near %s to %v, not to %s", m, got, want)
		}
		at := user.NewEdge(m, got[0], 8080, 8443, nil)
		a, err := ask(ctx, at, "http://"+leafHost+"/")
		at.Close()
		if err != nil {
			return fmt.Errorf("%s: %w", got[0], err)
		}
		if a.Member != m {
			return fmt.Errorf("%s is answered by %s", got[0], a.Member)
		}
	}
	return nil
}

// dnsLeft is nil when no client is sent to the member that is cut, and all to another one.
func (f *fleet) dnsLeft(ctx context.Context) error {
	for _, m := range leafMembers {
		got, err := f.leafDNS(ctx, m)
		if err != nil {
			return err
		}
		if len(got) == 0 || slices.Contains(got, f.lab.IngressAddress(leafCut)) {
			return fmt.Errorf("DNS sends clients near %s to %v", m, got)
		}
	}
	return nil
}

// dnsForgot is nil when there is no such host.
func (f *fleet) dnsForgot(ctx context.Context) error {
	got, err := f.leafDNS(ctx, leafCut)
	switch {
	case err == nil:
		return fmt.Errorf("DNS says %v", got)
	case strings.Contains(err.Error(), "NXDOMAIN"):
		return nil
	}
	return err
}

// tellLeafDNS asks as clients do that know nothing but the host.
func tellLeafDNS(ctx context.Context, f *fleet, s *scene) error {
	began := time.Now()
	if err := f.await(ctx, "DNS to send all clients to the near member", f.leafDNSNear); err != nil {
		return err
	}
	s.ms("dns_ms", time.Since(began))
	s.set("requests", int64(len(leafMembers)))
	s.set("failed", 0)
	s.say("DNS sends clients in each region to the member there, where a pod answers")
	return nil
}
