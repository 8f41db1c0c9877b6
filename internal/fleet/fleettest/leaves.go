package fleettest

import (
	"net/netip"
	"slices"
	"strings"

	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/spillway-dev/spillway/internal/inc"
	"github.com/spillway-dev/spillway/internal/ingest"
	"github.com/spillway-dev/spillway/internal/model"
)

// manifest is the object of an ingress command, one path a rule, as ingest reads it.
func (a *Args) manifest(id model.Object, root model.Root, texts []string) model.Manifest {
	o := &networkingv1.Ingress{ObjectMeta: metav1.ObjectMeta{Namespace: id.Namespace, Name: id.Name, UID: "uid", Labels: a.labels(), Annotations: map[string]string{}}}
	for _, l := range a.List("annotations") {
		key, value, _ := strings.Cut(l, ":")
		o.Annotations[key] = value
	}
	if root.Default != nil {
		o.Spec.DefaultBackend = backendOf(*root.Default)
	}
	for i, text := range texts {
		host, rule := a.rule(text, id.Namespace, model.Field("spec.rules").Index(i)+".http.paths[0]")
		path := networkingv1.HTTPIngressPath{PathType: new(networkingv1.PathTypePrefix)}
		if path.Path = rule.Matches[0].Path; rule.Matches[0].Kind == model.PathExact {
			path.PathType = new(networkingv1.PathTypeExact)
		}
		if len(rule.Backends) > 0 {
			path.Backend = *backendOf(rule.Backends[0].Backend)
		}
		o.Spec.Rules = append(o.Spec.Rules, networkingv1.IngressRule{Host: string(host), IngressRuleValue: networkingv1.IngressRuleValue{
			HTTP: &networkingv1.HTTPIngressRuleValue{Paths: []networkingv1.HTTPIngressPath{path}},
		}})
	}
	for _, t := range root.TLS {
		of := networkingv1.IngressTLS{SecretName: t.Secret.Name}
		for _, h := range t.Hosts {
			of.Hosts = append(of.Hosts, string(h))
		}
		o.Spec.TLS = append(o.Spec.TLS, of)
	}
	_, m := ingest.Manifest(o)
	return m
}

func backendOf(b model.Backend) *networkingv1.IngressBackend {
	return &networkingv1.IngressBackend{Service: &networkingv1.IngressServiceBackend{
		Name: b.Key().Service.Name(), Port: networkingv1.ServiceBackendPort{Name: b.Port().Name, Number: b.Port().Number},
	}}
}

// leafSpec reads what leaves of a class look like.
func (a *Args) leafSpec() *model.LeafSpec {
	if !a.Has("leaf") {
		return nil
	}
	out := &model.LeafSpec{Class: strings.TrimPrefix(a.Options["leaf"], "true"), Annotations: a.List("annotations"), TLS: model.LeafTLS(a.Options["leaftls"])}
	for _, text := range a.List("in") {
		name, class, _ := strings.Cut(text, ":")
		m := model.LeafMember{Name: model.Member(name)}
		if tls, is := strings.CutPrefix(class, "tls~"); is {
			m.TLS = model.LeafTLS(tls)
		} else if key, value, is := strings.Cut(class, "~"); is {
			m.Annotations = model.Labels{key: value}
		} else {
			m.Class = class
		}
		out.Members = append(out.Members, m)
	}
	return out
}

// leafAddresses reads what a member's controllers may name.
func (a *Args) leafAddresses() (out model.LeafAddresses) {
	for _, s := range a.List("leaves") {
		if p, err := netip.ParsePrefix(s); err == nil {
			out.Ranges = append(out.Ranges, p)
		} else {
			out.Names = append(out.Names, s)
		}
	}
	slices.SortFunc(out.Ranges, netip.Prefix.Compare)
	return out
}

// leafState says what became of a leaf.
func leafState(w *World, words []string) (string, error) {
	a := Parse(words, "at", "none", "dropped", "altered", "diff")
	s := a.service(a.Word(1), "default")
	id := model.LeafID{Member: model.Member(a.Word(0)), Root: model.Object{Kind: "Ingress", Namespace: s.Namespace(), Name: s.Name()}}
	if a.Word(2) == "-" {
		w.Stage(func(tx *inc.Tx) { w.Program.In.LeafStates.Delete(tx, id) })
		return "", a.Err
	}
	list := func(key string) model.Texts { return model.TextsOf(a.List(key)) }
	row := model.LeafState{Reason: a.Word(2), Message: strings.Join(a.Rest(3), " "), There: !a.Has("none"), Addresses: list("at"), Dropped: list("dropped"), Altered: list("altered"), Diff: list("diff")}
	w.Stage(func(tx *inc.Tx) { w.Program.In.LeafStates.Set(tx, id, row) })
	return "", a.Err
}

// heldKey says what became of a copy of a Secret.
func heldKey(w *World, words []string) (string, error) {
	a := Parse(words, "none")
	s := a.service(a.Word(1), "default")
	id := model.HeldKey{Member: model.Member(a.Word(0)), Secret: model.SecretID{Namespace: s.Namespace(), Name: s.Name()}, Name: a.Word(2)}
	if a.Word(3) == "-" {
		w.Stage(func(tx *inc.Tx) { w.Program.In.HeldKeys.Delete(tx, id) })
		return "", a.Err
	}
	row := model.KeyState{Reason: a.Word(3), Detail: strings.Join(a.Rest(4), " "), There: !a.Has("none")}
	w.Stage(func(tx *inc.Tx) { w.Program.In.HeldKeys.Set(tx, id, row) })
	return "", a.Err
}
