package ingest

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	routev1 "github.com/openshift/api/route/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/spillway-dev/spillway/api/v1alpha1"
	"github.com/spillway-dev/spillway/internal/model"
)

// Reasons of Routes that are not admitted, as the router of OpenShift has them.
const (
	reasonNoHost     = "NoHostValue"
	reasonInvalid    = "ExtendedValidationFailed"
	reasonNotServed  = "RouteNotAdmitted"
	usualRouteWeight = 100
	mostRouteWeight  = 256
)

// Held is what a Route has in itself, and others in objects of their own; nil: it has none.
type Held struct {
	Certificate *model.Certificate // InlineCertificate is its name
	Authorities *model.Bundle      // whom its backends are trusted by; it has the Route's name
}

// Route reads a Route of OpenShift with its name, and its one rule for its one host. A
// Route of which something is invalid is not admitted as a whole, and has nothing but its
// place: requests for its host go to nobody else's wildcard. It gives a row even then:
// whether it is ours to complain about depends on its class.
func Route(o *routev1.Route) (model.Object, model.Root, []HostRules, Held, model.Findings) {
	in := &openShift{report: reportOf(object(model.OpenShiftRoute, o)), spec: &o.Spec}
	in.root = model.Root{Created: created(o), Admit: &in.admit}
	if name := o.Annotations[v1alpha1.AnnotationIngressClass]; name != "" {
		in.root.Classes = model.ClassesOf(model.Class(model.Scoped(Workspace(o), name)))
	}
	in.published(o.Status.Ingress)
	h := in.host()
	rule := model.Rule{Field: "spec.host", Matches: []model.Match{in.path()}}
	over := in.tls(h)
	rule.Backends = in.backends(over)
	rule.Filters = in.filters(o, over)
	var rules []HostRules
	if h != "" {
		rules = []HostRules{{Host: h}}
	}
	if in.admit.Refused != (model.Refusal{}) {
		in.root.TLS, in.held = nil, Held{}
		return in.Object, in.root, rules, in.held, in.Findings()
	}
	rules[0].Rules = model.Rules{rule}
	return in.Object, in.root, rules, in.held, in.Findings()
}

type openShift struct {
	report
	spec  *routev1.RouteSpec
	root  model.Root
	admit model.AdmitSpec
	held  Held
}

// refuse tells the owner why the Route is not admitted, and notes the first.
func (in *openShift) refuse(reason string, field model.Field, format string, args ...any) {
	in.invalid(field, format, args...)
	in.note(reason, field, format, args...)
}

func (in *openShift) note(reason string, field model.Field, format string, args ...any) {
	if in.admit.Refused == (model.Refusal{}) {
		in.admit.Refused = model.Refusal{Reason: reason, Message: fmt.Sprintf(string(field)+": "+format, args...)}
	}
}

// published reads what we said of the Route: entries of other routers are theirs.
func (in *openShift) published(list []routev1.RouteIngress) {
	var texts []string
	for i := range list {
		if list[i].RouterName == v1alpha1.RouterName {
			said := Admission(&list[i])
			in.admit.Canonical = said.Canonical
			texts = append(texts, said.Text())
		}
	}
	slices.Sort(texts)
	in.root.Published, in.root.Ours = model.TextsOf(texts), len(texts) > 0
}

// Admission reads an entry of the status of a Route.
func Admission(of *routev1.RouteIngress) model.Admission {
	out := model.Admission{Host: of.Host, Subdomain: of.WildcardPolicy == routev1.WildcardPolicySubdomain, Canonical: of.RouterCanonicalHostname}
	for _, c := range of.Conditions {
		if c.Type == routev1.RouteAdmitted {
			out.Admitted, out.Reason, out.Message = c.Status == "True", c.Reason, c.Message
		}
	}
	return out
}

// host reads the host that is exposed; empty: there is none.
func (in *openShift) host() model.Host {
	in.admit.Host = in.spec.Host
	if in.spec.Host == "" {
		field, what := model.Field("spec.host"), "the host is missing, and edges have no domain of which one could be made"
		if in.spec.Subdomain != "" {
			field, what = "spec.subdomain", "edges have no domain that the host could be below"
		}
		in.refuse(reasonNoHost, field, "%s: set spec.host", what)
		return ""
	}
	h, err := host(in.spec.Host)
	if err == nil && h.Wildcard() {
		err = fmt.Errorf("%q has a wildcard: write a name such as www%s, and set wildcardPolicy to Subdomain", in.spec.Host, strings.TrimPrefix(string(h), "*"))
	}
	if err != nil {
		in.refuse(reasonInvalid, "spec.host", "%v", err)
		return ""
	}
	switch in.spec.WildcardPolicy {
	case "", routev1.WildcardPolicyNone:
		return h
	case routev1.WildcardPolicySubdomain:
		if in.admit.Subdomain = true; h.Above() == "" {
			in.refuse(reasonInvalid, "spec.wildcardPolicy", "%q is below no domain: set a host such as www.shop.example", in.spec.Host)
			return h
		}
		return h.Above()
	}
	in.refuse(reasonInvalid, "spec.wildcardPolicy", "%q is not known: set None or Subdomain", in.spec.WildcardPolicy)
	return h
}

