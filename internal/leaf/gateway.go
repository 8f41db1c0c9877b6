package leaf

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"

	"github.com/spillway-dev/spillway/api/v1alpha1"
	"github.com/spillway-dev/spillway/internal/fleet"
	"github.com/spillway-dev/spillway/internal/inc"
	"github.com/spillway-dev/spillway/internal/model"
)

// GatewayClassStatus is what a GatewayClass's status should say.
type GatewayClassStatus struct {
	Generation int64
	Conditions Conditions // Accepted; SupportedVersion where the version is known
}

// Equal reports whether both say the same.
func (a GatewayClassStatus) Equal(b GatewayClassStatus) bool {
	return a.Generation == b.Generation && slices.Equal(a.Conditions, b.Conditions)
}

// GatewayStatus is what a Gateway's status should say.
type GatewayStatus struct {
	Generation int64
	Conditions Conditions       // Accepted, AddressesAssigned, Programmed, ResolvedRefs; InsecureFrontendValidationMode while it is so
	Addresses  []GatewayAddress // sorted
	Scoped     bool             // the hub's Gateways say from where addresses are reachable
	Listeners  []ListenerStatus
	Allows     bool // ListenerSets of some namespaces
	Sets       int  // that are accepted
}

// GatewayAddress is an address of a Gateway.
type GatewayAddress struct {
	Value string // an IP address or a name
	Scope string // as of model.PoolEntry
}

// String is "10.96.0.7 (Cluster)".
func (a GatewayAddress) String() string {
	if a.Scope == "" {
		return a.Value
	}
	return a.Value + " (" + a.Scope + ")"
}

func (a GatewayAddress) compare(b GatewayAddress) int {
	return cmp.Or(strings.Compare(a.Value, b.Value), strings.Compare(a.Scope, b.Scope))
}

// ListenerStatus is what it should say of a listener.
type ListenerStatus struct {
	Name       string
	Kinds      model.Texts // of routes of the Gateway API
	Attached   int         // routes
	Conditions Conditions  // Accepted, Conflicted, Programmed, ResolvedRefs; OverlappingTLSConfig while it is so
}

// Equal reports whether both say the same.
func (a GatewayStatus) Equal(b GatewayStatus) bool {
	return a.Generation == b.Generation && slices.Equal(a.Conditions, b.Conditions) && slices.Equal(a.Addresses, b.Addresses) && a.Scoped == b.Scoped &&
		slices.EqualFunc(a.Listeners, b.Listeners, ListenerStatus.equal) && a.Allows == b.Allows && a.Sets == b.Sets
}

func (a ListenerStatus) equal(b ListenerStatus) bool {
	return a.Name == b.Name && a.Kinds == b.Kinds && a.Attached == b.Attached && slices.Equal(a.Conditions, b.Conditions)
}

// RouteStatus is what our part of the status of a route, or of a policy, should say.
type RouteStatus struct {
	Parents []model.ParentStatus // none: nothing of ours serves it, and what we said of it ends
	Settled bool                 // it says so already
}

// Equal reports whether both say the same.
func (a RouteStatus) Equal(b RouteStatus) bool {
	return a.Settled == b.Settled && slices.EqualFunc(a.Parents, b.Parents, func(a, b model.ParentStatus) bool {
		return a.Parent == b.Parent && slices.Equal(a.Conditions, b.Conditions)
	})
}

func (d *derivation) declareGateways(g *inc.Graph) {
	in := &d.p.In
	d.t.GatewayClasses = inc.Derive(g, "leaf.GatewayClasses", d.gatewayClass, in.GatewayClasses, named(d.p, gatewayClassObject))
	d.t.Gateways = inc.Derive(g, "leaf.Gateways", d.gateway, d.p.Gateways)
	d.declareListenerSets(g)
	ours := inc.IndexBy(in.Roots, func(k model.Object, root model.Root) []model.Object {
		if root.Route == nil || !root.Ours {
			return nil
		}
		return []model.Object{k}
	})
	d.t.Routes = inc.Derive(g, "leaf.Routes", d.route, d.p.Parents, ours)
	inc.Shared(d.t.Routes, d.p.AnyRejected)
	d.declareTLSPolicies(g)
}

