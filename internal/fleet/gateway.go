package fleet

import (
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/labels"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"

	"github.com/spillway-dev/spillway/api/v1alpha1"
	"github.com/spillway-dev/spillway/internal/inc"
	"github.com/spillway-dev/spillway/internal/model"
)

// Gateway is a Gateway of ours, and what became of its listeners.
type Gateway struct {
	Spec    model.GatewaySpec
	Config  model.ConfigSpec
	Refused model.Refusal // why nothing of it is served
	Broken  model.Refusal // why references of it, but for those of listeners, are not resolved
	Client  model.SecretID
	Parts   []*Part // its own listeners, then those of ListenerSets by precedence

	places map[model.Object]int // of parts
}

// Listener is what became of one.
type Listener struct {
	Spec     *model.Listener
	Front    model.Class   // that has its hosts; empty: it is not accepted
	Refused  model.Refusal // why it is not
	Conflict model.Refusal // with another listener of the Gateway, if that is why
	Broken   model.Refusal // why references of it are not resolved
	Secrets  []model.SecretID
	Clients  model.ClientTrust // that are let in by their certificates
}

// Equal reports whether both are the same.
func (a *Gateway) Equal(b *Gateway) bool {
	return a.Spec.Equal(b.Spec) && a.Config.Equal(b.Config) && a.Refused == b.Refused && a.Broken == b.Broken && a.Client == b.Client && slices.EqualFunc(a.Parts, b.Parts, (*Part).Equal)
}

func (a Listener) equal(b Listener) bool {
	return a.Spec.Equal(*b.Spec) && a.Front == b.Front && a.Refused == b.Refused && a.Conflict == b.Conflict && a.Broken == b.Broken && slices.Equal(a.Secrets, b.Secrets) && a.Clients == b.Clients
}

// Own is what the Gateway itself has.
func (a *Gateway) Own() *Part { return a.Parts[0] }

// Sets is how many ListenerSets are accepted.
func (a *Gateway) Sets() int {
	n := 0
	for _, p := range a.Parts[1:] {
		if p.Serves() {
			n++
		}
	}
	return n
}

