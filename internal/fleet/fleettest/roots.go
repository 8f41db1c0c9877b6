package fleettest

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/spillway-dev/spillway/internal/fleet"
	"github.com/spillway-dev/spillway/internal/inc"
	"github.com/spillway-dev/spillway/internal/model"
)

func ingress(w *World, words []string) (string, error) {
	a := Parse(words, "class", "age", "default", "tls", "published", "ours", "full", "labels", "annotations")
	name := a.service(a.Word(0), "default")
	id := model.Object{Kind: "Ingress", Namespace: name.Namespace(), Name: name.Name()}
	root := model.Root{
		Created: a.Number("age", w.age(id.String())), Classes: model.Classes(strings.Join(a.List("class"), ",")), Published: model.TextsOf(a.List("published")), Ours: a.Has("ours"),
	}
	if text, ok := a.Options["default"]; ok {
		b := a.backend(text, name.Namespace())
		root.Default = &b
	}
	rules := map[model.Host]model.Rules{}
	for i, text := range a.Rest(1) {
		if bare, is := strings.CutSuffix(text, "!"); is {
			rules[model.Host(bare)] = rules[model.Host(bare)]
			continue
		}
		host, rule := a.rule(text, name.Namespace(), model.Field("spec.rules").Index(i)+".http.paths[0]")
		rule.Matches = slices.DeleteFunc(rule.Matches, func(m model.Match) bool { // ingest tells the owner
			return slices.ContainsFunc(rules[host], func(r model.Rule) bool { return slices.Contains(r.Matches, m) })
		})
		if len(rule.Matches) > 0 {
			rules[host] = append(rules[host], rule)
		}
	}
	if text, ok := a.Options["tls"]; ok {
		for i, entry := range strings.Split(text, ";") {
			secret, hosts, _ := strings.Cut(entry, "@")
			t := model.TLS{Secret: model.SecretID{Namespace: name.Namespace(), Name: secret}, Field: model.Field("spec.tls").Index(i)}
			for h := range strings.SplitSeq(hosts, ",") {
				if h != "" {
					t.Hosts = append(t.Hosts, model.Host(h))
				}
			}
			if len(t.Hosts) == 0 {
				for h := range rules {
					t.Hosts = append(t.Hosts, h.TLSName())
				}
				slices.Sort(t.Hosts)
				t.Hosts, t.All = slices.Compact(t.Hosts), true
			}
			if len(t.Hosts) == 0 {
				t.Hosts = []model.Host{""}
			}
			root.TLS = append(root.TLS, t)
		}
	}
	had := w.specs.ruled[id]
	w.specs.ruled[id] = slices.Collect(maps.Keys(rules))
	w.Stage(func(tx *inc.Tx) {
		DeleteRoot(tx, w.Program.In, id, had...)
		SetRoot(tx, w.Program.In, id, root, rules)
	})
	if a.Has("full") {
		m := a.manifest(id, root, a.Rest(1))
		w.Stage(func(tx *inc.Tx) { w.Program.In.Manifests.Set(tx, id, m) })
	}
	return "", a.Err
}

// SetRoot writes a root and its rules.
func SetRoot(tx *inc.Tx, in fleet.Inputs, id model.Object, root model.Root, rules map[model.Host]model.Rules) {
	in.Roots.Set(tx, id, root)
	for host, of := range rules {
		in.Rules.Set(tx, model.RulesID{Root: id, Host: host}, of)
	}
}

// DeleteRoot deletes a root and its rules for some hosts.
func DeleteRoot(tx *inc.Tx, in fleet.Inputs, root model.Object, hosts ...model.Host) {
	in.Roots.Delete(tx, root)
	in.Manifests.Delete(tx, root)
	for _, h := range hosts {
		in.Rules.Delete(tx, model.RulesID{Root: root, Host: h})
	}
}

