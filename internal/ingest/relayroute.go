package ingest

import (
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"

	"github.com/spillway-dev/spillway/internal/model"
)

// TLSRoute reads a TLSRoute as HTTPRoute does an HTTPRoute. Its rule is for all
// connections for one of its names.
func TLSRoute(o *gatewayv1.TLSRoute) (model.Object, model.Root, []HostRules, model.Findings) {
	in := routeOf("TLSRoute", o, o.Spec.ParentRefs)
	hosts := in.hosts(o.Spec.Hostnames)
	var rules model.Rules
	for i, r := range o.Spec.Rules {
		rules = append(rules, in.relay(i, r.Name, r.BackendRefs, model.Connections))
	}
	return in.read(o, o.Status.Parents, len(o.Spec.Rules), hosts, rules)
}

// TCPRoute reads a TCPRoute, which has no names: its rule is for all connections of a
// port.
func TCPRoute(o *gatewayv1.TCPRoute) (model.Object, model.Root, []HostRules, model.Findings) {
	in := routeOf("TCPRoute", o, o.Spec.ParentRefs)
	var rules model.Rules
	for i, r := range o.Spec.Rules {
		rules = append(rules, in.relay(i, r.Name, r.BackendRefs, model.Connections))
	}
	return in.read(o, o.Status.Parents, len(o.Spec.Rules), in.hosts(nil), rules)
}

// UDPRoute reads a UDPRoute, whose rule is for all datagrams of a port.
func UDPRoute(o *gatewayv1.UDPRoute) (model.Object, model.Root, []HostRules, model.Findings) {
	in := routeOf("UDPRoute", o, o.Spec.ParentRefs)
	var rules model.Rules
	for i, r := range o.Spec.Rules {
		rules = append(rules, in.relay(i, r.Name, r.BackendRefs, model.Datagrams))
	}
	return in.read(o, o.Status.Parents, len(o.Spec.Rules), in.hosts(nil), rules)
}

// relay reads a rule that matches everything, so that of several the first has it.
func (in *route) relay(n int, name *gatewayv1.SectionName, refs []gatewayv1.BackendRef, what model.Traffic) model.Rule {
	field := model.Field("spec.rules").Index(n)
	out := model.Rule{Name: otherwise(name, ""), Field: field, Matches: []model.Match{model.Everything}}
	for i, ref := range refs {
		b := model.WeightedBackend{Backend: in.backend((field + ".backendRefs").Index(i), ref.BackendObjectReference), Weight: weightOf(ref)}
		if k := b.Backend.Key(); k != (model.BackendKey{}) {
			k.Port.For = what
			b.Backend = k.Backend()
		}
		out.Backends = append(out.Backends, b)
	}
	return out
}

// weightOf is the part of a backend; missing, it is 1.
func weightOf(ref gatewayv1.BackendRef) uint32 {
	if ref.Weight == nil {
		return 1
	}
	return uint32(max(*ref.Weight, 0))
}
