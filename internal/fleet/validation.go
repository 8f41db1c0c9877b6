package fleet

import (
	"fmt"
	"slices"
	"strings"

	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"

	"github.com/spillway-dev/spillway/internal/inc"
	"github.com/spillway-dev/spillway/internal/model"
)

// A port of a Gateway may let clients in by their certificates. That belongs to what the
// port is: who shares it says the same of it. Otherwise a connection that was let in for
// one host could carry requests for another that asks for more, since nothing but names
// tells them apart then.

// admission is which clients an HTTPS listener lets in, or why it can't say.
type admission struct {
	clients model.ClientTrust
	refused model.Refusal // why the listener is not accepted
	broken  model.Refusal // why references are not resolved
}

// validationOf is what a Gateway says of a port.
func validationOf(spec model.GatewaySpec, port uint16) model.Validation {
	for _, of := range []uint16{port, 0} {
		if i := slices.IndexFunc(spec.Validations, func(v model.Validation) bool { return v.Port == of }); i >= 0 {
			return spec.Validations[i]
		}
	}
	return model.Validation{}
}

// admits decides which clients a port of a Gateway lets in: those of the authorities
// that are there. Without any nobody is.
func (w *gateways) admits(r *inc.Reader, id model.GatewayID, port uint16, spec model.GatewaySpec) admission {
	said := validationOf(spec, port)
	out := admission{broken: said.Broken}
	var all []string
	for _, ref := range said.Bundles {
		pem, why := w.authority(r, id, ref)
		if why == (model.Refusal{}) {
			all = append(all, pem)
		} else if out.broken == (model.Refusal{}) {
			out.broken = why
		}
	}
	switch {
	case len(all) > 0:
		out.clients = model.ClientTrustKey{CA: strings.Join(all, ""), Fallback: said.Fallback}.ClientTrust()
	case out.broken != (model.Refusal{}):
		out.refused = model.Refusal{Reason: string(gatewayv1.ListenerReasonNoValidCACertificate), Message: "no reference of spec.tls.frontend leads to certificates of authorities"}
	}
	return out
}

// authority is the certificates that a Gateway refers to, or why it can't. What is of no
// namespace is for everybody.
func (w *gateways) authority(r *inc.Reader, id model.GatewayID, ref model.Object) (string, model.Refusal) {
	from := model.GrantFrom{Group: model.GatewayGroup, Kind: model.GatewayKind, Namespace: id.Namespace}
	if ref.Namespace != "" && !w.granted(r, id.Workspace, from, ref.Namespace, model.GrantTo{Kind: ref.Kind, Name: ref.Name}) {
		return "", model.Refusal{Reason: string(gatewayv1.ListenerReasonRefNotPermitted),
			Message: fmt.Sprintf("no ReferenceGrant in namespace %s lets Gateways of %s use %s", ref.Namespace, id.Namespace, ref)}
	}
	pem, problem := w.bundle(r, ref)
	if problem != "" {
		return "", model.Refusal{Reason: string(gatewayv1.ListenerReasonInvalidCACertificateRef), Message: fmt.Sprintf("%s: %s", ref, problem)}
	}
	return pem, model.Refusal{}
}

// Insecure reports whether some port lets clients in whatever they show.
func (a *Gateway) Insecure() bool {
	return slices.ContainsFunc(a.Spec.Validations, func(v model.Validation) bool { return v.Fallback })
}

// clients are those that a front lets in.
func (a *Gateway) clients(c model.Class) model.ClientTrust {
	for _, p := range a.Parts {
		for _, l := range p.Listeners {
			if l.Front == c && l.Spec.Protocol == model.HTTPS {
				return l.Clients
			}
		}
	}
	return model.ClientTrust{}
}