func (d *derivation) gatewayClass(r *inc.Reader, k model.GatewayClass) (GatewayClassStatus, bool) {
	spec, ok := d.p.In.GatewayClasses.Get(r, k)
	accepted := d.accepted(r, k.Object())
	if accepted.Status == model.Down {
		accepted.Reason = string(gatewayv1.GatewayClassReasonInvalidParameters)
	}
	if ok && spec.Config != "" {
		config, there := d.p.In.Configs.Get(r, spec.Config)
		if why := fleet.Unfitting(spec.Config, config, there); why != "" {
			accepted = Condition{accepted.Type, model.Down, string(gatewayv1.GatewayClassReasonInvalidParameters), "spec.parametersRef: " + why}
		}
	}
	out := GatewayClassStatus{spec.Generation, Conditions{accepted}}
	if release, known := d.p.In.Releases.Get(r, model.GatewayDefinition(k.Object().Workspace)); known {
		out.Conditions = out.Conditions.with(supportedVersion(release))
	}
	return out, ok || accepted.Status == model.Down
}

// supportedVersion: we go on serving what we do not support, which the standard calls
// "best effort", so Accepted does not depend on it.
func supportedVersion(release model.Release) Condition {
	out := Condition{
		Type: string(gatewayv1.GatewayClassConditionStatusSupportedVersion), Status: model.Up, Reason: string(gatewayv1.GatewayClassReasonSupportedVersion),
		Message: release.Described(),
	}
	if !release.Supported() {
		out.Status, out.Reason = model.Down, string(gatewayv1.GatewayClassReasonUnsupportedVersion)
		out.Message += "; " + model.SupportedReleases() + ", others are served as far as they are alike"
	}
	return out
}

func (d *derivation) gateway(r *inc.Reader, id model.GatewayID) (GatewayStatus, bool) {
	row, ok := d.p.Gateways.Get(r, id)
	if !ok {
		return GatewayStatus{}, false
	}
	if row.Own().Leaf {
		return d.leafGateway(r, id, row)
	}
	out := GatewayStatus{Generation: row.Spec.Generation, Listeners: d.listeners(r, row.Own()), Allows: row.Spec.Sets != nil, Sets: row.Sets()}
	for _, front := range row.Fronts() {
		all, _ := d.seatsOfClass.Get(r, front)
		for _, s := range all {
			out.Addresses = append(out.Addresses, s.list()...)
		}
	}
	slices.SortFunc(out.Addresses, GatewayAddress.compare)
	out.Addresses = slices.Compact(out.Addresses)
	release, _ := d.p.In.Releases.Get(r, model.GatewayDefinition(id.Workspace))
	out.Scoped = release.Scopes()
	unmet, of := d.p.Unmet(r, row)
	assigned := assignedGateway(out, unmet, of)
	out.Conditions = Conditions{acceptedGateway(row), assigned, programmedGateway(row, out, unmet, assigned), resolvedGateway(row)}
	if row.Insecure() {
		out.Conditions = out.Conditions.with(insecureGateway)
	}
	return out, true
}

// insecureGateway is what a Gateway is told that lets clients in whatever certificate they
// show (Gateway API, InsecureFrontendValidationMode).
var insecureGateway = Condition{
	Type: string(gatewayv1.GatewayConditionInsecureFrontendValidationMode), Status: model.Up, Reason: string(gatewayv1.GatewayReasonConfigurationChanged),
	Message: "spec.tls.frontend has mode AllowInsecureFallback: clients are let in without a certificate, or with any",
}

// acceptedGateway: a Gateway is accepted if some listener is, its own or of a
// ListenerSet.
func acceptedGateway(row *fleet.Gateway) Condition {
	out := Condition{Type: v1alpha1.ConditionAccepted, Status: model.Up, Reason: v1alpha1.ReasonAccepted}
	if row.Refused != (model.Refusal{}) {
		out.Status, out.Reason, out.Message = model.Down, row.Refused.Reason, row.Refused.Message
		return out
	}
	lost := lacking(row.Own(), func(l fleet.Listener) bool { return l.Front != "" })
	if len(lost) > 0 {
		out.Reason, out.Message = string(gatewayv1.GatewayReasonListenersNotValid), "not accepted: listener "+model.Few(lost)
		if len(lost) == len(row.Own().Listeners) && row.Sets() == 0 {
			out.Status = model.Down
		}
	}
	return out
}

