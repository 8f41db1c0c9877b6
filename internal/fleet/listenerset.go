package fleet

import (
	"fmt"
	"slices"

	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"

	"github.com/spillway-dev/spillway/internal/inc"
	"github.com/spillway-dev/spillway/internal/model"
)

// Part is what an object has of a Gateway: the Gateway itself, or a ListenerSet that
// adds listeners to it.
type Part struct {
	model.Origin
	Generation int64
	Gateway    model.GatewayID
	Refused    model.Refusal // why nothing of it is served
	Leaf       bool          // controllers of members serve it, by leaves
	Listeners  []Listener    // in the order of the object
}

// Equal reports whether both are the same.
func (a *Part) Equal(b *Part) bool {
	return a.Origin == b.Origin && a.Generation == b.Generation && a.Gateway == b.Gateway && a.Refused == b.Refused && a.Leaf == b.Leaf && slices.EqualFunc(a.Listeners, b.Listeners, Listener.equal)
}

// Serves reports whether some listener of it does. Members have the Secrets of leaves.
func (a *Part) Serves() bool {
	return slices.ContainsFunc(a.Listeners, func(l Listener) bool { return l.Serves() || a.Leaf && l.Front != "" })
}

// Serves reports whether clients have something of a listener: it is accepted and, over
// TLS, has a certificate.
func (a Listener) Serves() bool {
	return a.Front != "" && (!a.Spec.Terminates() || len(a.Secrets) > 0)
}

func listenersOf(specs []model.Listener) []Listener {
	out := make([]Listener, len(specs))
	for i := range specs {
		out[i] = Listener{Spec: &specs[i], Refused: specs[i].Refused, Broken: specs[i].Broken}
	}
	return out
}

// declareParts takes Gateways apart, so that what follows from an object's listeners
// follows from these alone.
func (w *gateways) declareParts(g *inc.Graph) {
	ofObject := inc.IndexBy(w.Gateways, func(_ model.GatewayID, row *Gateway) []model.Object {
		out := make([]model.Object, len(row.Parts))
		for i, p := range row.Parts {
			out[i] = p.Object
		}
		return out
	})
	w.Parts = inc.Derive(g, "parts of gateways", func(r *inc.Reader, k model.Object) (*Part, bool) {
		row := ofObject.Get(r, k)[0]
		return row.Parts[row.places[k]], true
	}, ofObject)
	byHost := inc.IndexBy(w.Parts, func(_ model.Object, p *Part) (out []model.HostKey) {
		for _, l := range p.Listeners {
			if l.Front != "" {
				out = append(out, model.HostKey{Class: l.Front, Host: l.Spec.Host})
			}
		}
		return out
	})
	w.listeners = inc.Derive(g, "hosts of listeners", func(r *inc.Reader, k model.HostKey) (out line, ok bool) {
		p := byHost.Get(r, k)[0]
		for _, l := range p.Listeners {
			if l.Front == k.Class && l.Spec.Host == k.Host {
				out = line{traffic: l.Spec.Protocol.Traffic(), pass: l.Spec.Pass}
			}
		}
		if p.Leaf && p.Object.Kind == model.ListenerSetKind {
			out.set = p.Object
		}
		return out, true
	}, byHost)
	byFront := inc.IndexBy(w.listeners, func(k model.HostKey, _ line) []model.Class { return []model.Class{k.Class} })
	w.ListenerHosts = inc.Derive(g, "listeners of fronts", func(r *inc.Reader, c model.Class) (out inc.List[model.Host], ok bool) {
		for _, k := range byFront.Keys(r, c) {
			out = append(out, k.Host)
		}
		return out, true
	}, byFront)
	w.names = inc.IndexBy(w.Parts, func(_ model.Object, p *Part) (out []model.HostKey) {
		for _, l := range p.Listeners {
			if l.Front != "" && len(l.Secrets) > 0 {
				out = append(out, model.HostKey{Class: l.Front, Host: l.Spec.Host.TLSName()})
			}
		}
		return out
	})
}

