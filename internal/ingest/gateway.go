package ingest

import (
	"fmt"
	"net/netip"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"

	"github.com/spillway-dev/spillway/internal/model"
)

// httpKinds are the kinds of routes for HTTP, sorted.
var httpKinds = model.TextsOf([]string{"GRPCRoute", "HTTPRoute"})

// routeKinds are the kinds of routes that listeners of a protocol take.
var routeKinds = map[model.Protocol]model.Texts{
	model.HTTP:        httpKinds,
	model.HTTPS:       httpKinds,
	model.TLSProtocol: model.TextsOf([]string{"TLSRoute"}),
	model.TCP:         model.TextsOf([]string{"TCPRoute"}),
	model.UDP:         model.TextsOf([]string{"UDPRoute"}),
}

var protocolOf = map[gatewayv1.ProtocolType]model.Protocol{
	gatewayv1.HTTPProtocolType: model.HTTP, gatewayv1.HTTPSProtocolType: model.HTTPS, gatewayv1.TLSProtocolType: model.TLSProtocol,
	gatewayv1.TCPProtocolType: model.TCP, gatewayv1.UDPProtocolType: model.UDP,
}

// Gateway reads a Gateway. It gives a row even if nothing of it is valid: whose it
// is depends on its class, and each listener has a status.
func Gateway(o *gatewayv1.Gateway) (model.GatewayID, model.GatewaySpec, model.Findings) {
	g := &gateway{report: reportOf(object("Gateway", o))}
	id := model.GatewayID{Workspace: g.Object.Workspace, Namespace: o.Namespace, Name: o.Name}
	spec := model.GatewaySpec{
		Created: created(o), Generation: o.Generation,
		Class: model.GatewayClass(model.Scoped(Workspace(o), string(o.Spec.GatewayClassName))),
	}
	for i := range o.Spec.Listeners {
		spec.Listeners = append(spec.Listeners, g.listener(model.Field("spec.listeners").Index(i), &o.Spec.Listeners[i]))
	}
	if t := o.Spec.TLS; t != nil && t.Backend != nil && t.Backend.ClientCertificateRef != nil {
		spec.Client, spec.Broken = g.client("spec.tls.backend.clientCertificateRef", *t.Backend.ClientCertificateRef)
	}
	if t := o.Spec.TLS; t != nil && t.Frontend != nil {
		spec.Validations = g.frontend("spec.tls.frontend", t.Frontend)
	}
	spec.Addresses, spec.Refused = g.addresses("spec.addresses", o.Spec.Addresses)
	if a := o.Spec.AllowedListeners; a != nil {
		spec.Sets = g.sets("spec.allowedListeners.namespaces", a.Namespaces)
	}
	if i := o.Spec.Infrastructure; i != nil && i.ParametersRef != nil {
		spec.Refused = g.refuse("spec.infrastructure.parametersRef", gatewayv1.ListenerConditionReason(gatewayv1.GatewayReasonInvalidParameters),
			"a %s can't say how a Gateway is served: leave it out, and name a GatewayClassConfig in the GatewayClass", i.ParametersRef.Kind)
	}
	return id, spec, g.Findings()
}

type gateway struct{ report }

// addresses are those that a Gateway asks for. A routability that no Edge has is not
// refused: some Edge may have it later.
func (g *gateway) addresses(field model.Field, list []gatewayv1.GatewaySpecAddress) (out []model.AddressRequest, refused model.Refusal) {
	const reason = gatewayv1.ListenerConditionReason(gatewayv1.GatewayReasonUnsupportedAddress)
	for i, a := range list {
		asked := model.AddressRequest{Scope: string(a.Routability)}
		ip, err := netip.ParseAddr(a.Value)
		switch at := field.Index(i); {
		case a.Type != nil && *a.Type != gatewayv1.IPAddressType:
			refused = g.refuse(at+".type", reason, "addresses of type %s are not supported: use IPAddress", *a.Type)
		case a.Value == "":
			out = append(out, asked)
		case err != nil || ip.Zone() != "":
			refused = g.refuse(at+".value", reason, "%q is no IP address", a.Value)
		default:
			asked.Address = ip.Unmap()
			out = append(out, asked)
		}
	}
	return out, refused
}

func (g *gateway) listener(field model.Field, l *gatewayv1.Listener) model.Listener {
	out := model.Listener{Name: string(l.Name), Port: uint16(l.Port), Protocol: protocolOf[l.Protocol], Field: field}
	if out.Protocol == model.NoProtocol {
		out.Refused = g.refuse(field+".protocol", gatewayv1.ListenerReasonUnsupportedProtocol, "protocol %q is not supported: use HTTP, HTTPS, TLS, TCP or UDP", l.Protocol)
	}
	if l.Port < 1 || l.Port > 65535 {
		out.Refused = g.refuse(field+".port", gatewayv1.ListenerReasonPortUnavailable, "%d is no port: use 1 to 65535", l.Port)
	}
	if l.Hostname != nil && out.Protocol != model.TCP && out.Protocol != model.UDP { // which have no names (Listener.hostname)
		var err error
		if out.Host, err = deepHost(string(*l.Hostname)); err != nil {
			out.Refused = g.refuse(field+".hostname", gatewayv1.ListenerReasonUnsupportedValue, "%v", err)
		}
	}
	if l.Filters != nil && len(l.Filters.Requests) > 0 { // which may protect what is behind it
		out.Refused = g.refuse(field+".filters.requests", gatewayv1.ListenerReasonUnsupportedValue,
			"filters of a listener are not supported: use the filter ExternalAuth of HTTPRoutes")
	}
	g.attachable(field+".allowedRoutes", l.AllowedRoutes, &out)
	if out.Protocol == model.HTTPS || out.Protocol == model.TLSProtocol {
		g.tls(field+".tls", l.TLS, &out)
	}
	return out
}