// lacking names the listeners of a part of which something is not so.
func lacking(p *fleet.Part, so func(fleet.Listener) bool) []string {
	var out []string
	for _, l := range p.Listeners {
		if !so(l) {
			out = append(out, l.Spec.Name)
		}
	}
	return out
}

// resolvedGateway: the references of a Gateway are resolved if its own are, and those
// of its listeners.
func resolvedGateway(row *fleet.Gateway) Condition {
	out := verdict(v1alpha1.ConditionResolvedRefs, v1alpha1.ReasonResolvedRefs, row.Broken)
	lost := lacking(row.Own(), func(l fleet.Listener) bool { return l.Broken == (model.Refusal{}) })
	if out.Status == model.Up && len(lost) > 0 {
		out.Status, out.Reason, out.Message = model.Down, string(gatewayv1.GatewayReasonListenersNotResolved), "not resolved: listener "+model.Few(lost)
	}
	return out
}

// assignedGateway says whether a Gateway has the addresses that it asks for (GEP-5093,
// "Full and Partially Accepted Address Entry Semantics").
func assignedGateway(s GatewayStatus, unmet []fleet.Unmet, of int) Condition {
	out := Condition{Type: string(gatewayv1.GatewayConditionAddressesAssigned), Status: model.Down, Message: unmetText(unmet)}
	switch {
	case len(unmet) > 0 && len(unmet) < of:
		out.Reason = string(gatewayv1.GatewayReasonAddressesPartiallyAssigned)
	case len(unmet) > 0:
		out.Reason = string(gatewayv1.GatewayReasonAddressesNotAssigned)
	case len(s.Addresses) == 0:
		out.Reason, out.Message = string(gatewayv1.GatewayReasonAddressesNotAssigned), noAddresses
	default:
		out.Status, out.Reason = model.Up, string(gatewayv1.GatewayReasonAddressesAssigned)
	}
	return out
}

// noAddresses is what a Gateway is told that has none.
const noAddresses = "no Edge with addresses serves the Gateway"

func unmetText(unmet []fleet.Unmet) string {
	out := make([]string, len(unmet))
	for i, u := range unmet {
		out[i] = u.String()
	}
	return strings.Join(out, "; ")
}

// programmedGateway: a Gateway is programmed if some listener is, and it has every
// address that it asks for by its value, and of others some.
func programmedGateway(row *fleet.Gateway, s GatewayStatus, unmet []fleet.Unmet, assigned Condition) Condition {
	best := bestProgrammed(s.Listeners)
	named := slices.ContainsFunc(unmet, func(u fleet.Unmet) bool { return u.Named() })
	switch {
	case len(unmet) > 0 && assigned.Reason == string(gatewayv1.GatewayReasonAddressesNotAssigned):
		best.Status, best.Reason, best.Message = model.Down, string(gatewayv1.GatewayReasonAddressNotAssigned), assigned.Message
	case named:
		best.Status, best.Reason, best.Message = model.Down, string(gatewayv1.GatewayReasonAddressNotUsable), assigned.Message
	case !row.Own().Serves():
		best.Reason = string(gatewayv1.GatewayReasonInvalid)
	case best.Status != model.Up && len(s.Addresses) == 0:
		best.Reason, best.Message = string(gatewayv1.GatewayReasonAddressNotAssigned), noAddresses
	}
	return best
}

// bestProgrammed is Programmed of the listener that is best off.
func bestProgrammed(all []ListenerStatus) Condition {
	best := Condition{Type: v1alpha1.ConditionProgrammed, Status: model.Down, Reason: string(gatewayv1.ListenerReasonInvalid)}
	var waits []string
	for i, l := range all {
		c := l.Conditions.of(v1alpha1.ConditionProgrammed)
		if i == 0 || c.Status == model.Up && best.Status != model.Up {
			best = c
		}
		if c.Status != model.Up {
			waits = append(waits, l.Name)
		}
	}
	if best.Status == model.Up && len(waits) > 0 {
		best.Message += "; not programmed: listener " + model.Few(waits)
	}
	return best
}

// with is a condition more, where it belongs.
func (a Conditions) with(c Condition) Conditions {
	out := append(slices.Clone(a), c)
	slices.SortFunc(out, func(a, b Condition) int { return strings.Compare(a.Type, b.Type) })
	return out
}