// sets are the parts that ListenerSets have of a Gateway, by precedence: the oldest
// first, then by namespace and name (ListenerSet.spec.listeners).
func (w *gateways) sets(r *inc.Reader, id model.GatewayID, row *Gateway) []*Part {
	names, specs := w.setsOf.Keys(r, id), w.setsOf.Get(r, id)
	out := make([]*Part, len(names))
	for i, o := range names {
		p := &Part{Origin: model.Origin{Created: specs[i].Created, Object: o}, Generation: specs[i].Generation, Gateway: id, Leaf: row.Config.Leaf != nil, Listeners: listenersOf(specs[i].Listeners)}
		switch allowed := row.Spec.Sets; {
		case allowed == nil || !w.allows(r, id.Namespace, *allowed, o):
			p.Refused = model.Refusal{Reason: string(gatewayv1.ListenerSetReasonNotAllowed),
				Message: fmt.Sprintf("spec.allowedListeners of %s does not let ListenerSets of namespace %s attach", id.Object(), o.Namespace)}
		case row.Refused != (model.Refusal{}):
			p.Refused = model.Refusal{Reason: string(gatewayv1.ListenerSetReasonParentNotAccepted), Message: fmt.Sprintf("%s is not accepted: %s", id.Object(), row.Refused.Message)}
		}
		out[i] = p
	}
	slices.SortFunc(out, func(a, b *Part) int { return a.Compare(b.Origin) })
	return out
}

// place is a port that listeners of a Gateway have, of TCP or of UDP.
type place struct {
	port uint16
	udp  bool
}

func placeOf(l *model.Listener) place { return place{l.Port, l.Protocol == model.UDP} }

// use is what listeners that go before have of a port.
type use struct {
	protocols []model.Protocol
	by        []*Part // that was the first with the protocol
	hosts     map[model.Host]*Part
}

// conflicts finds listeners that are not distinct. Those of one object have both lost:
// no one of them is the winner (Gateway.spec.listeners). Of those of several objects
// the first has won, and only winners count (ListenerSet.spec.listeners).
func conflicts(parts []*Part) {
	uses := map[place]*use{}
	for i, p := range parts {
		if i > 0 && p.Refused != (model.Refusal{}) {
			continue
		}
		var open []*Listener
		for n := range p.Listeners {
			l := &p.Listeners[n]
			if l.Refused != (model.Refusal{}) {
				continue
			}
			if l.Conflict = uses[placeOf(l.Spec)].conflict(l.Spec); l.Conflict == (model.Refusal{}) {
				open = append(open, l)
			}
		}
		mutual(open)
		for _, l := range open {
			if l.Conflict == (model.Refusal{}) {
				take(uses, p, l.Spec)
			}
		}
	}
}

// mutual finds conflicts of listeners of one object.
func mutual(all []*Listener) {
	for i, l := range all {
		for j, other := range all {
			switch a, b := l.Spec, other.Spec; {
			case i == j || placeOf(a) != placeOf(b):
			case !a.Protocol.Together(b.Protocol):
				l.Conflict = protocolConflict("listener "+b.Name, b)
			case a.Host == b.Host:
				l.Conflict = hostConflict("listener "+b.Name, b)
			}
		}
	}
}

// conflict is why what goes before leaves nothing of a port to a listener. Of
// ListenerSets it does not say which: they may be of somebody else.
func (u *use) conflict(l *model.Listener) model.Refusal {
	if u == nil {
		return model.Refusal{}
	}
	for i, p := range u.protocols {
		if !p.Together(l.Protocol) {
			return protocolConflict(u.by[i].described(), &model.Listener{Port: l.Port, Protocol: p})
		}
	}
	if by, taken := u.hosts[l.Host]; taken {
		return hostConflict(by.described(), l)
	}
	return model.Refusal{}
}

func (a *Part) described() string {
	if a.Object.Kind == model.ListenerSetKind {
		return "an older ListenerSet"
	}
	return a.Object.String()
}

func protocolConflict(who string, has *model.Listener) model.Refusal {
	return model.Refusal{Reason: string(gatewayv1.ListenerReasonProtocolConflict), Message: fmt.Sprintf("%s has port %d for %s", who, has.Port, has.Protocol)}
}

func hostConflict(who string, has *model.Listener) model.Refusal {
	return model.Refusal{Reason: string(gatewayv1.ListenerReasonHostnameConflict), Message: fmt.Sprintf("%s has %s on port %d, too", who, has.Host.Described(), has.Port)}
}

func take(uses map[place]*use, p *Part, l *model.Listener) {
	u := uses[placeOf(l)]
	if u == nil {
		u = &use{hosts: map[model.Host]*Part{}}
		uses[placeOf(l)] = u
	}
	if !slices.Contains(u.protocols, l.Protocol) {
		u.protocols, u.by = append(u.protocols, l.Protocol), append(u.by, p)
	}
	u.hosts[l.Host] = p
}