// path reads what is served of the host.
func (in *openShift) path() model.Match {
	if in.spec.Path == "" {
		return model.Everything
	}
	if err := absolute(in.spec.Path); err != nil {
		in.refuse(reasonInvalid, "spec.path", "%v", err)
	}
	return model.Match{Kind: model.PathPrefix, Path: prefix(in.spec.Path)}
}

// tls reads how the Route is asked for, and what is presented.
func (in *openShift) tls(h model.Host) model.Over {
	t := in.spec.TLS
	if t == nil {
		return model.OnlyHTTP
	}
	switch t.Termination {
	case routev1.TLSTerminationPassthrough:
		in.passes(t)
		return in.insecure(t, insecurePassed)
	case routev1.TLSTerminationEdge:
		if t.DestinationCACertificate != "" {
			in.refuse(reasonInvalid, "spec.tls.destinationCACertificate", "pods are not spoken to over TLS: leave it out, or set termination to reencrypt")
		}
	case routev1.TLSTerminationReencrypt:
		in.trusts(t)
	default:
		in.refuse(reasonInvalid, "spec.tls.termination", "%q is not known: set edge, passthrough or reencrypt", t.Termination)
	}
	in.presents(h, t)
	return in.insecure(t, insecureEnded)
}

// What is done without TLS, where TLS ends at the edge and where it does not.
var (
	insecureEnded = map[routev1.InsecureEdgeTerminationPolicyType]model.Over{
		"": model.OnlyHTTPS, routev1.InsecureEdgeTerminationPolicyNone: model.OnlyHTTPS,
		routev1.InsecureEdgeTerminationPolicyAllow: model.Both, routev1.InsecureEdgeTerminationPolicyRedirect: model.MovedToHTTPS,
	}
	insecurePassed = map[routev1.InsecureEdgeTerminationPolicyType]model.Over{
		"": model.Passed, routev1.InsecureEdgeTerminationPolicyNone: model.Passed, routev1.InsecureEdgeTerminationPolicyRedirect: model.PassedAndMoved,
	}
)

func (in *openShift) insecure(t *routev1.TLSConfig, known map[routev1.InsecureEdgeTerminationPolicyType]model.Over) model.Over {
	over, ok := known[t.InsecureEdgeTerminationPolicy]
	if !ok {
		allow := ""
		if len(known) == len(insecureEnded) {
			allow = ", Allow"
		}
		in.refuse(reasonInvalid, "spec.tls.insecureEdgeTerminationPolicy", "%q is not known for termination %s: set None%s or Redirect", t.InsecureEdgeTerminationPolicy, t.Termination, allow)
	}
	return over
}

// passes checks a Route of which edges read nothing.
func (in *openShift) passes(t *routev1.TLSConfig) {
	if in.spec.Path != "" {
		in.refuse(reasonInvalid, "spec.path", "edges do not read what clients encrypt for the pods, so there is no path to go by: leave it out, or set another termination")
	}
	for _, p := range []part{
		{"certificate", []byte(t.Certificate)}, {"key", []byte(t.Key)}, {"caCertificate", []byte(t.CACertificate)}, {"destinationCACertificate", []byte(t.DestinationCACertificate)},
	} {
		if len(p.text) > 0 {
			in.refuse(reasonInvalid, model.Field("spec.tls."+p.name), "TLS ends at the pods: leave it out, or set another termination")
		}
	}
	if t.ExternalCertificate != nil {
		in.refuse(reasonInvalid, "spec.tls.externalCertificate", "TLS ends at the pods: leave it out, or set another termination")
	}
}

// trusts reads whom pods must be certified by.
func (in *openShift) trusts(t *routev1.TLSConfig) {
	if t.DestinationCACertificate == "" {
		return
	}
	chain, _, err := parseChain([]byte(t.DestinationCACertificate))
	if err != nil {
		in.refuse(reasonInvalid, "spec.tls.destinationCACertificate", "it holds no certificates, or one that can't be parsed: write PEM")
		return
	}
	in.held.Authorities = &model.Bundle{PEM: string(chain)}
}