// of is the condition of a type.
func (a Conditions) of(t string) Condition {
	for _, c := range a {
		if c.Type == t {
			return c
		}
	}
	return Condition{}
}

// listeners are the statuses of the listeners of a part.
func (d *derivation) listeners(r *inc.Reader, p *fleet.Part) []ListenerStatus {
	out := make([]ListenerStatus, len(p.Listeners))
	for i, l := range p.Listeners {
		attached := d.p.AttachedTo.Keys(r, fleet.ListenerID{Of: p.Object, Place: i})
		out[i] = ListenerStatus{Name: l.Spec.Name, Kinds: l.Spec.Routes.Kinds, Attached: len(attached), Conditions: d.listener(r, l)}
	}
	return out
}

func (d *derivation) listener(r *inc.Reader, l fleet.Listener) Conditions {
	accepted := verdict(v1alpha1.ConditionAccepted, v1alpha1.ReasonAccepted, l.Refused)
	conflicted := Condition{Type: string(gatewayv1.ListenerConditionConflicted), Status: model.Down, Reason: string(gatewayv1.ListenerReasonNoConflicts)}
	if l.Conflict != (model.Refusal{}) {
		conflicted.Status, conflicted.Reason, conflicted.Message = model.Up, l.Conflict.Reason, l.Conflict.Message
	}
	out := Conditions{accepted, conflicted, d.programmed(r, l), verdict(v1alpha1.ConditionResolvedRefs, v1alpha1.ReasonResolvedRefs, l.Broken)}
	if c, ok := d.overlapping(r, l); ok {
		out = out.with(c)
	}
	return out
}

// overlapping is what a listener is told if names of it are another's of its front, too:
// clients that hold a connection for the one may try to use it for the other (Gateway
// API, OverlappingTLSConfig).
func (d *derivation) overlapping(r *inc.Reader, l fleet.Listener) (Condition, bool) {
	if l.Front == "" || l.Spec.Protocol != model.HTTPS {
		return Condition{}, false
	}
	var others []string
	hosts, _ := d.p.ListenerHosts.Get(r, l.Front)
	for _, h := range hosts {
		if _, meets := l.Spec.Host.Meet(h); meets && h != l.Spec.Host {
			others = append(others, h.Described())
		}
	}
	return Condition{
		Type: string(gatewayv1.ListenerConditionOverlappingTLSConfig), Status: model.Up, Reason: string(gatewayv1.ListenerReasonOverlappingHostnames),
		Message: "names of it are those of the listener for " + model.Few(others) + ", too: a request for one of these on a connection for the other is answered 421",
	}, len(others) > 0
}

// verdict is a condition that is True unless something is refused.
func verdict(kind, reason string, refused model.Refusal) Condition {
	if refused == (model.Refusal{}) {
		return Condition{Type: kind, Status: model.Up, Reason: reason}
	}
	return Condition{Type: kind, Status: model.Down, Reason: refused.Reason, Message: refused.Message}
}

// programmed: each edge that serves the listener and has a proxy with a stream has
// acknowledged its host, which is there without routes, too. Who lost its stream has
// what it acknowledged. Where something older has the host, what is left to the
// listener is what is below it: nothing, of one name.
func (d *derivation) programmed(r *inc.Reader, l fleet.Listener) Condition {
	spec, out := l.Spec, Condition{Type: v1alpha1.ConditionProgrammed, Status: model.Down, Reason: string(gatewayv1.ListenerReasonInvalid), Message: "see the other conditions"}
	if l.Conflict != (model.Refusal{}) && l.Refused == l.Conflict {
		out.Reason = l.Conflict.Reason
	}
	if !l.Serves() {
		return out
	}
	at := d.edgesOf(r, model.HostKey{Class: l.Front, Host: spec.Host})
	of, port := at.bound, fmt.Sprintf("port %d", spec.Port)
	if of > 0 {
		port = fmt.Sprintf("%s on port %d", spec.Host.Described(), spec.Port)
	}
	taken := fmt.Sprintf("something older has %s of %s", port, model.Few(at.taken))
	switch {
	case of == 0 && len(at.lacks) > 0:
		out.Reason, out.Message = string(gatewayv1.ListenerReasonPending), "the Gateway has no address of "+model.Few(at.lacks)
	case of == 0 && len(at.taken) > 0 || of > 0 && len(at.taken) == of && spec.Host.Exact():
		out.Reason, out.Message = v1alpha1.ReasonConflict, taken
	case of == 0:
		out.Reason, out.Message = string(gatewayv1.ListenerReasonPending), "no Edge serves the Gateway"
	case len(at.waits) > 0:
		out.Reason, out.Message = string(gatewayv1.ListenerReasonPending), "not acknowledged at "+model.Few(at.waits)
	case at.has == 0:
		out.Reason, out.Message = v1alpha1.ReasonNoProxy, "no proxy is connected of "+model.Few(at.deaf)
	default:
		out.Status, out.Reason, out.Message = model.Up, v1alpha1.ReasonProgrammed, fmt.Sprintf("acknowledged at %d of %d edges", at.has, of)
		if len(at.deaf) > 0 {
			out.Message += "; no proxy is connected of " + model.Few(at.deaf)
		}
		if len(at.taken) > 0 {
			out.Message += "; " + taken
		}
	}
	return out
}

