package ingest

import (
	"cmp"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/spillway-dev/spillway/internal/model"
)

// Service reads a Service of a member. An ExternalName that is no DNS name
// gives no row.
func Service(member model.Member, o *corev1.Service) (model.MemberService, model.ServiceSpec, bool, model.Findings) {
	id := model.MemberService{Service: model.Service{Namespace: o.Namespace, Name: o.Name}, Member: member}
	out := model.ServiceSpec{}
	switch {
	case o.Spec.Type == corev1.ServiceTypeExternalName:
		name := strings.ToLower(strings.TrimSuffix(o.Spec.ExternalName, "."))
		if _, err := host(name); err != nil || name == "" || strings.Contains(name, "*") {
			r := report{object: model.Object{Member: member, Kind: "Service", Namespace: o.Namespace, Name: o.Name}}
			r.invalid("spec.externalName", "%q is not a DNS name", o.Spec.ExternalName)
			return id, out, false, r.findings()
		}
		out.Kind, out.External = model.ServiceExternal, name
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
	slices.SortStableFunc(out.Ports, func(a, b model.ServicePort) int {
		return cmp.Or(cmp.Compare(a.Number, b.Number), strings.Compare(a.Protocol, b.Protocol), strings.Compare(a.Name, b.Name))
	})
	return id, out, true, nil
}
