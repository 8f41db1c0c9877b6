package fleettest

import (
	"net/netip"
	"slices"
	"strconv"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/spillway-dev/spillway/internal/inc"
	"github.com/spillway-dev/spillway/internal/ingest"
	"github.com/spillway-dev/spillway/internal/model"
)

func gatewayClass(w *World, words []string) (string, error) {
	a := Parse(words, "config")
	id := model.GatewayClass(a.Word(0))
	w.Stage(func(tx *inc.Tx) {
		w.Program.In.GatewayClasses.Set(tx, id, model.GatewayClassSpec{Config: model.Config(a.Options["config"])})
	})
	return "", a.Err
}

func gateway(w *World, words []string) (string, error) {
	a := Parse(words, "class", "age", "client", "clients", "addresses", "sets", "full", "published")
	name := a.service(a.Word(0), "default")
	id := model.GatewayID{Namespace: name.Namespace(), Name: name.Name()}
	spec := model.GatewaySpec{Created: a.Number("age", w.age("gateway "+id.String())), Class: "spillway"}
	if c, ok := a.Options["class"]; ok {
		spec.Class = model.GatewayClass(c)
	}
	if c := a.Options["client"]; c != "" {
		of := a.service(c, id.Namespace)
		spec.Client = model.SecretID{Namespace: of.Namespace(), Name: of.Name()}
	}
	for _, text := range a.List("addresses") {
		text, scope, _ := strings.Cut(text, "@")
		asked := model.AddressRequest{Scope: scope}
		if text != "any" {
			var err error
			if asked.Address, err = netip.ParseAddr(text); err != nil {
				a.Fail("%w", err)
			}
		}
		spec.Addresses = append(spec.Addresses, asked)
	}
	for _, text := range a.List("clients") {
		spec.Validations = append(spec.Validations, a.validation(text, id.Namespace))
	}
	if from := a.Options["sets"]; from != "" {
		spec.Sets = &model.Attachable{}
		allow(from, spec.Sets)
	}
	spec.Listeners = a.listeners(id.Namespace)
	w.Stage(func(tx *inc.Tx) {
		w.Program.In.Gateways.Set(tx, id, spec)
		w.Program.In.Manifests.Delete(tx, id.Object())
		if a.Has("full") {
			k, m := fullGateway(id, spec, model.TextsOf(a.List("published")))
			w.Program.In.Manifests.Set(tx, k, m)
		}
	})
	return "", a.Err
}

// validation reads "[PORT:][NS/]BUNDLE[!]", "!" for clients without certificates, too, or
// "PORT:-", for none that are asked.
func (a *Args) validation(text, namespace string) (out model.Validation) {
	if port, rest, of := strings.Cut(text, ":"); of {
		n, err := strconv.ParseUint(port, 10, 16)
		if err != nil {
			a.Fail("%w", err)
		}
		out.Port, text = uint16(n), rest
	}
	if text == "-" {
		return out
	}
	text, out.Fallback = strings.CutSuffix(text, "!")
	out.Bundles = []model.Object{a.bundle(text, namespace)}
	return out
}

// bundle reads "[NS/]NAME" of a ConfigMap, or "-/NAME" of a ClusterTrustBundle.
func (a *Args) bundle(text, namespace string) model.Object {
	of := a.service(text, namespace)
	if of.Namespace() == "-" {
		return model.Object{Kind: "ClusterTrustBundle", Name: of.Name()}
	}
	return model.ConfigMap("", of.Namespace(), of.Name())
}

func listenerSet(w *World, words []string) (string, error) {
	a := Parse(words, "age", "to", "ours", "full")
	name, to := a.service(a.Word(0), "default"), a.service(a.Options["to"], "default")
	id := model.Object{Kind: model.ListenerSetKind, Namespace: name.Namespace(), Name: name.Name()}
	spec := model.ListenerSetSpec{Created: a.Number("age", w.age(id.String())), Gateway: model.GatewayID{Namespace: to.Namespace(), Name: to.Name()}}
	spec.Listeners, spec.Ours = a.listeners(id.Namespace), a.Has("ours")
	w.Stage(func(tx *inc.Tx) {
		w.Program.In.ListenerSets.Set(tx, id, spec)
		if a.Has("full") {
			w.Program.In.Manifests.Set(tx, id, fullSet(id, spec))
		}
	})
	return "", a.Err
}

// listeners are the words behind the first.
func (a *Args) listeners(namespace string) (out []model.Listener) {
	for i, text := range a.Rest(1) {
		out = append(out, a.listener(text, namespace, model.Field("spec.listeners").Index(i)))
	}
	return out
}

// allow reads "Same", "All" or a selector.
func allow(from string, out *model.Attachable) {
	switch from {
	case "Same":
	case "All":
		out.From = model.AllNamespaces
	default:
		out.From, out.Selector = model.SelectedNamespaces, from
	}
}

