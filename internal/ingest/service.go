package ingest

import (
	"cmp"
	"net/netip"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/spillway-dev/spillway/internal/model"
)

// Service reads a Service of a member. An ExternalName that is not served has no
// name in its row.
func Service(member model.Member, o *corev1.Service) (model.MemberService, model.ServiceSpec, bool, model.Findings) {
	id := model.MemberService{Service: model.ServiceOf(o.Namespace, o.Name), Member: member}
	out := model.ServiceSpec{}
	r := reportOf(model.Object{Member: member, Kind: "Service", Namespace: o.Namespace, Name: o.Name})
	switch {
	case o.Spec.Type == corev1.ServiceTypeExternalName:
		out.Kind, out.External = model.ServiceExternal, r.externalName(o.Spec.ExternalName)
	case o.Spec.ClusterIP == corev1.ClusterIPNone:
		out.Kind = model.ServiceHeadless
	}
	for i := range o.Spec.Ports {
		p := &o.Spec.Ports[i]
		port := model.ServicePort{Name: p.Name, Number: p.Port, Protocol: string(cmp.Or(p.Protocol, corev1.ProtocolTCP))}
		if p.AppProtocol != nil {
			port.AppProtocol = *p.AppProtocol
		}
		out.Ports = append(out.Ports, port)
	}
	slices.SortStableFunc(out.Ports, model.ServicePort.Compare)
	return id, out, true, r.Findings()
}

// externalName reads the name of an ExternalName, empty if it can't be served.
func (r *report) externalName(s string) string {
	const field = "spec.externalName"
	name := strings.ToLower(strings.TrimSuffix(s, "."))
	labels := strings.Split(name, ".")
	last := labels[len(labels)-1]
	_, err := netip.ParseAddr(name)
	switch {
	case err == nil || numeric(last):
		r.invalid(field, "%q is an IP address: use a Service without a selector and an EndpointSlice", s)
	case last == "localhost":
		r.invalid(field, "%q is the proxy's own machine (RFC 6761, 6.3): use a name that is in DNS", s)
	case dnsName(name) != nil:
		r.invalid(field, "%q is not a DNS name", s)
	default:
		return name
	}
	return ""
}

// numeric reports whether the last label of a name makes it an IPv4 address to
// resolvers: 127.1, 2130706433 and 0x7f.1 are 127.0.0.1 (inet_aton(3); URL
// Standard, "ends in a number"). No top-level domain is a number (RFC 3696, 2).
func numeric(label string) bool {
	if digits, hex := strings.CutPrefix(label, "0x"); hex {
		return strings.Trim(digits, "0123456789abcdef") == ""
	}
	return label != "" && strings.Trim(label, "0123456789") == ""
}
