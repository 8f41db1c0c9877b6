package lab

import (
	"net/netip"

	"github.com/miekg/dns"
)

// The DNS server of the load balancers that have names, as a cloud's is.
const (
	namesHost = 254 // of ingressNet: no member's
	namesPort = 5353
	namesTTL  = 5 // seconds: as short as clouds have it
)

// NamesAddress is where the names of members' load balancers are resolved, on the host;
// invalid if none has a name.
func (s Spec) NamesAddress() netip.AddrPort {
	if len(s.names()) == 0 {
		return netip.AddrPort{}
	}
	return netip.AddrPortFrom(s.loopback(ingressNet, namesHost), namesPort)
}

// names are those of load balancers, and where they lead.
func (s Spec) names() map[string]netip.Addr {
	out := map[string]netip.Addr{}
	for _, m := range s.Members {
		if m.ContourName != "" {
			out[dns.Fqdn(m.ContourName)] = s.IngressAddress(m.Name)
		}
	}
	return out
}

// answerName answers a question for the address of a load balancer.
func answerName(names map[string]netip.Addr, q *dns.Msg) *dns.Msg {
	out := new(dns.Msg)
	if len(q.Question) != 1 {
		return out.SetRcode(q, dns.RcodeFormatError)
	}
	asked := q.Question[0]
	to, known := names[dns.CanonicalName(asked.Name)]
	if !known {
		return out.SetRcode(q, dns.RcodeNameError)
	}
	out.SetReply(q)
	out.Authoritative = true
	if asked.Qtype == dns.TypeA {
		out.Answer = []dns.RR{&dns.A{Hdr: dns.RR_Header{Name: asked.Name, Rrtype: dns.TypeA, Class: dns.ClassINET, Ttl: namesTTL}, A: to.AsSlice()}}
	}
	return out
}