var protocols = map[string]model.Protocol{"HTTP": model.HTTP, "HTTPS": model.HTTPS, "TLS": model.TLSProtocol, "TCP": model.TCP, "UDP": model.UDP}

// listener reads "NAME:PROTOCOL:PORT[:HOST][,from=…][,secret=[NS/]NAME][,pass]".
func (a *Args) listener(text, namespace string, field model.Field) model.Listener {
	options := strings.Split(text, ",")
	parts := append(strings.Split(options[0], ":"), "", "", "")
	port, err := strconv.ParseUint(parts[2], 10, 16)
	if err != nil {
		a.Fail("%q is no listener: %w", text, err)
	}
	out := model.Listener{Name: parts[0], Protocol: protocols[parts[1]], Port: uint16(port), Host: model.Host(parts[3]), Field: field}
	out.Routes.Kinds = kinds[out.Protocol]
	for _, o := range options[1:] {
		switch key, value, _ := strings.Cut(o, "="); key {
		case "secret":
			s := a.service(value, namespace)
			out.Secrets = append(out.Secrets, model.SecretID{Namespace: s.Namespace(), Name: s.Name()})
		case "pass":
			out.Pass = true
		case "refused":
			out.Refused = model.Refusal{Reason: value, Message: "it is told"}
		default:
			allow(value, &out.Routes)
		}
	}
	return out
}

var httpKinds = model.TextsOf([]string{"GRPCRoute", "HTTPRoute"})

// kinds are those of routes that listeners take.
var kinds = map[model.Protocol]model.Texts{
	model.HTTP: httpKinds, model.HTTPS: httpKinds, model.TLSProtocol: model.TextsOf([]string{"TLSRoute"}),
	model.TCP: model.TextsOf([]string{"TCPRoute"}), model.UDP: model.TextsOf([]string{"UDPRoute"}),
}

// routeKinds are the kinds of routes by the words of commands.
var routeKinds = map[string]string{"httproute": "HTTPRoute", "grpcroute": "GRPCRoute", "tlsroute": "TLSRoute", "tcproute": "TCPRoute", "udproute": "UDPRoute"}

// traffic is what the backends of a kind of routes are for.
var traffic = map[string]model.Traffic{"TLSRoute": model.Connections, "TCPRoute": model.Connections, "UDPRoute": model.Datagrams}

// route is the command of a kind of routes.
func route(kind string) Command {
	return func(w *World, words []string) (string, error) { return w.route(kind, words) }
}

func (w *World) route(kind string, words []string) (string, error) {
	a := Parse(words, "to", "sets", "hosts", "age", "broken", "full", "ours")
	name := a.service(a.Word(0), "default")
	id := model.Object{Kind: kind, Namespace: name.Namespace(), Name: name.Name()}
	root := model.Root{Created: a.Number("age", w.age(id.String())), Route: &model.RouteSpec{}, Ours: a.Has("ours")}
	for _, to := range []struct{ option, kind string }{{"to", "Gateway"}, {"sets", model.ListenerSetKind}} {
		for _, text := range a.List(to.option) {
			root.Route.Parents = append(root.Route.Parents, parent(to.kind, text))
		}
	}
	if reason, broken := a.Options["broken"]; broken {
		root.Route.Broken = model.Refusal{Reason: reason, Message: "it is told"}
	}
	var of model.Rules
	for i, text := range a.Rest(1) {
		from, to, _ := strings.Cut(text, "->")
		to, braces, filtered := strings.Cut(to, "{")
		if filtered {
			braces = "{" + braces
		}
		_, rule := a.rule(from+"->"+braces, id.Namespace, model.Field("spec.rules").Index(i))
		for part := range strings.SplitSeq(to, "+") {
			backend, weight, weighted := strings.Cut(part, "*")
			b := model.WeightedBackend{Weight: 1}
			if weighted {
				n, err := strconv.ParseUint(weight, 10, 32)
				if err != nil {
					a.Fail("%w", err)
				}
				b.Weight = uint32(n)
			}
			if backend != "?" {
				k := a.backend(backend, id.Namespace).Key()
				k.Port.For = traffic[kind]
				b.Backend = k.Backend()
			}
			rule.Backends = append(rule.Backends, b)
		}
		of = append(of, rule)
	}
	rules := map[model.Host]model.Rules{}
	for _, h := range a.List("hosts", "") {
		rules[model.Host(h)] = of
	}
	had := w.specs.ruled[id]
	w.specs.ruled[id] = nil
	for h := range rules {
		w.specs.ruled[id] = append(w.specs.ruled[id], h)
	}
	slices.Sort(w.specs.ruled[id])
	w.Stage(func(tx *inc.Tx) {
		DeleteRoot(tx, w.Program.In, id, had...)
		SetRoot(tx, w.Program.In, id, root, rules)
		if a.Has("full") {
			w.Program.In.Manifests.Set(tx, id, fullRoute(id, root, a.List("hosts"), of))
		}
	})
	return "", a.Err
}