func report(w *World, words []string) (string, error) {
	a := Parse(words)
	edge, proxy, _ := strings.Cut(a.Word(0), "/")
	id := model.ReportID{Edge: model.Edge(edge), Proxy: proxy, Member: model.Member(a.Word(1))}
	if a.Word(2) == "-" {
		w.Stage(func(tx *inc.Tx) { w.Program.In.Reports.Delete(tx, id) })
		return "", a.Err
	}
	var row model.Report
	if _, err := fmt.Sscanf(a.Word(2), "%d/%d", &row.Failing, &row.Canaries); err != nil {
		a.Fail("%w", err)
	}
	w.Stage(func(tx *inc.Tx) { w.Program.In.Reports.Set(tx, id, row) })
	return "", a.Err
}

func streams(w *World, words []string) (string, error) {
	a := Parse(words)
	id := model.Edge(a.Word(0))
	if a.Word(1) == "-" {
		w.Stage(func(tx *inc.Tx) { w.Program.In.Streams.Delete(tx, id) })
		return "", a.Err
	}
	var row model.Streams
	connected, synced, apart := strings.Cut(a.Word(1), "/")
	if !apart {
		synced = connected
	}
	if _, err := fmt.Sscan(connected+" "+synced, &row.Connected, &row.Synced); err != nil {
		a.Fail("%w", err)
	}
	w.Stage(func(tx *inc.Tx) { w.Program.In.Streams.Set(tx, id, row) })
	return "", a.Err
}

func ack(on bool) Command {
	return func(w *World, words []string) (string, error) {
		a := Parse(words, "class")
		class := model.Class("spillway")
		if c, ok := a.Options["class"]; ok {
			class = model.Class(c)
		}
		host := model.Host(a.Word(1))
		if host == "*" {
			host = ""
		}
		edge := model.Edge(a.Word(0))
		w.Stage(func(tx *inc.Tx) {
			w.Program.In.Acks.Edit(tx, model.HostKey{Class: class, Host: host}, func(old model.EdgeSet, _ bool) (model.EdgeSet, bool) {
				if on {
					old = old.With(edge)
				} else {
					old = old.Without(edge)
				}
				return old, old != model.EdgeSet{}
			})
		})
		return "", a.Err
	}
}

func problem(w *World, words []string) (string, error) {
	a := Parse(words)
	s := a.service(a.Word(1), "")
	id := model.Object{Kind: a.Word(0), Namespace: s.Namespace(), Name: s.Name()}
	f := model.ErrorOf(id, "", model.Reason(a.Word(2)), "%s", strings.Join(a.Rest(3), " "))
	w.Stage(func(tx *inc.Tx) { w.Program.In.Problems.Set(tx, id, model.Findings{f}) })
	return "", a.Err
}

