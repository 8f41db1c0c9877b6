package ingest

import (
	"cmp"
	"slices"

	corev1 "k8s.io/api/core/v1"
	mcsv1beta1 "sigs.k8s.io/mcs-api/pkg/apis/v1beta1"

	"github.com/spillway-dev/spillway/internal/model"
)

// ServiceImport reads a ServiceImport of the hub: its ports. Its other fields are of
// what proxies do not use: addresses of its own and affinity to them.
func ServiceImport(o *mcsv1beta1.ServiceImport) (model.Object, model.ImportSpec, model.Findings) {
	r := reportOf(object(model.ImportKind, o))
	var out model.ImportSpec
	for i := range o.Spec.Ports {
		p := &o.Spec.Ports[i]
		field := model.Field("spec.ports").Index(i)
		port := model.ServicePort{Name: p.Name, Number: p.Port, Protocol: string(cmp.Or(p.Protocol, corev1.ProtocolTCP)), AppProtocol: otherwise(p.AppProtocol, "")}
		twin := slices.ContainsFunc(out.Ports, func(q model.ServicePort) bool {
			return q.Protocol == port.Protocol && (q.Number == port.Number || q.Name == port.Name)
		})
		switch {
		case p.Port < 1 || p.Port > 65535:
			r.invalid(field+".port", "%d is no port", p.Port)
		case twin:
			r.invalid(field, "port %q has the name or number of one before it, which counts", cmp.Or(p.Name, model.PortRef{Number: p.Port}.Written()))
		default:
			out.Ports = append(out.Ports, port)
		}
	}
	slices.SortFunc(out.Ports, model.ServicePort.Compare)
	return r.Object, out, r.Findings()
}

// ServiceExport reads a ServiceExport of a member.
func ServiceExport(member model.Member, o *mcsv1beta1.ServiceExport) (model.MemberService, model.Export) {
	return model.MemberService{Service: model.ServiceOf(o.Namespace, o.Name), Member: member}, model.Export{Created: created(o)}
}
