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
		return is && all.lead(o)
	})
}

// lead reports whether a parent of a route is one of them, or a ListenerSet of one.
func (g *LeafyGateways) lead(o model.Object) bool {
	return g.Sets[o] || o.Kind == model.GatewayKind && g.Gateways[model.GatewayID{Workspace: o.Workspace, Namespace: o.Namespace, Name: o.Name}]
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
	h.inFull(s, h.leafyGateways.has, func(o metav1.Object, text []byte) (model.Object, model.Manifest) {
		return ingest.RouteManifest(k.kind, o, text)
	})
	h.onlyLeaves(s, h.leafyGateways.only, k.leaf)
	return s
}

// onlyLeaves has objects of a store that only members serve be read for no more than that.
func (h *Hub) onlyLeaves(s *store, only func([]fact) bool, read readRoot) {
	if read == nil {
		return
	}
	var w words
	whole := s.whole
	s.whole = func(o metav1.Object, text []byte, have []fact) []fact {
		if only(have) {
			id, root, rules, f := read(o)
			have = append(h.rootFacts(&w, id, root, rules), facts(h.Inputs, nil, false, f)...)
		}
		return whole(o, text, have)
	}
}

// only reports whether a route names such Gateways and no others.
func (l *leafyGateways) only(facts []fact) bool {
	all := l.now.Load()
	if !l.has(facts) {
		return false
	}
	r := facts[0].(row[model.Object, model.Root])
	return !slices.ContainsFunc(r.v.Route.Parents, func(p model.Parent) bool {
		o, is := p.Object(r.k.Workspace, r.k.Namespace)
		return !is || !all.lead(o)
	})
}

// inFull has objects of a store kept in full, where members may serve them.
func (h *Hub) inFull(s *store, leafy func([]fact) bool, full func(o metav1.Object, text []byte) (model.Object, model.Manifest)) {
	s.whole = func(o metav1.Object, text []byte, facts []fact) []fact {
		if !leafy(facts) {
			return facts
		}
		k, v := full(o, text)
		return append(facts, row[model.Object, model.Manifest]{h.Inputs.Manifests, k, v})
	}
}

// ofClass reports whether a Gateway, given what it gives, is of such a class.
func (l *leafyGateways) ofClass(facts []fact) bool {
	r, ok := facts[0].(row[model.GatewayID, model.GatewaySpec])
	return ok && l.hasClass(r.v.Class)
}

// any reports whether there are such Gateways, and so whatever may be for them is read in full.
func (l *leafyGateways) any([]fact) bool { return l.some() }

// writtenBy has a kind of which objects may be leaves come with its JSON, where a server
// can't stream a list.
func (s *source) writtenBy(asked func() bool, fresh func() metav1.Object) *source {
	s.list = listing(asked, fresh, s.list)
	return s
}
