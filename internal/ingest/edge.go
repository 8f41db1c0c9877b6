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
		if ip.Zone() != "" || ip.IsUnspecified() || ip.IsMulticast() {
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
