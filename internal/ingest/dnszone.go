package ingest

import (
	"cmp"
	"net/netip"
	"slices"
	"strings"

	"github.com/spillway-dev/spillway/api/v1alpha1"
	"github.com/spillway-dev/spillway/internal/model"
)

// Defaults of a DNSZone, as its kind has them.
const (
	defaultTTL     = 5
	defaultRefresh = 7200
	defaultRetry   = 900
	defaultExpire  = 1209600
	defaultMinimum = 30
)

// DNSZone reads a DNSZone. One that has no usable domain, no name server, or a
// provider other than us gives no row.
func DNSZone(o *v1alpha1.DNSZone) (model.ZoneID, model.ZoneSpec, bool, model.Findings) {
	r := reportOf(object("DNSZone", o))
	id := model.ZoneID{Workspace: r.Object.Workspace, Namespace: o.Namespace, Name: o.Name}
	out := model.ZoneSpec{
		Origin:     origin("DNSZone", o),
		Generation: o.Generation,
		Domain:     model.Host(r.domain("spec.domain", o.Spec.Domain)),
		TTL:        uint32(r.count("spec.ttl", o.Spec.TTL, defaultTTL, 86400)),
		ServerTTL:  uint32(r.count("spec.nameServerTTL", o.Spec.NameServerTTL, model.DefaultServerTTL, 604800)),
		Namespaces: sortedSet(o.Spec.AllowedNamespaces),
		Delegates:  sortedSet(o.Spec.DelegatesTo),
	}
	if n := o.Spec.AnswersPerQuery; n != nil {
		out.Answers = int(r.count("spec.answersPerQuery", *n, 0, 16))
	}
	for i := range o.Spec.NameServers {
		r.nameServer(model.Field("spec.nameServers").Index(i), &o.Spec.NameServers[i], &out)
	}
	out.SOA = r.soa(&o.Spec.SOA, &out)
	ok := out.Domain != "" && len(out.NameServers) > 0
	if out.Domain != "" && len(out.NameServers) == 0 {
		r.invalid("spec.nameServers", "no usable name server is left: name at least one, with addresses if it is inside %s", out.Domain)
	}
	if p := o.Spec.Provider; p != "" && p != v1alpha1.DNSEmbedded {
		r.unsupported("spec.provider", "%q is not supported: use %s", p, v1alpha1.DNSEmbedded)
		ok = false
	}
	if !ok {
		out = model.ZoneSpec{}
	}
	return id, out, ok, r.Findings()
}

func sortedSet(in []string) []string {
	out := slices.Clone(in)
	slices.Sort(out)
	return slices.Compact(out)
}

// domain reads a DNS name; empty, with a finding, if it is none.
func (r *report) domain(field model.Field, d v1alpha1.DomainName) string {
	name := strings.ToLower(strings.TrimSuffix(string(d), "."))
	// Underscores are fine in DNS, not in host names.
	if err := dnsName(strings.ReplaceAll(name, "_", "x")); err != nil {
		r.invalid(field, "%q is not a DNS name: %v", d, err)
		return ""
	}
	return name
}

func (r *report) nameServer(field model.Field, s *v1alpha1.NameServer, out *model.ZoneSpec) {
	ns := model.NameServer{Host: model.Host(r.domain(field+".host", s.Host))}
	if ns.Host == "" {
		return
	}
	for i, a := range s.Addresses {
		ip, err := netip.ParseAddr(string(a))
		if err != nil || ip.Zone() != "" {
			r.invalid((field + ".addresses").Index(i), "%q is no IP address", a)
			continue
		}
		ns.Addresses = append(ns.Addresses, ip.Unmap())
	}
	slices.SortFunc(ns.Addresses, netip.Addr.Compare)
	ns.Addresses = slices.Compact(ns.Addresses)
	if len(ns.Addresses) == 0 && inside(ns.Host, out.Domain) {
		r.invalid(field, "%s is inside %s, so nobody can find it: add its addresses", ns.Host, out.Domain)
		return
	}
	same := func(x model.NameServer) bool { return x.Host == ns.Host }
	if slices.ContainsFunc(out.NameServers, same) {
		r.invalid(field+".host", "%s is listed twice: keep one", ns.Host)
		return
	}
	out.NameServers = append(out.NameServers, ns)
}

// inside reports whether a name is the domain or below it.
func inside(name, domain model.Host) bool {
	return name == domain || strings.HasSuffix(string(name), "."+string(domain))
}

func (r *report) soa(s *v1alpha1.SOA, zone *model.ZoneSpec) model.SOA {
	out := model.SOA{
		Refresh: r.seconds("spec.soa.refresh", s.Refresh, defaultRefresh),
		Retry:   r.seconds("spec.soa.retry", s.Retry, defaultRetry),
		Expire:  r.seconds("spec.soa.expire", s.Expire, defaultExpire),
		Minimum: uint32(r.count("spec.soa.minimum", s.Minimum, defaultMinimum, 86400)),
	}
	if s.MName != "" {
		out.MName = r.domain("spec.soa.mname", s.MName)
	}
	if s.RName != "" {
		out.RName = r.domain("spec.soa.rname", s.RName)
	}
	if out.MName == "" && len(zone.NameServers) > 0 {
		out.MName = string(zone.NameServers[0].Host)
	}
	out.RName = cmp.Or(out.RName, "hostmaster."+string(zone.Domain))
	return out
}

func (r *report) seconds(field model.Field, n, normal int32) uint32 {
	if n < 0 {
		r.invalid(field, "%d is not used: set seconds; %d until then", n, normal)
		return uint32(normal)
	}
	return uint32(cmp.Or(n, normal))
}
