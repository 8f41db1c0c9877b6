package app

import (
	"maps"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/spillway-dev/spillway/internal/cluster"
	"github.com/spillway-dev/spillway/internal/ingest"
	"github.com/spillway-dev/spillway/internal/model"
	"github.com/spillway-dev/spillway/internal/syncer"
)

// leafKinds are the kinds of roots that have leaves, which are of the same kind, and how
// members call them.
var leafKinds = map[string]schema.GroupVersionResource{
	"Ingress":             {Group: "networking.k8s.io", Version: "v1", Resource: "ingresses"},
	model.GatewayKind:     gatewayResource("gateways"),
	model.ListenerSetKind: gatewayResource("listenersets"),
	"HTTPRoute":           gatewayResource("httproutes"),
	"GRPCRoute":           gatewayResource("grpcroutes"),
	"TLSRoute":            gatewayResource("tlsroutes"),
	"TCPRoute":            gatewayResource("tcproutes"),
	"UDPRoute":            gatewayResource("udproutes"),
	"ReferenceGrant":      gatewayResource("referencegrants"),
	"BackendTLSPolicy":    gatewayResource("backendtlspolicies"),
	model.OpenShiftRoute:  {Group: "route.openshift.io", Version: "v1", Resource: "routes"},
}

// leafClaims are the kinds by which others in a member may ask for hosts of leaves.
var leafClaims = map[schema.GroupVersionResource]syncer.Claims{
	leafKinds["Ingress"]:             {Of: ingest.IngressAsking, Among: "Ingress", At: true},
	leafKinds[model.GatewayKind]:     {Of: ingest.GatewayAsking, Among: "routes", Fronts: model.GatewayKind, At: true},
	leafKinds[model.ListenerSetKind]: {Of: ingest.ListenerSetAsking, Among: "routes", Fronts: model.ListenerSetKind, At: true},
	leafKinds["HTTPRoute"]:           {Of: ingest.RouteAsking, Among: "routes", At: true},
	leafKinds["GRPCRoute"]:           {Of: ingest.RouteAsking, Among: "routes", At: true},
	leafKinds["TLSRoute"]:            {Of: ingest.TLSRouteAsking, Among: "routes", At: true},
	leafKinds[model.OpenShiftRoute]:  {Of: ingest.OpenShiftAsking, Among: "routes of OpenShift"},
}

// claimsOf are claims as rows have them.
func claimsOf(all []model.LeafClaim) model.Texts {
	out := make([]string, len(all))
	for i, c := range all {
		out[i] = c.Text()
	}
	return model.TextsOf(out)
}

// LeafResources are what members call the kinds of leaves, sorted.
func LeafResources() []schema.GroupVersionResource {
	return slices.SortedFunc(maps.Values(leafKinds), func(a, b schema.GroupVersionResource) int { return strings.Compare(a.String(), b.String()) })
}

func gatewayResource(plural string) schema.GroupVersionResource {
	return schema.GroupVersionResource{Group: model.GatewayGroup, Version: "v1", Resource: plural}
}

// Members are asked for leaves of these kinds where there is a class, since some may be
// left behind. Those of other kinds, which many members do not know, are looked for in
// members that should have some, or had. Ingresses may ask for hosts of routes.
var (
	kindsOfIngressClasses = []string{"Ingress"}
	kindsOfGatewayClasses = []string{"Ingress", model.GatewayKind, model.ListenerSetKind, "HTTPRoute", "GRPCRoute"}
)

// met notes that a member should have a leaf of a kind, or has one.
func (l *leaves) met(k model.LeafID) {
	of := l.kinds[k.Member]
	if of == nil {
		of = map[string]bool{}
		l.kinds[k.Member] = of
	}
	if !of[k.Root.Kind] {
		of[k.Root.Kind] = true
		l.changed = true
	}
}

// kindsOf are the kinds of which a member may have leaves, sorted.
func (l *leaves) kindsOf(m model.Member) []string {
	all := slices.AppendSeq(l.foundIn(m), maps.Keys(l.kinds[m]))
	if l.ingresses() {
		all = append(all, kindsOfIngressClasses...)
	}
	if len(l.gateway.Classes) > 0 {
		all = append(all, kindsOfGatewayClasses...)
	}
	if spec, _ := l.p.In.Members.Get(nil, m); !l.served() || spec.Leaving || l.mourned(m) { // what is left there may be of any kind
		all = slices.AppendSeq(all, maps.Keys(leafKinds))
	}
	slices.Sort(all)
	return slices.Compact(all)
}

// ingresses reports whether members serve an IngressClass.
func (l *leaves) ingresses() bool {
	return slices.ContainsFunc(l.p.Leafy.Keys(), func(c model.Class) bool { return !c.OfGateway() })
}

// served reports whether members serve a class of any kind.
func (l *leaves) served() bool { return l.p.Leafy.Len() > 0 || len(l.gateway.Classes) > 0 }

// has reports whether a run knows of the leaves of some kinds.
func (r *leafRun) has(kinds []string) bool {
	return !slices.ContainsFunc(kinds, func(k string) bool { return !slices.Contains(r.kinds, k) })
}

// resources are what members call the kinds of a run.
func (r *leafRun) resources() []schema.GroupVersionResource {
	out := make([]schema.GroupVersionResource, 0, len(r.kinds))
	for _, k := range r.kinds {
		if of, known := leafKinds[k]; known {
			out = append(out, of)
		}
	}
	return out
}

// findGateways finds the Gateways that members serve.
func (l *leaves) findGateways() {
	now := cluster.LeafyGateways{Classes: map[model.GatewayClass]bool{}, Gateways: map[model.GatewayID]bool{}, Sets: map[model.Object]bool{}}
	for _, c := range l.p.In.GatewayClasses.Keys() {
		spec, _ := l.p.In.GatewayClasses.Get(nil, c)
		if config, _ := l.p.In.Configs.Get(nil, spec.Config); config.Leaf != nil {
			now.Classes[c] = true
		}
	}
	if len(now.Classes) > 0 {
		for _, id := range l.p.Gateways.Keys() {
			if row, _ := l.p.Gateways.Get(nil, id); row.Own().Leaf {
				now.Gateways[id] = true
				for _, p := range row.Parts[1:] {
					now.Sets[p.Object] = true
				}
			}
		}
	}
	l.changed = l.changed || !maps.Equal(now.Classes, l.gateway.Classes)
	l.gateway = now
	l.gates(now)
}
