package cluster

import (
	"maps"
	"slices"
	"sync/atomic"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/spillway-dev/spillway/internal/fleet"
	"github.com/spillway-dev/spillway/internal/ingest"
	"github.com/spillway-dev/spillway/internal/model"
)

// LeafyGateways are the Gateways that controllers of members serve: all is kept of them,
// of routes that name one, or a ListenerSet of one, and of ListenerSets, ReferenceGrants
// and BackendTLSPolicies, which are few.
type LeafyGateways struct {
	Classes  map[model.GatewayClass]bool
	Gateways map[model.GatewayID]bool
	Sets     map[model.Object]bool // ListenerSets of these
}

// leafyGateways has those of now.
type leafyGateways struct{ now atomic.Pointer[LeafyGateways] }

// some reports whether there are classes of such Gateways.
func (l *leafyGateways) some() bool {
	all := l.now.Load()
	return all != nil && len(all.Classes) > 0
}

func (l *leafyGateways) hasClass(c model.GatewayClass) bool {
	all := l.now.Load()
	return all != nil && all.Classes[c]
}

// has reports whether a route, given what it gives, names one.
func (l *leafyGateways) has(facts []fact) bool {
	all := l.now.Load()
	if all == nil || len(all.Gateways) == 0 {
		return false
	}
	r, ok := facts[0].(row[model.Object, model.Root])
	return ok && r.v.Route != nil && slices.ContainsFunc(r.v.Route.Parents, func(p model.Parent) bool {
		o, is := p.Object(r.k.Workspace, r.k.Namespace)
		return is && (all.Sets[o] || o.Kind == model.GatewayKind && all.Gateways[model.GatewayID{Workspace: o.Workspace, Namespace: o.Namespace, Name: o.Name}])
	})
}

// leafyGatewaysOf are those of a checkpoint.
func leafyGatewaysOf(past Past, in *fleet.Inputs) *LeafyGateways {
	out, configs := &LeafyGateways{map[model.GatewayClass]bool{}, map[model.GatewayID]bool{}, map[model.Object]bool{}}, values(past, in.Configs)
	for _, r := range rows(past, in.GatewayClasses) {
		if configs[r.v.Config].Leaf != nil {
			out.Classes[r.k] = true
		}
	}
	for _, r := range rows(past, in.Gateways) {
		if out.Classes[r.v.Class] {
			out.Gateways[r.k] = true
		}
	}
	for _, r := range rows(past, in.ListenerSets) {
		if out.Gateways[r.v.Gateway] {
			out.Sets[r.k] = true
		}
	}
	return out
}

// LeafyGateways says which Gateways controllers of members serve. What may read otherwise
// now is read again.
func (h *Hub) LeafyGateways(now LeafyGateways) {
	was := h.leafyGateways.now.Swap(&now)
	if was == nil {
		was = &LeafyGateways{}
	}
	if !maps.Equal(was.Classes, now.Classes) {
		h.source("gateways").again()
		h.source("listenersets").again()
		h.source("referencegrants").again()
		h.source("backendtlspolicies").again()
	}
	if !maps.Equal(was.Gateways, now.Gateways) || !maps.Equal(was.Sets, now.Sets) {
		for _, k := range routeKinds {
			h.source(k.plural).again()
		}
	}
}

// gatewayRoutes is a store of a kind of routes of the Gateway API.
func (h *Hub) gatewayRoutes(k routeKind) *store {
	s := h.roots(k.kind, k.read)
	h.inFull(s, h.leafyGateways.has, func(o metav1.Object) (model.Object, model.Manifest) { return ingest.RouteManifest(k.kind, o) })
	return s
}

// inFull has objects of a store kept in full, where members may serve them.
func (h *Hub) inFull(s *store, leafy func([]fact) bool, full func(metav1.Object) (model.Object, model.Manifest)) {
	read := s.read
	s.read = func(o metav1.Object) []fact {
		out := read(o)
		if leafy(out) {
			k, v := full(o)
			out = append(out, row[model.Object, model.Manifest]{h.Inputs.Manifests, k, v})
		}
		return out
	}
}