// parent reads "NS/NAME[/SECTION][:PORT]".
func parent(kind, text string) model.Parent {
	text, port, _ := strings.Cut(text, ":")
	parts := append(strings.Split(text, "/"), "")
	p := model.Parent{Group: model.GatewayGroup, Kind: kind, Namespace: parts[0], Name: parts[1], Section: parts[2]}
	if n, err := strconv.ParseUint(port, 10, 16); err == nil {
		p.Port = uint16(n)
	}
	return p
}

func namespace(w *World, words []string) (string, error) {
	a := Parse(words)
	has := model.Labels{}
	for _, l := range a.Rest(1) {
		key, value, _ := strings.Cut(l, "=")
		has[key] = value
	}
	id := model.NamespaceID{Name: a.Word(0)}
	w.Stage(func(tx *inc.Tx) { w.Program.In.Namespaces.Set(tx, id, has) })
	return "", a.Err
}

// grant reads "NS KIND@NS KIND[/NAME]".
func grant(w *World, words []string) (string, error) {
	a := Parse(words)
	id := model.Object{Kind: "ReferenceGrant", Namespace: a.Word(0), Name: strings.Join(a.Rest(1), " ")}
	kind, from, _ := strings.Cut(a.Word(1), "@")
	to, name, _ := strings.Cut(a.Word(2), "/")
	row := model.Grant{From: []model.GrantFrom{{Group: model.GatewayGroup, Kind: kind, Namespace: from}}, To: []model.GrantTo{{Kind: to, Name: name}}}
	if to == model.ImportKind {
		row.To[0].Group = model.ImportGroup
	}
	w.Stage(func(tx *inc.Tx) {
		w.Program.In.Grants.Set(tx, id, row)
		what := map[string]any{"group": row.To[0].Group, "kind": to}
		if name != "" {
			what["name"] = name
		}
		_, m := ingest.ManifestOf(id.Kind, &metav1.ObjectMeta{Namespace: id.Namespace, Name: id.Name, UID: "uid"}, map[string]any{
			"from": []any{map[string]any{"group": model.GatewayGroup, "kind": kind, "namespace": from}}, "to": []any{what},
		})
		w.Program.In.Manifests.Set(tx, id, m)
	})
	return "", a.Err
}

func release(w *World, words []string) (string, error) {
	a := Parse(words)
	said := append(slices.Clone(a.Words), "", "")
	row := model.Release{Version: said[0], Channel: said[1]}
	w.Stage(func(tx *inc.Tx) { w.Program.In.Releases.Set(tx, model.GatewayDefinition(""), row) })
	return "", a.Err
}

func bundle(w *World, words []string) (string, error) {
	a := Parse(words)
	id := a.bundle(a.Word(0), "")
	row := model.Bundle{PEM: strings.Join(a.Rest(1), " ")}
	if row.PEM == "" {
		row.Problem = "no certificates"
	}
	w.Stage(func(tx *inc.Tx) {
		w.Program.In.Bundles.Set(tx, id, row)
	})
	return "", a.Err
}

func tlsPolicy(w *World, words []string) (string, error) {
	a := Parse(words, "full", "host", "names", "ca", "system", "broken", "refused", "age")
	named := a.service(a.Word(0), "")
	id := model.Object{Kind: "BackendTLSPolicy", Namespace: named.Namespace(), Name: named.Name()}
	spec := model.BackendTLSSpec{
		Created: a.Number("age", w.age(id.String())), Generation: 1, Host: a.Options["host"], Names: model.TextsOf(a.List("names")), System: a.Has("system"),
	}
	for _, text := range a.Rest(1) {
		service, port, _ := strings.Cut(text, ":")
		spec.Targets = append(spec.Targets, model.BackendKey{Service: a.service(service, id.Namespace), Port: model.PortRef{Name: port}}.Backend())
	}
	for _, name := range a.List("ca") {
		spec.Bundles = append(spec.Bundles, a.bundle(name, id.Namespace))
	}
	for option, r := range map[string]*model.Refusal{"broken": &spec.Broken, "refused": &spec.Refused} {
		if reason := a.Options[option]; reason != "" {
			*r = model.Refusal{Reason: reason, Message: "as the story says"}
		}
	}
	w.Stage(func(tx *inc.Tx) {
		w.Program.In.TLSPolicies.Set(tx, id, spec)
		if !a.Has("full") {
			return
		}
		_, m := ingest.ManifestOf(id.Kind, &metav1.ObjectMeta{Namespace: id.Namespace, Name: id.Name, UID: "uid"}, map[string]any{
			"targetRefs": []any{map[string]any{"group": "", "kind": "Service", "name": spec.Targets[0].Key().Service.Name()}}, "validation": map[string]any{"hostname": spec.Host},
		})
		w.Program.In.Manifests.Set(tx, id, m)
	})
	return "", a.Err
}
