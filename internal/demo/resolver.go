package demo

import (
	"context"
	"fmt"
	"maps"
	"net"
	"net/netip"
	"os"
	"slices"

	"github.com/miekg/dns"
)

// Where clients are, as the places file tells the DNS server. The networks are
// those set aside for documentation (RFC 5737).
var clients = map[string]client{
	"eu": {netip.MustParsePrefix("192.0.2.0/24"), "eu eu-a 50.11 8.68"},
	"us": {netip.MustParsePrefix("198.51.100.0/24"), "us us-b 40.71 -74.01"},
}

// client is where somebody is who asks DNS.
type client struct {
	subnet netip.Prefix
	place  string
}

// writePlaces writes the file for `spillway serve --places`.
func writePlaces(path string, clients map[string]client) error {
	text := "# network, region, zone, latitude, longitude\n"
	for _, name := range slices.Sorted(maps.Keys(clients)) {
		text += clients[name].subnet.String() + " " + clients[name].place + "\n"
	}
	return os.WriteFile(path, []byte(text), 0o644)
}

// resolve asks our DNS server for the addresses of a host, as a resolver that
// tells its client's subnet (RFC 7871). The order is that of the answer.
func resolve(ctx context.Context, server, host string, client netip.Prefix) ([]netip.Addr, error) {
	q := new(dns.Msg)
	q.SetQuestion(dns.Fqdn(host), dns.TypeA)
	q.RecursionDesired = false
	opt := &dns.OPT{Hdr: dns.RR_Header{Name: ".", Rrtype: dns.TypeOPT}}
	opt.SetUDPSize(1232)
	opt.Option = append(opt.Option, &dns.EDNS0_SUBNET{
		Code: dns.EDNS0SUBNET, Family: 1, SourceNetmask: uint8(client.Bits()), Address: net.IP(client.Addr().AsSlice()),
	})
	q.Extra = append(q.Extra, opt)
	c := &dns.Client{Net: "udp", Timeout: askTimeout}
	reply, _, err := c.ExchangeContext(ctx, q, server)
	if err != nil {
		return nil, fmt.Errorf("DNS: %w", err)
	}
	if reply.Rcode != dns.RcodeSuccess {
		return nil, fmt.Errorf("DNS answers %s for %s", dns.RcodeToString[reply.Rcode], host)
	}
	var out []netip.Addr
	for _, rr := range reply.Answer {
		if a, ok := rr.(*dns.A); ok {
			if addr, ok := netip.AddrFromSlice(a.A.To4()); ok {
				out = append(out, addr)
			}
		}
	}
	return out, nil
}