// listenerAt is how far a listener is at the edges of its Gateway.
type listenerAt struct {
	has   int
	waits []string // edges that have proxies with a stream, none of which has it
	deaf  []string // that have none
	taken []string // where something older has its host or, if it is bound nowhere, its port
	lacks []string // that have no address for its Gateway, which shares none with others, if it is bound nowhere
	bound int      // edges that have its port
}

func (d *derivation) edgesOf(r *inc.Reader, key model.HostKey) listenerAt {
	var out listenerAt
	var shut []string
	acks, _ := d.p.In.Acks.Get(r, key)
	info, _ := d.p.ClassInfo.Get(r, key.Class)
	for _, e := range info.Edges {
		if _, ok := d.p.Binding(r, key.Class, e); !ok {
			shut = append(shut, string(e))
			continue
		}
		out.bound++
		owned := d.p.Owns(r, e, key)
		if !owned {
			out.taken = append(out.taken, string(e))
		}
		switch _, heard := d.heard.Get(r, e); {
		case acks.Has(e) && owned, heard && !owned:
			out.has++
		case heard:
			out.waits = append(out.waits, string(e))
		default:
			out.deaf = append(out.deaf, string(e))
		}
	}
	switch {
	case out.bound > 0:
	case info.Config.Own:
		out.lacks = shut
	default:
		out.taken = shut
	}
	return out
}

func (d *derivation) route(r *inc.Reader, k model.Object) (RouteStatus, bool) {
	root, _ := d.p.In.Roots.Get(r, k)
	parents, ok := d.p.Parents.Get(r, k)
	if !ok {
		return RouteStatus{}, root.Ours
	}
	resolved, _ := d.p.Resolved.Get(r, k)
	var rejected fleet.Rejections
	if _, some := d.p.AnyRejected.Get(r, model.All{}); some {
		rejected, _ = d.p.Rejected.Get(r, k)
	}
	var out RouteStatus
	quiet := false // something is not known, and we said of it what is known
	for i, p := range parents {
		refused := p.Refused
		if refused == (model.Refusal{}) && i < len(rejected) {
			refused = rejected[i]
		}
		if p.Leaf && refused == (model.Refusal{}) {
			list, sure := d.leafParent(r, k, p, resolved)
			out.Parents = append(out.Parents, list.about(p.Parent, root.Route.Generation))
			quiet = quiet || !sure && root.Ours
			continue
		}
		list := Conditions{verdict(v1alpha1.ConditionAccepted, v1alpha1.ReasonAccepted, refused)}
		if !resolved.Unsure {
			list = append(list, verdict(v1alpha1.ConditionResolvedRefs, v1alpha1.ReasonResolvedRefs, resolved.Refused))
		}
		out.Parents = append(out.Parents, list.about(p.Parent, root.Route.Generation))
	}
	out.Settled = quiet || resolved.Unsure && root.Ours || model.ParentTexts(out.Parents) == root.Published
	return out, true
}

// about states conditions of a parent.
func (a Conditions) about(p model.Parent, generation int64) model.ParentStatus {
	out := model.ParentStatus{Parent: p}
	for _, c := range a {
		out.Conditions = append(out.Conditions, model.StatedCondition{Type: c.Type, Status: c.Status.String(), Reason: c.Reason, Message: strings.ToValidUTF8(c.Message, ""), Generation: generation})
	}
	return out
}
