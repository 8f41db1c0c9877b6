package ingest

import (
	"fmt"
	"slices"
	"strings"

	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/spillway-dev/spillway/api/v1alpha1"
	"github.com/spillway-dev/spillway/internal/model"
)

// annotationClass names the class of an Ingress whose spec does not.
const annotationClass = "kubernetes.io/ingress.class"

// HostRules are the rules of a root for one host: none, if none of them is valid.
type HostRules struct {
	Host  model.Host
	Rules model.Rules
}

// Ingress reads an Ingress with its name, its rules in the order of hosts. It
// gives a row even if nothing of it is valid: whether the Ingress is ours to
// complain about depends on its class.
func Ingress(o *networkingv1.Ingress) (model.Object, model.Root, []HostRules, model.Findings) {
	return readIngress(o, false)
}

func readIngress(o *networkingv1.Ingress, leaf bool) (model.Object, model.Root, []HostRules, model.Findings) {
	in := &ingress{leaf: leaf, report: reportOf(object("Ingress", o)), at: map[model.Host]int{}, has: map[place]model.Field{}}
	in.root = model.Root{
		Created:   created(o),
		Classes:   classes(o),
		Published: published(o),
	}
	in.root.Ours = in.root.Published != model.Texts{} && wroteStatus(o.ManagedFields)
	if b := o.Spec.DefaultBackend; b != nil {
		if backend, ok := in.backend("spec.defaultBackend", o.Namespace, b); ok {
			in.root.Default = &backend
		}
	}
	if len(o.Spec.Rules) == 0 && o.Spec.DefaultBackend == nil {
		in.invalid("spec", "there is nothing to serve: set rules or defaultBackend")
	}
	for i := range o.Spec.Rules {
		in.rule(model.Field("spec.rules").Index(i), o.Namespace, &o.Spec.Rules[i])
	}
	slices.SortFunc(in.rules, func(a, b HostRules) int { return a.Host.Compare(b.Host) })
	for i := range o.Spec.TLS {
		in.tls(model.Field("spec.tls").Index(i), &o.Spec.TLS[i])
	}
	for _, t := range in.root.TLS {
		in.ruleless(t)
	}
	if !leaf {
		in.unprotected(o)
	}
	return in.Object, in.root, in.rules, in.Findings()
}

type ingress struct {
	report
	leaf  bool // edges do not serve it
	root  model.Root
	rules []HostRules
	at    map[model.Host]int    // hosts with rules, and where these are until they are sorted
	has   map[place]model.Field // what has a rule, and where it is written
}

// place is what a rule is for.
type place struct {
	host  model.Host
	match model.Match
}

func classes(o *networkingv1.Ingress) model.Classes {
	name := o.Annotations[annotationClass]
	if c := o.Spec.IngressClassName; c != nil {
		name = *c
	}
	if name == "" {
		return ""
	}
	return model.ClassesOf(model.Class(model.Scoped(Workspace(o), name)))
}

func published(o *networkingv1.Ingress) model.Texts {
	var out []string
	for _, a := range o.Status.LoadBalancer.Ingress {
		if s := strings.ToLower(a.Hostname); s != "" {
			out = append(out, s)
		}
		if a.IP != "" {
			out = append(out, a.IP)
		}
	}
	slices.Sort(out)
	return model.TextsOf(slices.Compact(out))
}

// wroteStatus reports whether status.loadBalancer is ours alone: the API server
// notes who wrote a field last, and forgets who wrote what it was before.
func wroteStatus(by []metav1.ManagedFieldsEntry) bool {
	ours := false
	for _, e := range by {
		if e.FieldsV1 == nil || !strings.Contains(e.FieldsV1.GetRawString(), `"f:loadBalancer"`) {
			continue
		}
		if e.Manager != v1alpha1.FieldManager {
			return false
		}
		ours = true
	}
	return ours
}

func (in *ingress) rule(field model.Field, namespace string, r *networkingv1.IngressRule) {
	h, err := host(r.Host)
	if err != nil {
		in.invalid(field+".host", "%v", err)
		return
	}
	in.claim(h)
	if r.HTTP == nil || len(r.HTTP.Paths) == 0 {
		in.bare(field, h)
		return
	}
	for i := range r.HTTP.Paths {
		p := &r.HTTP.Paths[i]
		at := (field + ".http.paths").Index(i)
		m, err := match(p.PathType, p.Path)
		pattern := p.PathType != nil && *p.PathType == networkingv1.PathTypeImplementationSpecific && strings.ContainsAny(p.Path, patternCharacters)
		switch {
		case err != nil && in.leaf:
			m = opaque(networkingv1.HTTPIngressPath{Path: p.Path, PathType: p.PathType})
		case in.leaf:
		case err != nil && pattern:
			in.invalid(at+".path", "patterns are not supported: %v", err)
			continue
		case err != nil:
			in.invalid(at+".path", "%v", err)
			continue
		case pattern:
			in.Warning(at+".path", model.ReasonUnsupported, "path %q is taken literally, as Prefix: patterns are not supported", p.Path)
		}
		rule := model.Rule{Matches: []model.Match{m}, Field: at}
		// A path keeps its place though its backend is broken: requests for it
		// must not fall through to another backend.
		if b, ok := in.backend(at+".backend", namespace, &p.Backend); ok {
			rule.Backends = []model.WeightedBackend{{Backend: b, Weight: 1}}
		}
		in.add(h, rule)
	}
}