// presents reads the certificate for a host.
func (in *openShift) presents(h model.Host, t *routev1.TLSConfig) {
	out := model.TLS{Hosts: []model.Host{h.TLSName()}}
	external := t.ExternalCertificate != nil && t.ExternalCertificate.Name != ""
	switch {
	case external && t.Certificate != "":
		in.refuse(reasonInvalid, "spec.tls.externalCertificate", "certificate is set, too: set one of them")
		return
	case external:
		if problems := validation.IsDNS1123Subdomain(t.ExternalCertificate.Name); len(problems) > 0 {
			in.refuse(reasonInvalid, "spec.tls.externalCertificate.name", "%q is no name of a Secret: %s", t.ExternalCertificate.Name, because(problems))
			return
		}
		out.Field = "spec.tls.externalCertificate"
		out.Secret = model.SecretID{Workspace: in.Object.Workspace, Namespace: in.Object.Namespace, Name: t.ExternalCertificate.Name}
	case t.Certificate == "" && t.Key == "":
		return // that of a name above is presented
	default:
		chain := t.Certificate + "\n" + t.CACertificate
		c, err := keyPair(part{"certificate", []byte(chain)}, part{"key", []byte(t.Key)})
		if err != nil {
			in.refuse(reasonInvalid, "spec.tls.certificate", "%v", err)
			return
		}
		in.held.Certificate = &c
		out.Field, out.Secret = "spec.tls.certificate", model.InlineCertificate(in.Object)
	}
	in.root.TLS = []model.TLS{out}
}

// backends reads where requests go.
func (in *openShift) backends(over model.Over) []model.WeightedBackend {
	port, ok := in.port()
	if over.Passes() {
		port.For, port.Pass = model.Connections, true
	}
	if t := in.spec.TLS; t != nil && t.Termination == routev1.TLSTerminationReencrypt {
		port.Route = in.Object.Name
	}
	out := []model.WeightedBackend{in.backend("spec.to", in.spec.To, port)}
	for i, ref := range in.spec.AlternateBackends {
		out = append(out, in.backend(model.Field("spec.alternateBackends").Index(i), ref, port))
	}
	if !ok {
		return nil
	}
	return out
}

func (in *openShift) backend(field model.Field, ref routev1.RouteTargetReference, port model.PortRef) model.WeightedBackend {
	out := model.WeightedBackend{Weight: usualRouteWeight}
	if ref.Kind != "" && ref.Kind != "Service" {
		in.refuse(reasonInvalid, field+".kind", "a %s is no backend: use a Service", ref.Kind)
	}
	if problems := validation.IsDNS1123Label(ref.Name); len(problems) > 0 {
		in.refuse(reasonInvalid, field+".name", "%q is no name of a Service: %s", ref.Name, because(problems))
	}
	if w := ref.Weight; w != nil {
		if *w < 0 || *w > mostRouteWeight {
			in.refuse(reasonInvalid, field+".weight", "%d is no weight: use 0 to %d", *w, mostRouteWeight)
		}
		out.Weight = uint32(max(*w, 0))
	}
	out.Backend = model.BackendKey{Workspace: in.Object.Workspace, Service: model.ServiceOf(in.Object.Namespace, ref.Name), Port: port}.Backend()
	return out
}

// port reads the port of pods that requests go to. A name is that of the Service's port,
// which EndpointSlices have, too.
func (in *openShift) port() (model.PortRef, bool) {
	const field = "spec.port.targetPort"
	if in.spec.Port == nil {
		return model.PortRef{Pods: true}, true
	}
	p := in.spec.Port.TargetPort
	number := int(p.IntVal)
	if p.Type == intstr.String {
		n, err := strconv.Atoi(p.StrVal)
		if err != nil {
			if problems := validation.IsValidPortName(p.StrVal); len(problems) > 0 {
				in.refuse(reasonInvalid, field, "%q is no name of a port: %s", p.StrVal, because(problems))
				return model.PortRef{}, false
			}
			return model.PortRef{Name: p.StrVal}, true
		}
		number = n
	}
	if len(validation.IsValidPortNum(number)) > 0 {
		in.refuse(reasonInvalid, field, "%d is no port: use 1 to 65535, or the name of the Service's port", number)
		return model.PortRef{}, false
	}
	return model.PortRef{Number: int32(number), Pods: true}, true
}