func remove(w *World, words []string) (string, error) {
	a := Parse(words)
	kind, name, in := a.Word(0), a.Word(1), w.Program.In
	named := a.service(name, "")
	var deletion func(*inc.Tx)
	switch kind {
	case "member":
		deletion = func(tx *inc.Tx) {
			in.Members.Delete(tx, model.Member(name))
			in.Sources.Delete(tx, model.Member(name))
			in.Contacts.Delete(tx, model.Member(name))
			in.Clusters.Delete(tx, model.Member(name))
			in.Problems.Delete(tx, model.Object{Kind: "MemberCluster", Name: name})
		}
	case "edge":
		deletion = func(tx *inc.Tx) { in.Edges.Delete(tx, model.Edge(name)) }
	case "zone":
		deletion = func(tx *inc.Tx) {
			in.Zones.Delete(tx, model.ZoneID{Namespace: named.Namespace(), Name: named.Name()})
		}
	case "class":
		deletion = func(tx *inc.Tx) { in.Classes.Delete(tx, model.Class(name)) }
	case "front":
		deletion = func(tx *inc.Tx) { w.Fronts.Delete(tx, model.Class(name)) }
	case "config":
		deletion = func(tx *inc.Tx) { in.Configs.Delete(tx, model.Config(name)) }
	case "ingress":
		id := model.Object{Kind: "Ingress", Namespace: named.Namespace(), Name: named.Name()}
		had := w.specs.ruled[id]
		delete(w.specs.ruled, id)
		deletion = func(tx *inc.Tx) { DeleteRoot(tx, in, id, had...) }
	case "route":
		id := model.Object{Kind: model.OpenShiftRoute, Namespace: named.Namespace(), Name: named.Name()}
		had := w.specs.ruled[id]
		delete(w.specs.ruled, id)
		deletion = func(tx *inc.Tx) {
			DeleteRoot(tx, in, id, had...)
			in.Certificates.Delete(tx, model.InlineCertificate(id))
			in.Bundles.Delete(tx, id)
		}
	case "gatewayclass":
		deletion = func(tx *inc.Tx) { in.GatewayClasses.Delete(tx, model.GatewayClass(name)) }
	case "gateway":
		deletion = func(tx *inc.Tx) {
			id := model.GatewayID{Namespace: named.Namespace(), Name: named.Name()}
			in.Gateways.Delete(tx, id)
			in.Manifests.Delete(tx, id.Object())
		}
	case "listenerset":
		deletion = func(tx *inc.Tx) {
			id := model.Object{Kind: model.ListenerSetKind, Namespace: named.Namespace(), Name: named.Name()}
			in.ListenerSets.Delete(tx, id)
			in.Manifests.Delete(tx, id)
		}
	case "bundle":
		deletion = func(tx *inc.Tx) {
			in.Bundles.Delete(tx, a.bundle(name, ""))
		}
	case "release":
		deletion = func(tx *inc.Tx) { in.Releases.Delete(tx, model.GatewayDefinition("")) }
	case "tlspolicy":
		deletion = func(tx *inc.Tx) {
			in.TLSPolicies.Delete(tx, model.Object{Kind: "BackendTLSPolicy", Namespace: named.Namespace(), Name: named.Name()})
		}
	case "placement":
		deletion = func(tx *inc.Tx) {
			in.Placements.Delete(tx, model.Object{Kind: model.PlacementKind, Namespace: named.Namespace(), Name: named.Name()})
		}
	case "grant":
		deletion = func(tx *inc.Tx) {
			in.Grants.Delete(tx, model.Object{Kind: "ReferenceGrant", Namespace: name, Name: strings.Join(a.Rest(2), " ")})
		}
	case "httproute", "grpcroute", "tlsroute", "tcproute", "udproute":
		id := model.Object{Kind: routeKinds[kind], Namespace: named.Namespace(), Name: named.Name()}
		had := w.specs.ruled[id]
		delete(w.specs.ruled, id)
		deletion = func(tx *inc.Tx) { DeleteRoot(tx, in, id, had...) }
	case "secret":
		deletion = func(tx *inc.Tx) {
			in.Certificates.Delete(tx, model.SecretID{Namespace: named.Namespace(), Name: named.Name()})
		}
	case "import":
		deletion = func(tx *inc.Tx) { in.Imports.Delete(tx, importOf(named)) }
	case "export":
		id := model.MemberService{Member: model.Member(name), Service: a.service(a.Word(2), "")}
		deletion = func(tx *inc.Tx) { in.Exports.Delete(tx, id) }
	case "service":
		id := model.MemberService{Member: model.Member(name), Service: a.service(a.Word(2), "")}
		deletion = func(tx *inc.Tx) { in.Services.Delete(tx, id) }
	case "slice":
		id := model.SliceID{MemberService: model.MemberService{Member: model.Member(name), Service: a.service(a.Word(2), "")}, Name: a.Word(3)}
		deletion = func(tx *inc.Tx) { in.Slices.Delete(tx, id) }
	default:
		return "", fmt.Errorf("there is no kind %q", kind)
	}
	w.Stage(deletion)
	return "", a.Err
}