// add keeps a rule, unless its place has one.
func (in *ingress) add(h model.Host, rule model.Rule) {
	m := rule.Matches[0]
	at := place{h, m}
	if field, twice := in.has[at]; twice {
		in.Error(rule.Field, model.ReasonConflict, "%s has %s already", field, m.Of(h))
		return
	}
	in.has[at] = rule.Field
	i := in.need(h)
	in.rules[i].Rules = append(in.rules[i].Rules, rule)
}

// claim has a host that is named keep its place though none of its rules is valid:
// requests for it must not fall through to the hosts that nobody names, which may
// be a stranger's.
func (in *ingress) claim(h model.Host) {
	if h != "" {
		in.need(h)
	}
}

// need is the place of a host's rules.
func (in *ingress) need(h model.Host) int {
	i, known := in.at[h]
	if !known {
		i = len(in.rules)
		in.at[h] = i
		in.rules = append(in.rules, HostRules{Host: h})
	}
	return i
}

// bare is a rule without paths: all of the host goes to the default backend.
func (in *ingress) bare(field model.Field, h model.Host) {
	if in.root.Default == nil {
		in.invalid(field, "the rule has no paths and the Ingress no valid defaultBackend: set one of them")
		return
	}
	in.add(h, model.Rule{
		Matches: []model.Match{model.Everything},
		Action:  model.Action{Backends: []model.WeightedBackend{{Backend: *in.root.Default, Weight: 1}}},
		Field:   field,
	})
}

func (in *ingress) backend(field model.Field, namespace string, b *networkingv1.IngressBackend) (model.Backend, bool) {
	none := model.Backend{}
	switch {
	case b.Service != nil && b.Resource != nil:
		in.invalid(field, "service and resource are both set: keep service")
		return none, false
	case b.Resource != nil:
		in.unsupported(field+".resource", "resource backends are not supported: use service")
		return none, false
	case b.Service == nil:
		in.invalid(field, "service is missing: name a Service and its port")
		return none, false
	}
	if problems := validation.IsDNS1123Label(b.Service.Name); len(problems) > 0 {
		in.invalid(field+".service.name", "%q is no name of a Service: %s", b.Service.Name, because(problems))
		return none, false
	}
	port, err := portRef(b.Service.Port)
	if err != nil {
		in.invalid(field+".service.port", "%v", err)
		return none, false
	}
	return model.BackendKey{Workspace: in.Object.Workspace, Service: model.ServiceOf(namespace, b.Service.Name), Port: port}.Backend(), true
}

func portRef(p networkingv1.ServiceBackendPort) (model.PortRef, error) {
	switch {
	case p.Name != "" && p.Number != 0:
		return model.PortRef{}, fmt.Errorf("name %q and number %d are both set: keep one", p.Name, p.Number)
	case p.Name != "":
		if problems := validation.IsValidPortName(p.Name); len(problems) > 0 {
			return model.PortRef{}, fmt.Errorf("%q is no name of a port: %s", p.Name, because(problems))
		}
		return model.PortRef{Name: p.Name}, nil
	case p.Number == 0:
		return model.PortRef{}, fmt.Errorf("the port is missing: set its name or number")
	case len(validation.IsValidPortNum(int(p.Number))) > 0:
		return model.PortRef{}, fmt.Errorf("%d is no port: use 1 to 65535", p.Number)
	}
	return model.PortRef{Number: p.Number}, nil
}

func (in *ingress) tls(field model.Field, t *networkingv1.IngressTLS) {
	if t.SecretName == "" {
		in.invalid(field+".secretName", "the name is missing: name a Secret of type kubernetes.io/tls")
		return
	}
	if problems := validation.IsDNS1123Subdomain(t.SecretName); len(problems) > 0 {
		in.invalid(field+".secretName", "%q is no name of a Secret: %s", t.SecretName, because(problems))
		return
	}
	out := model.TLS{
		Secret: model.SecretID{Workspace: in.Object.Workspace, Namespace: in.Object.Namespace, Name: t.SecretName},
		Field:  field,
	}
	for i, name := range t.Hosts {
		h, err := host(name)
		if err == nil && h == "" {
			err = fmt.Errorf("the name is empty: leave it out, or leave out hosts for all hosts of the Ingress")
		}
		if err != nil {
			in.invalid((field + ".hosts").Index(i), "%v", err)
			continue
		}
		if !slices.Contains(out.Hosts, h) {
			out.Hosts = append(out.Hosts, h)
		}
	}
	if len(t.Hosts) == 0 {
		out.Hosts, out.All = in.hosts(), true
	}
	if len(out.Hosts) > 0 { // else none of them is valid
		in.root.TLS = append(in.root.TLS, out)
	}
}

// hosts are all that have rules; without any, those that nobody names.
func (in *ingress) hosts() []model.Host {
	if len(in.rules) == 0 {
		return []model.Host{""}
	}
	out := make([]model.Host, len(in.rules))
	for i, r := range in.rules {
		out[i] = r.Host
	}
	return out
}

// ruleless tells which names of an entry the Ingress serves no requests for: its
// rules have no such host, nor the wildcard above it, nor one below it, and
// neither rules nor a default backend for the rest.
func (in *ingress) ruleless(t model.TLS) {
	if _, rest := in.at[""]; rest || t.All || in.root.Default != nil {
		return
	}
	below := make(map[model.Host]bool, len(in.rules))
	for _, r := range in.rules {
		below[r.Host.Above()] = true
	}
	for _, h := range t.Hosts {
		_, ruled := in.at[h]
		_, above := in.at[h.Above()]
		if !ruled && !above && !below[h] {
			in.Warning(t.Field+".hosts", model.ReasonNoRule, "no rule of this %s is for %s: requests for it go to whoever serves it, or are answered 404", in.Object.Kind, h)
		}
	}
}
