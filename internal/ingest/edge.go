package ingest

import (
	"maps"
	"math"
	"net/netip"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/spillway-dev/spillway/api/v1alpha1"
	"github.com/spillway-dev/spillway/internal/model"
)

// maxTrustedHops is the most that a client can be away by proxies that are trusted.
const maxTrustedHops = 16

// Edge reads an Edge. One whose name can't be carried by proxies gives no row.
func Edge(o *v1alpha1.Edge) (model.Edge, model.EdgeSpec, bool, model.Findings) {
	r := reportOf(object("Edge", o))
	if !r.label(o.Name) {
		return model.Edge(o.Name), model.EdgeSpec{}, false, r.Findings()
	}
	out := model.EdgeSpec{
		Generation: o.Generation,
		Labels:     maps.Clone(o.Labels),
		Place: model.Place{
			Region:  string(o.Spec.Locality.Region),
			Zone:    string(o.Spec.Locality.Zone),
			SubZone: string(o.Spec.Locality.SubZone),
		},
		Networks: networks(o.Spec.Networks),
		Drain:    o.Spec.Drain,
	}
	r.locate("spec.coordinates", o.Spec.Coordinates, &out.Place)
	for i, a := range o.Spec.Addresses {
		r.address(model.Field("spec.addresses").Index(i), a.Value, &out)
	}
	slices.SortFunc(out.Addresses, netip.Addr.Compare)
	slices.Sort(out.Hostnames)
	out.Addresses, out.Hostnames = slices.Compact(out.Addresses), slices.Compact(out.Hostnames)
	for i, a := range o.Spec.AddressPool {
		r.pool(model.Field("spec.addressPool").Index(i), a, &out)
	}
	slices.SortFunc(out.Pool, model.PoolEntry.Compare)
	if c := o.Spec.ClientIP; c != nil {
		if c.TrustedHops < 0 || c.TrustedHops > maxTrustedHops {
			r.invalid("spec.clientIP.trustedHops", "%d can't be: use 0 to %d; 0 until then", c.TrustedHops, maxTrustedHops)
		} else {
			out.TrustedHops = uint8(c.TrustedHops)
		}
	}
	if id := o.Spec.Identity; id != nil {
		for i, s := range id.SPIFFEIDs {
			if !strings.HasPrefix(string(s), "spiffe://") {
				r.invalid(model.Field("spec.identity.spiffeIDs").Index(i), "%q is no SPIFFE ID: it must begin with spiffe://", s)
				continue
			}
			out.Identities = append(out.Identities, string(s))
		}
		slices.Sort(out.Identities)
		out.Identities = slices.Compact(out.Identities)
	}
	return model.Edge(o.Name), out, true, r.Findings()
}

// address reads a public address of an edge: an IP address or a name.
func (r *report) address(field model.Field, s string, out *model.EdgeSpec) {
	if ip, err := netip.ParseAddr(s); err == nil {
		if !reachable(ip) {
			r.invalid(field+".value", "%q is no address a client can reach", s)
			return
		}
		out.Addresses = append(out.Addresses, ip.Unmap())
		return
	}
	name := strings.ToLower(s)
	if err := dnsName(name); err != nil {
		r.invalid(field+".value", "%q is neither an IP address nor a host name: %v", s, err)
		return
	}
	out.Hostnames = append(out.Hostnames, name)
}

// pool reads an address for one class alone. The first that has an address, or
// that proxies listen on, stays.
func (r *report) pool(field model.Field, a v1alpha1.PoolAddress, out *model.EdgeSpec) {
	public, ok := r.ip(field+".address", a.Address)
	if !ok {
		return
	}
	bind := public
	if a.BindAddress != "" {
		if bind, ok = r.ip(field+".bindAddress", a.BindAddress); !ok {
			return
		}
	}
	if bind.Is4() != public.Is4() {
		r.invalid(field+".bindAddress", "%s and %s are of different families: use two of one", bind, public)
		return
	}
	if slices.Contains(out.Addresses, public) {
		r.invalid(field+".address", "%s is in spec.addresses, which all classes share: take it out of one of both", public)
		return
	}
	if slices.ContainsFunc(out.Pool, func(b model.PoolEntry) bool { return b.Address == public || b.Bind == bind }) {
		r.invalid(field, "another one of the pool has %s or listens on %s: each can be there once", public, bind)
		return
	}
	if !validScope(a.Routability) {
		r.invalid(field+".routability", "%q is no routability: use Cluster, or a name such as example.com/vpc whose domain is not of k8s.io", a.Routability)
		return
	}
	out.Pool = append(out.Pool, model.PoolEntry{
		PoolAddress: model.PoolAddress{Address: public, Bind: bind},
		OnRequest:   a.AutoAssign != nil && !*a.AutoAssign,
		Scope:       a.Routability,
	})
}

// validScope reports whether an address can have a routability (GEP-5093, "Routability
// Field").
func validScope(s string) bool {
	domain, path, prefixed := strings.Cut(s, "/")
	if !prefixed {
		return s == "" || s == model.ClusterScope
	}
	reserved := domain == "k8s.io" || strings.HasSuffix(domain, ".k8s.io")
	return path != "" && !reserved && len(s) <= 253 && len(validation.IsDNS1123Subdomain(domain)) == 0
}

// reachable reports whether a client can have an address to go to.
func reachable(ip netip.Addr) bool {
	return ip.Zone() == "" && !ip.IsUnspecified() && !ip.IsMulticast()
}

// ip reads an IP address that a client can reach.
func (r *report) ip(field model.Field, s string) (netip.Addr, bool) {
	ip, err := netip.ParseAddr(s)
	if err != nil || !reachable(ip) {
		r.invalid(field, "%q is no address a client can reach: use an IPv4 or IPv6 address without port", s)
		return ip, false
	}
	return ip.Unmap(), true
}

// label checks a name that becomes part of localities and resource names.
func (r *report) label(name string) bool {
	problems := validation.IsDNS1123Label(name)
	if len(problems) > 0 {
		r.invalid("metadata.name", "%q can't be used: %s", name, because(problems))
	}
	return len(problems) == 0
}

// locate adds coordinates to a place.
func (r *report) locate(field model.Field, c *v1alpha1.Coordinates, p *model.Place) {
	if c == nil {
		return
	}
	// Negated, so that a number that is none fails too.
	if !(math.Abs(c.Latitude) <= 90 && math.Abs(c.Longitude) <= 180) {
		r.invalid(field, "%v, %v is no place on earth: latitude is -90 to 90, longitude -180 to 180", c.Latitude, c.Longitude)
		return
	}
	p.Latitude, p.Longitude, p.Located = c.Latitude, c.Longitude, true
}

// networks are names, sorted, the default network if there are none.
func networks(names []v1alpha1.NetworkName) []string {
	if len(names) == 0 {
		return []string{v1alpha1.DefaultNetwork}
	}
	out := make([]string, len(names))
	for i, n := range names {
		out[i] = string(n)
	}
	slices.Sort(out)
	return slices.Compact(out)
}
