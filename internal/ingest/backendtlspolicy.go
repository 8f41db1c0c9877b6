package ingest

import (
	"fmt"
	"net/url"
	"slices"

	"k8s.io/apimachinery/pkg/util/validation"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"

	"github.com/spillway-dev/spillway/internal/model"
)

// BackendTLSPolicy reads how pods are spoken to over TLS. It gives a row even if
// nothing of it is valid: whoever it is for must not be spoken to without TLS.
func BackendTLSPolicy(o *gatewayv1.BackendTLSPolicy) (model.Object, model.BackendTLSSpec, model.Findings) {
	in := &tlsPolicy{report: reportOf(object("BackendTLSPolicy", o))}
	in.spec.Created, in.spec.Generation = created(o), o.Generation
	for i, ref := range o.Spec.TargetRefs {
		in.target(model.Field("spec.targetRefs").Index(i), ref)
	}
	in.trust("spec.validation", &o.Spec.Validation)
	in.names("spec.validation", &o.Spec.Validation)
	said := ourAncestors(o.Status.Ancestors)
	in.spec.Published, in.spec.Ours = model.ParentTexts(said), len(said) > 0
	return in.Object, in.spec, in.Findings()
}

type tlsPolicy struct {
	report
	spec model.BackendTLSSpec
}

// target reads what the policy is for.
func (in *tlsPolicy) target(field model.Field, ref gatewayv1.LocalPolicyTargetReferenceWithSectionName) {
	service, known := serviceKinds[groupKind{string(ref.Group), string(ref.Kind)}]
	if !known {
		in.invalid(field, "a %s of group %q is not reached over TLS: name a Service, or a ServiceImport of group %s", ref.Kind, ref.Group, model.ImportGroup)
		return
	}
	if len(validation.IsDNS1123Label(string(ref.Name))) > 0 {
		in.invalid(field+".name", "%q is no name of a Service", ref.Name)
		return
	}
	t := model.BackendKey{
		Workspace: in.Object.Workspace, Service: service(in.Object.Namespace, string(ref.Name)), Port: model.PortRef{Name: otherwise(ref.SectionName, "")},
	}.Backend()
	if !slices.Contains(in.spec.Targets, t) {
		in.spec.Targets = append(in.spec.Targets, t)
	}
}

// refuse tells the owner why the policy is not accepted.
func (in *tlsPolicy) refuse(field model.Field, format string, args ...any) {
	in.invalid(field, format, args...)
	if in.spec.Refused == (model.Refusal{}) {
		in.spec.Refused = model.Refusal{Reason: string(gatewayv1.PolicyReasonInvalid), Message: fmt.Sprintf(string(field)+": "+format, args...)}
	}
}

// trust reads whose certificates are good.
func (in *tlsPolicy) trust(field model.Field, v *gatewayv1.BackendTLSPolicyValidation) {
	switch known := otherwise(v.WellKnownCACertificates, ""); {
	case len(v.CACertificateRefs) > 0 && known != "":
		in.refuse(field, "both caCertificateRefs and wellKnownCACertificates are set: set one of them")
		return
	case len(v.CACertificateRefs) == 0 && known == string(gatewayv1.WellKnownCACertificatesSystem):
		in.spec.System = true
		return
	case len(v.CACertificateRefs) == 0:
		in.refuse(field+".wellKnownCACertificates", "%q is not known: set System, or caCertificateRefs", known)
		return
	}
	for i, ref := range v.CACertificateRefs {
		o, ok := authorities(in.Object.Workspace, in.Object.Namespace, ref)
		if !ok {
			in.broken((field + ".caCertificateRefs").Index(i), ref)
			continue
		}
		in.spec.Bundles = append(in.spec.Bundles, o)
	}
}

// broken notes a reference to what holds no certificates of authorities.
func (in *tlsPolicy) broken(field model.Field, ref gatewayv1.LocalObjectReference) {
	in.invalid(field, noAuthorities, ref.Kind)
	in.spec.Broken = model.Refusal{Reason: string(gatewayv1.BackendTLSPolicyReasonInvalidKind), Message: fmt.Sprintf(string(field)+": "+noAuthorities, ref.Kind)}
}

// names reads what the certificate of a pod must say.
func (in *tlsPolicy) names(field model.Field, v *gatewayv1.BackendTLSPolicyValidation) {
	if in.spec.Host = string(v.Hostname); len(validation.IsDNS1123Subdomain(in.spec.Host)) > 0 {
		in.refuse(field+".hostname", "%q is no name of a host", v.Hostname)
	}
	var names, uris []string
	for i, san := range v.SubjectAltNames {
		at := (field + ".subjectAltNames").Index(i)
		switch san.Type {
		case gatewayv1.HostnameSubjectAltNameType:
			if h, err := deepHost(string(san.Hostname)); err != nil || h == "" {
				in.refuse(at+".hostname", "%q is no name of a host", san.Hostname)
			} else {
				names = append(names, string(h))
			}
		case gatewayv1.URISubjectAltNameType:
			if u, err := url.Parse(string(san.URI)); err != nil || !u.IsAbs() {
				in.refuse(at+".uri", "%q is no absolute URI", san.URI)
			} else {
				uris = append(uris, string(san.URI))
			}
		default:
			in.refuse(at+".type", "%q is not known: set Hostname or URI", san.Type)
		}
	}
	in.spec.Names, in.spec.URIs = sortedTexts(names), sortedTexts(uris)
}

func sortedTexts(list []string) model.Texts {
	slices.Sort(list)
	return model.TextsOf(slices.Compact(list))
}

// ourAncestors reads what we said of a policy: entries of other controllers are theirs.
func ourAncestors(list []gatewayv1.PolicyAncestorStatus) []model.ParentStatus {
	same := make([]gatewayv1.RouteParentStatus, len(list))
	for i, of := range list {
		same[i] = gatewayv1.RouteParentStatus{ParentRef: of.AncestorRef, ControllerName: of.ControllerName, Conditions: of.Conditions}
	}
	return ourParents(same)
}