// refuse tells the owner why a listener is not accepted.
func (g *gateway) refuse(field model.Field, reason gatewayv1.ListenerConditionReason, format string, args ...any) model.Refusal {
	g.invalid(field, format, args...)
	return model.Refusal{Reason: string(reason), Message: fmt.Sprintf(format, args...)}
}

// deepHost reads a host name of the Gateway API, whose wildcards stand for any
// number of labels.
func deepHost(s string) (model.Host, error) {
	h, err := host(s)
	if err == nil && h.Wildcard() {
		h = "*" + h
	}
	return h, err
}

// attachable reads which routes may attach. Kinds that no listener of the protocol
// takes are left out.
func (g *gateway) attachable(field model.Field, a *gatewayv1.AllowedRoutes, out *model.Listener) {
	out.Routes.Kinds = routeKinds[out.Protocol]
	if a == nil {
		return
	}
	if n := a.Namespaces; n != nil {
		out.Routes.From, out.Routes.Selector = g.from(field+".namespaces", n)
	}
	if len(a.Kinds) == 0 {
		return
	}
	var kinds []string
	for i, k := range a.Kinds {
		known := (k.Group == nil || *k.Group == gatewayv1.GroupName) && slices.Contains(routeKinds[out.Protocol].List(), string(k.Kind))
		if known {
			kinds = append(kinds, string(k.Kind))
			continue
		}
		out.Broken = g.refuse((field + ".kinds").Index(i), gatewayv1.ListenerReasonInvalidRouteKinds, "%s can't attach to a listener of protocol %s", k.Kind, out.Protocol)
	}
	slices.Sort(kinds)
	out.Routes.Kinds = model.TextsOf(slices.Compact(kinds))
}

func (g *gateway) from(field model.Field, n *gatewayv1.RouteNamespaces) (model.Namespaces, string) {
	if n.From == nil {
		return model.SameNamespace, ""
	}
	switch *n.From {
	case gatewayv1.NamespacesFromAll:
		return model.AllNamespaces, ""
	case gatewayv1.NamespacesFromSame:
		return model.SameNamespace, ""
	case gatewayv1.NamespacesFromSelector:
		selector, err := metav1.LabelSelectorAsSelector(n.Selector)
		switch {
		case err != nil || n.Selector == nil:
			// The error itself depends on the order of a map.
			g.invalid(field+".selector", "the selector can't be read: check its keys, operators and values")
			return model.NoNamespace, ""
		case selector.Empty():
			return model.AllNamespaces, ""
		}
		return model.SelectedNamespaces, canonical(selector)
	}
	g.invalid(field+".from", "%q is not used: set Same, All or Selector", *n.From)
	return model.NoNamespace, ""
}

// tls reads which certificates a listener presents.
func (g *gateway) tls(field model.Field, t *gatewayv1.ListenerTLSConfig, out *model.Listener) {
	if mode := tlsMode(t); mode != gatewayv1.TLSModeTerminate {
		if out.Pass = out.Protocol == model.TLSProtocol && mode == gatewayv1.TLSModePassthrough; out.Pass {
			return
		}
		out.Refused = g.refuse(field+".mode", gatewayv1.ListenerReasonUnsupportedValue, "mode %q is not used with %s: set %s", mode, out.Protocol, gatewayv1.TLSModeTerminate)
	}
	if t == nil || len(t.CertificateRefs) == 0 {
		out.Broken = g.refuse(field+".certificateRefs", gatewayv1.ListenerReasonInvalidCertificateRef, "the name is missing: name a Secret of type kubernetes.io/tls")
		return
	}
	for i, ref := range t.CertificateRefs {
		at := (field + ".certificateRefs").Index(i)
		id, part, why := g.secret(ref)
		if why != "" {
			out.Broken = g.refuse(at+part, gatewayv1.ListenerReasonInvalidCertificateRef, "%s", why)
			continue
		}
		out.Secrets = append(out.Secrets, id)
	}
}

// tlsMode says where TLS ends.
func tlsMode(t *gatewayv1.ListenerTLSConfig) gatewayv1.TLSModeType {
	if t == nil || t.Mode == nil {
		return gatewayv1.TLSModeTerminate
	}
	return *t.Mode
}

// client reads which certificate is shown to backends.
func (g *gateway) client(field model.Field, ref gatewayv1.SecretObjectReference) (model.SecretID, model.Refusal) {
	id, part, why := g.secret(ref)
	if why == "" {
		return id, model.Refusal{}
	}
	field += part
	g.invalid(field, "%s", why)
	return model.SecretID{}, model.Refusal{Reason: string(gatewayv1.GatewayReasonInvalidClientCertificateRef), Message: string(field) + ": " + why}
}

// secret is the Secret of a reference, or why there can't be one, and by which part.
func (g *gateway) secret(ref gatewayv1.SecretObjectReference) (id model.SecretID, part model.Field, why string) {
	switch {
	case ref.Group != nil && *ref.Group != "" || ref.Kind != nil && *ref.Kind != "Secret":
		return id, ".kind", "a certificate must be a Secret"
	case len(validation.IsDNS1123Subdomain(string(ref.Name))) > 0:
		return id, ".name", fmt.Sprintf("%q is no name of a Secret", ref.Name)
	}
	return model.SecretID{Workspace: g.Object.Workspace, Namespace: otherwise(ref.Namespace, g.Object.Namespace), Name: string(ref.Name)}, "", ""
}

// otherwise is a text, or what stands for it where it is missing.
func otherwise[T ~string](s *T, otherwise string) string {
	if s == nil {
		return otherwise
	}
	return string(*s)
}
