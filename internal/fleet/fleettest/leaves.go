package fleettest

import (
	"cmp"
	"net/netip"
	"slices"
	"strings"

	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"

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
	_, m := ingest.Manifest(o, nil)
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
	out := &model.LeafSpec{Class: strings.TrimPrefix(a.Options["leaf"], "true"), Gateways: a.Options["gateways"], Annotations: a.List("annotations"), TLS: model.LeafTLS(a.Options["leaftls"])}
	for _, text := range a.List("in") {
		name, class, _ := strings.Cut(text, ":")
		m := model.LeafMember{Name: model.Member(name)}
		if tls, is := strings.CutPrefix(class, "tls~"); is {
			m.TLS = model.LeafTLS(tls)
		} else if key, value, is := strings.Cut(class, "~"); is {
			m.Annotations = model.Labels{key: value}
		} else {
			m.Class, m.Gateways = class, a.Options["gateways"]
			if m.Gateways != "" {
				m.Gateways = class
			}
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
	a := Parse(words, "at", "none", "dropped", "altered", "diff", "of", "says", "edition", "behind", "claimed")
	s := a.service(a.Word(1), "default")
	id := model.LeafID{Member: model.Member(a.Word(0)), Root: model.Object{Kind: cmp.Or(a.Options["of"], "Ingress"), Namespace: s.Namespace(), Name: s.Name()}}
	if a.Word(2) == "-" {
		w.Stage(func(tx *inc.Tx) { w.Program.In.LeafStates.Delete(tx, id) })
		return "", a.Err
	}
	list := func(key string) model.Texts { return model.TextsOf(a.List(key)) }
	row := model.LeafState{Reason: a.Word(2), Message: strings.Join(a.Rest(3), " "), There: !a.Has("none"), Addresses: list("at"), Dropped: list("dropped"), Altered: list("altered"), Diff: list("diff"), Said: a.said(), Edition: a.Options["edition"], Behind: a.Has("behind"), Claimed: a.claimed()}
	w.Stage(func(tx *inc.Tx) { w.Program.In.LeafStates.Set(tx, id, row) })
	return "", a.Err
}

// claimed reads what others claim: "a.example:Ingress:NS/NAME,…".
func (a *Args) claimed() model.Texts {
	var out []string
	for _, text := range a.List("claimed") {
		out = append(out, strings.ReplaceAll(text, ":", " "))
	}
	return model.TextsOf(out)
}

// said reads what controllers say of a leaf: "Accepted:True:Accepted@NS/NAME,…".
func (a *Args) said() model.LeafSaid {
	var out model.LeafReport
	for _, text := range strings.Split(a.Options["says"], ",") {
		text, of, part := strings.Cut(text, "@")
		words := append(strings.Split(text, ":"), "", "", "")
		c := model.LeafCondition{Type: words[0], Status: words[1], Reason: words[2], Message: words[3]}
		switch {
		case c.Type == "":
		case !part:
			out.Conditions = append(out.Conditions, c)
		case strings.Contains(of, "/"):
			kind := model.GatewayKind
			if set, is := strings.CutPrefix(of, "set:"); is {
				kind, of = model.ListenerSetKind, set
			}
			p := parent(kind, of)
			out.Parents = append(out.Parents, model.LeafPart{Parent: &p, Conditions: []model.LeafCondition{c}})
		default:
			at := slices.IndexFunc(out.Listeners, func(p model.LeafPart) bool { return p.Name == of })
			if at < 0 {
				at, out.Listeners = len(out.Listeners), append(out.Listeners, model.LeafPart{Name: of})
			}
			out.Listeners[at].Conditions = append(out.Listeners[at].Conditions, c)
		}
	}
	return out.Text()
}

// fullGateway is the object of a gateway command, as ingest reads it.
func fullGateway(id model.GatewayID, spec model.GatewaySpec, published model.Texts) (model.Object, model.Manifest) {
	o := &gatewayv1.Gateway{ObjectMeta: metav1.ObjectMeta{Namespace: id.Namespace, Name: id.Name, UID: "uid"}}
	o.Spec.GatewayClassName = gatewayv1.ObjectName(spec.Class)
	o.Spec.Listeners = fullListeners(id.Namespace, spec.Listeners)
	for _, p := range published.List() {
		o.Status.Addresses = append(o.Status.Addresses, gatewayv1.GatewayStatusAddress{Value: p})
	}
	return ingest.GatewayManifest(o, nil)
}

// fullListeners are those of an object of a namespace.
func fullListeners(namespace string, all []model.Listener) (out []gatewayv1.Listener) {
	for _, l := range all {
		of := gatewayv1.Listener{Name: gatewayv1.SectionName(l.Name), Port: gatewayv1.PortNumber(l.Port), Protocol: gatewayv1.ProtocolType(l.Protocol.String())}
		if l.Host != "" {
			of.Hostname = new(gatewayv1.Hostname(l.Host))
		}
		for _, s := range l.Secrets {
			ref := gatewayv1.SecretObjectReference{Name: gatewayv1.ObjectName(s.Name)}
			if s.Namespace != namespace {
				ref.Namespace = new(gatewayv1.Namespace(s.Namespace))
			}
			if of.TLS == nil {
				of.TLS = &gatewayv1.ListenerTLSConfig{}
			}
			of.TLS.CertificateRefs = append(of.TLS.CertificateRefs, ref)
		}
		out = append(out, of)
	}
	return out
}

// fullSet is the object of a listenerset command.
func fullSet(id model.Object, spec model.ListenerSetSpec) model.Manifest {
	of := gatewayv1.ListenerSetSpec{ParentRef: gatewayv1.ParentGatewayReference{Name: gatewayv1.ObjectName(spec.Gateway.Name)}}
	if spec.Gateway.Namespace != id.Namespace {
		of.ParentRef.Namespace = new(gatewayv1.Namespace(spec.Gateway.Namespace))
	}
	for _, l := range fullListeners(id.Namespace, spec.Listeners) {
		of.Listeners = append(of.Listeners, gatewayv1.ListenerEntry{Name: l.Name, Hostname: l.Hostname, Port: l.Port, Protocol: l.Protocol, TLS: l.TLS})
	}
	_, out := ingest.ManifestOf(id.Kind, &metav1.ObjectMeta{Namespace: id.Namespace, Name: id.Name, UID: "uid"}, of)
	return out
}

// fullRoute is the object of a command of a kind of routes.
func fullRoute(id model.Object, root model.Root, hosts []string, rules model.Rules) model.Manifest {
	var refs []any
	for _, p := range root.Route.Parents {
		ref := map[string]any{"name": p.Name, "namespace": p.Namespace}
		if p.Kind != model.GatewayKind {
			ref["kind"] = p.Kind
		}
		if p.Section != "" {
			ref["sectionName"] = p.Section
		}
		if p.Port != 0 {
			ref["port"] = p.Port
		}
		refs = append(refs, ref)
	}
	spec := map[string]any{"parentRefs": refs}
	if len(hosts) > 0 {
		spec["hostnames"] = hosts
	}
	var all []any
	for _, rule := range rules {
		of := map[string]any{}
		var matches, backends []any
		for _, m := range rule.Matches {
			kind := gatewayv1.PathMatchPathPrefix
			if m.Kind == model.PathExact {
				kind = gatewayv1.PathMatchExact
			}
			matches = append(matches, map[string]any{"path": map[string]any{"type": kind, "value": m.Path}})
		}
		if id.Kind == "HTTPRoute" {
			of["matches"] = matches
		}
		for _, b := range rule.Backends {
			if k := b.Backend.Key(); b.Backend != (model.Backend{}) {
				backends = append(backends, map[string]any{"name": k.Service.Name(), "namespace": k.Service.Namespace(), "port": k.Port.Number})
			}
		}
		of["backendRefs"] = backends
		all = append(all, of)
	}
	spec["rules"] = all
	o := &metav1.ObjectMeta{Namespace: id.Namespace, Name: id.Name, UID: "uid"}
	_, m := ingest.ManifestOf(id.Kind, o, spec)
	return m
}

// heldKey says what became of a copy of a Secret.
func heldKey(w *World, words []string) (string, error) {
	a := Parse(words, "none", "in")
	s := a.service(a.Word(1), "default")
	id := model.HeldKey{In: a.Options["in"], Member: model.Member(a.Word(0)), Secret: model.SecretID{Namespace: s.Namespace(), Name: s.Name()}, Name: a.Word(2)}
	if a.Word(3) == "-" {
		w.Stage(func(tx *inc.Tx) { w.Program.In.HeldKeys.Delete(tx, id) })
		return "", a.Err
	}
	row := model.KeyState{Reason: a.Word(3), Detail: strings.Join(a.Rest(4), " "), There: !a.Has("none")}
	w.Stage(func(tx *inc.Tx) { w.Program.In.HeldKeys.Set(tx, id, row) })
	return "", a.Err
}