// Fronts are those of the ports that are served, sorted, each once.
func (a *Gateway) Fronts() []model.Class {
	var out []model.Class
	for _, p := range a.Parts {
		for _, l := range p.Listeners {
			if l.Front != "" {
				out = append(out, l.Front)
			}
		}
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// first is the first listener of a front, which is as all others of it are.
func (a *Gateway) first(c model.Class) *model.Listener {
	for _, p := range a.Parts {
		for _, l := range p.Listeners {
			if l.Front == c {
				return l.Spec
			}
		}
	}
	return nil
}

// relays reports whether some listener of a front takes no requests.
func (a *Gateway) relays(c model.Class) bool {
	return slices.ContainsFunc(a.Parts, func(p *Part) bool {
		return slices.ContainsFunc(p.Listeners, func(l Listener) bool { return l.Front == c && l.Spec.Protocol.Traffic() != model.Requests })
	})
}

// gateways is what the Gateway API adds to the program. Each port of a Gateway is
// a front; nothing that follows from fronts knows that.
type gateways struct {
	*program
	grantsOf  *inc.Index[model.NamespaceID, model.Object, model.Grant] // by the namespace they are of
	setsOf    *inc.Index[model.GatewayID, model.Object, model.ListenerSetSpec]
	listeners *inc.Table[model.HostKey, line]                // by their hosts
	names     *inc.Index[model.HostKey, model.Object, *Part] // TLS names of listeners

	firsts *inc.Table[model.HostKey, inc.Val[model.Object]] // who decides which kind has a host that calls ask for
}

// declareGateways adds the fronts of Gateways.
func (d *program) declareGateways(g *inc.Graph) {
	w := &gateways{program: d}
	d.gw = w
	w.grantsOf = inc.IndexBy(d.In.Grants, func(k model.Object, _ model.Grant) []model.NamespaceID {
		return []model.NamespaceID{{Workspace: k.Workspace, Name: k.Namespace}}
	})
	w.setsOf = inc.IndexBy(d.In.ListenerSets, func(_ model.Object, s model.ListenerSetSpec) []model.GatewayID { return []model.GatewayID{s.Gateway} })
	d.Gateways = inc.Derive(g, "gateways", w.gateway, d.In.Gateways)
	w.declareParts(g)
	ofFront := inc.IndexBy(d.Gateways, func(_ model.GatewayID, row *Gateway) []model.Class { return row.Fronts() })
	fronts := inc.Derive(g, "fronts of gateways", func(r *inc.Reader, c model.Class) (ClassInfo, bool) {
		return w.front(r, ofFront.Get(r, c)[0], c), true
	}, ofFront)
	d.kinds = append(d.kinds, fronts)
}

// Unfitting says why a configuration can't be that of Gateways; empty: it can.
func Unfitting(name model.Config, c model.ConfigSpec, there bool) string {
	switch {
	case !there:
		return fmt.Sprintf("there is no GatewayClassConfig %s", name)
	case c.Leaf != nil && c.Leaf.Gateways == "":
		return fmt.Sprintf("GatewayClassConfig %s has dataPlane %s and no spec.leaf.gatewayClassName: set it to the class that Gateways have in members", name, v1alpha1.DataPlaneLeaf)
	}
	return ""
}

// gateway decides what is served of a Gateway of ours.
func (w *gateways) gateway(r *inc.Reader, id model.GatewayID) (*Gateway, bool) {
	spec, _ := w.In.Gateways.Get(r, id)
	class, ours := w.In.GatewayClasses.Get(r, spec.Class)
	if !ours {
		return nil, false
	}
	out := &Gateway{Spec: spec, Config: w.Defaults, Refused: spec.Refused, places: map[model.Object]int{}}
	if class.Config != "" {
		var ok bool
		out.Config, ok = w.In.Configs.Get(r, class.Config)
		if why := Unfitting(class.Config, out.Config, ok); why != "" && out.Refused == (model.Refusal{}) {
			out.Refused = model.Refusal{Reason: string(gatewayv1.GatewayReasonInvalidParameters), Message: why}
		}
	}
	out.Broken = spec.Broken
	if spec.Client != (model.SecretID{}) && out.Config.Leaf == nil { // members have the Secrets of leaves
		out.Client, out.Broken = w.client(r, id, spec.Client)
	}
	own := &Part{Origin: spec.Origin(id), Generation: spec.Generation, Gateway: id, Refused: out.Refused, Leaf: out.Config.Leaf != nil, Listeners: listenersOf(spec.Listeners)}
	out.Parts = append([]*Part{own}, w.sets(r, id, out)...)
	conflicts(out.Parts)
	for i, p := range out.Parts {
		out.places[p.Object] = i
		for n := range p.Listeners {
			w.decide(r, out, p, &p.Listeners[n])
		}
	}
	return out, true
}

// unnamed refuses TLS for all names where proxies ask for certificates by name: names
// with certificates, which no listener has a list of there, could not be told from
// others.
func unnamed(l model.Listener, of model.ConfigSpec) model.Refusal {
	if l.Protocol != model.TLSProtocol || l.Host != "" || !of.OnDemand {
		return model.Refusal{}
	}
	return model.Refusal{Reason: string(gatewayv1.ListenerReasonUnsupportedValue), Message: "set hostname: for all names a TLS listener can't be where spec.tls.certificates of the GatewayClassConfig is OnDemand"}
}

// decide decides about a listener that has its conflicts.
func (w *gateways) decide(r *inc.Reader, of *Gateway, p *Part, l *Listener) {
	var let admission
	if l.Spec.Protocol == model.HTTPS && !p.Leaf {
		let = w.admits(r, p.Gateway, l.Spec.Port, of.Spec)
	}
	if l.Clients = let.clients; l.Broken == (model.Refusal{}) {
		l.Broken = let.broken
	}
	for _, why := range []model.Refusal{l.Conflict, p.Refused, unnamed(*l.Spec, of.Config), let.refused} {
		if l.Refused == (model.Refusal{}) {
			l.Refused = why
		}
	}
	if l.Refused == (model.Refusal{}) {
		l.Front = p.Gateway.Front(l.Spec.Protocol, l.Spec.Port)
	}
	if p.Leaf {
		return // members have its Secrets
	}
	for _, s := range l.Spec.Secrets {
		switch why, granted := w.unusable(r, p.Object, s); {
		case !granted:
			l.Broken = model.Refusal{Reason: string(gatewayv1.ListenerReasonRefNotPermitted), Message: why}
		case why != "":
			l.Broken = model.Refusal{Reason: string(gatewayv1.ListenerReasonInvalidCertificateRef), Message: why}
		default:
			l.Secrets = append(l.Secrets, s)
		}
	}
}

// unusable says why an object can't use a Secret, and whether it may.
func (w *gateways) unusable(r *inc.Reader, o model.Object, s model.SecretID) (why string, granted bool) {
	from := model.GrantFrom{Group: model.GatewayGroup, Kind: o.Kind, Namespace: o.Namespace}
	if !w.granted(r, o.Workspace, from, s.Namespace, model.GrantTo{Kind: "Secret", Name: s.Name}) {
		return fmt.Sprintf("no ReferenceGrant in namespace %s lets %ss of %s use Secret %s", s.Namespace, o.Kind, o.Namespace, s.Name), false
	}
	c, ok := w.In.Certificates.Get(r, s)
	switch {
	case !ok:
		return w.NoSecret(r, s), true
	case !fitnessOf(c).usable:
		return fmt.Sprintf("Secret %s can't be used: %s", s, c.Problem), true
	}
	return "", true
}

// client is the certificate that a Gateway shows to backends, or why it shows none.
func (w *gateways) client(r *inc.Reader, id model.GatewayID, s model.SecretID) (model.SecretID, model.Refusal) {
	switch why, granted := w.unusable(r, id.Object(), s); {
	case !granted:
		return model.SecretID{}, model.Refusal{Reason: string(gatewayv1.GatewayReasonRefNotPermitted), Message: why}
	case why != "":
		return model.SecretID{}, model.Refusal{Reason: string(gatewayv1.GatewayReasonInvalidClientCertificateRef), Message: why}
	}
	return s, model.Refusal{}
}

// granted reports whether a reference to a namespace is allowed: to one's own it is.
func (w *gateways) granted(r *inc.Reader, workspace string, from model.GrantFrom, to string, what model.GrantTo) bool {
	return from.Namespace == to || slices.ContainsFunc(w.grantsOf.Get(r, model.NamespaceID{Workspace: workspace, Name: to}),
		func(g model.Grant) bool { return g.Allows(from, what) })
}

// front is what the listeners of a Gateway that have a port ask for.
func (w *gateways) front(r *inc.Reader, row *Gateway, c model.Class) ClassInfo {
	l := row.first(c)
	id, _ := c.Gateway()
	out := ClassInfo{Spec: model.ClassSpec{Origin: row.Spec.Origin(id)}, Config: row.Config, Client: row.Client, Deep: true, Continues: true}
	out.Config.HTTPPort, out.Config.HTTPSPort = 0, 0
	if out.Config.Own || row.choosy() {
		out.Config.Own, out.Requested = true, row.Spec.Addresses
	}
	switch l.Protocol {
	case model.HTTP:
		out.Config.HTTPPort = l.Port
	case model.HTTPS, model.TLSProtocol:
		out.Config.HTTPSPort = l.Port
	case model.TCP, model.UDP:
		out.Relay = model.Socket{Number: l.Port, Traffic: l.Protocol.Traffic()}
	}
	out.Clients, out.Lines = row.clients(c), row.relays(c)
	if out.Config.Leaf == nil {
		out.Edges = w.edgesOf(r, row.Config)
	}
	return out
}

// choosy reports whether a Gateway asks for addresses that are not those that everybody
// shares.
func (g *Gateway) choosy() bool {
	return slices.ContainsFunc(g.Spec.Addresses, func(a model.AddressRequest) bool { return a != model.AddressRequest{} })
}

// listenerOf is which of a front's listeners has a host: the closest that stands for
// all its names, and no other (HTTPListenerIsolation). Where none does, it is that for
// all hosts, which is not there.
func (w *gateways) listenerOf(r *inc.Reader, k model.HostKey) model.Host {
	if _, has := w.listeners.Get(r, k); has {
		return k.Host
	}
	for wider := range k.Host.Wider() {
		if _, has := w.listeners.Get(r, model.HostKey{Class: k.Class, Host: wider}); has {
			return wider
		}
	}
	return ""
}

// chain is the certificates of the listeners of a front for a TLS name.
func (w *gateways) chain(r *inc.Reader, k model.HostKey) (Chain, bool) {
	var out Chain
	for _, p := range w.names.Get(r, k) {
		for _, l := range p.Listeners {
			if l.Front == k.Class && l.Spec.Host.TLSName() == k.Host {
				out.Secrets = append(out.Secrets, l.Secrets...)
			}
		}
	}
	return out, len(out.Secrets) > 0
}

// Parents is what became of the references of a route to Gateways of ours and their
// ListenerSets, in the order of the object.
type Parents []Attached

// Attached is what became of one.
type Attached struct {
	Parent    model.Parent
	Listeners []int         // of the parent, to which it attaches, accepted or not
	Fronts    []OnFront     // of those that are
	Refused   model.Refusal // why it does not attach
	Leaf      bool          // controllers of members serve the parent
}

// OnFront is a listener that a route has a part of.
type OnFront struct {
	Front model.Class
	Host  model.Host // of the listener
}

// Equal reports whether both are the same.
func (a Parents) Equal(b Parents) bool {
	return slices.EqualFunc(a, b, func(a, b Attached) bool {
		return a.Parent == b.Parent && slices.Equal(a.Listeners, b.Listeners) && slices.Equal(a.Fronts, b.Fronts) && a.Refused == b.Refused && a.Leaf == b.Leaf
	})
}

// fronts are those to which a route attaches.
func (a Parents) fronts() model.Classes {
	var out []model.Class
	for _, p := range a {
		for _, f := range p.Fronts {
			out = append(out, f.Front)
		}
	}
	return model.ClassesOf(out...)
}

// declareParents decides what routes attach to.
func (w *gateways) declareParents(g *inc.Graph) {
	routes := inc.IndexBy(w.In.Roots, func(k model.Object, root model.Root) []model.Object {
		if root.Route == nil {
			return nil
		}
		return []model.Object{k}
	})
	w.Parents = inc.Derive(g, "parents of routes", w.parents, routes)
	w.AttachedTo = inc.IndexBy(w.Parents, func(k model.Object, all Parents) (out []ListenerID) {
		for _, p := range all {
			of, _ := p.Parent.Object(k.Workspace, k.Namespace)
			for _, i := range p.Listeners {
				out = append(out, ListenerID{of, i})
			}
		}
		return out
	})
}

// ListenerID names a listener of a Gateway or a ListenerSet by its place.
type ListenerID struct {
	Of    model.Object
	Place int
}

// Compare orders by object and place.
func (a ListenerID) Compare(b ListenerID) int {
	if c := a.Of.Compare(b.Of); c != 0 {
		return c
	}
	return a.Place - b.Place
}

func (w *gateways) parents(r *inc.Reader, k model.Object) (Parents, bool) {
	root, _ := w.In.Roots.Get(r, k)
	hosts := w.RulesOf.Keys(r, k)
	var out Parents
	for _, p := range root.Route.Parents {
		of, ok := p.Object(k.Workspace, k.Namespace)
		if !ok {
			continue
		}
		if part, ours := w.Parts.Get(r, of); ours {
			out = append(out, w.attach(r, k, root.Route, hosts, p, part))
		}
	}
	return out, len(out) > 0
}

// attach finds the listeners of a parent that a reference leads to. Who asks for
// none of their hosts attaches to none.
func (w *gateways) attach(r *inc.Reader, k model.Object, route *model.RouteSpec, hosts []model.RulesID, p model.Parent, to *Part) Attached {
	out := Attached{Parent: p, Leaf: to.Leaf}
	named, allowed := false, false
	for i := range to.Listeners {
		l := to.Listeners[i].Spec
		if p.Section != "" && p.Section != l.Name || p.Port != 0 && p.Port != l.Port {
			continue
		}
		named = true
		if !l.Routes.Kinds.Has(k.Kind) || !w.allows(r, to.Object.Namespace, l.Routes, k) {
			continue
		}
		allowed = true
		if !slices.ContainsFunc(hosts, func(h model.RulesID) bool { _, meets := h.Host.Meet(l.Host); return meets }) {
			continue
		}
		out.Listeners = append(out.Listeners, i)
		if front := to.Listeners[i].Front; front != "" && route.Refused == (model.Refusal{}) {
			out.Fronts = append(out.Fronts, OnFront{front, l.Host})
		}
	}
	switch {
	case !named:
		out.Refused = model.Refusal{Reason: string(gatewayv1.RouteReasonNoMatchingParent), Message: fmt.Sprintf("%s has no such listener", to.Object)}
	case !allowed:
		out.Refused = model.Refusal{Reason: string(gatewayv1.RouteReasonNotAllowedByListeners), Message: fmt.Sprintf("no such listener of %s lets %ss of namespace %s attach", to.Object, k.Kind, k.Namespace)}
	case route.Refused != (model.Refusal{}):
		out.Refused = route.Refused
	case len(out.Listeners) == 0:
		out.Refused = model.Refusal{Reason: string(gatewayv1.RouteReasonNoMatchingListenerHostname), Message: fmt.Sprintf("no such listener of %s is for a host of the %s", to.Object, k.Kind)}
	}
	return out
}

// allows reports whether an object may attach to what is of a namespace.
func (w *gateways) allows(r *inc.Reader, namespace string, of model.Attachable, k model.Object) bool {
	switch of.From {
	case model.AllNamespaces:
		return true
	case model.SameNamespace:
		return namespace == k.Namespace
	case model.SelectedNamespaces:
		has, ok := w.In.Namespaces.Get(r, model.NamespaceID{Workspace: k.Workspace, Name: k.Namespace})
		selector, err := labels.Parse(of.Selector)
		return ok && err == nil && selector.Matches(labels.Set(has))
	}
	return false
}

// Places are the hosts of fronts for which a route has rules, sorted, each once.
type Places []model.HostKey

// places finds them for a host as the route names it: what it has in common with
// each listener, unless another listener of the port is closer.
func (w *gateways) places(r *inc.Reader, root model.Object, h model.Host) *Places {
	all, _ := w.Parents.Get(r, root)
	return w.placesOf(r, all, h)
}

// placesOf are those of some of a route's parents.
func (w *gateways) placesOf(r *inc.Reader, all Parents, h model.Host) *Places {
	var out Places
	for _, p := range all {
		for _, f := range p.Fronts {
			both, meets := h.Meet(f.Host)
			if !meets {
				continue
			}
			at := model.HostKey{Class: f.Front, Host: both}
			if w.listenerOf(r, at) == f.Host {
				out = append(out, at)
			}
		}
	}
	slices.SortFunc(out, model.HostKey.Compare)
	out = slices.Compact(out)
	return &out
}

// permitted tells whether a route may send requests to a backend.
func (w *gateways) permitted(r *inc.Reader, root model.Object, b model.Backend) bool {
	s := b.Key().Service
	if s.Namespace() == root.Namespace {
		return true
	}
	from := model.GrantFrom{Group: model.GatewayGroup, Kind: root.Kind, Namespace: root.Namespace}
	to := model.GrantTo{Kind: "Service", Name: s.Name()}
	if b.Imported() {
		to.Group, to.Kind = model.ImportGroup, model.ImportKind
	}
	return w.granted(r, root.Workspace, from, s.Namespace(), to)
}

// Resolved is why references of a route are not resolved.
type Resolved struct {
	Refused model.Refusal // zero: they are
	Unsure  bool          // a member that may have what is not found is missing
}

// Equal reports whether both are the same.
func (a Resolved) Equal(b Resolved) bool { return a == b }

// declareResolved says of routes that attach to something of ours whether their
// references are.
func (w *gateways) declareResolved(g *inc.Graph) {
	w.Resolved = inc.Derive(g, "references of routes", w.resolved, w.Parents)
	inc.Shared(w.Resolved, w.anyMissing)
}

// known reports whether some member has a backend. One that only routes name that
// attach nowhere has no row of its own.
func (w *gateways) known(r *inc.Reader, b model.Backend) bool {
	if row, ok := w.Backends.Get(r, b); ok {
		return len(row.Members) > 0
	}
	return slices.ContainsFunc(w.holders(r, b), func(c holder) bool {
		_, trouble := w.portIn(r, b, c.member, c.spec)
		return trouble == ""
	})
}

// lostName is what nobody has: "shop/web/80", or "ServiceImport shop/web/80".
func lostName(b model.Backend) string {
	name := b.Service().String() + "/" + b.Port().Written()
	if b.Imported() {
		return model.ImportKind + " " + name
	}
	return name
}

// refersTo are the backends without which a rule does not serve, or not all requests.
func refersTo(rule model.Rule) []model.Backend {
	out := make([]model.Backend, 0, len(rule.Backends)+1)
	for _, b := range rule.Backends {
		out = append(out, b.Backend)
	}
	return append(out, rule.Filters.Auth().Backend)
}

func (w *gateways) resolved(r *inc.Reader, k model.Object) (Resolved, bool) {
	root, _ := w.In.Roots.Get(r, k)
	if root.Route.Broken != (model.Refusal{}) {
		return Resolved{Refused: root.Route.Broken}, true
	}
	ids := w.RulesOf.Keys(r, k)
	if len(ids) == 0 {
		return Resolved{}, true
	}
	rules, _ := w.In.Rules.Get(r, ids[0]) // the same for each host
	_, missing := w.anyMissing.Get(r, model.All{})
	var lost []string
	for _, rule := range rules {
		for _, b := range refersTo(rule) {
			if b == (model.Backend{}) {
				continue
			}
			if !w.permitted(r, k, b) {
				return Resolved{Refused: model.Refusal{Reason: string(gatewayv1.RouteReasonRefNotPermitted),
					Message: fmt.Sprintf("%s: no ReferenceGrant in namespace %s lets %ss of %s use %s", rule.Field, b.Key().Service.Namespace(), k.Kind, k.Namespace, b.Described())}}, true
			}
			if !w.known(r, b) {
				lost = append(lost, lostName(b))
			}
		}
	}
	switch {
	case len(lost) == 0:
		return Resolved{}, true
	case missing:
		return Resolved{Unsure: true}, true
	}
	slices.Sort(lost)
	what, becomes := unanswered(k, model.Backend{})
	return Resolved{Refused: model.Refusal{Reason: string(gatewayv1.RouteReasonBackendNotFound),
		Message: fmt.Sprintf("no member has %s: its part of %s is %s", strings.Join(slices.Compact(lost), ", "), what, becomes)}}, true
}
